"""The graph for Graphviz: `topocheck graph --format dot | dot -Tsvg`. Links are as thick as they carry."""

from __future__ import annotations

from topocheck.drawings.network import Edge, edges, vertices
from topocheck.drawings.plan import Marks
from topocheck.graph import Topology
from topocheck.report import Report

_SHAPES = {
    "gpu": ("box", "#d9f0dc"),
    "nic": ("box", "#d8e8fb"),
    "bridge": ("box", "#fdf3d8"),
    "root": ("box", "#f7f3e8"),
}
_OTHER = ("ellipse", "#eaedf1")
_COLORS = {"error": "#cf222e", "warning": "#bf6a02"}


def render(node: Topology, report: Report) -> str:
    """An undirected graph; every word is a quoted string, so that none can be a statement."""
    marks = Marks(report.findings)
    lines = ["graph topology {", "  node [style=filled, fontname=Helvetica, fontsize=10];", "  edge [fontsize=9];"]
    for vertex in vertices(node):
        shape, fill = _SHAPES.get(vertex.kind, _OTHER)
        mark = marks.of([vertex.id, vertex.bdf])
        label = [vertex.id.removeprefix("root:"), *([vertex.model] if vertex.model else []), *mark.rules]
        frame = f", color={quoted(_COLORS[mark.severity])}, penwidth=3" if mark.severity in _COLORS else ""
        look = f"shape={shape}, fillcolor={quoted(fill)}{frame}"
        lines.append(f"  {quoted(vertex.id)} [label={quoted(*label)}, {look}];")
    lines += [f"  {quoted(edge.a)} -- {quoted(edge.b)} [{_look(edge)}];" for edge in edges(node)]
    return "\n".join([*lines, "}"]) + "\n"


def _look(edge: Edge) -> str:
    """Label and thickness; dashed where only inferred."""
    known = edge.capacity_gb_per_s
    words = [edge.kind, *([] if known is None else [f"{known:g} GB/s"])]
    width = 1.0 if known is None else max(1.0, min(12.0, known**0.5))
    return f"label={quoted(' '.join(words))}, penwidth={width:.1f}{', style=dashed' if edge.inferred else ''}"


def quoted(*lines: str) -> str:
    r"""A string of dot's: quotes and backslashes are escaped, so that no escape sequence of its own is left.

    >>> quoted('a"]; b\\N', "c")
    '"a\\"]; b\\\\N\\nc"'
    """
    return '"' + "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines) + '"'
