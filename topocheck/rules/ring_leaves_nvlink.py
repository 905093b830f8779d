"""
No ring through all GPUs of an NVLink board stays on NVLink.

Why it costs: a ring all-reduce runs at its slowest edge; one PCIe edge in it is a tenth of NVLink (FAULT-47: 20 of 208
GB/s).

Usual cause: GPUs whose NVLinks are down or that never joined the fabric; a board that is split into partitions.

Repair: bring NVLink up between all GPUs (fabric manager, reset of GPUs and NVSwitches), or give the job the GPUs of one
partition.

Silent when: NVL001, NVL002 or NVL005 explain it; a GPU is in MIG mode; no GPU has NVLink. Bridged pairs, cube meshes
and VMs that were given none: info with the figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from topocheck.finding import Answer, Finding, NotApplicable, Skip
from topocheck.graph import Device, Topology
from topocheck.model import Scenario, bandwidth, ring_edges
from topocheck.nvlink import full_mesh, on_nvlink
from topocheck.patches import JoinNvlink
from topocheck.ring import MOST, slowest_edge

ID = "P2P004"
NAME = "ring-leaves-nvlink"


def check(node: Topology) -> Iterator[Answer]:
    """The best ring over the matrix's NVLink cells."""
    if len(node.gpus) < 2:
        yield NotApplicable("fewer than two GPUs")
    elif any(g.mig for g in node.gpus):
        yield Skip("a GPU is in MIG mode: its row says nothing of NVLink")
    elif not all(_printed(node, a, b) for a, b in combinations(node.gpus, 2)) or len(node.gpus) > MOST:
        yield Skip("no whole nvidia-smi topo -m in the input")
    else:
        yield _answer(node)


def _printed(node: Topology, a: Device, b: Device) -> bool:
    return (a.id, b.id) in node.directed or (b.id, a.id) in node.directed


def _answer(node: Topology) -> Answer:
    joined = {frozenset((a.id, b.id)) for a, b in combinations(node.gpus, 2) if on_nvlink(node, a, b)}
    board = all(g.part and g.part.board == "nvswitch" for g in node.gpus) or full_mesh(node) is not None
    if not joined and not board:
        return NotApplicable("no NVLink between these GPUs")
    if slowest_edge([g.id for g in node.gpus], {p: e for p, e in ring_edges(node).items() if p in joined}) is not None:
        return NotApplicable("a ring stays on NVLink")
    return _finding(node, joined, board=board)


def _finding(node: Topology, joined: set[frozenset[str]], *, board: bool) -> Finding:
    degree = {g.id: sum(g.id in pair for pair in joined) for g in node.gpus}
    fewest = [g for g in node.gpus if degree[g.id] == min(degree.values())]
    fault = board and not (node.machine.virtual and not joined)
    links = full_mesh(node) or max((g.part.nvlinks for g in node.gpus if g.part), default=0)
    edge = bandwidth(node, Scenario("ring"))
    said = f"{fewest[0].id} reaches {min(degree.values())} of {len(node.gpus) - 1} GPUs by NVLink"
    assumed = "" if node.links else " (PCIe x16 assumed)"
    figure = f", its slowest edge carries about {edge.gb_per_s:.0f} GB/s{assumed}" if edge and not fault else ""
    rows = tuple(line for g in fewest[:2] if (line := node.matrix_lines.get(g.id)))
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning" if fault else "info",
        subjects=tuple(g.id for g in fewest),
        message=f"{said}, so every ring of all {len(node.gpus)} leaves NVLink{figure}",
        repair="Bring NVLink up between all GPUs (fabric manager, reset), or use the GPUs of one partition",
        evidence=rows,
        expected_from="the part" if fault else None,
        patches=(JoinNvlink(tuple(g.id for g in node.gpus), links),) if fault and links else (),
        scenarios=(Scenario("ring"),),
        price_kind="computed" if fault and links else "unknown",
        covers=frozenset(g.id for g in fewest),
    )
