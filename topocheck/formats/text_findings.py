"""Findings on the screen, worst first: what is wrong, the line that proves it, what to do."""

from __future__ import annotations

from topocheck.facts import Evidence
from topocheck.finding import Finding, Price
from topocheck.formats.screen import MARKS, STYLES, Screen, counted
from topocheck.report import Report

_GROUP_FROM = 3  # findings of one rule that share one entry
_FULL_ENTRIES = 4  # entries with evidence and repair; of what follows only the message
_NOTES = 6  # lines of info
_WAIVED_LINES = 2  # expiry and reason first
_MESSAGE_LINES, _EVIDENCE_LINES, _REPAIR_LINES = 4, 2, 3  # more is for -v


def findings_in_short(screen: Screen, report: Report) -> None:
    """Findings of one rule as one entry where there are many, info on a line each."""
    if report.findings:
        screen.blank()
    for place, like in enumerate(_grouped([f for f in report.findings if _counts(f)])):
        _entry(screen, like, full=place < _FULL_ENTRIES)
    notes = _grouped([f for f in report.findings if not _counts(f)])
    for like in notes[:_NOTES]:
        _note(screen, like)
    if len(notes) > _NOTES:
        screen.line(f"   and {counted(len(notes) - _NOTES, 'more note')} (-v)")
    _together(screen, report)


def findings_in_full(screen: Screen, report: Report) -> None:
    """Every finding with all its evidence, its price in detail, and what follows from it."""
    for finding in report.findings:
        screen.blank()
        indent = _message(screen, finding)
        for evidence in finding.evidence:
            screen.wrapped(indent, (evidence_words(evidence), "dim"))
        if finding.repair:
            screen.wrapped(f"{indent}repair: ", finding.repair)
        screen.wrapped(indent, standing_words(finding))
        if finding.price is not None:
            screen.wrapped(f"{indent}price: ", price_words(finding.price))
        if finding.follows:
            screen.wrapped(f"{indent}explains: ", ", ".join(finding.follows))
    if report.findings:
        _together(screen, report)


def _counts(finding: Finding) -> bool:
    return finding.severity != "info" and not finding.waived


def _grouped(findings: list[Finding]) -> list[list[Finding]]:
    """Findings of one rule and severity together where there are many of them; the order stays."""
    keys = [(f.rule, f.severity, f.waived and f.waiver) for f in findings]
    like: dict[object, list[Finding]] = {}
    for place, (key, finding) in enumerate(zip(keys, findings, strict=True)):
        like.setdefault(key if keys.count(key) >= _GROUP_FROM else place, []).append(finding)
    return list(like.values())


def _entry(screen: Screen, like: list[Finding], *, full: bool) -> None:
    """One finding, or the worst of its like and who else."""
    finding = like[0]
    indent = _message(screen, finding, most=_MESSAGE_LINES)
    if len(like) > 1:
        others = [" ".join(f.subjects) or f.message for f in like[1:]]
        screen.listed(f"{indent}and {len(others)} more: ", others, most=2)
    if full:
        for evidence in finding.evidence[:1]:
            screen.wrapped(indent, (evidence_words(evidence), "dim"), most=_EVIDENCE_LINES)
        if finding.repair:
            screen.wrapped(indent, finding.repair, most=_REPAIR_LINES)


def _message(screen: Screen, finding: Finding, *, most: int | None = None) -> str:
    """Mark, rule and message; the indent of what stands below."""
    head = f" {_mark(finding)} {finding.rule} "
    screen.wrapped((head, _style(finding)), finding.message, most=most)
    return " " * min(screen.cells(head), screen.width // 4)


def _note(screen: Screen, like: list[Finding]) -> None:
    finding = like[0]
    others = f"(and {len(like) - 1} more) " if len(like) > 1 else ""
    head = (f" {_mark(finding)} {finding.rule} ", _style(finding))
    if finding.waived:
        screen.wrapped(head, (f"{others}waived {finding.waiver or ''}; {finding.message}", "dim"), most=_WAIVED_LINES)
    else:
        screen.line(head, others, finding.message)


def _mark(finding: Finding) -> str:
    return "-" if finding.waived else MARKS[finding.severity]


def _style(finding: Finding) -> str:
    return "dim" if finding.waived else STYLES[finding.severity]


def standing_words(finding: Finding) -> str:
    """How sure it is, and by what it was judged."""
    parts = [finding.name, finding.severity, f"confidence {finding.confidence}"]
    if finding.expected_from:
        parts.append(f"expected from {finding.expected_from}")
    if finding.effect != "none":
        parts.append(f"effect: {finding.effect}")
    if finding.readings > 1:
        parts.append(f"{finding.readings} readings")
    return ", ".join([*parts, *([f"waived {finding.waiver or ''}".rstrip()] if finding.waived else [])])


def price_words(price: Price) -> str:
    """The price with its range, its slowest flow and its confidence; GB/s one direction."""
    parts = [f"{price.scenario}{_of(price)}"]
    if price.loss is not None:
        parts.append(f"loss {price.loss * 100:.1f} %")
    if price.range is not None:
        parts.append(f"typical loss {price.range[0] * 100:.0f}–{price.range[1] * 100:.0f} %")
    if price.worst_loss is not None and price.worst_loss > (price.loss or 0.0) + 0.0005:
        parts.append(f"at most {price.worst_loss * 100:.1f} % in another scenario")
    if price.slowest:
        parts.append(price.slowest)
    return ", ".join([*parts, price.confidence])


def _of(price: Price) -> str:
    if price.repaired_gb_per_s is None:
        return ""
    found = "" if price.found_gb_per_s is None else f" {price.found_gb_per_s:.1f}"
    return f"{found} of {price.repaired_gb_per_s:.1f} GB/s"


def _together(screen: Screen, report: Report) -> None:
    if words := together_words(report):
        screen.wrapped("   all repaired: ", words)


def together_words(report: Report) -> str:
    """All repairs at once, since losses do not add; nothing where there is one finding."""
    price = report.together
    if price is None or not price.loss or sum(f.price is not None for f in report.findings) < 2:
        return ""
    return f"{price.scenario}{_of(price)} (−{price.loss * 100:.0f} %)"


def evidence_words(evidence: Evidence) -> str:
    """`lspci -vv:2143  LnkSta: …`."""
    place = evidence.input if evidence.line is None else f"{evidence.input}:{evidence.line}"
    return f"{place}  {' '.join(evidence.text.split())}"
