"""What `-v` adds below the table: what could not be looked at and why, and what the figures rest on."""

from __future__ import annotations

from topocheck.formats.screen import Screen
from topocheck.report import Disagreement, Report


def more(screen: Screen, report: Report) -> None:
    """A titled list each, none where there is nothing to say."""
    sections: tuple[tuple[str, list[tuple[str, str]]], ...] = (
        ("skipped", [(s.rule, f"{'(in part) ' if s.partial else ''}{s.reason}") for s in report.skipped]),
        ("not applicable", list(report.not_applicable)),
        ("not read", [(gap.input, gap.reason) for gap in dict.fromkeys(report.gaps)]),
        ("witnesses differ", [(f"{d.subject} {d.field}", _values(d)) for d in report.disagreements]),
        ("assumed", [("", assumption) for assumption in report.assumptions]),
        ("roles", _roles(report)),
        ("run", [("", _run(report))]),
    )
    for title, entries in sections:
        if entries:
            screen.blank()
            screen.line((f" {title}", "bold"))
            _listed(screen, entries)


def _listed(screen: Screen, entries: list[tuple[str, str]]) -> None:
    column = min(max(screen.cells(head) for head, _ in entries), screen.width // 3)
    for head, words in entries:
        gap = " " * (column - screen.cells(head) + 2) if head else ""
        screen.wrapped(f"   {head}{gap or '  ' * bool(head)}", words)


def _values(entry: Disagreement) -> str:
    said = ", ".join(f"{value} by {source}" for value, source in entry.values)
    return f"{said}; used: {entry.used}"


def _roles(report: Report) -> list[tuple[str, str]]:
    """Each role with its reason, and the NICs that have it for that reason."""
    nics: dict[tuple[str, str], list[str]] = {}
    for nic in report.devices:
        if nic.kind == "nic":
            why = ", ".join(part for part in (nic.role_from and f"by {nic.role_from}", nic.role_reason) if part)
            nics.setdefault((nic.role or "unknown", why), []).append(nic.id)
    return [(role, f"{' '.join(ids)}{f' ({why})' if why else ''}") for (role, why), ids in nics.items()]


def _run(report: Report) -> str:
    rights = {True: ", privileged", False: ", without root", None: ""}[report.privileged]
    source = f"{report.source.kind} {report.source.name}"
    return f"topocheck {report.version}, {source}, {report.duration_s:.1f} s{rights}: {report.verdict_reason}"
