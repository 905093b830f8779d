"""The graph as GraphML, for yEd, Gephi and networkx itself."""

from __future__ import annotations

from topocheck.drawings.network import edges, vertices
from topocheck.graph import Topology
from topocheck.report import Report


def render(node: Topology, report: Report) -> str:
    """The document; what is not known is left out, as GraphML has no null."""
    import networkx as nx

    graph = nx.MultiGraph()
    for vertex in vertices(node):
        about = vertex._asdict()
        graph.add_node(about.pop("id"), **_known(about))
    for edge in edges(node):
        about = edge._asdict()
        graph.add_edge(about.pop("a"), about.pop("b"), **_known(about))
    return "\n".join(nx.generate_graphml(graph)) + "\n"


def _known(about: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in about.items() if value is not None}
