"""Every fault of our nodes, rule by rule: it fires, and with its repair applied it is silent.

Where a repair cannot be said as a patch (a reset, a reboot), the healthy capture is the repaired node.
"""

from __future__ import annotations

from pathlib import Path

import nodes
import pytest

from topocheck.check import check
from topocheck.finding import Finding
from topocheck.graph import Topology
from topocheck.patches import patched
from topocheck.rules import ALL

RULES = {rule.ID: rule for rule in ALL}
EDITS = [edit for name in nodes.names() for edit in nodes.edits(name) if edit.expect.rule in RULES]


def said(node: Topology, rule_id: str) -> list[Finding]:
    return [answer for answer in RULES[rule_id].check(node) if isinstance(answer, Finding)]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: f"{edit.expect.rule}-{edit.node}-{edit.name}")
def test_repaired_it_is_silent(edit: nodes.Edit, tmp_path: Path) -> None:
    node = check(str(nodes.apply(edit.node, edit, tmp_path))).topology
    found = [f for f in said(node, edit.expect.rule) if f.severity == edit.expect.severity]
    assert found, "it fires"
    patches = tuple(patch for finding in found for patch in finding.patches)
    repaired = patched(node, patches) if patches else check(str(nodes.healthy(edit.node))).topology
    subjects = {s for finding in found for s in finding.subjects}
    left = [f for f in said(repaired, edit.expect.rule) if set(f.subjects) & subjects]
    if not patches:
        left = [f for f in left if f.severity == edit.expect.severity]
    assert [f"{f.severity} {f.message}" for f in left] == []
