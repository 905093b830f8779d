"""What a probe may state. Units stand in the names; None means "the tool did not say", never 0 and never -1.

A PCI address (`bdf`) is always spelled in full and in lower case, `0000:1b:00.0`, whatever the tool printed: `full_bdf`
makes it so. A fact of one tool need not be complete: build joins what several tools say of one device.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

_BDF = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")


def full_bdf(text: str) -> str | None:
    """The one canonical spelling of a PCI address, None if the text is none.

    Domains of four, five and eight digits occur (Linux, VMD, NVML): leading zeros beyond four are dropped.

    >>> full_bdf("00000000:1B:00.0"), full_bdf("1b:00.0"), full_bdf("10000:01:00.0")
    ('0000:1b:00.0', '0000:1b:00.0', '10000:01:00.0')
    """
    match = _BDF.fullmatch(text.strip())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function}".lower()


class Evidence(NamedTuple):
    """The line that shows it: `input` is the command or path, `line` counts from 1 in the text as read (None for
    JSON and single-value files), `text` is the line, stripped."""

    input: str
    line: int | None
    text: str


class Gap(NamedTuple):
    """Something that could not be read, and why, in plain words."""

    input: str
    reason: str


Lines = Mapping[str, Evidence]


@dataclass(frozen=True, slots=True)
class PciFunction:
    """One PCI function (lspci, sysfs, a tree listing). `lines` is keyed by the field's own name: "header" (the device
    line), "LnkCap", "LnkSta", "LnkCap2", "LnkCtl2", "NUMA node", "DevCap", "DevCtl" (its MaxPayload line), "RlxdOrd",
    "ACSCtl", "Region 1" (BAR1, wherever it lies), "Bus", "Kernel driver in use"."""

    bdf: str
    witness: str  # "lspci -vv", "lspci -tv", "/sys/bus/pci/devices"
    class_id: str | None = None  # four hex digits, "0302"
    vendor_id: str | None = None  # four hex digits, "10de"
    device_id: str | None = None
    subsystem: str | None = None  # "15b3:0041"
    name: str | None = None  # as printed, without class and ids
    numa_node: int | None = None  # -1 is kept out: see numa_unknown
    numa_unknown: bool = False  # the kernel said -1
    local_cpus: str | None = None  # the CPUs next to it, in the kernel's form, "0-55,112-167"
    port_type: str | None = None  # root, upstream, downstream, endpoint, rciep, pci-bridge (PCIe-to-PCI and back)
    is_bridge: bool = False
    secondary_bus: int | None = None
    parent: str | None = None  # BDF of the bridge above, "" directly below a host bridge, None not known
    root: str | None = None  # "pci0000:15" (sysfs) or "0000:15" (tree): the host bridge it hangs on
    max_speed_gts: float | None = None  # LnkCap
    max_width: int | None = None
    speed_gts: float | None = None  # LnkSta: trained now
    width: int | None = None  # 0 for an empty slot
    target_speed_gts: float | None = None  # LnkCtl2
    link_unknown: bool = False  # "Speed unknown", "Unknown": a VF, an RCiEP, an emulated bridge
    max_payload_bytes: int | None = None  # DevCap
    payload_bytes: int | None = None  # DevCtl
    read_request_bytes: int | None = None
    relaxed_ordering: bool | None = None
    acs_ctl: frozenset[str] | None = None  # names printed with "+": {"SrcValid", "ReqRedir"}; None not shown
    ats_enabled: bool | None = None
    aer: tuple[tuple[str, str], ...] = ()  # ("CESta", "RxErr- BadTLP+ …"), from sysfs also ("aer_dev_fatal", "2")
    bar1_bytes: int | None = None
    bars_unassigned: bool = False  # a Region is <unassigned> or a memory Region is [disabled]
    driver: str | None = None
    driver_shown: bool = False  # the listing shows drivers, so None means there is none
    vf_of: str | None = None
    dead: bool = False  # config space ff: "rev ff", "Unknown header type 7f"
    access_denied: bool = False  # capabilities not shown: not root
    serial: str | None = None  # Device Serial Number
    iommu_type: str | None = None  # of its IOMMU group: "identity", "DMA", "DMA-FQ"
    lines: Lines = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PciListing:
    """How whole a listing of PCI functions is: `whole` when root ports or host bridges are in it. `cut_below` are the
    bridges that lead to what would be listed after its end: a slot without a card, or the listing is cut."""

    witness: str
    whole: bool
    cut_below: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuState:
    """One GPU as nvidia-smi -q, nvidia-smi -L, the plain nvidia-smi table or NVML describe it. `lines` is keyed by the
    field's name here ("width", "gen", "pstate", "mig", "fabric_state", …)."""

    witness: str
    index: int | None  # as nvidia-smi numbers it, else the position in the list
    bdf: str | None = None
    uuid: str | None = None
    model: str | None = None
    pci_id: str | None = None  # "10de:2330"
    minor: int | None = None
    mig: bool | None = None
    vgpu: bool | None = None  # a vGPU slice, or "Virtualization Mode: VGPU"
    passthrough: bool | None = None  # "Virtualization Mode: Pass-Through": a VM
    confidential: bool | None = None
    pstate: str | None = None  # "P0"
    gen: int | None = None  # "Current"
    gen_max: int | None = None  # "Max": card and system together
    gen_device_max: int | None = None
    gen_host_max: int | None = None
    width: int | None = None
    width_max: int | None = None
    bar1_bytes: int | None = None
    memory_bytes: int | None = None
    vbios: str | None = None
    fabric_state: str | None = None  # "Completed", "In Progress", "Not Started", "N/A"
    fabric_status: str | None = None  # "Success", …
    fabric_cluster: bool | None = None  # registered in a cluster: its UUID is not all zero
    fabric_health: tuple[tuple[str, str], ...] = ()  # ("Bandwidth", "N/A"), …
    numa_node: int | None = None
    lost: str | None = None  # the text by which the driver calls it lost ("ERR!", "GPU is lost", "Unknown Error")
    recovery_action: str | None = None
    persistence: bool | None = None
    power_limit_w: float | None = None
    application_clock_mhz: int | None = None  # graphics
    ecc: bool | None = None
    ecc_uncorrectable: int | None = None  # since the driver was loaded ("Volatile"), SRAM and DRAM together
    remap_pending: bool | None = None  # rows or pages
    remap_failed: bool | None = None
    slowdowns: frozenset[str] | None = None  # active hardware reasons: "HW Thermal Slowdown", …
    pcie_replays: int | None = None  # since the GPU's reset
    read_at_s: float | None = None  # when this was read, by the machine's clock
    lines: Lines = field(default_factory=dict)


