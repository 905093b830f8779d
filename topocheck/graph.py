"""The node as one thing: devices, the PCIe tree, NUMA nodes, NVLink, and the questions rules ask of it.

Everything here is immutable; a repair makes a new Topology (`patched`). `graph` shows the same as a networkx
MultiGraph, for whoever wants to ask his own questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from topocheck.expected import Expected
from topocheck.facts import (
    Evidence,
    Gap,
    GpuState,
    LeafPort,
    Lines,
    LogEvent,
    NvlinkPort,
    P2pMatrix,
    PciFunction,
    RdmaPort,
)

if TYPE_CHECKING:
    import networkx as nx

    from topocheck.hardware.gpus import Part
    from topocheck.hardware.platforms import Platform

# Nearest first; NVLink classes do not take part in PCIe distance.
PCIE_CLASSES = ("PIX", "PXB", "PHB", "NODE", "SYS")
RANK: Mapping[str | None, int] = {name: rank for rank, name in enumerate(PCIE_CLASSES)} | {None: len(PCIE_CLASSES)}
SWITCH_LOCAL = RANK["PXB"]  # GPUDirect RDMA is on by default up to here


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, a NIC or an NVSwitch of this node, joined from all inputs that speak of it."""

    id: str
    kind: str  # gpu, nic, nvswitch
    bdf: str | None = None
    pci_id: str | None = None
    model: str | None = None
    firmware: str | None = None
    board_id: str | None = None
    numa_node: int | None = None
    numa_unknown: bool = False  # the kernel says -1
    numa_from: str | None = None  # the input that gave numa_node
    minor: int | None = None
    mig: bool = False
    pstate: str | None = None
    vf_of: str | None = None
    is_vf: bool = False
    tie_unsure: bool = False  # nic: tied to its PCI function by order alone, among cards of several models
    part: Part | None = None
    gpu: GpuState | None = None
    readings: tuple[GpuState, ...] = ()  # gpu: what each listing said of it; `gpu` is all of them joined
    pci: PciFunction | None = None
    nvlinks: tuple[NvlinkPort, ...] | None = None  # None: no input speaks of them
    nvlinks_none: Evidence | None = None  # the driver's word that none is active
    role: str | None = None  # nic: compute, storage, management, unknown
    role_from: str | None = None  # kind, platform, policy
    role_reason: str | None = None
    rail: int | None = None
    card: str | None = None  # what the functions of one card share
    device_type: str | None = None  # "MT4129"
    efa: bool = False
    iwarp: bool = False
    ports: tuple[RdmaPort, ...] = ()
    lines: Lines = field(default_factory=dict)

    @property
    def nvlinks_active(self) -> int | None:
        """How many NVLinks are up; None where no input lists them."""
        if self.nvlinks is None:
            return 0 if self.nvlinks_none else None
        known = [p for p in self.nvlinks if p.active is not None]
        return sum(bool(p.active) for p in known) if known else None

    @property
    def state(self) -> str:
        """active if any port is, else down, else unknown."""
        states = {p.state for p in self.ports if p.state}
        return "active" if "active" in states else "down" if states else "unknown"

    @property
    def rate_gbit_per_s(self) -> float | None:
        """That of the fastest active port: the rate of a port that is down is a placeholder."""
        return max((p.rate_gbit_per_s for p in self.ports if p.state == "active" and p.rate_gbit_per_s), default=None)


