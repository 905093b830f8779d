"""
A NIC's port is Active at a lower rate than the other ports of its kind.

Why it costs: an inter-node ring goes at the pace of its slowest NIC.

Usual cause: a cable, transceiver or switch port of an older generation, a lane lost in training, another fabric.

Repair: compare cable and switch port with those of its equals (mlxlink); reseat or replace; set the switch port
to auto.

Silent when: the port is down (its rate is a placeholder); it is an accelerated-networking function; another kind of
card; a role of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip, equals_of
from topocheck.graph import Device, Topology
from topocheck.judging import judged_nics
from topocheck.model import Scenario
from topocheck.patches import SetPort

ID = "NET002"
NAME = "port-slow"


def check(node: Topology) -> Iterator[Answer]:
    """Active rate against the other active ports of the kind."""
    if not node.nics:
        yield NotApplicable("no NIC in the input")
        return
    judged = [n for n in judged_nics(node) if not n.is_vf and n.state == "active"]
    rated = [n for n in judged if n.rate_gbit_per_s]
    if not rated:
        yield Skip("no rate of an active port in the input")
        return
    if len(rated) < len(judged):
        yield Skip(f"{len(rated)} of {len(judged)} active NICs show a rate", partial=True)
    for nic in rated:
        faster = [e for e in equals_of(node, nic) if (e.rate_gbit_per_s or 0.0) > (nic.rate_gbit_per_s or 0.0)]
        if faster:
            yield _finding(node, nic, faster)


def _finding(node: Topology, nic: Device, faster: list[Device]) -> Finding:
    best = max(e.rate_gbit_per_s or 0.0 for e in faster)
    severity: Severity = "error" if len(faster) >= 3 and nic.role == "compute" else "warning"
    gpus = node.gpus_of(nic)
    slow = [p for p in nic.ports if p.state == "active" and (p.rate_gbit_per_s or best) < best]
    lines = [line for p in slow for key in ("rate", "rate_gbit_per_s") if (line := p.lines.get(key))]
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=(nic.id,),
        message=f"{nic.id} is Active at {nic.rate_gbit_per_s:g} Gb/s, {len(faster)} of its kind at {best:g}",
        repair="Compare cable, transceiver and switch port with those of its equals; reseat or replace",
        evidence=tuple(lines),
        expected_from="equals",
        patches=tuple(SetPort(nic.id, p.port, best) for p in slow),
        scenarios=(*(Scenario("gpu-nic", g) for g in gpus), Scenario("nic-host", nic.id)),
        price_kind="computed",
    )
