"""
A pair of GPUs has fewer NVLinks than its equals, or a different number in each direction.

Why it costs: a ring through the pair goes at the pace of the fewest links.

Usual cause: one link of a bridge or board down, a badly seated bridge.

Repair: reseat the bridge; on a board reset GPUs and NVSwitches; if it stays, replace.

Silent when: only *which* pairs are bridged is in question, in cube meshes (NV1 beside NV2 by design), for GPUs in MIG
mode.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip
from topocheck.graph import Topology
from topocheck.model import Scenario
from topocheck.nvlink import Uneven, full_mesh, in_mig_mode, loss_range, uneven_pairs
from topocheck.patches import SetNvlinks

ID = "NVL002"
NAME = "nvlink-uneven"


def check(node: Topology) -> Iterator[Answer]:
    """Pairs of the matrix against their equals and against their own other direction."""
    if len(node.gpus) < 2:
        yield NotApplicable("fewer than two GPUs")
        return
    if not node.has_matrix:
        yield Skip("no nvidia-smi topo -m in the input")
        return
    if not any((c or "").startswith("NV") for c in node.classes.values()):
        yield NotApplicable("no NVLink in the matrix")
        return
    if mig := in_mig_mode(node):
        yield Skip(mig, partial=not all(g.mig for g in node.gpus))
    for uneven in uneven_pairs(node):
        yield _finding(node, uneven)


def _finding(node: Topology, uneven: Uneven) -> Finding:
    a, b, links, full, by_direction = uneven
    board = full_mesh(node) is not None
    both_rows = {(a.id, b.id), (b.id, a.id)} <= node.directed.keys()  # of a cut matrix one may be left
    severity: Severity = "error" if board and both_rows and not by_direction else "warning"
    what = f"NV{links}" if links else f"no NVLink ({node.pair_class(a.id, b.id)})"
    than = "in one direction, in the other" if by_direction else "where their equals have"
    lines = [line for x in (a, b) if (line := node.matrix_lines.get(x.id))]
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=(a.id, b.id),
        message=f"{a.id} and {b.id} have {what} {than} NV{full}",
        repair="Reseat the bridge, or reset GPUs and NVSwitches; if it stays, replace bridge, GPU or baseboard",
        evidence=tuple(lines[:1]),
        expected_from="equals",
        patches=(SetNvlinks(a.id, full, b.id),),
        scenarios=(Scenario("gpu-pair", a.id, b.id),),
        price_kind="typical",
        loss_range=loss_range(a, links, full),
        covers=frozenset({a.id, b.id}),
    )
