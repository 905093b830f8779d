"""Reading one pasted text."""

from __future__ import annotations

from pathlib import Path

from topocheck.check import check
from topocheck.report import Report

CARD = "2a:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)\n"


def posted(tmp_path: Path, text: str) -> Report:
    """The report on one pasted text."""
    path = tmp_path / "post"
    path.write_text(text)
    return check(str(path)).report


def found(report: Report, rule: str) -> set[str]:
    """Whom the findings of a rule are about."""
    return {subject for f in report.findings if f.rule == rule for subject in f.subjects}
