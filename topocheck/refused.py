"""Which GPUs the kernel log says the driver could not use: what was logged, unless something read now says more."""

from __future__ import annotations

from typing import NamedTuple

from topocheck.facts import Evidence, LogEvent, PciFunction
from topocheck.graph import Topology
from topocheck.hardware.pci_ids import is_gpu
from topocheck.hardware.xids import SILENCING

_IN_WORDS = {
    "gpu-init-failed": "RmInitAdapter failed",
    "gpu-no-bar": "a memory BAR has no address",
    "no-bar": "a memory BAR has no address",
    "gpu-probe-failed": "its probe failed",
    "driver-mismatch": "its libraries are of another version",
    "gpu-taken": "another driver has it",
    "gpu-lost": "fallen off the bus",
    "gpu-off-bus": "fallen off the bus",
}


class Refused(NamedTuple):
    """One GPU, or one that the line does not name, and the last line about it."""

    name: str
    subjects: tuple[str, ...]
    words: str
    line: Evidence


def explained(node: Topology) -> bool:
    """Whether GPU004 says it: an Xid that silences the driver, logged since it was loaded."""
    after = [e for e in node.events if e.kind == "xid" and (e.line.line or 0) >= node.driver_load_line]
    return any(e.number in SILENCING for e in after)


def refused_gpus(node: Topology) -> list[Refused]:
    """In the order of the log; not those that nvidia-smi shows, nor those of which the PCI listing says it."""
    events = sorted((e for e in node.events if e.kind in _IN_WORDS), key=lambda e: e.kind != "gpu-probe-failed")
    last = {e.bdf: e for e in events}  # a failed probe says the least
    return [_refused(node, event) for event in last.values() if _stands(node, event)]


def _stands(node: Topology, event: LogEvent) -> bool:
    device, function = node.by_id.get(event.bdf or ""), node.functions.get(event.bdf or "")
    works = any(g.gpu is not None for g in node.gpus) if event.bdf is None else device is not None and device.gpu
    said = function is not None and (function.dead or function.bars_unassigned or "vfio" in (function.driver or ""))
    if event.kind.endswith("no-bar"):  # of any function, and a driver that is bound had its BARs in the end
        works = works or _no_gpu_without_bars(event, function)
    if event.kind == "gpu-taken":  # what has it a PCI listing says better
        works = works or any(is_gpu(f) and f.driver for f in node.functions.values())
        works = works or any(e.kind == "gpu-passed-through" for e in node.events)
    old = (
        event.kind in ("gpu-init-failed", "gpu-lost", "driver-mismatch")
        and (event.line.line or 0) < node.driver_load_line
    )
    return not (works or said or old)


def _no_gpu_without_bars(event: LogEvent, function: PciFunction | None) -> bool:
    if function is None:
        return event.kind == "no-bar"
    return function.driver == "nvidia" or not is_gpu(function)


def _refused(node: Topology, event: LogEvent) -> Refused:
    device = node.by_id.get(event.bdf or "")
    subject = device.id if device else event.bdf
    return Refused(subject or "a GPU", (subject,) if subject else (), _IN_WORDS[event.kind], event.line)
