"""A topology file for NCCL_TOPO_FILE: the tree with its links as they run, where NCCL by itself would take maxima.

Only attributes NCCL reads are written, and only what is known: it detects by itself what is missing (rank, latency,
CPU model, NVLinks whose other end no input names). Where an input gives a link only its maximum, that is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from topocheck.errors import TopocheckError
from topocheck.graph import Device, PcieLink, Topology
from topocheck.report import Report

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9_]{1,32}", re.ASCII)
_NVSWITCH, _GPU = "0x068000", "0x030200"
_UNSEEN = "fffffff:ffff:ff"  # NCCL's own word for a switch whose address it cannot see


@dataclass
class _Pci:
    """An element of the file and what lies in it."""

    busid: str
    devices: list[Device] = field(default_factory=list)
    below: dict[str, _Pci] = field(default_factory=dict)


def render(node: Topology, report: Report) -> str:
    """The file. TopocheckError where the input does not give the tree by PCI addresses."""
    if not node.gpus:
        raise TopocheckError("graph: no GPU in the input: NCCL's topology file is about GPUs")
    if nameless := [gpu.id for gpu in node.gpus if gpu.bdf is None]:
        more = f" and {len(nameless) - 1} more" if len(nameless) > 1 else ""
        raise TopocheckError(f"graph: no PCI address of {nameless[0]}{more} in the input: add lspci or nvidia-smi -q")
    seats: dict[int, dict[str, _Pci]] = {}
    for device in (*node.gpus, *node.nics):
        if device.bdf is not None:  # a NIC without one NCCL finds by itself
            _place(node, device, device.bdf, seats)
    lines = ['<system version="1">', f"  <!-- written by topocheck {report.version}: links as they run -->"]
    for numa, tops in sorted(seats.items()):
        lines.append(f"  {_opening('cpu', _cpu(node, numa))}>")
        for pci in tops.values():
            lines += _pci(node, pci, "    ")
        lines.append("  </cpu>")
    return "\n".join([*lines, "</system>"]) + "\n"


def _place(node: Topology, device: Device, bdf: str, seats: dict[int, dict[str, _Pci]]) -> None:
    """Put a device below the switches above it, those below the NUMA node of their root."""
    chain = list(node.climb(bdf))
    if set(chain) & node.inferred:
        raise TopocheckError("graph: the PCI addresses of switches are not in the input: add lspci -vv or /sys")
    numa = node.root_numa.get(chain[-1], device.numa_node)
    within = seats.setdefault(numa or 0, {})
    for busid in reversed(_switches(node, chain)):
        within = within.setdefault(busid, _Pci(busid)).below
    slot = bdf if device.kind == "gpu" else f"{bdf[:-1]}0"  # NCCL folds a card's functions
    within.setdefault(slot, _Pci(slot)).devices.append(device)


def _switches(node: Topology, chain: list[str]) -> list[str]:
    """The upstream ports above a device, the nearest first: one element is a switch, not its ports. Where no input
    tells the kinds of port, NCCL's own way: every second bridge."""
    bridges = [at for at in chain[1:] if at in node.functions]
    kinds = [node.functions[at].port_type for at in bridges]
    if any(kinds):
        return [at for at, kind in zip(bridges, kinds, strict=True) if kind == "upstream"]
    return bridges[1::2]


def _cpu(node: Topology, numa: int) -> Iterator[tuple[str, str]]:
    yield "numaid", str(numa)
    known = next((n for n in node.numa_nodes if n.id == numa), None)
    if known and known.cpus and (mask := _mask(known.cpus)):
        yield "affinity", mask
    if _WORD.fullmatch(node.machine.arch or ""):
        yield "arch", node.machine.arch or ""


def _mask(cpus: str) -> str:
    """A CPU list as groups of 32 bits, the highest first; nothing for what is none.

    >>> _mask("0-3,32"), _mask("x")
    ('00000001,0000000f', '')
    """
    if not re.fullmatch(r"\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?)*", cpus):
        return ""
    bits = 0
    for span in cpus.split(","):
        low, _, high = span.partition("-")
        bits |= (1 << (int(high or low) + 1)) - (1 << int(low)) if int(high or low) >= int(low) else 0
    groups: list[str] = []
    while bits or not groups:
        groups.append(f"{bits & 0xFFFFFFFF:08x}")
        bits >>= 32
    return ",".join(reversed(groups))


