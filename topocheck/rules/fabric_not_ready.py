"""
A GPU of an NVSwitch board is not registered with the NVLink fabric, or the fabric reports it unhealthy.

Why it costs: CUDA refuses to start on the GPU (error 802) or its NVLink traffic has no route; a job stops.

Usual cause: nv-fabricmanager not running or of another version than the driver, a failed NVSwitch or trunk link.

Repair: start nv-fabricmanager of the driver's version and look into its log; reset the board if registration failed.

Silent when: N/A, as PCIe and NVL cards, boards of four and A100 print it; no GPU is in a cluster. "In Progress" is a
warning while nothing says that the machine has been up for ten minutes: its log is not as long, and most equals are no
further. Whether nv-fabricmanager runs no input shows; a log that it stopped for the driver's version is a warning,
while no GPU has registered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from topocheck.facts import Evidence, GpuState
from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip, enough, equals_of
from topocheck.graph import Device, Topology

ID = "NVL005"
NAME = "fabric-not-ready"
_GRACE_S = 600.0  # rules.md: "In Progress" in the first 10 min of uptime
_STOPS = "CUDA does not start on it"
_UNHEALTHY = ("true", "yes", "degraded", "unhealthy")
_NO_FABRIC = (None, "N/A", "Not Supported", "Unknown Error")


class _Wrong(NamedTuple):
    """What is wrong with a GPU's fabric, and the key of the line that shows it."""

    severity: Severity
    said: str
    key: str


def check(node: Topology) -> Iterator[Answer]:
    """Fabric state, status and health of every GPU that has them; what the fabric manager says in a log."""
    boards = [g for g in node.gpus if g.part is None or g.part.board == "nvswitch"]
    if not boards:
        yield NotApplicable("no GPU of an NVSwitch board in the input")
        return
    yield from _other_version(node, boards)
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
        if gpu.gpu and (wrong := _wrong(node, gpu, gpu.gpu)):
            line = gpu.gpu.lines.get(wrong.key) or gpu.gpu.lines.get("fabric_state")
            yield _finding([gpu], wrong.severity, f"{gpu.id}'s NVLink fabric {wrong.said}", line)


def _wrong(node: Topology, gpu: Device, state: GpuState) -> _Wrong | None:
    if state.fabric_state != "Completed":
        what = f"state is {state.fabric_state}, not Completed"
        if state.fabric_state == "In Progress" and _may_be_new(node, gpu):
            return _Wrong("warning", f"{what}; in the first ten minutes after boot read it again", "fabric_state")
        return _Wrong("error", f"{what}; {_STOPS}", "fabric_state")
    if state.fabric_status not in (None, "Success", "N/A"):
        return _Wrong("error", f"status is {state.fabric_status}, not Success; {_STOPS}", "fabric_status")
    for name, value in state.fabric_health:
        if name.lower() in ("degraded bandwidth", "bandwidth", "route unhealthy") and value.lower() in _UNHEALTHY:
            said = f"health says {name}: {value}; its NVLink traffic is slow or has no route"
            return _Wrong("error", said, f"fabric_health {name}")
    in_one = _equals_with(node, gpu, lambda e: bool(e.fabric_cluster)) if state.fabric_cluster is False else 0
    if in_one:  # an HGX board by itself is in none
        said = f"has no cluster (a UUID of zeros), {in_one} equals have; they do not reach it by NVLink"
        return _Wrong("warning", said, "fabric_cluster")
    return None


def _may_be_new(node: Topology, gpu: Device) -> bool:
    """Whether the machine may only have been booted: its log is not that long, and most equals are no further."""
    up_s = node.machine.least_uptime_s or 0.0
    return up_s < _GRACE_S and not _equals_with(node, gpu, lambda e: e.fabric_state == "Completed")


def _equals_with(node: Topology, gpu: Device, has: Callable[[GpuState], bool]) -> int:
    """How many equals have it, if they are enough to prove what is normal."""
    equals = equals_of(node, gpu)
    count = sum(bool(e.gpu and has(e.gpu)) for e in equals)
    return count if enough(count, len(equals)) else 0


def _other_version(node: Topology, boards: list[Device]) -> Iterator[Finding]:
    """nv-fabricmanager's own word that it does not run with this driver; a GPU that has registered since says more."""
    manager, driver = node.machine.fabric_manager, node.machine.driver
    registered = any(g.gpu and g.gpu.fabric_state == "Completed" for g in boards)
    if manager and driver and manager != driver and not registered:
        names = ", ".join(g.id for g in boards)
        message = f"{names} have no NVLink fabric; nv-fabricmanager {manager} does not run with driver {driver}"
        yield _finding(boards, "warning", message, node.machine.lines.get("fabric_manager"))


def _finding(gpus: list[Device], severity: Severity, message: str, line: Evidence | None) -> Finding:
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=tuple(g.id for g in gpus),
        message=message,
        repair="Start nv-fabricmanager of the driver's version, read its log, reset the board if registration failed",
        evidence=(line,) if line else (),
        effect="stops",
        covers=frozenset(g.id for g in gpus),
    )
