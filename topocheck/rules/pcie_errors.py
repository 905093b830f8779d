"""
PCIe errors on the path of a GPU or NIC.

Why it costs: every corrected error is a packet sent again; uncorrected ones end transfers or take the device away.

Usual cause: a dirty or half-seated connector, a long cable or riser without retimer, a failing card or switch port.

Repair: reseat card, riser and cables of the link that counts; if it goes on, swap them one at a time.

Silent when: the device is neither a GPU nor a NIC nor on their path; the kernel's "limited by" lines (PCI001 to PCI003
speak of those). Error bits that stay set until cleared, and totals without a time, are info: they may date from boot. A
rate needs two readings or times in the log: more than 8 corrected errors a minute, or replays of a GPU between two
listings of nvidia-smi -q, are a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from topocheck.facts import Evidence, LogEvent, PciFunction
from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip
from topocheck.graph import Topology
from topocheck.judging import judged_links, judged_nics
from topocheck.pcie_counts import flood, latched, replays

ID = "PCI007"
NAME = "pcie-errors"
_MOST_KEPT = 20  # of one device the probe keeps the last lines only
_CORRECTED = re.compile(r"(?<!Un)(?<!un)correct", re.IGNORECASE)
_DRIVER = re.compile(r"\b(?:nvidia|mlx[45]_core) [0-9a-f]{4,8}:")
_TOTALS = {"aer_dev_nonfatal": "non-fatal", "aer_dev_fatal": "fatal"}


def check(node: Topology) -> Iterator[Answer]:
    """Log lines, totals and latched bits of every function on a judged path."""
    ends = _owners(node)
    if not ends:
        yield Skip("no PCIe path in the input") if node.devices else NotApplicable("no GPU or compute NIC")
        return
    functions = [f for bdf, f in node.functions.items() if bdf in ends]
    if not any(f.aer for f in functions):
        counted = any(g.gpu and g.gpu.pcie_replays is not None for g in node.gpus)
        yield Skip("no AER registers or counters in the input", partial=counted or bool(node.events))
    for bdf, subject in ends.items():
        events = [e for e in node.events if e.kind == "aer" and e.bdf == bdf]
        if events:
            yield _logged(subject, events)
    for f in functions:
        if totals := [(name, count) for name, count in f.aer if name in _TOTALS and count.strip("0")]:
            said = " and ".join(f"{count} {_TOTALS[name]}" for name, count in totals)
            yield _info(f, ends[f.bdf], f"has counted {said} PCIe errors at some time since boot")
    yield from _replayed(node)
    if with_bits := [f for f in functions if latched(f)]:
        yield _told(with_bits, ends)


def _owners(node: Topology) -> dict[str, str]:
    """Each end of a judged link, each GPU and NIC, and what the log alone calls one by its driver; and whom to name."""
    ends: dict[str, str] = {}
    for judged in judged_links(node):
        for bdf in (judged.link.b, judged.link.a):
            if bdf:
                ends.setdefault(bdf, judged.subject if bdf == judged.link.b else bdf)
    for device in (*node.gpus, *judged_nics(node)):
        if device.bdf and not device.is_vf:
            ends.setdefault(device.bdf, device.id)
    for event in node.events:
        if event.kind == "aer" and event.bdf and event.bdf not in node.functions and _DRIVER.search(event.line.text):
            ends.setdefault(event.bdf, event.bdf)
    return ends


def _logged(subject: str, events: list[LogEvent]) -> Finding:
    """A warning for uncorrected errors and for floods of corrected ones, else an info."""
    corrected = [e for e in events if _CORRECTED.search(e.line.text)]
    fatal = len(events) - len(corrected)
    severity: Severity = "warning" if fatal or flood(corrected) else "info"
    count = fatal or len(corrected)
    kind = f"{count}{' or more' if count >= _MOST_KEPT else ''} {'un' if fatal else ''}corrected"
    shown = next((e for e in events if e not in corrected), events[-1])
    return _finding(severity, (subject,), f"{subject} has {kind} PCIe errors in the kernel log", (shown.line,))


def _replayed(node: Topology) -> Iterator[Finding]:
    """GPUs whose replays rose fast between two readings, unless all do; of one reading a note."""
    counted = {g.id: found for g in node.gpus if (found := replays(g))}
    flooded = [gpu for gpu, found in counted.items() if found.flood]
    alike = len(flooded) == len(node.gpus) > 1
    for gpu, found in counted.items():
        when = f"in {found.minutes:.0f} minutes" if found.minutes else "at some time since its reset"
        severity: Severity = "warning" if found.flood and not alike else "info"
        yield _finding(severity, (gpu,), f"{gpu} has counted {found.total} PCIe replays {when}", found.evidence)


def _info(f: PciFunction, subject: str, said: str) -> Finding:
    lines = tuple(Evidence(f"/sys/bus/pci/devices/{f.bdf}/{n}", None, f"total {c}") for n, c in f.aer if n in _TOTALS)
    return _finding("info", (subject,), f"{subject} {said}", lines)


def _told(functions: list[PciFunction], ends: dict[str, str]) -> Finding:
    bits = sorted(set().union(*(latched(f) for f in functions)))
    subjects = tuple(dict.fromkeys(ends[f.bdf] for f in functions))
    line = next((x for f in functions for key in ("CESta", "UESta") if (x := f.lines.get(key))), None)
    many = f"{len(functions)} PCIe functions on GPU and NIC paths have" if len(functions) > 1 else f"{subjects[0]} has"
    said = f"{many} error bits set that nobody cleared ({', '.join(bits)}): no count, no time"
    return _finding("info", subjects, said, (line,) if line else ())


def _finding(severity: Severity, subjects: tuple[str, ...], said: str, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=subjects,
        message=said,
        repair="Reseat card, riser and cables of that link; if errors go on, swap them one at a time",
        evidence=evidence,
        effect="risks",
    )
