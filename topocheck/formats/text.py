"""The screen: verdict first, findings worst first with the line that proves each, then the node as one table.

Nothing scrolls on an 8-GPU node; `verbose` adds all that was left out (`text_more`).
"""

from __future__ import annotations

from collections import Counter

from topocheck.formats.headline import ROLES, counts_of, is_blind, origin, parts_of, settings_of
from topocheck.formats.screen import SEPARATOR, VERDICT_STYLES, Screen, counted
from topocheck.formats.text_findings import findings_in_full, findings_in_short
from topocheck.formats.text_more import more
from topocheck.formats.text_table import UNKNOWN, gpu_table, ports_words
from topocheck.report import Device, Report


def render(report: Report, *, verbose: bool, width: int, color: bool, ascii: bool) -> str:  # noqa: A002
    """The report as a page of `width` columns; pure ASCII where the terminal has no more."""
    screen = Screen(width=width, color=color, ascii=ascii)
    _header(screen, report)
    _verdict(screen, report)
    _settings(screen, report)
    (findings_in_full if verbose else findings_in_short)(screen, report)
    if report.devices:
        screen.blank()
    gpu_table(screen, report)
    _other_nics(screen, report)
    if verbose:
        more(screen, report)
    elif reasons := _reasons(report):
        unseen = [reason.removeprefix("no ").removesuffix(" in the input") for reason in reasons]
        screen.listed(" not seen: ", unseen, most=2)
    return screen.text()


def _header(screen: Screen, report: Report) -> None:
    left, right = SEPARATOR.join(parts_of(report)), f"{_tail(origin(report), 40)} {report.time[:10]}"
    if screen.cells(left) + screen.cells(right) + 3 <= screen.width:
        screen.line((left, "bold"), "   ", right)
    else:
        screen.wrapped("", (left, "bold"))
        screen.line(right)


def _verdict(screen: Screen, report: Report) -> None:
    """The word, what was found, and how many rules that rests on."""
    ran, skipped, not_applicable = report.coverage
    found = counts_of(report)
    rules = f"{counted(ran, 'rule')} ran, {not_applicable} not applicable, {skipped} skipped (-v)"
    if is_blind(report):
        word, style, said = "NO FAULT SEEN ", "bold", [_seen_by(report), found]
    elif report.verdict == "unknown":
        word, style, said = "UNKNOWN  ", VERDICT_STYLES["unknown"], [report.verdict_reason, found, rules]
    else:
        word, style, said = f"{report.verdict.upper()}  ", VERDICT_STYLES[report.verdict], [found, rules]
    screen.wrapped((word, style), "   ".join(part for part in said if part))


def _seen_by(report: Report) -> str:
    """What a clean answer rests on where most rules could not look."""
    ran, skipped, _ = report.coverage
    why = next((f": {reason}" for reason in _reasons(report)), "")
    return f"by the {counted(ran, 'rule')} that could run; {skipped} skipped{why} (-v)"


def _settings(screen: Screen, report: Report) -> None:
    known = settings_of(report)
    if known:
        screen.wrapped("", "  ".join(known), most=2)


def _other_nics(screen: Screen, report: Report) -> None:
    """NICs that stand in no row of the table, a line a role."""
    in_table = {nic.id for row in report.rows for nic in row.nics}
    rest = [d for d in report.devices if d.kind == "nic" and d.id not in in_table]
    for role in ROLES:
        nics = [_nic_and_port(nic) for nic in rest if (nic.role or "unknown") == role]
        if nics:
            title = "other NICs" if role == "unknown" else role
            screen.listed(f" {title}  ", nics, most=2 if report.rows else 8)


def _nic_and_port(nic: Device) -> str:
    ports = ports_words((nic,))
    return nic.id if ports == UNKNOWN else f"{nic.id} {ports}"


def _reasons(report: Report) -> list[str]:
    """Why rules could not look, what stopped most of them first; else what could not be read."""
    reasons = Counter(skip.reason for skip in report.skipped if not skip.partial)
    if reasons:
        return [reason for reason, _ in reasons.most_common()]
    inputs: dict[str, list[str]] = {}
    for gap in dict.fromkeys(report.gaps):
        inputs.setdefault(gap.reason, []).append(gap.input)
    return [f"{who[0]}{f' and {len(who) - 1} more' * (len(who) > 1)}: {why}" for why, who in inputs.items()]


def _tail(name: str, most: int) -> str:
    """The end of a long path, which is what tells captures apart."""
    return name if len(name) <= most else "…" + name[-(most - 1) :]
