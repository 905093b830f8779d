"""PCI addresses and names for a node: what firmware, kernel and driver hand out when it boots.

Buses are numbered from each root bus down, depth first, as firmware does; GPUs and RDMA devices are numbered in
address order, as the drivers probe them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

from nodesim.parts import SWITCH_CHIPS
from nodesim.spec import Child, Gpu, HostBridge, Link, Nic, Node, NvSwitch, Port, Switch

_DRIVERS = {"nvswitch": "nvidia-nvswitch"}


@dataclass(frozen=True)
class Numbering:
    """How addresses and names are handed out: order of host bridges; domains: "one", or "each" host bridge its own,
    the first one `first_domain`; the first root bus, and buses left free between root buses; rdma names by "mlx5"
    number or by "path"."""

    order: tuple[int, ...] | None = None
    domains: str = "one"
    first_domain: int = 0
    first_bus: int = 0x10
    gap: int = 2
    names: str = "mlx5"


@dataclass(frozen=True)
class Function:
    """One PCI function as the kernel sees it. kind: host, root, upstream, downstream, gpu, nic, nvswitch. parent: the
    bridge above, "" directly below the host bridge. Links are told at both ends by the same trained values."""

    bdf: str
    kind: str
    uid: str
    root: str
    parent: str
    vendor_id: str
    device_id: str
    class_id: str
    name: str
    numa: int
    subsystem: str | None = None
    max_gen: int = 0
    max_width: int = 0
    gen: int = 0
    width: int = 0
    target_gen: int = 0
    max_payload: int = 256
    payload: int = 256
    read_request: int = 512
    relaxed: bool = True
    acs_ctl: bool | None = None  # None: the function has no ACS
    driver: str | None = "pcieport"
    serial: str | None = None
    secondary: int = 0
    subordinate: int = 0
    bars: bool = True
    dead: bool = False
    part_of: Gpu | Nic | None = None

    @property
    def is_bridge(self) -> bool:
        return self.kind in ("root", "upstream", "downstream")


@dataclass(frozen=True)
class NamedGpu:
    """A GPU with its number and address."""

    index: int
    gpu: Gpu
    function: Function
    uuid: str


@dataclass(frozen=True)
class NamedNic:
    """One port of a NIC card, which is one PCI function and one RDMA device."""

    name: str
    nic: Nic
    port: Port
    number: int  # of the function within its card
    function: Function
    guid: str
    system_guid: str
    lid: int
    netdev: str
    ipv4: str

    @property
    def rate(self) -> int:
        return self.port.rate or self.nic.part.rate

    @property
    def layer(self) -> str:
        return self.port.layer or self.nic.part.layer


@dataclass(frozen=True)
class Layout:
    """The node, numbered."""

    node: Node
    functions: tuple[Function, ...]  # in address order
    names: str

    @cached_property
    def gpus(self) -> list[NamedGpu]:
        """As nvidia-smi numbers them."""
        on_bus = [f for f in self.functions if f.kind == "gpu"]
        return [NamedGpu(i, f.part_of, f, _uuid(f.uid)) for i, f in enumerate(on_bus)]  # type: ignore[arg-type]

    @cached_property
    def nics(self) -> list[NamedNic]:
        """Every RDMA device, in address order."""
        found: list[NamedNic] = []
        for f in self.functions:
            if f.kind == "nic" and isinstance(f.part_of, Nic) and f.part_of.rdma and f.part_of.driver:
                found.append(self._named_nic(len(found), f, f.part_of))
        return found

    def _named_nic(self, index: int, f: Function, nic: Nic) -> NamedNic:
        number = int(f.bdf[-1])
        card = int("".join(filter(str.isdigit, nic.uid)) or 0)
        rail = 250 if nic.ports[number].shared_subnet else card
        name = f"mlx5_{index}" if self.names == "mlx5" else _path_name(f.bdf, len(nic.ports))
        return NamedNic(
            name=name,
            nic=nic,
            port=nic.ports[number],
            number=number,
            function=f,
            guid=_guid(card, number),
            system_guid=_guid(card, 0),
            lid=100 + 2 * card + number,
            netdev=f"ens{card}f{number}np{number}",
            ipv4=f"10.{64 + number}.{rail}.{17 + card}",
        )

    @cached_property
    def ids(self) -> dict[str, str]:
        """uid → the id topocheck gives: gpu3, mlx5_5; of a second port "n5.1"; of a switch's port its address."""
        known = {g.gpu.uid: f"gpu{g.index}" for g in self.gpus}
        known |= {f.uid: f.bdf for f in self.functions if f.uid not in known}
        return known | {n.function.uid: n.name for n in self.nics}

    @cached_property
    def uids(self) -> dict[str, str]:
        """The id, or the address of the function, → uid."""
        return {f.bdf: f.uid for f in self.functions} | {id_: uid for uid, id_ in self.ids.items()}

    @cached_property
    def by_bdf(self) -> dict[str, Function]:
        return {f.bdf: f for f in self.functions}

    def chain(self, function: Function) -> list[Function]:
        """The function and every bridge above it."""
        chain = [function]
        while chain[-1].parent:
            chain.append(self.by_bdf[chain[-1].parent])
        return chain


