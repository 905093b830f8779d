"""
A GPU's memory has errors that its spare rows no longer cover, or has not yet taken the spare.

Why it matters: an uncorrectable error ends the program that meets it; once remapping fails the next one is certain to.

Usual cause: ageing or faulty memory. A pending remapping only waits for a reset.

Repair: remapping failed: replace the GPU. Uncorrectable errors since the driver's load: drain, reset, and run the
vendor's diagnostic; replace it if they come back. Pending: reset the GPU when it is idle.

Silent when: the part or its setting has no ECC; the errors are of before the driver's load (aggregate counters).
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.facts import GpuState
from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip
from topocheck.graph import Device, Topology

ID = "GPU005"
NAME = "gpu-memory-unsound"


def check(node: Topology) -> Iterator[Answer]:
    """Remapping and retirement state, and the volatile counters of uncorrectable errors."""
    if not node.gpus:
        yield NotApplicable("no GPU in the input")
        return
    read = [g for g in node.gpus if _read(g)]
    if len(read) < len(node.gpus):
        yield Skip(f"memory errors read of {len(read)} of {len(node.gpus)} GPUs (nvidia-smi -q)", partial=bool(read))
    for gpu in read:
        if gpu.gpu and (finding := _finding(gpu, gpu.gpu)):
            yield finding


def _read(gpu: Device) -> bool:
    state = gpu.gpu
    return state is not None and any(
        value is not None for value in (state.ecc_uncorrectable, state.remap_failed, state.remap_pending)
    )


def _finding(gpu: Device, state: GpuState) -> Finding | None:
    """The worst that is said of one GPU."""
    severity: Severity
    if state.remap_failed:
        severity, said, key = "error", "has bad memory for which no spare is left", "remap_failed"
    elif state.ecc_uncorrectable:
        severity, key = "warning", "ecc_uncorrectable"
        said = f"has counted {state.ecc_uncorrectable} uncorrectable memory errors since the driver was loaded"
    elif state.remap_pending:
        severity, said, key = "info", "waits for a reset to take a spare for bad memory", "remap_pending"
    else:
        return None
    line = gpu.lines.get(key)
    repair = {
        "error": "Replace the GPU",
        "warning": "Drain, reset the GPU and run the vendor's diagnostic; replace it if errors come back",
        "info": "Reset the GPU when it is idle",
    }
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=(gpu.id,),
        message=f"{gpu.id} {said}",
        repair=repair[severity],
        evidence=(line,) if line else (),
        effect="risks",
    )
