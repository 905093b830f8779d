"""
A GPU has fewer NVLinks up than its part has and its equals use.

Why it costs: at least the missing share of its NVLink bandwidth, in every collective of the node; with none left it
falls to PCIe, a tenth.

Usual cause: a link that failed training (Xid 74), a bad baseboard contact or bridge, the fabric manager took it down.

Repair: reset the GPUs and NVSwitches (or reboot); if the same link stays down, replace the GPU, baseboard or bridge.

Silent when: the part or bridge has no more links (12 of 18 on H100 NVL, cards without a bridge); the GPU is in MIG
mode; a VM or partition was given none; a posted list of links ends early (skipped).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from topocheck.facts import Evidence
from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip, enough, equals_of
from topocheck.graph import Device, Topology
from topocheck.model import Scenario
from topocheck.nvlink import Short, ends_early, full_mesh, in_mig_mode, loss_range, short_gpus, unlisted_links
from topocheck.patches import SetNvlinks

ID = "NVL001"
NAME = "nvlink-down"


def check(node: Topology) -> Iterator[Answer]:
    """Links up, by nvidia-smi nvlink; where it was not asked, GPUs that are short in the matrix with all others."""
    if not node.gpus or not any(_may_have(g) for g in node.gpus):
        yield NotApplicable("no GPU with NVLink in the input")
        return
    listed = {g.id: g.nvlinks_active for g in node.gpus if g.nvlinks_active is not None}
    if mig := in_mig_mode(node):
        yield Skip(mig, partial=not all(g.mig for g in node.gpus))
    if not listed and not full_mesh(node):
        if not mig:
            yield Skip("no nvidia-smi nvlink -s and no NVLink mesh in the matrix")
        return
    found: set[str] = set()
    cut: list[str] = []
    for gpu in node.gpus:
        finding = _by_count(node, gpu, listed) if gpu.id in listed and not gpu.mig else None
        if finding is not None and ends_early(gpu):
            cut.append(f"{listed[gpu.id]} of {gpu.id}")
        elif finding is not None:
            found.add(gpu.id)
            yield finding
    if cut:
        yield Skip(f"the list of links ends early: read were {', '.join(cut)}", partial=True)
    for short in short_gpus(node):
        if short.gpu.id not in found and not short.gpu.mig:
            yield _finding(node, short.gpu, short.links, short.full, short.evidence, _by_matrix_severity(short))


def _may_have(gpu: Device) -> bool:
    return gpu.part is None or bool(gpu.part.nvlinks) or gpu.nvlinks_active is not None


def _by_count(node: Topology, gpu: Device, listed: Mapping[str, int]) -> Finding | None:
    active = listed[gpu.id]
    equals = [listed[e.id] for e in equals_of(node, gpu) if e.id in listed and not e.mig]
    on_board = gpu.part.nvlinks if gpu.part and gpu.part.board in ("nvswitch", "mesh") else 0
    by_platform = node.platform.nvlinks_per_gpu if node.platform else 0
    full = max(active, *equals, on_board, by_platform)
    better = sum(links > active for links in equals)
    active += unlisted_links(gpu, full)
    if active == full or (not on_board and (not enough(better, len(equals)) or active == 0)):
        return None
    if on_board and node.machine.virtual and not any((active, *equals)):
        return None
    error = on_board and (better or not equals or active < by_platform)
    return _finding(node, gpu, active, full, _evidence(gpu), "error" if error else "warning")


def _evidence(gpu: Device) -> Evidence | None:
    down = next((p.line for p in gpu.nvlinks or () if p.active is False and p.line), None)
    return down or gpu.nvlinks_none or next((p.line for p in gpu.nvlinks or () if p.line), None)


def _by_matrix_severity(short: Short) -> Severity:
    """All-zero from a matrix alone is a warning."""
    return "error" if short.links else "warning"


def _finding(node: Topology, gpu: Device, links: int, full: int, line: Evidence | None, severity: Severity) -> Finding:
    down = [p.link for p in gpu.nvlinks or () if p.active is False]
    numbers = ", ".join(map(str, down))
    which = f" (link{'s' if len(down) > 1 else ''} {numbers} inactive)" if down and len(down) <= 4 else ""
    most = "at most " if gpu.nvlinks and unlisted_links(gpu, full) else ""
    equals = equals_of(node, gpu)
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=(gpu.id,),
        message=f"{gpu.id} has {most}{links} of {full} NVLinks up{which}",
        repair="Reset GPUs and NVSwitches or reboot; if the link stays down, replace GPU, baseboard or bridge",
        evidence=(line,) if line else (),
        expected_from="equals" if equals else "both ends",
        patches=(SetNvlinks(gpu.id, full),),
        scenarios=(Scenario("nvlink", gpu.id),),
        price_kind="typical",
        loss_range=loss_range(gpu, links, full),
        covers=frozenset({gpu.id}),
    )