def place(node: Node, numbering: Numbering = Numbering()) -> Layout:
    """Every function of the node with its address."""
    order = numbering.order or tuple(range(len(node.bridges)))
    found: list[Function] = []
    bus, domain = numbering.first_bus, numbering.first_domain
    for i in order:
        bridge = node.bridges[i]
        placed = _Placer(node, bridge, domain, bus)
        found += placed.functions
        if numbering.domains == "each":
            domain += 1
        else:
            bus = placed.next_bus + numbering.gap
    assert bus <= 0x100, "the buses of one domain are used up"
    return Layout(node, tuple(sorted(found, key=lambda f: _address(f.bdf))), numbering.names)


class _Placer:
    """Numbers one host bridge and what is below it."""

    def __init__(self, node: Node, bridge: HostBridge, domain: int, bus: int) -> None:
        self.node, self.bridge, self.domain = node, bridge, domain
        self.root = f"{domain:04x}:{bus:02x}"
        self.next_bus = bus + 1
        self.functions: list[Function] = []
        part = node.cpu.host_bridge
        self._add(bdf=f"{self.root}:00.0", kind="host", uid=bridge.uid, parent="", vendor_id=part.vendor_id,
                  device_id=part.device_id, class_id="0600", name=part.name, driver=None)  # fmt: skip
        for slot, child in zip(count(1), bridge.children, strict=False):
            self._below(child, f"{self.root}:{slot:02x}.0", "", "root")

    def _add(self, **values: object) -> None:
        self.functions.append(Function(root=self.root, **{"numa": self.bridge.numa, **values}))  # type: ignore[arg-type]

    def _below(self, child: Child, port: str, parent: str, kind: str, acs: bool = False, chip_gen: int = 5) -> None:
        """The port for a child, and the child on the bus behind it."""
        link = child.link
        secondary = self.next_bus
        self.next_bus += 1
        at = len(self.functions)
        part = self.node.cpu.root_port if kind == "root" else SWITCH_CHIPS[chip_gen]
        self._add(bdf=port, kind=kind, uid=f"{child.uid}^", parent=parent, vendor_id=part.vendor_id,
                  device_id=part.device_id, class_id="0604", name=part.name, secondary=secondary,
                  max_payload=512 if kind == "root" else 2048, acs_ctl=acs,
                  **_ends(link, link.port_gen, link.port_width, link.target_gen))  # fmt: skip
        bus = f"{self.domain:04x}:{secondary:02x}"
        if isinstance(child, Switch):
            self._switch(child, bus, port)
        else:
            self._endpoint(child, bus, port)
        self.functions[at] = replace(self.functions[at], subordinate=self.next_bus - 1)

    def _switch(self, switch: Switch, bus: str, port: str) -> None:
        inner = self.next_bus
        self.next_bus += 1
        at, bdf, part = len(self.functions), f"{bus}:00.0", SWITCH_CHIPS[switch.chip_gen]
        self._add(bdf=bdf, kind="upstream", uid=switch.uid, parent=port, vendor_id=part.vendor_id,
                  device_id=part.device_id, class_id="0604", name=part.name, secondary=inner, max_payload=2048,
                  **_ends(switch.link, switch.link.gen, switch.link.width))  # fmt: skip
        for slot, child in enumerate(switch.children):
            down = f"{self.domain:04x}:{inner:02x}:{slot:02x}.0"
            self._below(child, down, bdf, "downstream", switch.acs, switch.chip_gen)
        self.functions[at] = replace(self.functions[at], subordinate=self.next_bus - 1)

    def _endpoint(self, child: Gpu | Nic | NvSwitch, bus: str, port: str) -> None:
        common = {"parent": port, **_ends(child.link, child.link.gen, child.link.width)}
        if isinstance(child, NvSwitch):
            name = f"{'GH100 [H100' if child.device_id == '22a3' else 'GA100 [A100'} NVSwitch]"
            self._add(bdf=f"{bus}:00.0", kind="nvswitch", uid=child.uid, vendor_id="10de", device_id=child.device_id,
                      class_id="0680", name=f"NVIDIA Corporation {name}", subsystem="10de:1796",
                      driver="nvidia-nvswitch", **common)  # fmt: skip
            return
        numa = {} if child.numa is None else {"numa": child.numa}
        common |= {"relaxed": child.relaxed, "driver": child.driver, "bars": child.bars, "part_of": child, **numa}
        part = child.part
        if isinstance(child, Gpu):
            self._add(bdf=f"{bus}:00.0", kind="gpu", uid=child.uid, vendor_id="10de", device_id=part.device_id,
                      class_id="0302", name=f"NVIDIA Corporation {part.pci_name}", subsystem=part.subsystem,
                      read_request=4096, dead=child.lost, **common)  # fmt: skip
            return
        for number, at in enumerate(child.ports):
            layer = at.layer or child.part.layer
            card = int("".join(filter(str.isdigit, child.uid)) or 0)
            self._add(bdf=f"{bus}:00.{number}", kind="nic", uid=child.uid + (f".{number}" if number else ""),
                      vendor_id="15b3", device_id=part.device_id, subsystem=part.subsystem,
                      class_id="0207" if layer == "infiniband" else "0200", max_payload=512,
                      name=f"Mellanox Technologies {part.pci_name}", read_request=child.read_request,
                      serial=_dashed(_guid(card, 0)), **common)  # fmt: skip


