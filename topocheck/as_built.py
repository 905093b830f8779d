"""What the platform has and this node has not: the common ground of GPU001, NET005 and PCI003.

Asked only where the listing of the bus is whole, and never in a container: it was given a part.
"""

from __future__ import annotations

from typing import NamedTuple

from topocheck.build.pci import is_vf
from topocheck.facts import PciFunction
from topocheck.graph import Device, Topology
from topocheck.hardware.pci_ids import is_gpu, is_rdma_nic

_INFINIBAND = "0207"  # class of a function that is no Ethernet port as well


class NicsShort(NamedTuple):
    """How many compute NICs are missing, and the GPUs that have fewer of their own than the platform gives them."""

    missing: int
    gpus: tuple[str, ...]


def gpus_short(node: Topology) -> int:
    """How many GPUs the platform has that are neither on the bus nor called lost by the driver."""
    platform = node.platform
    if platform is None or not node.whole_pci:
        return 0
    on_bus = {f.bdf for f in node.functions.values() if is_gpu(f)} | {g.bdf for g in node.gpus if g.bdf}
    lost = {state.bdf or f"gpu{state.index}" for state in node.lost_gpus} - on_bus
    return max(0, platform.gpus - len(on_bus) - len(lost))


def nics_short(node: Topology, unbound: int = 0) -> NicsShort | None:
    """The compute NICs that are missing; `unbound` functions of their kind are there without an RDMA device. NICs that
    a tenant attaches himself may be fewer, alike for all GPUs."""
    platform = node.platform
    if platform is None or platform.compute_nics is None or not node.whole_pci or node.machine.container:
        return None
    missing = platform.compute_nics - len(node.compute_nics) - unbound
    if missing <= 0 or not node.compute_nics or len(node.gpus) != platform.gpus:
        return None
    each = max(1, platform.compute_nics // platform.gpus)
    short = tuple(g.id for g in node.gpus if len(node.assignment.get(g.id, ())) < each)
    if platform.launch and (platform.compute_nics < platform.gpus or len(short) == len(node.gpus)):
        return None
    return NicsShort(missing, short if len(short) < len(node.gpus) else ())


def silent_functions(node: Topology) -> list[PciFunction]:
    """The functions of the compute NICs where a tool that lists RDMA devices found none: those that serve RDMA alone,
    or that the platform has for it. Without a driver they are GPU003's; in a container the devices are the host's."""
    machine, platform = node.machine, node.platform
    if not machine.no_rdma_device or machine.container or any(n.id != n.bdf for n in node.nics):
        return []
    of_platform = platform is not None and platform.compute_nics is not None
    functions = [n.pci for n in node.compute_nics if n.pci and (of_platform or n.efa or n.pci.class_id == _INFINIBAND)]
    return [f for f in functions if not (f.driver_shown and f.driver is None) and "vfio" not in (f.driver or "")]


def unbound_functions(node: Topology) -> list[PciFunction]:
    """Functions of the compute NICs' part that no RDMA device names, where every RDMA device names its function."""
    named = [n for n in node.compute_nics if n.ports]
    if (
        not named
        or any(n.pci is None for n in (*named, *node.nics) if n.ports)
        or any("ascending order" in a for a in node.assumptions)
    ):
        return []
    parts = {n.pci_id for n in named}
    taken = {n.bdf for n in node.nics}
    return [
        f
        for f in node.functions.values()
        if is_rdma_nic(f) and not is_vf(f) and f.bdf not in taken and f"{f.vendor_id}:{f.device_id}" in parts
    ]


def built_so(node: Topology, rule: str, device: Device | None) -> bool:
    """Whether the platform's row says that what the rule finds on such a device is its design."""
    return bool(device and node.platform and f"{rule}:{device.kind}" in node.platform.capped)