class MatrixRow(NamedTuple):
    """The affinity part of one GPU row; None where blank, missing or run together beyond telling."""

    cpus: str | None  # nvidia-smi stops at 10 characters: the list may be longer
    numa: str | None  # as printed: "0", "0-1", "N/A"
    gpu_numa: str | None


@dataclass(frozen=True, slots=True)
class Matrix:
    """`nvidia-smi topo -m` or `-mp`. `cells[(row, column)]` is the token as printed, SOC read as SYS; names are those
    of the header ("GPU0", "NIC3", "mlx5_0"); the diagonal is left out; `legend` maps NICn to the RDMA name where the
    legend is sound."""

    witness: str  # "nvidia-smi topo -m" or "nvidia-smi topo -mp"
    names: tuple[str, ...]
    cells: Mapping[tuple[str, str], str]
    rows: Mapping[str, MatrixRow]
    legend: Mapping[str, str]
    lines: Lines  # keyed by row name
    cut: bool = False  # rows or cells are missing


@dataclass(frozen=True, slots=True)
class P2pMatrix:
    """`nvidia-smi topo -p2p r|w|n|a|p`: cells[(a, b)] is OK, NS, GNS, CNS, TNS, DR, U."""

    witness: str
    capability: str | None  # r w n a p, None when the command line is not known
    names: tuple[str, ...]
    cells: Mapping[tuple[str, str], str]
    lines: Lines  # keyed by row name


