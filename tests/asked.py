"""What `check` says of a copy of one of our nodes with text changed in it, rule by rule."""

from __future__ import annotations

import re
from pathlib import Path

import nodes

from topocheck.check import Checked, check
from topocheck.finding import Finding


def changed(folder: Path, node: str, *changes: nodes.Change, drop: tuple[str, ...] = ()) -> Checked:
    """The node's capture with some changes, checked."""
    edit = nodes.Edit(node, "test", "", changes, drop, nodes.Expect("", "info"))
    return check(str(nodes.apply(node, edit, folder)))


def everywhere(node: str, file: str, pattern: str, by: str) -> nodes.Change:
    """Every match in a file replaced; there must be one."""
    text = (nodes.healthy(node) / file).read_text()
    new, count = re.subn(pattern, by, text, flags=re.MULTILINE)
    assert count, f"{file}: {pattern} is not there"
    return nodes.Change(file, text=new)


def of(checked: Checked, rule: str) -> list[Finding]:
    """The rule's findings."""
    return [f for f in checked.report.findings if f.rule == rule]


def levels(checked: Checked, rule: str) -> list[str]:
    """Their severities."""
    return [f.severity for f in of(checked, rule)]


def skips(checked: Checked, rule: str) -> list[str]:
    """Why the rule was skipped."""
    return [s.reason for s in checked.report.skipped if s.rule == rule]
