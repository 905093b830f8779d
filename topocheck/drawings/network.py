"""The node's networkx graph as plain values: what dot, GraphML and JSON write down."""

from __future__ import annotations

from typing import NamedTuple

from topocheck.formats.printable import printable
from topocheck.graph import Topology

_FIGURES = ("line_rate_gb_per_s", "capacity_gb_per_s")


class Vertex(NamedTuple):
    """A node of the graph."""

    id: str
    kind: str
    bdf: str | None
    model: str | None


class Edge(NamedTuple):
    """An edge; GB/s one direction, None where not read."""

    a: str
    b: str
    kind: str
    line_rate_gb_per_s: float | None
    capacity_gb_per_s: float | None
    witness: str
    inferred: bool


def vertices(node: Topology) -> list[Vertex]:
    """Every node, in the graph's order."""
    found = []
    for name, about in node.graph.nodes(data=True):
        device = about.get("device")
        bdf, model = (device.bdf, device.model) if device is not None else (None, None)
        found.append(Vertex(printable(name), about["kind"], bdf and printable(bdf), model and printable(model)))
    return found


def edges(node: Topology) -> list[Edge]:
    """Every edge, in the graph's order."""
    found = []
    for a, b, about in node.graph.edges(data=True):
        line, capacity = (None if about[key] is None else round(about[key], 1) for key in _FIGURES)
        ends, witness = (printable(a), printable(b)), printable(about["witness"])
        found.append(Edge(*ends, about["kind"], line, capacity, witness, bool(about["inferred"])))
    return found
