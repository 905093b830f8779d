"""What each kind of attachment can decide: one node of ours, wrapped in each way, asked every rule.

docs/generate.py writes the table into docs/sources.md; a rule that can decide something here may still have gaps on a
node whose files are cut, and each report says its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import attachments
import nodes

NODE = "hgx-h100"

Wrap = Callable[[Path, Path], Path]  # capture, folder to write in → what is attached


def _text(name: str) -> Wrap:
    return lambda capture, folder: _written(folder / name, (capture / name).read_text())


def _drawn(name: str, render: Callable[..., str]) -> Wrap:
    from topocheck.check import check

    return lambda capture, folder: _written(folder / name, render(check(str(capture)).topology))


def _written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


KINDS: dict[str, Wrap] = {
    "capture": lambda capture, _folder: capture,
    "tar": lambda capture, folder: attachments.tar(capture, folder / "c.tgz"),
    "sosreport": attachments.sosreport,
    "bug report": lambda capture, folder: attachments.bug_report(capture, folder / "nvidia-bug-report.log.gz"),
    "NCCL XML": _drawn("topo.xml", attachments.nccl_xml),
    "NCCL log": _drawn("nccl.log", attachments.nccl_log),
    "hwloc XML": _drawn("hwloc.xml", attachments.hwloc_xml),
    "`lspci -vv`": _text("lspci_-D_-nn_-vv"),
    "`topo -m`": _text("nvidia-smi_topo_-m"),
}


def table() -> str:
    """A row a rule: yes, part, or - where the kind cannot decide it; rules that no kind decides are left to `gaps`."""
    from topocheck.rules import ALL

    answers = {kind: _answers(wrap) for kind, wrap in KINDS.items()}
    rows = [f"| rule | {' | '.join(KINDS)} |", "|---" * (len(KINDS) + 1) + "|"]
    for rule in ALL:
        words = [answers[kind][rule.ID] for kind in KINDS]
        rows.append(f"| [{rule.ID}](rules.md#{rule.ID.lower()}-{rule.NAME}) | {' | '.join(words)} |")
    return "\n".join(rows) + "\n"


def reasons() -> str:
    """What the report says of the rules that even a whole capture of this node cannot decide."""
    from topocheck.check import check

    report = check(str(nodes.healthy(NODE))).report
    said = {skip.rule: skip.reason for skip in report.skipped if not skip.partial}
    return "".join(f"- {rule}: {reason}\n" for rule, reason in said.items())


def _answers(wrap: Wrap) -> dict[str, str]:
    from topocheck.check import check
    from topocheck.rules import ALL

    with tempfile.TemporaryDirectory() as folder:
        report = check(str(wrap(nodes.healthy(NODE), Path(folder)))).report
    silent = {rule for rule, _ in report.not_applicable} | {s.rule for s in report.skipped if not s.partial}
    part = {s.rule for s in report.skipped if s.partial}
    return {rule.ID: "-" if rule.ID in silent else "part" if rule.ID in part else "yes" for rule in ALL}
