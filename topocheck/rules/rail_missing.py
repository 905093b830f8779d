"""
GPUs have no compute NIC of their own while at least half have one.

Why it costs: they share the others' NICs over the CPU: fewer NICs for the node, and no rail for those GPUs.

Usual cause: a node built with half of its NICs, or a container given half.

Repair: add the missing NICs under these GPUs' switches, or run jobs on the GPUs that have one.

Silent when: fewer than half have one; GPUs share a NIC on their switch by design; a port is down (NET001) or a card
gone (NET005): these speak first.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.absent import priced
from topocheck.finding import Answer, Finding
from topocheck.graph import Topology
from topocheck.guards import placed_in_part, unplaced
from topocheck.nearness import Service, row_of, services

ID = "RAIL003"
NAME = "rail-missing"
_REPAIR = "Add NICs under these GPUs' switches, or give jobs the GPUs that have one"


def check(node: Topology) -> Iterator[Answer]:
    """GPUs without a compute NIC on their switch, own or shared, while half have their own."""
    efa = all(n.efa for n in node.compute_nics)
    if silence := unplaced(
        node, "one compute NIC" if len(node.compute_nics) < 2 else "EFA has no rails" if efa else None
    ):
        yield silence
        return
    if part := placed_in_part(node):
        yield part
    served = [s for s in services(node) if not (s.gpu.part and s.gpu.part.c2c)]
    with_own = [s for s in served if s.local and s.own]
    without = [s for s in served if not s.local and not s.own]
    if without and 2 * len(with_own) >= len(node.gpus):
        yield _finding(node, without, len(with_own))


def _finding(node: Topology, without: list[Service], with_own: int) -> Finding:
    gpus = tuple(s.gpu.id for s in without)
    one = len(gpus) == 1
    message = (
        f"{', '.join(gpus)} {'has' if one else 'have'} no compute NIC on {'its' if one else 'their'} switch, "
        f"{with_own} GPUs have one"
    )
    rows = tuple(line for s in without for line in row_of(node, s.gpu))
    found = Finding(ID, NAME, "warning", gpus, message, _REPAIR, rows, expected_from="equals", price_kind="computed")
    return priced(found, node, gpus)