@dataclass(frozen=True, slots=True)
class PcieLink:
    """One PCIe link: `a` the port above, `b` the lower end (None when read from the port alone).

    max_* is what b can, a_max_* what a can, both None where not read. `capped` holds what both ends can together.
    """

    a: str | None
    b: str | None
    speed_gts: float | None = None
    width: int | None = None
    max_speed_gts: float | None = None
    max_width: int | None = None
    a_max_speed_gts: float | None = None
    a_max_width: int | None = None
    both_max_speed_gts: float | None = None  # nvidia-smi's "Max": card and system together
    both_max_width: int | None = None
    target_speed_gts: float | None = None  # of the port above
    payload_bytes: int | None = None
    asleep: bool = False
    implausible: bool = False  # an emulated bridge, a width of 0: not measurable
    at_boot: bool = False  # the present value is a kernel line printed at boot
    witness: str = ""
    lines: Lines = field(default_factory=dict)  # LnkSta, LnkCap of b; "a LnkCap", "a LnkSta", "a LnkCtl2" of a

    @property
    def can_speed_gts(self) -> float | None:
        """What both ends can; None if one end was not read."""
        if self.max_speed_gts is not None and self.a_max_speed_gts is not None:
            return min(self.max_speed_gts, self.a_max_speed_gts)
        return self.both_max_speed_gts

    @property
    def can_width(self) -> int | None:
        """What both ends can; None if one end was not read."""
        if self.max_width is not None and self.a_max_width is not None:
            return min(self.max_width, self.a_max_width)
        return self.both_max_width

    @property
    def id(self) -> str:
        """The lower end, else the port."""
        return self.b or self.a or ""


class Numa(NamedTuple):
    """One NUMA node of the machine."""

    id: int
    cpus: str | None
    socket: int | None
    memory_gib: float | None
    witness: str = ""


class Disagreement(NamedTuple):
    """Two witnesses that say different things of one value, and which was used."""

    subject: str
    field: str
    values: tuple[tuple[object, str], ...]  # (value, input)
    used: object


@dataclass(frozen=True, slots=True)
class Machine:
    """What is known of the host: None where no input says."""

    hostname: str | None = None
    boot_id: str | None = None
    kernel: str | None = None
    cmdline: str | None = None
    arch: str | None = None
    sockets: int | None = None
    virtual: bool | None = None
    container: bool | None = None
    product: str | None = None
    driver: str | None = None
    driver_error: str | None = None
    driver_error_line: Evidence | None = None
    driver_hung: str | None = None  # "nvidia-smi -L: no answer within 19 s"
    fabric_manager: str | None = None
    least_uptime_s: float | None = None
    no_rdma_device: bool = False  # a tool that lists RDMA devices found none
    modules: frozenset[str] | None = None
    numa_balancing: int | None = None
    kernel_log: bool = False  # a kernel log was there to read
    lines: Lines = field(default_factory=dict)  # by the field's name here: the first input that states it
    platform: str | None = None
    topology_file: str | None = None  # what gives NCCL the machine's topology
    topology_gpus: frozenset[str] | None = None  # the addresses it gives to GPUs; None where it was not read
    asset_tag: str | None = None
    open_driver: bool | None = None
    peermem: bool | None = None
    allowed_cpus: str | None = None  # of the process that made the capture
    allowed_numa: frozenset[int] | None = None  # the NUMA nodes those CPUs are on
    nccl_environ: Mapping[str, str] | None = None  # None: no environment in the input


