"""A node in few words: what is plugged where, and how it runs. Frozen: a fault or a repair makes another node.

`uid`s name devices for good ("g3", "n5", a switch "s1"); PCI addresses, GPU numbers and mlx5 numbers come from
`layout.place` and change with the numbering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from nodesim.parts import CPUS, GPUS, NICS, Cpu, GpuPart, NicPart


@dataclass(frozen=True)
class Link:
    """A PCIe link: what its lower end (gen, width) and the port above it can, and what it is trained to where that is
    less than both."""

    gen: int = 5
    width: int = 16
    port_gen: int = 5
    port_width: int = 16
    now_gen: int | None = None
    now_width: int | None = None
    target_gen: int | None = None  # of the port above
    payload: int = 256

    @property
    def can_gen(self) -> int:
        return min(self.gen, self.port_gen)

    @property
    def can_width(self) -> int:
        return min(self.width, self.port_width)

    @property
    def trained_gen(self) -> int:
        return min(self.can_gen, self.now_gen or self.can_gen)

    @property
    def trained_width(self) -> int:
        return min(self.can_width, self.now_width or self.can_width)


@dataclass(frozen=True)
class Gpu:
    """A GPU in a slot. numa: None is its host bridge's, -1 the kernel's "unknown"."""

    uid: str
    part_key: str
    link: Link
    pstate: str = "P0"
    numa: int | None = None
    links_down: frozenset[int] = frozenset()
    nvlink_gb_per_s: str | None = None  # None: as the part's
    fabric: tuple[str, str] | None = ("Completed", "Success")  # on parts that have one
    unhealthy_route: bool = False
    driver: str | None = "nvidia"
    bars: bool = True
    lost: bool = False
    mig: bool = False
    relaxed: bool = True
    bar1_bytes: int | None = None
    power_w: int | None = None
    clock_mhz: int | None = None
    ecc: bool = True
    persistence: bool = True
    remap_failed: bool = False
    remap_pending: bool = False
    ecc_uncorrectable: int = 0
    recovery_action: str = "None"
    slowdowns: frozenset[str] = frozenset()

    @property
    def part(self) -> GpuPart:
        return GPUS[self.part_key]


@dataclass(frozen=True)
class Port:
    """One port of a NIC card, a PCI function of its own."""

    state: str = "active"
    physical: str = "linkup"
    rate: int | None = None  # None: as the part's
    mtu: int = 4096
    layer: str | None = None
    gid_v2: bool = True
    shared_subnet: bool = False


@dataclass(frozen=True)
class Nic:
    """A NIC card in a slot; of "compute" or "storage" by the builder's intent."""

    uid: str
    part_key: str
    link: Link
    ports: tuple[Port, ...] = (Port(),)
    numa: int | None = None
    driver: str | None = "mlx5_core"
    bars: bool = True
    rdma: bool = True  # an RDMA device stands for it
    firmware: str | None = None
    board_id: str | None = None
    relaxed: bool = True
    read_request: int = 4096
    intent: str = "compute"

    @property
    def part(self) -> NicPart:
        return NICS[self.part_key]


@dataclass(frozen=True)
class NvSwitch:
    """An NVSwitch function of a board."""

    uid: str
    device_id: str
    link: Link = field(default_factory=lambda: Link(4, 2, 4, 2))


@dataclass(frozen=True)
class Switch:
    """A PCIe switch: one upstream port, a downstream port for each child."""

    uid: str
    children: tuple[Child, ...]
    link: Link  # of its upstream port
    chip_gen: int = 5
    acs: bool = False  # request and completion redirect on its downstream ports


Child = Gpu | Nic | NvSwitch | Switch


@dataclass(frozen=True)
class HostBridge:
    """A host bridge (one root bus) on a NUMA node; each child sits on a root port of its own."""

    uid: str
    numa: int
    children: tuple[Child, ...]


