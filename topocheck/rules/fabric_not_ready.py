"""
A GPU of an NVSwitch board is not registered with the NVLink fabric, or the fabric reports it unhealthy.

Why it costs: CUDA refuses to start on the GPU (error 802) or its NVLink traffic has no route; a job stops.

Usual cause: nv-fabricmanager not running or of another version than the driver, a failed NVSwitch or trunk link.

Repair: start nv-fabricmanager of the driver's version and look into its log; reset the board if registration failed.

Silent when: N/A, as PCIe and NVL cards, boards of four and A100 print it; containers and VMs, where the process is not
visible.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.facts import GpuState
from topocheck.finding import Answer, Finding, NotApplicable, Skip
from topocheck.graph import Device, Topology

ID = "NVL005"
NAME = "fabric-not-ready"
_UNHEALTHY = ("true", "yes", "degraded", "unhealthy")
_NO_FABRIC = (None, "N/A", "Not Supported", "Unknown Error")


def check(node: Topology) -> Iterator[Answer]:
    """Fabric state, status and health of every GPU that has them."""
    boards = [g for g in node.gpus if g.part is None or g.part.board == "nvswitch"]
    if not boards:
        yield NotApplicable("no GPU of an NVSwitch board in the input")
        return
    said = [g for g in boards if g.gpu and g.gpu.fabric_state is not None]
    if not said:
        yield Skip("no fabric state in the input (nvidia-smi -q)")
        return
    if len(said) < len(boards):
        yield Skip(f"fabric state read of {len(said)} of {len(boards)} GPUs", partial=True)
    with_fabric = [g for g in said if g.gpu and g.gpu.fabric_state not in _NO_FABRIC]
    if not with_fabric:
        yield NotApplicable("the driver gives no fabric state for these GPUs")
        return
    for gpu in with_fabric:
        if gpu.gpu and (what := _wrong(gpu.gpu)):
            yield _finding(gpu, gpu.gpu, *what)


def _wrong(state: GpuState) -> tuple[str, str] | None:
    """What is wrong and the key of the line that shows it."""
    if state.fabric_state != "Completed":
        return f"state is {state.fabric_state}, not Completed", "fabric_state"
    if state.fabric_status not in (None, "Success", "N/A"):
        return f"status is {state.fabric_status}, not Success", "fabric_status"
    for name, value in state.fabric_health:
        if name.lower() in ("degraded bandwidth", "bandwidth", "route unhealthy") and value.lower() in _UNHEALTHY:
            return f"health says {name}: {value}", f"fabric_health {name}"
    return None


def _finding(gpu: Device, state: GpuState, what: str, key: str) -> Finding:
    line = state.lines.get(key) or state.lines.get("fabric_state")
    return Finding(
        rule=ID,
        name=NAME,
        severity="error",
        subjects=(gpu.id,),
        message=f"{gpu.id}'s NVLink fabric {what}; CUDA does not start on it",
        repair="Start nv-fabricmanager of the driver's version, read its log, reset the board if registration failed",
        evidence=(line,) if line else (),
        effect="stops",
        covers=frozenset({gpu.id}),
    )
