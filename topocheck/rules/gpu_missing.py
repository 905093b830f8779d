"""
A GPU is gone: the driver calls it lost, its config space reads all ones, or it was on the bus in the baseline.

Why it costs: a job that was promised the GPU fails or hangs; collectives of the others wait for it.

Usual cause: the GPU fell off the bus (Xid 79), a power or cable fault, a failed reset.

Repair: drain the node, reset the GPU or power-cycle; if it comes back lost, replace it.

Silent when: only fewer GPUs are in nvidia-smi than in lspci without such a sign (a container or a device cgroup was
given a part: info); vfio-bound, display and NVSwitch functions; a tool that timed out is a gap. A laptop's GPU that
reads all ones is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from topocheck.as_built import gpus_short
from topocheck.facts import Evidence, GpuState, PciFunction
from topocheck.finding import Answer, Finding, NotApplicable, Skip
from topocheck.graph import Topology
from topocheck.hardware.pci_ids import is_gpu, is_laptop_gpu
from topocheck.hardware.platforms import Platform
from topocheck.missing import Gone, gone_gpus

ID = "GPU001"
NAME = "gpu-missing"
_PART_GIVEN = ": a container or VM that was given a part looks so"


def check(node: Topology) -> Iterator[Answer]:
    """Positive signs of loss; a bare difference in number is a note."""
    on_bus = [f for f in node.functions.values() if is_gpu(f)]
    if not node.gpus and not on_bus and not node.lost_gpus and not gone_gpus(node):
        yield NotApplicable("no GPU in the input")
        return
    if not on_bus and not node.lost_gpus and not gone_gpus(node) and not any(g.bdf for g in node.gpus):
        yield Skip("no PCI listing and no nvidia-smi -q: nothing here could call a GPU lost")
        return
    dead = {f.bdf: f for f in on_bus if f.dead}
    lost = {_subject(node, state): state for state in node.lost_gpus}
    for subject, state in lost.items():
        yield _finding(subject, f"the driver calls it lost ({state.lost})", state, dead.pop(state.bdf or "", None))
    for bdf, function in dead.items():
        subject = node.by_id[bdf].id if bdf in node.by_id else bdf
        found = _finding(subject, "its config space reads all ones (rev ff)", None, function)
        yield _perhaps_off(found, subject) if is_laptop_gpu(function) else found
    gone = {s.bdf for s in lost.values()} | {f.bdf for f in on_bus if f.dead}
    if missing := gone_gpus(node):
        yield _gone_finding(node, missing)
    elif (fewer := gpus_short(node)) and node.platform:
        yield _short_finding(node, fewer, node.platform)
    yield from _fewer(node, [f for f in on_bus if f.bdf not in gone])


def _subject(node: Topology, state: GpuState) -> str:
    if state.bdf and state.bdf in node.by_id:
        return node.by_id[state.bdf].id
    return state.bdf or (f"gpu{state.index}" if state.index is not None else "gpu")


def _finding(subject: str, what: str, state: GpuState | None, function: PciFunction | None) -> Finding:
    line = (state.lines.get("lost") or next(iter(state.lines.values()), None)) if state else None
    header = function.lines.get("header") if function else None
    found = _absent((subject,), f"{subject} is gone: {what}; a job on it fails", line, header)
    return replace(found, repair="Drain the node and reset the GPU or power-cycle; if it is lost again, replace it")


def _perhaps_off(found: Finding, subject: str) -> Finding:
    said = f"{subject} does not answer (rev ff): a laptop powers its GPU off so while nothing uses it, or it is gone"
    return replace(found, severity="warning", message=said, repair="Run nvidia-smi, then lspci again", effect="risks")


def _gone_finding(node: Topology, gone: Gone) -> Finding:
    of = node.expected.before(f"{gone.before} GPUs")
    message = f"{gone.words('GPUs')}: gone, not on the bus{of}; a job that needs them fails"
    return replace(_absent(gone.subjects, message, *gone.evidence), expected_from="baseline")


def _short_finding(node: Topology, fewer: int, platform: Platform) -> Finding:
    part_given = bool(node.machine.virtual or node.machine.container)
    count = f"{platform.gpus - fewer} GPUs are on the bus, {platform.name} has {platform.gpus}"
    message = count + (_PART_GIVEN if part_given else "; a job that needs them fails")
    found = replace(_absent((), message, node.machine.lines.get("product")), expected_from="platform")
    return replace(found, severity="info", effect="none") if part_given else found


def _absent(subjects: tuple[str, ...], message: str, *lines: Evidence | None) -> Finding:
    return Finding(
        rule=ID,
        name=NAME,
        severity="error",
        subjects=subjects,
        message=message,
        repair="Look into the kernel log for the slot (link down, power); power-cycle; if it stays away, replace it",
        evidence=tuple(line for line in lines if line),
        effect="stops",
        covers=frozenset(subjects),
    )


def _fewer(node: Topology, on_bus: list[PciFunction]) -> Iterator[Answer]:
    """More on the bus than nvidia-smi lists: a part was given to this container or VM."""
    listed = [g for g in node.gpus if g.gpu is not None]
    free = [f for f in on_bus if f.driver is None or not f.driver.startswith("vfio")]
    if not node.whole_pci or not listed or len(free) <= len(listed):
        return
    tied = {g.bdf for g in listed}
    extra = next(f for f in free if f.bdf not in tied)
    message = f"nvidia-smi lists {len(listed)} of the {len(free)} GPUs on the bus, none is called lost{_PART_GIVEN}"
    yield replace(
        _absent((), message, extra.lines.get("header")),
        severity="info",
        repair="None if a part was given; else run nvidia-smi and lspci -vv on the host",
        confidence="low",
        effect="none",
    )