class NvlinkPort(NamedTuple):
    """One NVLink of one GPU."""

    link: int
    active: bool | None
    rate_gb_per_s: float | None  # as printed, 26.562
    remote_bdf: str | None = None
    errors: tuple[tuple[str, int], ...] = ()  # ("Replay", 3)
    supported: bool | None = None
    line: Evidence | None = None
    error_line: Evidence | None = None  # of the first counter that is not zero
    errors_before: tuple[tuple[str, int], ...] = ()  # of an earlier listing with lower counters
    crc_per_s: float | None = None  # CRC errors between two readings of which the time between is known


@dataclass(frozen=True, slots=True)
class NvlinkGpu:
    """`nvidia-smi nvlink -s|-e|-c|-R` of one GPU; `all_inactive` and `unsupported` are the driver's own words."""

    witness: str
    index: int
    model: str | None = None
    uuid: str | None = None
    ports: tuple[NvlinkPort, ...] = ()
    all_inactive: bool = False
    unsupported: bool = False
    line: Evidence | None = None


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node (numactl -H, lscpu, sysfs); `cpus` in the kernel's form, "0-55,112-167", "" without CPUs."""

    witness: str
    id: int
    cpus: str | None = None
    memory_mib: float | None = None
    socket: int | None = None
    distances: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Host:
    """What one input says of the machine as a whole; every field None or empty where it does not say."""

    witness: str
    hostname: str | None = None
    boot_id: str | None = None
    kernel: str | None = None
    cmdline: str | None = None
    arch: str | None = None
    sockets: int | None = None
    hypervisor: str | None = None
    virtual: bool | None = None
    container: bool | None = None
    product: str | None = None  # DMI vendor and product name
    driver: str | None = None  # "580.95.05"
    open_driver: bool | None = None
    fabric_manager: str | None = None  # its version, by its own word in a log
    least_uptime_s: float | None = None  # of the last line of the kernel log: up for as long, or longer
    modules: frozenset[str] | None = None
    driver_error: str | None = None  # NVML cannot start: its own words
    driver_hung: str | None = None  # what was asked of the driver in vain: "nvidia-smi -L: no answer within 19 s"
    cpu_count: int | None = None
    numa_balancing: int | None = None  # the sysctl: 0 off, bit 0 balancing, bit 1 memory tiering
    no_rdma_device: bool | None = None  # a tool that lists RDMA devices found none
    peermem: bool | None = None  # a module that lets NICs reach GPU memory is loaded
    nccl_environ: tuple[tuple[str, str], ...] | None = None  # NCCL_* of the environment or of nccl.conf
    allowed_cpus: str | None = None  # of this process, in the kernel's form
    topology_file: str | None = None  # NCCL's, of the machine
    topology_gpus: frozenset[str] | None = None  # the addresses that file gives to GPUs
    asset_tag: str | None = None  # DMI chassis: clouds name themselves there
    line: Evidence | None = None


class Gid(NamedTuple):
    """One entry of a port's GID table; version: "v1", "v2", None where the tool does not say."""

    number: int  # its index in the table
    gid: str  # eight groups of four hex digits
    version: str | None

    @property
    def ipv4(self) -> str | None:
        """The address of an IPv4-mapped GID, "10.62.186.32"."""
        groups = self.gid.split(":")
        if len(groups) != 8 or groups[:6] != ["0000"] * 5 + ["ffff"]:
            return None
        digits = groups[6] + groups[7]
        return ".".join(str(int(digits[i : i + 2], 16)) for i in (0, 2, 4, 6))


