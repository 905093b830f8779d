"""How well each GPU is served by compute NICs: the common ground of the AFF, RAIL and NET005 rules."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple

from topocheck.facts import Evidence
from topocheck.graph import RANK, SWITCH_LOCAL, Device, Topology


class Service(NamedTuple):
    """A GPU, its own NICs (of the best assignment), and its nearest compute NICs with their class."""

    gpu: Device
    own: tuple[Device, ...]
    cls: str | None
    nearest: tuple[Device, ...]

    @property
    def local(self) -> bool:
        """Whether some compute NIC, its own or shared, is in reach of GPUDirect RDMA (PIX or PXB)."""
        return RANK[self.cls] <= SWITCH_LOCAL


def services(node: Topology) -> list[Service]:
    """One entry a GPU whose nearest compute NIC is known: one on its switch, or the distances to all of their model (of
    which a row that is cut may lack the GPU's own); none where more NICs may be on its switch, behind the end of a
    listing that is cut."""
    found = []
    cut = set() if node.has_matrix else {_top(node, bridge) for bridge in node.cut_below}
    models = {(nic.pci_id, nic.device_type) for nic in node.compute_nics}
    alike = [nic for nic in node.nics if nic.role in ("compute", "storage") and (nic.pci_id, nic.device_type) in models]
    for gpu in node.gpus:
        cls, nearest = node.nearest(gpu, node.compute_nics)
        whole = all(node.pair_class(gpu.id, nic.id) for nic in alike)
        if cut and gpu.bdf and _top(node, gpu.bdf) in cut:
            continue
        if cls is not None and (whole or RANK[cls] <= SWITCH_LOCAL):
            own = tuple(node.by_id[n] for n in node.assignment.get(gpu.id, ()) if n in node.by_id)
            found.append(Service(gpu, own, cls, tuple(nearest)))
    return found


def _top(node: Topology, bdf: str) -> str:
    """The bridge of the root bus above a function, or itself."""
    *_, top = (at for at in node.climb(bdf) if not at.startswith("root:"))
    return top


def why_not(node: Topology) -> str | None:
    """Why no question of nearness can be asked here, None if it can."""
    if not node.gpus:
        return "no GPU in the input"
    if not node.nics:
        without = node.platform if node.platform and not node.platform.verbs else None
        return f"{without.name} has no RDMA device" if without else "no NIC in the input"
    if not node.compute_nics:
        return "no NIC of a compute role"
    return None


def no_distance(node: Topology) -> str | None:
    """The same, where the question is of distance: a flat tree does not show it."""
    return why_not(node) or ("a flat PCIe tree says nothing of distance" if flat_tree(node) else None)


def flat_tree(node: Topology) -> bool:
    """A VM that shows every pair at one distance says nothing of distance; nor does a matrix without affinity whose
    pairs are all SYS or all PHB."""
    seen = {c for c in node.pcie_classes.values() if c}
    hidden = bool(node.machine.virtual) or all(d.numa_node is None for d in node.gpus)
    return len(seen) == 1 and seen <= {"PHB", "SYS"} and hidden and len(node.gpus) > 1 and not _host_bridges(node)


def _host_bridges(node: Topology) -> bool:
    """Whether GPUs hang on several host bridges, how far from one another is not known: a tree that was shown."""
    gpus = [gpu for gpu in node.gpus if gpu.bdf in node.parents]
    several = len({top for gpu in gpus for *_, top in [node.climb(gpu.bdf or "")]}) > 1
    return several and any(node.pcie_class(a.id, b.id) is None for a, b in combinations(gpus, 2))


def on_other_socket(node: Topology, gpu: Device, nic: Device) -> bool | None:
    """Whether a pair crosses sockets: only at SYS, and then by the sockets or NUMA nodes of both; None unknown."""
    cls = node.pcie_class(gpu.id, nic.id)
    if cls != "SYS" or node.machine.sockets == 1:
        return None if cls is None else False
    sockets = node.socket_of(gpu), node.socket_of(nic)
    if None not in sockets:
        return sockets[0] != sockets[1]
    return gpu.numa_node is None or gpu.numa_node != nic.numa_node


def one_place(node: Topology) -> bool:
    """Whether the compute NICs are one card or under one bridge: only one socket can have a NIC near it. Where a matrix
    is cut before the NICs' own rows, it may be so if every GPU is as far from all of them."""
    first, *others = node.compute_nics
    far = [{node.pcie_class(gpu.id, nic.id) for nic in node.compute_nics} for gpu in node.gpus]
    perhaps = ("PIX", None) if all(len(classes - {None}) <= 1 for classes in far) else ("PIX",)
    return all(nic.card == first.card or node.pcie_class(first.id, nic.id) in perhaps for nic in others)


def places(node: Topology, nics: Iterable[str]) -> int:
    """How many cards these NICs are; where a matrix alone knows them, those behind one bridge are taken for one."""
    found: list[Device] = []
    for nic in (node.by_id[name] for name in nics):
        by_matrix = nic.bdf is None
        if not any(nic.card == o.card or (by_matrix and node.pcie_class(nic.id, o.id) == "PIX") for o in found):
            found.append(nic)
    return len(found)


def row_of(node: Topology, gpu: Device, nic: Device | None = None) -> tuple[Evidence, ...]:
    """The matrix row of a GPU, else the lines that place the two devices."""
    if line := node.matrix_lines.get(gpu.id):
        return (line,)
    lines = [d.lines.get("NUMA node") or d.lines.get("header") for d in (gpu, nic) if d is not None]
    return tuple(line for line in lines if line)
