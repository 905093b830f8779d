"""Which NICs this node has: RDMA devices, matrix columns and PCI functions made one (interface section 3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from topocheck.build.gpus import pci_id_of
from topocheck.build.merge import merged
from topocheck.build.pci import is_vf
from topocheck.build.said import Said
from topocheck.facts import Gap, PciFunction, RdmaDevice, RdmaPort
from topocheck.graph import Device, Disagreement
from topocheck.hardware.pci_ids import is_rdma_nic

_TRUST = (
    "/sys/class/infiniband", "ibstat", "ibv_devinfo -v", "ibv_devinfo", "ibstatus", "rdma link", "fi_info -p efa",
    "ibdev2netdev", "mst status -v", "show_gids",
)  # fmt: skip
# Types of mlx5 and mlx4 virtual functions (the mlx5_core device table): Connect-IB, ConnectX-4, 4 Lx, 5, 5 Ex, 6, 7 on.
_VF_TYPES = frozenset({"MT4100", "MT4114", "MT4116", "MT4118", "MT4120", "MT4122", "MT4124", "MT4126"})
_NUMBERED = re.compile(r"NIC\d+")
# systemd's predictable names carry the address, bus and slot in decimal: ibp2s0f1, rocep1s0, roceP2p1s0f1, rdmap79s0.
_PATH_NAME = re.compile(r"(?:ib|roce|rdma|iw|opa)(?:P(\d+))?p(\d+)s(\d+)(?:f(\d+))?")
# Interfaces of one card: enp27s0f0np0 and enp27s0f1np1, ens3f0 and ens3f1.
SLOT_NAME = re.compile(r"((?:en|ib)(?:P\d{1,6})?(?:p\d{1,4})?s\d{1,6})(f\d)?(?:np\d{1,3}|d\d{1,3})?")
_OF_A_PORT = ("state", "physical", "rate_gbit_per_s", "link_layer")


def natural(name: str) -> tuple[object, ...]:
    """mlx5_2 before mlx5_10."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name))


def nics_of(said: Said, functions: Mapping[str, PciFunction]) -> list[Device]:
    """The NICs in natural order of their ids."""
    named = _rdma_by_name(said.rdma)
    columns = matrix_nic_ids(said, list(named))
    for name in columns.values():
        named.setdefault(name, RdmaDevice(said.matrices[0].witness, name))
    on_bus = {f.bdf: f for f in functions.values() if is_rdma_nic(f)}
    if not named:
        return [_device(f.bdf, None, f) for f in on_bus.values()]
    tied = _tie(named, on_bus, functions)
    loose = [n for n in sorted(named, key=natural) if n not in tied and named[n].bdf is None]
    by_order = _tie_in_order(loose, named, [f for f in on_bus.values() if f not in tied.values()], said)
    unsure = len({f.device_id for f in by_order.values()}) > 1 and any(named[n].model is None for n in by_order)
    devices = [
        replace(_device(name, rdma, tied.get(name) or by_order.get(name)), tie_unsure=unsure and name in by_order)
        for name, rdma in named.items()
    ]
    whole = _whole(named)
    if not columns and whole and whole < named.keys() and whole <= tied.keys() | by_order.keys():
        devices = [d for d in devices if d.id in whole or d.bdf]
        taken = {device.bdf for device in devices}
        devices += [_device(f.bdf, None, f) for f in on_bus.values() if f.bdf not in taken]  # behind the list's end
    return sorted(devices, key=lambda d: natural(d.id))


def _whole(named: Mapping[str, RdmaDevice]) -> set[str]:
    """The devices of which the list says what it says of all but the last: there it may end in the middle. A port that
    is down need not have a rate."""
    said = {name: {key for port in rdma.ports[-1:] for key in _told(port)} for name, rdma in named.items()}
    of_all = set(_OF_A_PORT).intersection(*[*said.values()][:-1])
    return {name for name, keys in said.items() if of_all <= keys}


def _told(port: RdmaPort) -> set[str]:
    told = {key for key in _OF_A_PORT if getattr(port, key) is not None}
    return told if port.state in ("active", None) else told | {"rate_gbit_per_s"}


