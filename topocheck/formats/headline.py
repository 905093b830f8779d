"""What stands at the head of every page: the machine in a line, how many findings, versions."""

from __future__ import annotations

from collections import Counter

from topocheck.formats.screen import counted
from topocheck.report import Device, Report

ROLES = ("compute", "storage", "management", "unknown")
_NOUNS = {"error": "error", "warning": "warning", "info": "note"}


def parts_of(report: Report) -> list[str]:
    """Platform or model, GPUs, NICs by role, sockets."""
    gpus = [d for d in report.devices if d.kind == "gpu"]
    nics = [d for d in report.devices if d.kind == "nic"]
    name = report.platform or _models(gpus)
    return [
        *([name] if name else []),
        counted(len(gpus), "GPU") if gpus else "no GPU",
        _nic_counts(nics) if nics else "no NIC",
        *([counted(report.sockets, "socket")] if report.sockets else []),
    ]


def origin(report: Report) -> str:
    """The host of a live run, else what was read."""
    return (report.host or "live") if report.source.kind == "live" else report.source.name


def counts_of(report: Report) -> str:
    """ "1 error, 2 notes, 1 waived"."""
    counts = Counter("waived" if f.waived else f.severity for f in report.findings)
    words = [counted(counts[kind], noun) for kind, noun in _NOUNS.items() if counts[kind]]
    return ", ".join([*words, *([f"{counts['waived']} waived"] if counts["waived"] else [])])


def is_blind(report: Report) -> bool:
    """Whether a clean answer rests on fewer than half of the rules that apply."""
    ran, skipped, _ = report.coverage
    return report.verdict == "healthy" and 2 * ran < ran + skipped


def verdict_word(report: Report) -> str:
    """The verdict in capitals; healthy only where enough was seen."""
    return "NO FAULT SEEN" if is_blind(report) else report.verdict.upper()


def settings_of(report: Report) -> list[str]:
    """Versions and settings of the node as one word each."""
    states = [d.gpu.fabric_state for d in report.devices if d.gpu and d.gpu.fabric_state not in (None, "N/A")]
    return [
        *([f"driver {report.driver}"] if report.driver else []),
        *([f"kernel {report.kernel}"] if report.kernel else []),
        *([f"fabric {states.count('Completed')}/{len(states)}"] if states else []),
        *report.settings,
        *(["virtual machine"] if report.virtual else []),
    ]


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
    words = [f"{roles[role]} {'other' if role == 'unknown' else role}" for role in ROLES if roles[role]]
    return " + ".join(words) + (" NIC" if len(nics) == 1 else " NICs")
