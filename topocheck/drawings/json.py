"""The graph as one line of JSON, `topocheck.graph/1`."""

from __future__ import annotations

import json

from topocheck.drawings.network import edges, vertices
from topocheck.graph import Topology
from topocheck.report import Report

SCHEMA = "topocheck.graph/1"


def render(node: Topology, report: Report) -> str:
    """Nodes and edges; null means not known, GB/s one direction."""
    document = {
        "schema": SCHEMA,
        "host": report.host,
        "nodes": [vertex._asdict() for vertex in vertices(node)],
        "edges": [edge._asdict() for edge in edges(node)],
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n"
