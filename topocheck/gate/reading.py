"""This machine, read for the gate: its report, and of its findings those that may fail a job.

A reading is plain data, so that it can be kept as JSON: `report` the node document; `gpus` every GPU with its address,
minor and UUID; `on_bus` how many the bus has, None where its listing is no whole one; `mig`; `grounds` what fails which
job; `held` what was held back; `unseen` what a verdict would need; `late` that some input did not answer in time.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from topocheck.assemble import unseen
from topocheck.check import Checked, examine
from topocheck.facts import Gap, full_bdf
from topocheck.finding import Answer, NotApplicable, Skip
from topocheck.formats import json as as_json
from topocheck.gate.decision import ANY, Reading, share_of
from topocheck.gate.drill import Drill, imagined
from topocheck.gate.grounds import address, grounds_of, of_drill
from topocheck.gate.job import Job
from topocheck.graph import Topology
from topocheck.hardware.pci_ids import is_gpu
from topocheck.judgement import chosen
from topocheck.policy import EVIDENCE, Policy
from topocheck.probes import kernel_log, nvml  # noqa: F401 (needed soon; imported while NVML answers)
from topocheck.rules import ALL
from topocheck.sources.base import NO_ANSWER, Source

_INFORMATION = "/proc/driver/nvidia/gpus/*/information"
_FIELD = re.compile(r"^(GPU UUID|Bus Location|Device Minor):\s*(\S+)", re.MULTILINE)
_OUR_FAULT = "internal error"


def read(source: Source, policy: Policy, job: Job, drill: Drill | None = None) -> Reading:
    """What the gate makes of a source. `job` decides whether what matters only to jobs of several nodes is asked, and
    whose device a drill takes."""
    aside = _set_aside(job.leaves_node)
    checked = examine(source, chosen(policy, (), ()), policy, time.monotonic(), set_aside=aside)
    report, node = checked
    grounds, held = grounds_of(node, report.findings, policy)
    hung = node.machine.driver_hung
    if hung and policy.on_hang == "fail":
        grounds.append(_hang(hung))
    reading: Reading = {
        "gpus": _gpus(source, node),
        "on_bus": sum(is_gpu(f) and not f.dead for f in node.functions.values()) if node.whole_pci else None,
        "mig": any(gpu.mig for gpu in node.gpus),
        "grounds": grounds,
        "held": held,
        "unseen": [*_doubts(checked), *_unseen(node, policy.evidence(live=source.kind == "live"))],
        "late": any(gap.reason.startswith(NO_ANSWER) for gap in node.gaps),
        "hung": hung,
    }
    if drill:
        fault = imagined(node, drill, policy, share_of(reading, job).gpus)
        report = replace(report, findings=(fault, *report.findings))
        grounds += of_drill(node, fault, policy)
    return {**reading, "report": json.loads(as_json.render(report))}


def _set_aside(leaves_node: bool) -> dict[str, Answer]:
    """Rules that have nothing to say here, and why."""
    aside: dict[str, Answer] = {"AFF005": Skip("a prolog does not carry the job's CPU mask")}
    if not leaves_node:
        local = NotApplicable("a job of one node")
        aside |= {rule.ID: local for rule in ALL if rule.ID.startswith(("NET", "RAIL"))}
    return aside


def _hang(hung: str) -> dict[str, Any]:
    line = "GPU003 the driver does not answer"
    return {"rule": "GPU003", "line": line, "subjects": [], "gpus": [], "scope": "node", "jobs": ANY, "said": hung}


def _doubts(checked: Checked) -> Iterator[dict[str, Any]]:
    """What makes the whole node unknown: no GPU, a driver that hangs, a fault of our own."""
    report, node = checked
    words = []
    if not node.gpus and not node.lost_gpus:
        words.append(report.verdict_reason)
    if node.machine.driver_hung:
        words.append(node.machine.driver_hung)
    words += [f"{gap.input}: {gap.reason}" for gap in node.gaps if _is_ours(gap)]
    yield from ({"gpus": None, "several_nodes": False, "words": text} for text in words)


def _is_ours(gap: Gap) -> bool:
    return gap.reason.startswith(_OUR_FAULT)


def _unseen(node: Topology, required: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Required evidence that is missing, by the GPUs that it is of."""
    for device, kind, words in unseen(node, required):
        served = [gpu for gpu in node.gpus if device.id in (gpu.id, *node.assignment.get(gpu.id, ()))]
        where = [address(gpu) for gpu in served]
        yield {"gpus": where, "several_nodes": kind == EVIDENCE[2], "words": words}


def _gpus(source: Source, node: Topology) -> list[dict[str, Any]]:
    """Every GPU that some input knows, by address."""
    found: dict[str, dict[str, Any]] = {}

    def add(at: str | None, minor: int | None, uuid: str | None) -> None:
        if at:
            known = found.setdefault(at, {"at": at, "minor": None, "uuid": None})
            known["minor"] = minor if known["minor"] is None else known["minor"]
            known["uuid"] = known["uuid"] or uuid

    for path in source.glob(_INFORMATION):
        fields = dict(_FIELD.findall(source.read(path) or ""))
        minor = fields.get("Device Minor", "")
        add(full_bdf(fields.get("Bus Location", "")), int(minor) if minor.isdecimal() else None, fields.get("GPU UUID"))
    for gpu in node.gpus:
        add(address(gpu), gpu.minor, gpu.gpu.uuid if gpu.gpu else None)
    for function in node.functions.values():
        add(function.bdf if is_gpu(function) else None, None, None)
    for state in node.lost_gpus:
        add(state.bdf, state.minor, state.uuid)
    return list(found.values())
