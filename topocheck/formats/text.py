"""The screen: verdict first, findings worst first with the line that proves each, then the node as one table.

Nothing scrolls on an 8-GPU node; `verbose` adds all that was left out (`text_more`).
"""

from __future__ import annotations

from collections import Counter

from topocheck.formats.screen import SEPARATOR, Screen, counted
from topocheck.formats.text_findings import findings_in_full, findings_in_short
from topocheck.formats.text_more import more
from topocheck.formats.text_table import UNKNOWN, gpu_table, ports_words
from topocheck.report import Device, Report

_ROLES = ("compute", "storage", "management", "unknown")
_STYLES = {"failed": "bold red", "degraded": "bold yellow", "unknown": "bold magenta", "healthy": "bold green"}


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
    gpus = [d for d in report.devices if d.kind == "gpu"]
    nics = [d for d in report.devices if d.kind == "nic"]
    name = report.platform or _models(gpus)
    parts = [
        *([name] if name else []),
        counted(len(gpus), "GPU") if gpus else "no GPU",
        _nic_counts(nics) if nics else "no NIC",
        *([counted(report.sockets, "socket")] if report.sockets else []),
    ]
    origin = (report.host or "live") if report.source.kind == "live" else report.source.name
    left, right = SEPARATOR.join(parts), f"{_tail(origin, 40)} {report.time[:10]}"
    if screen.cells(left) + screen.cells(right) + 3 <= screen.width:
        screen.line((left, "bold"), "   ", right)
    else:
        screen.wrapped("", (left, "bold"))
        screen.line(right)


def _models(gpus: list[Device]) -> str:
    """What most GPUs are called, and how many other models there are."""
    models = Counter(gpu.model for gpu in gpus if gpu.model)
    if not models:
        return ""
    common = models.most_common(1)[0][0].removeprefix("NVIDIA ").removeprefix("Corporation ")
    if common.endswith("]"):
        common = common.split("[")[-1].rstrip("]")  # lspci: "NVIDIA Corporation GH100 [H100 SXM5 80GB]"
    return common if len(models) == 1 else f"{common} and {counted(len(models) - 1, 'other model')}"


def _nic_counts(nics: list[Device]) -> str:
    roles = Counter(nic.role or "unknown" for nic in nics)
    if set(roles) == {"unknown"}:
        return counted(len(nics), "NIC")
    words = [f"{roles[role]} {'other' if role == 'unknown' else role}" for role in _ROLES if roles[role]]
    return " + ".join(words) + (" NIC" if len(nics) == 1 else " NICs")


def _verdict(screen: Screen, report: Report) -> None:
    """The word, what was found, and how many rules that rests on."""
    ran, skipped, not_applicable = report.coverage
    blind = report.verdict == "healthy" and 2 * ran < ran + skipped
    counts = Counter("waived" if f.waived else f.severity for f in report.findings)
    words = [counted(counts[kind], noun) for kind, noun in _NOUNS.items() if counts[kind]]
    found = ", ".join([*words, *([f"{counts['waived']} waived"] if counts["waived"] else [])])
    rules = f"{counted(ran, 'rule')} ran, {not_applicable} not applicable, {skipped} skipped (-v)"
    if blind:
        word, style, said = "NO FAULT SEEN ", "bold", [_seen_by(report), found]
    elif report.verdict == "unknown":
        word, style, said = "UNKNOWN  ", _STYLES["unknown"], [report.verdict_reason, found, rules]
    else:
        word, style, said = f"{report.verdict.upper()}  ", _STYLES[report.verdict], [found, rules]
    screen.wrapped((word, style), "   ".join(part for part in said if part))


_NOUNS = {"error": "error", "warning": "warning", "info": "note"}


def _seen_by(report: Report) -> str:
    """What a clean answer rests on where most rules could not look."""
    ran, skipped, _ = report.coverage
    why = next((f": {reason}" for reason in _reasons(report)), "")
    return f"by the {counted(ran, 'rule')} that could run; {skipped} skipped{why} (-v)"


def _settings(screen: Screen, report: Report) -> None:
    states = [d.gpu.fabric_state for d in report.devices if d.gpu and d.gpu.fabric_state not in (None, "N/A")]
    known = [
        *([f"driver {report.driver}"] if report.driver else []),
        *([f"kernel {report.kernel}"] if report.kernel else []),
        *([f"fabric {states.count('Completed')}/{len(states)}"] if states else []),
        *report.settings,
        *(["virtual machine"] if report.virtual else []),
    ]
    if known:
        screen.wrapped("", "  ".join(known), most=2)


def _other_nics(screen: Screen, report: Report) -> None:
    """NICs that stand in no row of the table, a line a role."""
    in_table = {nic.id for row in report.rows for nic in row.nics}
    rest = [d for d in report.devices if d.kind == "nic" and d.id not in in_table]
    for role in _ROLES:
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
