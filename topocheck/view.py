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
    _add_seats(graph, node)
    _add_nvlinks(graph, node)
    return graph


def _name(device: Device) -> str:
    return "nvswitch" if device.kind == "nvswitch" else device.id


def _add_numa(graph: nx.MultiGraph, node: Topology) -> None:
    for numa in node.numa_nodes:
        name, above = f"numa{numa.id}", "host"
        graph.add_node(name, kind="numa", cpus=numa.cpus)
        if numa.socket is not None:
            above = f"socket{numa.socket}"
            graph.add_node(above, kind="socket")
            graph.add_edge(above, "host", key="socket", **_edge("socket", witness=numa.witness))
        graph.add_edge(name, above, key="socket", **_edge("socket", witness=numa.witness))


def _add_chain(graph: nx.MultiGraph, node: Topology, device: Device) -> None:
    """A device and the bridges above it, up to its root."""
    names = {d.bdf: _name(d) for d in node.devices if d.bdf}
    for below, above in pairwise(_chain(node, device)):
        graph.add_node(above, kind="root" if above.startswith("root:") else "bridge")
        graph.add_edge(names.get(below, below), above, key="pcie", **_pcie_edge(node, below, above))


def _chain(node: Topology, device: Device) -> list[str]:
    return list(node.climb(device.bdf if device.bdf and device.bdf in node.parents else device.id))


def _add_seats(graph: nx.MultiGraph, node: Topology) -> None:
    """The NUMA node each root hangs on: the host bridge's own, else a device's below; the host where none says."""
    names = {d.bdf: _name(d) for d in node.devices if d.bdf}
    seats: dict[str, tuple[int | None, str]] = {}
    for device in (*node.gpus, *node.nics):
        top = _chain(node, device)[-1]
        numa = node.root_numa.get(top, device.numa_node)
        if seats.get(top, (None, ""))[0] is None:
            seats[top] = (numa, device.numa_from or "")
    for top, (numa, witness) in seats.items():
        seat = "host" if numa is None else f"numa{numa}"
        if seat not in graph:
            graph.add_node(seat, kind="numa", cpus=None)
            graph.add_edge(seat, "host", key="socket", **_edge("socket", witness=witness, inferred=True))
        edge = _edge("memory", witness=witness, inferred=numa is None)
        graph.add_edge(names.get(top, top), seat, key="memory", **edge)


def _pcie_edge(node: Topology, below: str, above: str) -> dict[str, Any]:
    if above in node.inferred:
        return _edge("pcie", witness="nvidia-smi topo -m", inferred=True)
    link: PcieLink | None = node.links.get(below)
    if link is None or not link.speed_gts or not link.width:
        function = node.functions.get(below)
        return _edge("pcie", witness=function.witness if function else "")
    line = pcie.line_rate_gb_per_s(link.speed_gts, link.width)
    return _edge("pcie", line, pcie.achievable_gb_per_s(link.speed_gts, link.width), link.witness)


def _edge(
    kind: str, line: float | None = None, capacity: float | None = None, witness: str = "", inferred: bool = False
) -> dict[str, Any]:
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
    return _edge("nvlink", line, gpu_figures.nvlink_achievable_gb_per_s(links, device.part), witness)
