"""The node as a networkx MultiGraph: nodes gpu0, mlx5_0, bridges by BDF, numa0, socket0, nvswitch, host; edge
attributes kind, line_rate_gb_per_s, capacity_gb_per_s (achievable), witness, inferred (interface section 6)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from topocheck.graph import Device, PcieLink, Topology
from topocheck.hardware import gpus as gpu_figures
from topocheck.hardware import pcie

if TYPE_CHECKING:
    import networkx as nx


def as_networkx(node: Topology) -> nx.MultiGraph:
    """A fresh graph of the node."""
    import networkx as nx

    graph = nx.MultiGraph()
    graph.add_node("host", kind="host")
    for device in node.devices:
        graph.add_node(_name(device), kind=device.kind, device=device)
    _add_numa(graph, node)
    for device in (*node.gpus, *node.nics):
        _add_chain(graph, node, device)
    _add_nvlinks(graph, node)
    return graph


def _name(device: Device) -> str:
    return "nvswitch" if device.kind == "nvswitch" else device.id


def _add_numa(graph: nx.MultiGraph, node: Topology) -> None:
    for numa in node.numa_nodes:
        graph.add_node(f"numa{numa.id}", kind="numa", cpus=numa.cpus)
        above = "host"
        if numa.socket is not None:
            above = f"socket{numa.socket}"
            if above not in graph:
                graph.add_node(above, kind="socket")
                graph.add_edge(above, "host", key="socket", **_edge("socket", None, None, "lscpu", False))
        graph.add_edge(f"numa{numa.id}", above, key="socket", **_edge("socket", None, None, "numactl -H", False))


def _add_chain(graph: nx.MultiGraph, node: Topology, device: Device) -> None:
    """A device, the bridges above it, its root, and the NUMA node or host the root hangs on."""
    names = {d.bdf: _name(d) for d in node.devices if d.bdf}
    chain = list(node.climb(device.bdf if device.bdf and device.bdf in node.parents else device.id))
    for below, above in pairwise(chain):
        kind = "root" if above.startswith("root:") else "bridge"
        graph.add_node(above, kind=kind)
        lower = names.get(below, below)
        if not graph.has_edge(lower, above, key="pcie"):
            link = node.links.get(below)
            graph.add_edge(lower, above, key="pcie", **_pcie_edge(link, above in node.inferred))
    top = names.get(chain[-1], chain[-1])
    numa = node.root_numa.get(chain[-1], device.numa_node)
    seat = f"numa{numa}" if numa is not None else "host"
    if seat not in graph:
        graph.add_node(seat, kind="numa")
        graph.add_edge(seat, "host", key="socket", **_edge("socket", None, None, "nvidia-smi topo -m", True))
    if not graph.has_edge(top, seat, key="memory"):
        graph.add_edge(top, seat, key="memory", **_edge("memory", None, None, device.numa_from or "", numa is None))


def _pcie_edge(link: PcieLink | None, inferred: bool) -> dict[str, Any]:
    if link is None or not link.speed_gts or not link.width:
        return _edge("pcie", None, None, link.witness if link else "", inferred)
    line = pcie.line_rate_gb_per_s(link.speed_gts, link.width)
    return _edge("pcie", line, pcie.achievable_gb_per_s(link.speed_gts, link.width), link.witness, inferred)


def _edge(kind: str, line: float | None, capacity: float | None, witness: str, inferred: bool) -> dict[str, Any]:
    return {
        "kind": kind,
        "line_rate_gb_per_s": line,
        "capacity_gb_per_s": capacity,
        "witness": witness,
        "inferred": inferred,
    }


def _add_nvlinks(graph: nx.MultiGraph, node: Topology) -> None:
    """GPUs of an NVSwitch board meet in one crossbar; other pairs have a bundle of their own."""
    for device in node.gpus:
        active = device.nvlinks_active
        if active and device.part and device.part.board == "nvswitch" and len(node.gpus) > 4:
            graph.add_node("nvswitch", kind="nvswitch")
            graph.add_edge(device.id, "nvswitch", key="nvlink", **_nvlink_edge(active, device, "nvidia-smi nvlink -s"))
    for pair, cls in node.classes.items():
        a, b = sorted(pair)
        if cls and cls.startswith("NV") and not (graph.has_edge(a, "nvswitch") and graph.has_edge(b, "nvswitch")):
            edge = _nvlink_edge(int(cls[2:]), node.by_id[a], "nvidia-smi topo -m")
            graph.add_edge(a, b, key="nvlink", **edge)


def _nvlink_edge(links: int, device: Device, witness: str) -> dict[str, Any]:
    line = gpu_figures.nvlink_line_rate_gb_per_s(links, device.part)
    return _edge("nvlink", line, gpu_figures.nvlink_achievable_gb_per_s(links, device.part), witness, False)
