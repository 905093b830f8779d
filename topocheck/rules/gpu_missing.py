"""
A GPU is gone: the driver calls it lost, or its config space reads all ones.

Why it costs: a job that was promised the GPU fails or hangs; collectives of the others wait for it.

Usual cause: the GPU fell off the bus (Xid 79), a power or cable fault, a failed reset.

Repair: drain the node, reset the GPU or power-cycle; if it comes back lost, replace it.

Silent when: only fewer GPUs are in nvidia-smi than in lspci without such a sign (a container or a device cgroup was
given a part: info); vfio-bound, display and NVSwitch functions; a tool that timed out is a gap.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.facts import Evidence, GpuState, PciFunction
from topocheck.finding import Answer, Finding, NotApplicable
from topocheck.graph import Topology
from topocheck.hardware.pci_ids import is_gpu

ID = "GPU001"
NAME = "gpu-missing"


def check(node: Topology) -> Iterator[Answer]:
    """Positive signs of loss; a bare difference in number is a note."""
    on_bus = [f for f in node.functions.values() if is_gpu(f)]
    if not node.gpus and not on_bus and not node.lost_gpus:
        yield NotApplicable("no GPU in the input")
        return
    named: set[str] = set()
    for state in node.lost_gpus:
        named.add(state.bdf or "")
        yield _lost(node, state)
    for function in on_bus:
        if function.dead and function.bdf not in named:
            named.add(function.bdf)
            yield _dead(node, function)
    yield from _fewer(node, [f for f in on_bus if f.bdf not in named])


def _id_of(node: Topology, bdf: str | None) -> str | None:
    return node.by_id[bdf].id if bdf and bdf in node.by_id else bdf


def _lost(node: Topology, state: GpuState) -> Finding:
    subject = _id_of(node, state.bdf) or (f"gpu{state.index}" if state.index is not None else "gpu")
    line = state.lines.get("lost") or next(iter(state.lines.values()), None)
    return _finding(subject, f"the driver calls it lost: {state.lost}", (line,) if line else ())


def _dead(node: Topology, function: PciFunction) -> Finding:
    subject = _id_of(node, function.bdf) or function.bdf
    line = function.lines.get("header")
    return _finding(subject, "its config space reads all ones (rev ff)", (line,) if line else ())


def _finding(subject: str, what: str, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        rule=ID,
        name=NAME,
        severity="error",
        subjects=(subject,),
        message=f"{subject} is gone: {what}; a job on it fails",
        repair="Drain the node and reset the GPU or power-cycle; if it is lost again, replace it",
        evidence=evidence,
        effect="stops",
        covers=frozenset({subject}),
    )


def _fewer(node: Topology, on_bus: list[PciFunction]) -> Iterator[Answer]:
    """More on the bus than nvidia-smi lists: a part was given to this container or VM."""
    listed = [g for g in node.gpus if g.gpu is not None]
    free = [f for f in on_bus if f.driver is None or not f.driver.startswith("vfio")]
    if not node.whole_pci or not listed or len(free) <= len(listed):
        return
    tied = {g.bdf for g in listed}
    extra = next((f for f in free if f.bdf not in tied), free[-1])
    line = extra.lines.get("header")
    yield Finding(
        rule=ID,
        name=NAME,
        severity="info",
        subjects=(),
        message=f"nvidia-smi lists {len(listed)} of the {len(free)} GPUs on the bus, none is called lost: "
        f"a container or VM that was given a part looks so",
        repair="None if a part was given; else run nvidia-smi and lspci -vv on the host",
        evidence=(line,) if line else (),
        confidence="low",
        effect="none",
    )
