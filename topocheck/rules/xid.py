"""
The driver asks for a recovery of a GPU, or has logged an Xid that speaks of its hardware since it was loaded.

Why it matters: the next job on this GPU fails, hangs, or takes the other GPUs of the node along.

Usual cause: by number: 48, 64, 95, 140 memory; 74 and 144 to 150 NVLink; 79 the bus or power; 119 and 120 the GPU's own
firmware. The driver's recovery action names what it takes.

Repair: what the recovery action says (reset, drain, reboot); without one, drain and reset the GPU. If the Xid comes
back, replace the GPU, for NVLink its baseboard or bridge.

Silent when: the log holds none. Xids of programs (13, 31, 43, 45), of handled memory errors (63, 92, 94), and all of
before the driver's last load are info. A log alone is never an error; 64, 79, 95, 119 and 120 are with a sign of them
now.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.facts import Evidence, LogEvent
from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip
from topocheck.graph import Device, Topology
from topocheck.hardware.xids import FATAL, HARDWARE, SILENCING, in_words

ID = "GPU004"
NAME = "xid"


def check(node: Topology) -> Iterator[Answer]:
    """Recovery actions, then the log's Xids GPU by GPU."""
    events = [e for e in node.events if e.kind == "xid" and e.number is not None]
    if not node.gpus and not events:
        yield NotApplicable("no GPU in the input")
        return
    asked = [g for g in node.gpus if _recovery(g)]
    hung = node.machine.driver_hung is not None
    for gpu in asked:
        yield _to_recover(gpu)
    if not node.machine.kernel_log:
        said = any(g.gpu and g.gpu.recovery_action for g in node.gpus)
        yield Skip("no kernel log in the input, or it was not readable", partial=said)
    load = max((e for e in node.events if e.kind == "driver-load"), key=lambda e: e.line.line or 0, default=None)
    for subject in dict.fromkeys(_subject(node, e) for e in events):
        mine = [e for e in events if _subject(node, e) == subject]
        device = node.by_id.get(subject)
        sign = (device is not None and _sign(device)) or (hung and any(e.number in SILENCING for e in mine))
        yield from _of_one(subject, mine, load, recovers=device in asked, sign=sign)


def _subject(node: Topology, event: LogEvent) -> str:
    device = node.by_id.get(event.bdf or "")
    return device.id if device else event.bdf or "gpu"


def _recovery(gpu: Device) -> str | None:
    action = gpu.gpu.recovery_action if gpu.gpu else None
    return action if action and action.lower() != "none" else None


def _sign(gpu: Device) -> bool:
    """Something read now that says the same as the log."""
    state = gpu.gpu
    return bool((gpu.pci and gpu.pci.dead) or (state and (state.lost or state.remap_failed or state.ecc_uncorrectable)))


def _to_recover(gpu: Device) -> Finding:
    line = gpu.lines.get("recovery_action")
    action = (_recovery(gpu) or "").replace("GPU requires reset", "a reset")  # NVML's words where a value would stand
    return _finding("error", gpu.id, f"needs recovery: the driver asks for {action}", (line,) if line else ())


def _of_one(
    subject: str, events: list[LogEvent], load: LogEvent | None, *, recovers: bool, sign: bool
) -> Iterator[Finding]:
    """One finding for what counts, one for what does not."""
    after = [e for e in events if load is None or (e.line.line or 0) >= (load.line.line or 0)]
    hard = [] if recovers else [e for e in after if e.number in HARDWARE]
    if hard:
        fatal = sign and any(e.number in FATAL for e in hard)
        lines = tuple(e.line for e in _last_of_each(hard))
        said = f"logged {_words(hard)}{' since the driver was loaded' if load else ''}"
        yield _finding("error" if fatal else "warning", subject, said, lines)
    mild = [e for e in after if e.number not in HARDWARE]
    if mild:
        yield _finding("info", subject, f"logged {_words(mild)}", tuple(e.line for e in _last_of_each(mild)))
    old = [e for e in events if e not in after]
    if load and old:
        said = f"logged {_words(old)}, the last {_age(old[-1], load)}before the driver was loaded again"
        yield _finding("info", subject, said, (old[-1].line,))


def _last_of_each(events: list[LogEvent]) -> list[LogEvent]:
    return list({e.number: e for e in events}.values())


def _words(events: list[LogEvent]) -> str:
    return in_words([e.number or 0 for e in events])


def _age(event: LogEvent, load: LogEvent) -> str:
    """How long before the driver's load, where the log tells both times."""
    if event.time_s is None or load.time_s is None or load.time_s < event.time_s:
        return ""
    minutes = (load.time_s - event.time_s) / 60
    return f"{minutes / 60:.0f} h " if minutes >= 120 else f"{minutes:.0f} min "


def _finding(severity: Severity, subject: str, said: str, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=(subject,),
        message=f"{subject} {said}",
        repair="Drain the node and do what the recovery action says, else reset the GPU; replace it if it comes back",
        evidence=evidence,
        effect="stops" if severity != "info" else "none",
        covers=frozenset({subject}),
    )
