"""What `-v` adds below the table: what could not be looked at and why, and what the figures rest on."""

from __future__ import annotations

from collections.abc import Iterable

from topocheck.formats.screen import Screen
from topocheck.report import Disagreement, Report


def more(screen: Screen, report: Report) -> None:
    """A titled list each, none where there is nothing to say."""
    for title, entries in sections(report):
        if entries:
            screen.blank()
            screen.line((f" {title}", "bold"))
        for entry in entries:
            screen.wrapped("   - ", entry)


def sections(report: Report) -> tuple[tuple[str, list[str]], ...]:
    """Every list with its title."""
    return (
        ("skipped", _by_reason((s.rule, f"{'in part: ' * s.partial}{s.reason}") for s in report.skipped)),
        ("not applicable", _by_reason(report.not_applicable)),
        ("not read", _by_reason(report.gaps)),
        ("witnesses differ", [f"{d.subject} {d.field}: {_values(d)}" for d in report.disagreements]),
        ("assumed", list(report.assumptions)),
        ("roles", _roles(report)),
        ("NCCL", list(report.nccl)),
        ("run", [_run(report)]),
    )


def _by_reason(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """`PCI001, PCI002: no link was read`: what shares a reason stands together, in the order given."""
    names: dict[str, dict[str, None]] = {}
    for name, reason in pairs:
        names.setdefault(reason, {})[name] = None
    return [f"{', '.join(who)}: {reason}" for reason, who in names.items()]


def _values(entry: Disagreement) -> str:
    said = ", ".join(f"{value} by {source}" for value, source in entry.values)
    return f"{said}; used: {entry.used}"


def _roles(report: Report) -> list[str]:
    """The NICs of each role, with the reason for it."""
    nics = (nic for nic in report.devices if nic.kind == "nic")
    return _by_reason(
        (nic.id, ", ".join(part for part in (nic.role or "unknown", nic.role_reason) if part)) for nic in nics
    )


def _run(report: Report) -> str:
    rights = {True: ", privileged", False: ", without root", None: ""}[report.privileged]
    source = f"{report.source.kind} {report.source.name}"
    return f"topocheck {report.version}, {source}, {report.duration_s:.1f} s{rights}: {report.verdict_reason}"
