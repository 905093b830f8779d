"""
Rails are crossed: NICs reach each other's leaf, or their order is not that of the GPUs they serve.

Why it matters: NCCL takes the NIC of the same number on each node as one rail; a node whose cables are crossed sends
rail traffic through the spine. On one node alone the order of NICs is only a name: info.

Usual cause: two cables exchanged at the leaves or at the node; slots wired in another order, a card replaced elsewhere.

Repair: exchange the two cables; for an order that is only a name compare with the other nodes (the fleet command does).

Silent when: cabling is not seen (the answer is then skipped); EFA, TCPX, one NIC, plain trees.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.cabling import RailPort, crossed_ports
from topocheck.finding import Answer, Finding, NotApplicable
from topocheck.graph import Topology
from topocheck.guards import cabled
from topocheck.nearness import row_of, services

ID = "RAIL001"
NAME = "rail-crossed"


def check(node: Topology) -> Iterator[Answer]:
    """Ports that reach each other's leaf; the permutation note."""
    ports, silence = cabled(node)
    if isinstance(silence, NotApplicable):
        yield silence
        return
    if silence:
        yield silence._replace(partial=True)
    if crossed := crossed_ports(ports):
        yield _crossed(crossed)
    own = [s for s in services(node) if s.local and s.own]
    order = [rail for s in own if (rail := s.own[0].rail) is not None]
    if len(order) == len(node.gpus) and order != sorted(order):
        yield _permuted(node, [f"{s.gpu.id} {s.own[0].id}" for s in own])


def _crossed(ports: list[RailPort]) -> Finding:
    by = ports[0].expected_from
    said = ", ".join(f"{p.nic.id} reaches {p.leaf.switch} instead of {p.expected}" for p in ports)
    return Finding(
        rule=ID,
        name=NAME,
        severity="error" if by == "policy" else "warning",
        confidence="high" if by in ("policy", "sister nodes") else "medium",
        subjects=tuple(dict.fromkeys(p.nic.id for p in ports)),
        message=f"{said}: cables crossed",
        repair="Exchange the cables of these ports",
        evidence=tuple(p.leaf.line for p in ports if p.leaf.line),
        expected_from=by,
        patches=tuple(p.repair(p.expected or "") for p in ports),
    )


def _permuted(node: Topology, pairs: list[str]) -> Finding:
    return Finding(
        rule=ID,
        name=NAME,
        severity="info",
        subjects=(),
        message=f"NIC order is permuted against GPU order ({', '.join(pairs)}): harmless if all nodes are alike",
        repair="Compare with the other nodes of the cluster",
        evidence=row_of(node, node.gpus[0]),
        effect="none",
    )