@dataclass(frozen=True, repr=False)
class Node:
    """The node. fabric: how GPUs are joined: nvswitch, mesh (of four), bridges (the pairs), none."""

    bridges: tuple[HostBridge, ...]
    sockets: int = 2
    numa_per_socket: int = 1
    cpus_per_numa: int = 16
    cpu_key: str = "intel"
    fabric: str = "none"
    bridged: tuple[tuple[str, str], ...] = ()
    cells: tuple[tuple[tuple[str, str], str], ...] = ()  # matrix cells that tell something else, (row uid, column uid)
    no_p2p: tuple[tuple[tuple[str, str], str], ...] = ()
    numa_balancing: int = 0
    peermem: bool = True
    open_driver: bool = True
    kernel: str = "6.8.0-85-generic"
    iommu: str = "identity"
    driver_version: str = "580.95.05"
    host: str = "sim-a01"

    def __repr__(self) -> str:
        """In a few words: 2 sockets × 1, nvswitch: b0@0[s0(g0:h100 n0:cx7-ndr)] …"""
        trees = " ".join(f"{b.uid}@{b.numa}[{' '.join(map(_drawn, b.children))}]" for b in self.bridges)
        return f"<{self.sockets} sockets × {self.numa_per_socket}, {self.fabric} {self.bridged or ''}: {trees}>"

    @property
    def cpu(self) -> Cpu:
        return CPUS[self.cpu_key]

    @property
    def numa_nodes(self) -> range:
        return range(self.sockets * self.numa_per_socket)

    def socket_of(self, numa: int) -> int:
        return numa // self.numa_per_socket

    def parts(self) -> Iterator[tuple[HostBridge, tuple[Switch, ...], Child]]:
        """Every child with its host bridge and the switches above it, the outermost first."""
        for bridge in self.bridges:
            yield from _under(bridge, (), bridge.children)

    @property
    def gpus(self) -> list[Gpu]:
        return [child for _, _, child in self.parts() if isinstance(child, Gpu)]

    @property
    def nics(self) -> list[Nic]:
        return [child for _, _, child in self.parts() if isinstance(child, Nic)]

    @property
    def switches(self) -> list[Switch]:
        return [child for _, _, child in self.parts() if isinstance(child, Switch)]

    def child(self, uid: str) -> Child:
        return next(child for _, _, child in self.parts() if child.uid == uid)

    def above(self, uid: str) -> tuple[HostBridge, tuple[Switch, ...]]:
        """The host bridge and the switches above a child, the outermost switch first."""
        return next((bridge, switches) for bridge, switches, child in self.parts() if child.uid == uid)

    def changed(self, uid: str, change: Callable[[Child], Child | None]) -> Node:
        """The node with one child changed, or taken out where `change` gives None."""
        return self.with_bridges(replace(b, children=_changed(b.children, uid, change)) for b in self.bridges)

    def with_bridges(self, bridges: Iterator[HostBridge]) -> Node:
        return replace(self, bridges=tuple(bridges))

    def plugged(self, child: Child, into: str) -> Node:
        """The node with a child more below a switch or host bridge."""

        def grow(at: Child) -> Child:
            assert isinstance(at, Switch)
            return replace(at, children=(*at.children, child))

        if any(b.uid == into for b in self.bridges):
            return self.with_bridges(
                replace(b, children=(*b.children, child)) if b.uid == into else b for b in self.bridges
            )
        return self.changed(into, grow)


def _drawn(child: Child) -> str:
    if isinstance(child, Switch):
        return f"{child.uid}({' '.join(map(_drawn, child.children))})"
    return f"{child.uid}:{getattr(child, 'part_key', 'nvswitch')}"


def _under(
    bridge: HostBridge, switches: tuple[Switch, ...], children: tuple[Child, ...]
) -> Iterator[tuple[HostBridge, tuple[Switch, ...], Child]]:
    for child in children:
        yield bridge, switches, child
        if isinstance(child, Switch):
            yield from _under(bridge, (*switches, child), child.children)


def _changed(children: tuple[Child, ...], uid: str, change: Callable[[Child], Child | None]) -> tuple[Child, ...]:
    found: list[Child] = []
    for child in children:
        now: Child | None = child
        if child.uid == uid:
            now = change(child)
        elif isinstance(child, Switch):
            now = replace(child, children=_changed(child.children, uid, change))
        if now is not None:
            found.append(now)
    return tuple(found)
