"""
The order of the compute NICs is not that of the GPUs they serve.

Why it matters: NCCL numbers rails by NIC order on each node; nodes whose orders differ send rail traffic through the
spine. On one node alone a permutation is only a name: info.

Usual cause: slots wired in another order, BIOS enumeration, a card replaced in another slot.

Repair: none on one node; compare the order with the other nodes (the fleet command does).

Silent when: cabling is not seen (the crossed and wrong-leaf answers are then skipped); EFA, TCPX, one NIC, plain trees.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.finding import Answer, Finding, NotApplicable, Skip
from topocheck.graph import Topology
from topocheck.nearness import flat_tree, row_of, services, why_not

ID = "RAIL001"
NAME = "rail-crossed"


def check(node: Topology) -> Iterator[Answer]:
    """The permutation note; which leaf a port reaches needs evidence from the fabric."""
    reason = why_not(node) or ("one compute NIC" if len(node.compute_nics) < 2 else None)
    if reason or flat_tree(node) or all(n.efa for n in node.compute_nics):
        yield NotApplicable(reason or "no rails in this kind of node")
        return
    yield Skip("cabling not seen: no LLDP or fabric listing tells which leaf a port reaches", partial=True)
    own = [s for s in services(node) if s.local and s.own]
    rails = [s.own[0].rail for s in own]
    if len(own) < 2 or len(own) < len(node.gpus) or None in rails:
        return
    order = [rail for rail in rails if rail is not None]
    if order != sorted(order):
        yield _finding(node, [f"{s.gpu.id} {s.own[0].id}" for s in own])


def _finding(node: Topology, pairs: list[str]) -> Finding:
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