class LeafPort(NamedTuple):
    """The switch port at the other end of a cable: the switch's name, its port (a number or a name), who says so."""

    switch: str
    port: str | None
    by: str  # lldp, ibnetdiscover, iblinkinfo
    line: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Cabling:
    """Which leaf some CA port is cabled to (LLDP, ibnetdiscover, iblinkinfo); the CA may be another node's."""

    witness: str
    leaf: LeafPort
    port_guid: str | None = None
    lid: int | None = None
    node_desc: str | None = None  # "gpu017 mlx5_5"
    netdev: str | None = None
    able: tuple[int | None, str | None] | None = None  # lanes and "NDR" that both ends support, if more than is used


@dataclass(frozen=True, slots=True)
class PortCounters:
    """One reading of a port's counters by perfquery, which names the port by its LID; names as in sysfs."""

    witness: str
    lid: int
    port: int
    values: tuple[tuple[str, int], ...]
    lines: Lines = field(default_factory=dict)  # by counter


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """One port of an RDMA device; state: active, down, init, armed; physical: linkup, polling, disabled."""

    port: int
    state: str | None = None
    physical: str | None = None
    rate_gbit_per_s: float | None = None
    link_layer: str | None = None  # infiniband, ethernet, efa, iwarp
    mtu: int | None = None
    max_mtu: int | None = None
    lid: int | None = None
    sm_lid: int | None = None
    guid: str | None = None
    subnet: str | None = None  # GID prefix
    netdev: str | None = None
    gids: tuple[Gid, ...] = ()
    readings: tuple[tuple[tuple[str, int], ...], ...] = ()  # its counters, the oldest reading first; names as in sysfs
    leaf: LeafPort | None = None
    able_gbit_per_s: float | None = None  # what both ends of the cable support, where a listing says it is more
    lines: Lines = field(default_factory=dict)  # keyed by the field's name here


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    """One RDMA device (ibstat, ibv_devinfo, sysfs, rdma link, ibdev2netdev, fi_info -p efa)."""

    witness: str
    name: str
    bdf: str | None = None
    model: str | None = None  # "MT4129"
    firmware: str | None = None
    board_id: str | None = None  # "MT_0000000838"
    node_guid: str | None = None
    sys_image_guid: str | None = None
    vendor_id: str | None = None
    transport: str | None = None  # "InfiniBand", "iWARP"
    software: bool = False  # rxe, siw: no PCI parent
    efa: bool = False
    vf_of: str | None = None  # BDF of the PF, where the input says so
    ports: tuple[RdmaPort, ...] = ()
    line: Evidence | None = None


@dataclass(frozen=True, slots=True)
class BandwidthLimit:
    """The kernel's "available PCIe bandwidth" line of boot; `limit_bdf` is None in the form without a limit."""

    bdf: str
    limit_bdf: str | None
    speed_gts: float | None
    width: int | None
    capable_speed_gts: float | None
    capable_width: int | None
    line: Evidence
    driver: str | None = None  # who printed it: "mlx5_core", "pci"
    vendor_id: str | None = None  # "15b3", as the kernel found the device
    device_id: str | None = None  # "1021"
    class_id: str | None = None  # "0207"


@dataclass(frozen=True, slots=True)
class LogEvent:
    """Another line of the kernel log: "xid" (number), "aer", "iommu-fault", "driver-load", "no-bar" or, of a GPU that
    the driver cannot use, what topocheck/refused.py puts in words; "gpu-passed-through"."""

    kind: str
    bdf: str | None
    number: int | None
    time_s: float | None  # seconds since boot where the line says so
    line: Evidence


Fact = (
    PciFunction
    | PciListing
    | GpuState
    | Matrix
    | P2pMatrix
    | NvlinkGpu
    | NumaNode
    | Host
    | RdmaDevice
    | Cabling
    | PortCounters
    | BandwidthLimit
    | LogEvent
    | Gap
)