def _ends(link: Link, gen: int, width: int, target_gen: int | None = None) -> dict[str, int]:
    """What one end of a link shows: its own capability, the trained values of both, its target speed."""
    return {
        "max_gen": gen,
        "max_width": width,
        "gen": link.trained_gen,
        "width": link.trained_width,
        "target_gen": target_gen or gen,
        "payload": link.payload,
    }


def _address(bdf: str) -> tuple[int, ...]:
    domain, bus, rest = bdf.split(":")
    device, function = rest.split(".")
    return int(domain, 16), int(bus, 16), int(device, 16), int(function)


def _uuid(uid: str) -> str:
    number = int("".join(filter(str.isdigit, uid)) or 0)
    return f"GPU-5100{number:04x}-aaaa-bbbb-cccc-0123456789{number:02x}"


def _guid(card: int, number: int) -> str:
    """16 hex digits under a made-up vendor prefix."""
    return f"02c0ff03{card:04x}{number:04x}"


def _dashed(guid: str) -> str:
    return "-".join(guid[i : i + 2] for i in range(0, 16, 2))


def _path_name(bdf: str, functions: int) -> str:
    domain, bus, device, function = _address(bdf)
    domain_part = f"P{domain}" if domain else ""
    return f"ib{domain_part}p{bus}s{device}" + (f"f{function}" if functions > 1 else "")
