"""A fire drill: a fault that is not there, so that prolog, drain and alert can be tried without breaking hardware."""

from __future__ import annotations

from typing import NamedTuple

from topocheck.errors import UsageError
from topocheck.finding import Finding, Severity
from topocheck.gate.grounds import address, may_fail
from topocheck.graph import Topology
from topocheck.policy import Policy, known_rules
from topocheck.rules import ALL

MARK = "DRILL"


class Drill(NamedTuple):
    """Which fault, and of which device: None takes one of the job's."""

    rule: str
    device: str | None


def parsed(text: str) -> Drill:
    """`RULE[:DEVICE]`; a PCI address has colons of its own. UsageError for a rule there is none of."""
    rule, _, device = text.partition(":")
    if not rule or any(letter in rule for letter in "*?["):
        raise UsageError(f"--drill {text}: give one rule: `topocheck rules` lists them")
    return Drill(known_rules((rule,))[0], device or None)


def imagined(node: Topology, drill: Drill, policy: Policy, gpus: frozenset[str] | None) -> Finding:
    """The finding such a fault would make, on the device named, else on one of `gpus` (addresses) or its NIC."""
    rule = next(rule for rule in ALL if drill.rule == rule.ID)
    severity: Severity = policy.severity.get(rule.ID, "error" if may_fail(rule.ID) else "warning")
    subjects = _subjects(node, drill, gpus)
    return Finding(
        rule=rule.ID,
        name=rule.NAME,
        severity=severity,
        subjects=subjects,
        message=f"{', '.join(subjects) or 'node'}: {MARK}, no such fault was read",
        repair="None: topocheck gate was run with --drill",
        evidence=(),
        effect="none",
    )


def _subjects(node: Topology, drill: Drill, gpus: frozenset[str] | None) -> tuple[str, ...]:
    if drill.device is not None:
        device = node.by_id.get(drill.device)
        if device is None and drill.device not in node.functions:
            raise UsageError(f"--drill: no device {drill.device} on this node: `topocheck node` shows them")
        return (device.id if device else drill.device,)
    mine = [gpu for gpu in node.gpus if gpus is None or address(gpu) in gpus] or node.gpus
    if drill.rule.startswith(("NET", "RAIL")) and mine:
        nics = node.assignment.get(mine[0].id) or tuple(nic.id for nic in node.compute_nics)
        return nics[:1]
    return tuple(gpu.id for gpu in mine[:1])