def _rdma_by_name(facts: Iterable[RdmaDevice]) -> dict[str, RdmaDevice]:
    """RDMA devices by name, all inputs and their ports joined; software devices left out."""
    rank = {name: i for i, name in enumerate(_TRUST)}
    by_name: dict[str, list[RdmaDevice]] = {}
    for fact in sorted(facts, key=lambda f: rank.get(f.witness, len(rank))):
        by_name.setdefault(fact.name, []).append(fact)
    joined = {}
    for name, group in by_name.items():
        if any(device.software for device in group):
            continue
        joined[name] = replace(merged(group), ports=_joined_ports(group))
    return joined


def port_disagreements(facts: Iterable[RdmaDevice]) -> list[Disagreement]:
    """Where two inputs give one port another state or rate; the more trusted one is used."""
    rank = {name: i for i, name in enumerate(_TRUST)}
    said: dict[tuple[str, int, str], list[tuple[object, str]]] = {}
    for device in sorted(facts, key=lambda f: rank.get(f.witness, len(rank))):
        for port in device.ports:
            for name in ("state", "rate_gbit_per_s"):
                value = getattr(port, name)
                if value is not None and (name == "state" or port.state == "active"):
                    said.setdefault((device.name, port.port, name), []).append((value, device.witness))
    return [
        Disagreement(device, f"port {port} {name}", tuple(values), values[0][0])
        for (device, port, name), values in said.items()
        if len({value for value, _ in values}) > 1
    ]


def _joined_ports(devices: list[RdmaDevice]) -> tuple[RdmaPort, ...]:
    by_number: dict[int, list[RdmaPort]] = {}
    for device in devices:
        for port in device.ports:
            by_number.setdefault(port.port, []).append(port)
    return tuple(merged(by_number[number]) for number in sorted(by_number))


def matrix_nic_ids(said: Said, known: list[str]) -> dict[str, str]:
    """Matrix column name → device id: the legend's name, the column's own, else tied in ascending order."""
    names = [n for matrix in said.matrices[:1] for n in matrix.names if not n.startswith("GPU")]
    if not names:
        return {}
    legend = said.matrices[0].legend
    ids = {n: legend.get(n, n) for n in names}
    loose = [n for n in names if _NUMBERED.fullmatch(ids[n])]
    free = sorted((k for k in known if k not in ids.values()), key=natural)
    tied = ids | dict(zip(loose, free, strict=False))
    if loose and len(loose) == len(free) and [*tied.values()] == sorted(tied.values(), key=natural):
        said.assumptions.append(f"{len(loose)} NIC columns without a legend are tied to {free[0]} … in ascending order")
        ids = tied
    elif loose and free:
        said.gaps.append(
            Gap(said.matrices[0].witness, f"{len(loose)} NIC columns without a legend could not be tied to a name")
        )
    return ids


def _tie(
    named: Mapping[str, RdmaDevice],
    on_bus: Mapping[str, PciFunction],
    functions: Mapping[str, PciFunction],
) -> dict[str, PciFunction]:
    """RDMA name → PCI function by what both know: the address (a name may hold one), else the GUID."""
    tied: dict[str, PciFunction] = {}
    for name, rdma in named.items():
        bdf = rdma.bdf or bdf_of_name(name)
        if bdf and bdf in functions:
            tied[name] = functions[bdf]
    return tied | _by_guid({n: r for n, r in named.items() if n not in tied}, on_bus)


def _tie_in_order(
    loose: list[str], named: Mapping[str, RdmaDevice], free: list[PciFunction], said: Said
) -> dict[str, PciFunction]:
    """RDMA name → PCI function in ascending order where the numbers agree; a gap where they do not."""
    if not loose or not free:
        return {}
    in_order = _in_order(loose, named, free)
    if in_order is None:
        said.gaps.append(
            Gap(free[0].witness, f"{len(free)} NIC functions, {len(loose)} RDMA devices: not known which is which")
        )
        return {}
    said.assumptions.append(
        f"{len(loose)} RDMA devices and PCI functions are tied in ascending order: no input names both"
    )
    return in_order


def _by_guid(named: Mapping[str, RdmaDevice], on_bus: Mapping[str, PciFunction]) -> dict[str, PciFunction]:
    """A card's Device Serial Number is its system image GUID, which is also the first node GUID; its functions and RDMA
    devices go in ascending order."""
    cards: dict[str, list[str]] = {}
    for name in sorted(named, key=natural):
        if guid := _digits(named[name].sys_image_guid or named[name].node_guid):
            cards.setdefault(guid, []).append(name)
    tied: dict[str, PciFunction] = {}
    for guid, names in cards.items():
        functions = [f for f in on_bus.values() if _digits(f.serial) == guid and not is_vf(f)]
        if len(functions) == len(names):
            tied |= dict(zip(names, functions, strict=True))
    return tied


