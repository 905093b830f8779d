"""One line for Nagios and Icinga: `TOPOCHECK CRITICAL - PCI001 gpu3 x8 of x16 -45% | errors=1;;1 warnings=0;1 …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topocheck.report import Report

STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")  # by exit code


def render(report: Report, code: int) -> str:
    """The line of a report whose exit code is `code`."""
    from topocheck.formats.line import render as line

    counting = [f for f in report.findings if not f.waived]
    losses = [f.price.loss for f in counting if f.price and f.price.confidence == "computed" and f.price.loss]
    count = [sum(f.severity == severity for f in counting) for severity in ("error", "warning")]
    return status_line(code, line(report).strip(), count[0], count[1], max(losses, default=0.0))


def status_line(code: int, words: str, errors: int, warnings: int, worst_loss: float) -> str:
    """The state, why, and the figures that a monitor draws."""
    state = STATES[code] if code < len(STATES) else STATES[-1]
    figures = f"errors={errors};;1 warnings={warnings};1 worst_loss={worst_loss * 100:.0f}%"
    return f"TOPOCHECK {state} - {words.replace('|', '/')} | {figures}\n"
