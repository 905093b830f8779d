"""Every node of ours: healthy as it is, and with one fault in it exactly that fault, with its proof and its price.

Prices are the arithmetic written beside each edit, never the program's own output.
"""

from __future__ import annotations

from pathlib import Path

import nodes
import pytest

from topocheck.check import check
from topocheck.rules import ALL

EDITS = [edit for name in nodes.names() for edit in nodes.edits(name)]
FAULTS = [edit for edit in EDITS if edit.expect.rule != "none"]
HARMLESS = [edit for edit in EDITS if edit.expect.rule == "none"]


@pytest.mark.parametrize("name", nodes.names())
def test_a_healthy_node_has_no_fault(name: str) -> None:
    report = check(str(nodes.healthy(name))).report
    assert [f"{f.rule} {f.subjects} {f.message}" for f in report.findings if f.severity != "info"] == []
    assert report.verdict == "healthy"
    assert not report.disagreements, "the files of one capture tell one story"
    assert not report.gaps


@pytest.mark.parametrize("edit", FAULTS, ids=lambda edit: f"{edit.node}-{edit.name}")
def test_one_fault_is_one_finding(edit: nodes.Edit, tmp_path: Path) -> None:
    expect = edit.expect
    if expect.rule not in {rule.ID for rule in ALL}:
        pytest.skip(f"{expect.rule} is in the catalogue, but not built")
    report = check(str(nodes.apply(edit.node, edit, tmp_path))).report
    said = [f for f in report.findings if f.rule == expect.rule]
    assert len(said) == 1, [f"{f.rule} {f.severity} {f.subjects}" for f in report.findings]
    finding = said[0]
    assert finding.severity == expect.severity
    if expect.subjects is not None:
        assert finding.subjects == expect.subjects
    if expect.evidence is not None:
        assert any(expect.evidence in line.text for line in finding.evidence), finding.evidence
    if expect.effect is not None:
        assert finding.effect == expect.effect
    others = [
        f"{f.rule} {f.severity} {f.subjects}" for f in report.findings if f is not finding and f.severity != "info"
    ]
    assert others == []
    if finding.price is not None and finding.price.range is not None:
        assert 0 <= finding.price.range[0] <= finding.price.range[1] <= 1
    if expect.loss is not None:
        assert finding.price is not None and finding.price.loss is not None, finding.price
        assert finding.price.loss == pytest.approx(expect.loss, abs=0.0006)
        assert finding.price.confidence == "computed"
    if expect.range is not None:
        assert finding.price is not None and finding.price.range is not None, finding.price
        assert finding.price.loss is None
        assert finding.price.range == pytest.approx(expect.range, abs=0.0006)
    assert report.verdict == {"error": "failed", "warning": "degraded", "info": "healthy"}[expect.severity]


@pytest.mark.parametrize("edit", HARMLESS, ids=lambda edit: f"{edit.node}-{edit.name}")
def test_what_is_no_fault_is_not_told(edit: nodes.Edit, tmp_path: Path) -> None:
    healthy = check(str(nodes.healthy(edit.node))).report
    report = check(str(nodes.apply(edit.node, edit, tmp_path))).report
    assert [(f.rule, f.subjects) for f in report.findings] == [(f.rule, f.subjects) for f in healthy.findings]
    assert report.verdict == "healthy"


@pytest.mark.parametrize("name", nodes.names())
def test_a_text_that_is_not_there_cannot_be_edited(name: str, tmp_path: Path) -> None:
    lost = nodes.Change("uname_-r", replace="no such text", by="")
    fault = nodes.Edit(name, "lost", "", (lost,), (), nodes.Expect("PCI001", "error"))
    with pytest.raises(LookupError):
        nodes.apply(name, fault, tmp_path)