def _digits(guid: str | None) -> str:
    """The sixteen hex digits of a GUID or serial number, "" for none or zero."""
    digits = re.sub(r"[^0-9a-f]", "", (guid or "").lower().removeprefix("0x"))
    return digits if digits.strip("0") and len(digits) == 16 else ""


def _in_order(
    loose: list[str], named: Mapping[str, RdmaDevice], free: list[PciFunction]
) -> dict[str, PciFunction] | None:
    """Names and functions in ascending order, type by type where every name has one ("MT4129" is device id 0x1021 in
    decimal), else all together; with virtual functions or without them; None if no way makes the numbers agree."""
    physical = [f for f in free if not is_vf(f)]
    for pool in (free, physical):
        by_type = _by_type(loose, named, pool)
        if by_type is not None:
            return by_type
    for pool in (free, physical):
        if len(pool) == len(loose):
            return dict(zip(loose, pool, strict=True))
    return None


def _by_type(
    loose: list[str], named: Mapping[str, RdmaDevice], pool: list[PciFunction]
) -> dict[str, PciFunction] | None:
    tied: dict[str, PciFunction] = {}
    for model in {named[n].model for n in loose}:
        number = re.fullmatch(r"MT(\d+)", model or "")
        if number is None:
            return None
        names = [n for n in loose if named[n].model == model]
        functions = [f for f in pool if f.device_id == f"{int(number[1]):04x}"]
        if len(names) != len(functions):
            return None
        tied |= dict(zip(names, functions, strict=True))
    return tied


def bdf_of_name(name: str) -> str | None:
    """The PCI address a predictable name carries.

    >>> bdf_of_name("ibp2s0f1"), bdf_of_name("rdmap79s0"), bdf_of_name("mlx5_0")
    ('0000:02:00.1', '0000:4f:00.0', None)
    """
    match = _PATH_NAME.fullmatch(name)
    if match is None:
        return None
    domain, bus, slot, function = (int(part or 0) for part in match.groups())
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function}" if bus < 256 and slot < 32 and function < 8 else None


def _device(id_: str, rdma: RdmaDevice | None, pci: PciFunction | None) -> Device:
    bdf = (rdma.bdf or (bdf_of_name(id_) if rdma.ports else None)) if rdma else None
    model = pci.name if pci and pci.name else rdma.model if rdma else None
    header = {"header": rdma.line} if rdma and rdma.line else {}
    return Device(
        id=id_,
        kind="nic",
        bdf=(pci.bdf if pci else None) or bdf,
        pci_id=pci_id_of(pci) if pci else None,
        model=model,
        firmware=rdma.firmware if rdma else None,
        board_id=rdma.board_id if rdma else None,
        numa_node=pci.numa_node if pci else None,
        numa_unknown=bool(pci and pci.numa_unknown),
        numa_from=pci.witness if pci else None,
        vf_of=(pci.vf_of if pci else None) or (rdma.vf_of if rdma else None),
        is_vf=bool((pci and is_vf(pci)) or (rdma and (rdma.model in _VF_TYPES or rdma.vf_of))),
        pci=pci,
        card=_card(id_, rdma, pci),
        device_type=rdma.model if rdma else None,
        efa=bool(rdma and rdma.efa) or bool(pci and pci.vendor_id == "1d0f"),
        iwarp=bool(rdma and (rdma.transport or "").lower() == "iwarp"),
        ports=rdma.ports if rdma else (),
        lines={**(pci.lines if pci else {}), **header},
    )


def _card(id_: str, rdma: RdmaDevice | None, pci: PciFunction | None) -> str:
    """What the functions of one card share: the system image GUID, the address without its function, or the place that
    the interface's name holds."""
    guid = rdma.sys_image_guid if rdma else None
    if guid and guid.strip("0x: "):
        return guid
    bdf = pci.bdf if pci else (rdma.bdf if rdma else None) or bdf_of_name(id_)
    slot = next((m[1] for p in (rdma.ports if rdma else ()) if (m := SLOT_NAME.fullmatch(p.netdev or ""))), None)
    return (bdf.split(".")[0] if bdf else slot) or id_
