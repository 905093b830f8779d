"""
The hardware holds a GPU's clocks down: too hot, or the power brake is pulled.

Why it costs: hardware slowdown halves the clocks or worse, and the other GPUs of a collective wait. How much of a job
that is depends on the job.

Usual cause: a failed fan or a blocked air path, a cold plate or pump, a power supply that asserts the brake.

Repair: look at temperatures, fans and power supplies (BMC log); if only this GPU is hot, reseat or replace it.

Silent when: the reason is the software power cap, idleness, application clocks or sync boost; all equals are held back
too, or only one reading shows it: info. A second reading is another listing of nvidia-smi -q, or NVML's own word. "HW
Slowdown" without a cause is info: the driver also reports it while clocks change. Never an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.finding import Answer, Finding, NotApplicable, Skip, enough, equals_of
from topocheck.graph import Device, Topology

ID = "GPU006"
NAME = "gpu-held-back"
_CAUSES = ("HW Thermal Slowdown", "HW Power Brake Slowdown")


def check(node: Topology) -> Iterator[Answer]:
    """The hardware's reasons among the clocks' event reasons."""
    if not node.gpus:
        yield NotApplicable("no GPU in the input")
        return
    read = [g for g in node.gpus if _reasons(g) is not None]
    if len(read) < len(node.gpus):
        yield Skip(f"clocks' event reasons read of {len(read)} of {len(node.gpus)} GPUs", partial=bool(read))
    for gpu in read:
        if _reasons(gpu):
            yield _finding(node, gpu)


def _reasons(gpu: Device) -> frozenset[str] | None:
    return gpu.gpu.slowdowns if gpu.gpu else None


def _finding(node: Topology, gpu: Device) -> Finding:
    equals = equals_of(node, gpu)
    told = [state.slowdowns for state in gpu.readings if state.slowdowns is not None]
    reasons = frozenset[str]().union(*told)
    free = sum(_reasons(e) == frozenset() for e in equals)
    causes = [c for c in _CAUSES if c in reasons]
    named = causes or sorted(reasons)
    times = sum(bool(reasons_then & set(named)) for reasons_then in told)
    peers = f", {free} of {len(equals)} equals are not" if free else ""
    said = f"is held back by {' and '.join(named)} in {times} of {len(told)} readings{peers}"
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning" if causes and times > 1 and enough(free, len(equals)) else "info",
        subjects=(gpu.id,),
        message=f"{gpu.id} {said}",
        alike=None if free else said,
        repair="Look at temperatures, fans and power supplies (BMC log); if only this GPU is hot, reseat or replace it",
        evidence=tuple(
            line
            for name in named
            for state in gpu.readings
            if name in (state.slowdowns or ()) and (line := state.lines.get(name))
        ),
        expected_from="equals" if free else None,
        readings=times,
    )
