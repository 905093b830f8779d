"""Findings → what may fail a job, and which job: rules.md, "What the gate may fail a job for"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from topocheck.finding import Finding
from topocheck.formats.line import line_of
from topocheck.gate.decision import ANY, SEVERAL_GPUS, SEVERAL_NODES, Ground
from topocheck.graph import Device, Topology
from topocheck.policy import Policy

_PATH = ("PCI001", "PCI002")  # (d)
_PORTS = ("NET001", "NET002", "NET005")  # (e)
_JOBS = {"GPU001": ANY, "GPU003": ANY, "GPU004": ANY, "GPU005": ANY, "NVL001": SEVERAL_GPUS, "NVL005": SEVERAL_GPUS}


class Grounds(NamedTuple):
    """What fails which job, and what was held back, in words for the log."""

    grounds: list[Ground]
    held: list[str]


def grounds_of(node: Topology, findings: Iterable[Finding], policy: Policy) -> Grounds:
    """The errors that may fail a job, what stops it first. What hits every device of a kind is held back: our reading,
    an update of the driver or the fabric is the likelier cause."""
    errors = [f for f in findings if f.severity == "error" and not f.waived]
    everywhere = {rule: _everywhere(node, errors, group) for group in (_PATH, _PORTS) for rule in group}
    grounds: list[Ground] = []
    held = []
    for finding in sorted(errors, key=lambda f: f.effect == "slows"):
        if finding.rule in everywhere:
            named = policy.severity.get(finding.rule) == "error"
            all_gone = finding.rule == "NET005" and not node.compute_nics
            if not named and (all_gone or everywhere[finding.rule] & {d.id for d in _hit(node, finding)}):
                held.append(f"held to a warning, it is so on all of its kind: {line_of(finding)}")
            else:
                grounds += _of_path(node, finding)
        elif jobs := _jobs(node, finding, policy):
            grounds.append(_of_devices(node, finding, jobs))
    return Grounds(grounds, held)


def _everywhere(node: Topology, errors: list[Finding], group: tuple[str, ...]) -> set[str]:
    """The GPUs, or the compute NICs, if these rules hit all of them."""
    hit = {d.id for f in errors if f.rule in group for d in _hit(node, f)}
    kinds = [{d.id for d in kind} for kind in (node.gpus, node.compute_nics)]
    return {id_ for kind in kinds if kind <= hit for id_ in kind}


def _jobs(node: Topology, finding: Finding, policy: Policy) -> str | None:
    """Which jobs an error may fail; None: none, unless the policy names the rule an error."""
    rule = finding.rule
    if policy.severity.get(rule) == "error":
        return SEVERAL_NODES if rule.startswith(("NET", "RAIL")) else _JOBS.get(rule, ANY)
    devices = [node.by_id[s] for s in finding.subjects if s in node.by_id]
    if rule == "GPU004" and not any(_recovers(device) for device in devices):
        return None
    if rule == "GPU003" and not all(device.kind == "gpu" for device in devices):
        return None
    if rule == "NVL001" and not any(device.part and device.part.board == "nvswitch" for device in devices):
        return None
    return _JOBS.get(rule)


def _recovers(gpu: Device) -> bool:
    action = gpu.gpu.recovery_action if gpu.gpu else None
    return bool(action) and str(action).lower() != "none"


def of_drill(node: Topology, finding: Finding, policy: Policy) -> list[Ground]:
    """What a fault that is not there would fail, were it an error."""
    if finding.rule in (*_PATH, *_PORTS):
        return list(_of_path(node, finding))
    jobs = _JOBS.get(finding.rule) or (_jobs(node, finding, policy) if finding.severity == "error" else None)
    return [_of_devices(node, finding, jobs)] if jobs else []


def _of_devices(node: Topology, finding: Finding, jobs: str) -> Ground:
    """A fault of GPUs, or of the node. A count that is short concerns whoever is given the whole node."""
    gpus = [at for subject in finding.subjects for at in _gpus_of(node, subject)]
    if not gpus:
        return _ground(finding, gpus, jobs, "whole" if finding.rule == "GPU001" else "node")
    everyone = len(node.gpus) > 1 and {address(gpu) for gpu in node.gpus} <= set(gpus)
    return _ground(finding, gpus, jobs, "node" if everyone else "gpus")


def _of_path(node: Topology, finding: Finding) -> Iterator[Ground]:
    """A link of a GPU's path fails any job on it; what is on the path of its NIC, or is the NIC, those that leave."""
    below = _hit(node, finding)
    own = [address(gpu) for gpu in below if gpu.kind == "gpu"]
    if finding.rule == "NET005":  # the card is gone: whose it was
        own += [address(gpu) for gpu in node.gpus if gpu.id in finding.covers and address(gpu) not in own]
    nics = {nic.id for nic in below if nic.kind == "nic"}
    if finding.rule in _PATH and own:
        yield _ground(finding, own, ANY)
    elif finding.rule in _PORTS and own:  # a GPU without its NIC
        yield _ground(finding, own, SEVERAL_NODES)
    if finding.rule in _PORTS and not below and not own:
        yield _ground(finding, [], SEVERAL_NODES, "whole")
    if nics:
        served = [address(gpu) for gpu in node.gpus if nics & set(_nics_of(node, gpu))]
        yield _ground(finding, served, SEVERAL_NODES)


def _hit(node: Topology, finding: Finding) -> list[Device]:
    """The GPUs and NICs that a finding names, and those below a link it names."""
    found = {}
    for subject in finding.subjects:
        if device := node.by_id.get(subject):
            found[device.id] = device
        else:
            below = [d for d in (*node.gpus, *node.compute_nics) if d.bdf and subject in node.climb(d.bdf)]
            found |= {device.id: device for device in below}
    return list(found.values())


def _nics_of(node: Topology, gpu: Device) -> tuple[str, ...]:
    """A GPU's own NICs, else the nearest ones."""
    return node.assignment.get(gpu.id) or tuple(nic.id for nic in node.nearest(gpu, node.compute_nics)[1])


def _gpus_of(node: Topology, subject: str) -> list[str]:
    """The addresses of the GPUs that a subject is or serves; an address that is no device any more as it is."""
    device = node.by_id.get(subject)
    if device is None:
        lost = [state.bdf for state in node.lost_gpus if state.bdf and f"gpu{state.index}" == subject]
        return lost or [subject]
    if device.kind == "nic":
        return [address(gpu) for gpu in node.gpus if device.id in _nics_of(node, gpu)]
    return [address(device)]


def address(device: Device) -> str:
    """What a device is known by from one reading to the next."""
    return device.bdf or device.id


def _ground(finding: Finding, gpus: list[str], jobs: str, scope: str = "gpus") -> Ground:
    return {
        "rule": finding.rule,
        "line": line_of(finding),
        "subjects": list(finding.subjects),
        "gpus": gpus,
        "scope": scope,
        "jobs": jobs,
    }


def may_fail(rule: str) -> bool:
    """Whether the gate may fail a job for it without being told to."""
    return rule in _JOBS or rule in (*_PATH, *_PORTS)
