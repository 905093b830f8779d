"""
A rail's port is cabled to a leaf that is another rail's.

Why it matters: two rails of one node share a leaf's uplinks, and this node's rail meets its like only over the spine.

Usual cause: a cable in the wrong switch when the node was installed or a transceiver replaced.

Repair: move the cable to a port of the rail's own leaf.

Silent when: there is one switch; the design has fewer leaves than rails, alike for all; dual planes; cables that are
only exchanged (RAIL001); cabling is not seen (skipped).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from topocheck.cabling import RailPort, crossed_ports
from topocheck.finding import Answer, Finding
from topocheck.graph import Topology
from topocheck.guards import cabled

ID = "RAIL002"
NAME = "rail-wrong-leaf"


def check(node: Topology) -> Iterator[Answer]:
    """A leaf other than the sisters', or one leaf for two rails while the others have each their own."""
    ports, silence = cabled(node)
    if silence:
        yield silence
        return
    crossed = crossed_ports(ports)
    wrong = [p for p in ports if p.wrong and p not in crossed]
    for port in wrong:
        should = f"it should reach {port.expected} ({port.expected_from})"
        yield _finding([port], f"{port.nic.id} reaches {port.leaf.switch}, {should}")
    if not wrong and ports[0].expected_from != "policy" and (shared := _shared_leaf(ports)):
        names = ", ".join(p.nic.id for p in shared)
        yield _finding(shared, f"{names} reach one leaf, {shared[0].leaf.switch}; the other rails have each their own")


def _shared_leaf(ports: list[RailPort]) -> list[RailPort]:
    """The ports of one leaf that has more than the others, which are more and alike."""
    counts = Counter(p.leaf.switch for p in ports)
    usual, leaves = Counter(counts.values()).most_common()[0]
    crowded = [leaf for leaf, count in counts.items() if count > usual]
    if len(crowded) != 1 or leaves < 2 or 2 * leaves < len(counts):
        return []
    return [p for p in ports if p.leaf.switch == crowded[0]]


def _finding(ports: list[RailPort], message: str) -> Finding:
    # Which of several ports on one leaf is the stray is not known: for the repair take all but the first.
    moved = ports if len(ports) == 1 else ports[1:]
    return Finding(
        rule=ID,
        name=NAME,
        severity="error" if ports[0].expected_from == "policy" else "warning",
        subjects=tuple(dict.fromkeys(p.nic.id for p in ports)),
        message=message,
        repair="Move the cable to a port of the rail's own leaf",
        evidence=tuple(p.leaf.line for p in ports if p.leaf.line),
        expected_from=ports[0].expected_from or "equals",
        patches=tuple(p.repair(p.expected or f"the leaf of {p.nic.id}") for p in moved),
    )