def _pci(node: Topology, pci: _Pci, indent: str) -> Iterator[str]:
    inner = [*_devices(node, pci.devices, f"{indent}  ")]
    for below in pci.below.values():
        inner += _pci(node, below, f"{indent}  ")
    opening = f"{indent}{_opening('pci', _function(node, pci))}"
    if inner:
        yield from (f"{opening}>", *inner, f"{indent}</pci>")
    else:
        yield f"{opening}/>"


def _function(node: Topology, pci: _Pci) -> Iterator[tuple[str, str]]:
    known = node.functions.get(pci.busid) or next((d.pci for d in pci.devices if d.pci), None)
    yield "busid", pci.busid
    if known is not None:
        if known.class_id:
            yield "class", f"0x{known.class_id}00"
        vendor, device = (known.subsystem or ":").split(":", 1)
        ids = (("vendor", known.vendor_id), ("device", known.device_id))
        for key, value in (*ids, ("subsystem_vendor", vendor), ("subsystem_device", device)):
            if value and re.fullmatch(r"[0-9a-f]{4}", value):
                yield key, f"0x{value}"
    lower_end = next((d.bdf for d in pci.devices if d.bdf in node.links), pci.busid)
    yield from _link(node.links.get(lower_end or ""))


def _link(link: PcieLink | None) -> Iterator[tuple[str, str]]:
    """As it runs; what it can where it sleeps, or where no input says more."""
    if link is None:
        return
    running = link.speed_gts if not link.asleep else None
    speed = running or link.can_speed_gts or link.max_speed_gts
    width = link.width or link.can_width or link.max_width
    if speed:
        yield "link_speed", f"{speed:.1f} GT/s PCIe"
    if width:
        yield "link_width", str(width)


def _devices(node: Topology, devices: list[Device], indent: str) -> Iterator[str]:
    nics = [device for device in devices if device.kind == "nic"]
    for gpu in (device for device in devices if device.kind == "gpu"):
        yield from _gpu(node, gpu, indent)
    nets = [net for nic in nics for net in _nets(nic)]
    if nets:
        yield from (f"{indent}<nic>", *(f"{indent}  {_opening('net', net)}/>" for net in nets), f"{indent}</nic>")


def _gpu(node: Topology, gpu: Device, indent: str) -> Iterator[str]:
    about = [("dev", gpu.id.removeprefix("gpu"))] if gpu.id.removeprefix("gpu").isdecimal() else []
    opening = f"{indent}{_opening('gpu', about)}"
    links = [
        f"{indent}  {_opening('nvlink', (('target', to), ('count', str(count)), ('tclass', kind)))}/>"
        for to, count, kind in _nvlinks(node, gpu)
    ]
    yield from (f"{opening}>", *links, f"{indent}</gpu>") if links else (f"{opening}/>",)


def _nvlinks(node: Topology, gpu: Device) -> Iterator[tuple[str, int, str]]:
    """NVLinks by what their other end is, as far as inputs name it; all or none, or NCCL would count too few."""
    active = [port for port in gpu.nvlinks or () if port.active]
    gpus = {other.bdf for other in node.gpus}
    words = [node.pair_class(gpu.id, other.id) for other in node.gpus if other.id != gpu.id]
    switched = words.count(f"NV{len(active)}") > 1  # all links to each of several
    ends: dict[str, int] = {}
    for port in active:
        end = port.remote_bdf or (_UNSEEN if switched else None)
        if end is None:
            return
        ends[end] = ends.get(end, 0) + 1
    for end, count in ends.items():
        yield end, count, _GPU if end in gpus else _NVSWITCH


def _nets(nic: Device) -> Iterator[list[tuple[str, str]]]:
    """Its active ports; NCCL has no others."""
    if nic.id == nic.bdf or not _NAME.fullmatch(nic.id):
        return
    for port in nic.ports:
        if port.state != "active":
            continue
        net = [("name", nic.id), ("port", str(port.port))]
        if port.rate_gbit_per_s:
            net.append(("speed", f"{port.rate_gbit_per_s * 1000:.0f}"))
        if guid := _guid(port.guid):
            net.append(("guid", guid))
        yield net


def _guid(text: str | None) -> str | None:
    digits = re.sub(r"[:.]", "", (text or "").lower().removeprefix("0x"))
    return f"0x{digits}" if re.fullmatch(r"[0-9a-f]{1,16}", digits) and digits.strip("0") else None


def _opening(name: str, attributes: Iterable[tuple[str, str]]) -> str:
    """An element without its end; every value was checked to hold nothing that is markup."""
    return "".join([f"<{name}", *(f' {key}="{value}"' for key, value in attributes)])