@dataclass(frozen=True)
class Topology:
    """The node. `parents` maps every PCI function and bridge to what it hangs on: a bridge's BDF or a root's name;
    `links` holds the PCIe link above each lower end; `classes` the printed or derived class of each device pair."""

    devices: tuple[Device, ...]
    links: Mapping[str, PcieLink]
    parents: Mapping[str, str]
    bridges: Mapping[str, PciFunction]
    functions: Mapping[str, PciFunction]
    root_numa: Mapping[str, int]
    numa_nodes: tuple[Numa, ...]
    machine: Machine
    classes: Mapping[frozenset[str], str | None]
    pcie_classes: Mapping[frozenset[str], str | None]
    inferred: frozenset[str] = frozenset()  # bridges and roots rebuilt from the matrix
    whole_pci: bool = False  # the PCI listing shows root ports or host bridges
    cut_below: frozenset[str] = frozenset()  # bridges to what would be listed after its end
    has_matrix: bool = False
    matrix_lines: Lines = field(default_factory=dict)  # by device id
    directed: Mapping[tuple[str, str], str] = field(default_factory=dict)  # the matrix cells, by device id
    p2p: tuple[P2pMatrix, ...] = ()
    lost_gpus: tuple[GpuState, ...] = ()
    assignment: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # gpu → its compute NICs
    gaps: tuple[Gap, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()
    assumptions: tuple[str, ...] = ()
    events: tuple[LogEvent, ...] = ()
    expected: Expected = Expected()  # noqa: RUF009 (frozen)
    platform: Platform | None = None  # None: a machine not in the table
    sisters: Mapping[str, Mapping[str, LeafPort]] = field(default_factory=dict)  # other hosts' device → leaf

    @cached_property
    def by_id(self) -> Mapping[str, Device]:
        """Devices by id and by BDF."""
        return {d.bdf: d for d in self.devices if d.bdf} | {d.id: d for d in self.devices}

    @property
    def gpus(self) -> list[Device]:
        """The GPUs in nvidia-smi's order."""
        return [d for d in self.devices if d.kind == "gpu"]

    @property
    def nics(self) -> list[Device]:
        """Every NIC, whatever its role."""
        return [d for d in self.devices if d.kind == "nic"]

    @cached_property
    def compute_nics(self) -> list[Device]:
        """The NICs that carry GPU traffic."""
        return [d for d in self.nics if d.role == "compute"]

    def climb(self, node: str) -> Iterator[str]:
        """The node, the bridge above it, … up to its root."""
        seen: set[str] = set()
        at: str | None = node
        while at is not None and at not in seen:
            seen.add(at)
            yield at
            at = self.parents.get(at)

    def path_up(self, device: Device) -> list[PcieLink]:
        """The PCIe links between a device and its root, the device's own first; none for a GPU whose traffic takes
        C2C to its CPU."""
        if device.part and device.part.c2c:
            return []
        if device.bdf is None:
            link = self.links.get(device.id)
            return [link] if link else []
        return [self.links[at] for at in self.climb(device.bdf) if at in self.links]

    def pair_class(self, a: str, b: str) -> str | None:
        """The word of the best witness: NV18, PIX, …; None unknown."""
        return self.classes.get(frozenset((a, b)))

    def pcie_class(self, a: str, b: str) -> str | None:
        """The PCIe distance, which NVLink cells of a matrix hide."""
        return self.pcie_classes.get(frozenset((a, b)))

    def nearest(self, device: Device, among: list[Device]) -> tuple[str | None, list[Device]]:
        """The best class from a device to some of `among`, and all of them that have it."""
        known = [(RANK[cls], cls, other) for other in among if (cls := self.pcie_class(device.id, other.id))]
        if not known:
            return None, []
        best = min(rank for rank, _, _ in known)
        return PCIE_CLASSES[best], [other for rank, _, other in known if rank == best]

    def gpus_of(self, nic: Device) -> list[str]:
        """The GPUs whose own NIC it is."""
        return [gpu for gpu, own in self.assignment.items() if nic.id in own]

    @property
    def p2p_read_write(self) -> list[P2pMatrix]:
        """The matrices that say whether a pair may copy: not those of NVLink, atomics or properties."""
        return [matrix for matrix in self.p2p if matrix.capability in ("r", "w", "rw", None)]

    @property
    def driver_load_line(self) -> int:
        """Where in the kernel log the driver was last loaded, 0 where it does not say."""
        return max((e.line.line or 0 for e in self.events if e.kind == "driver-load"), default=0)

    def socket_of(self, device: Device) -> int | None:
        """The socket of a device's NUMA node, None unknown."""
        if device.numa_node is None:
            return None
        node = next((n for n in self.numa_nodes if n.id == device.numa_node), None)
        return node.socket if node else None

    def replaced(self, device: Device) -> Topology:
        """The same node with one device changed."""
        return replace(self, devices=tuple(device if d.id == device.id else d for d in self.devices))

    @cached_property
    def graph(self) -> nx.MultiGraph:
        """The node as an undirected networkx MultiGraph (interface section 6)."""
        from topocheck.view import as_networkx

        return as_networkx(self)
