"""
A NIC's port is Active at a lower rate than the other ports of its kind, or than both ends of its cable can.

Why it costs: an inter-node ring goes at the pace of its slowest NIC.

Usual cause: a cable, transceiver or switch port of an older generation, a lane lost in training, another fabric.

Repair: compare cable and switch port with those of its equals (mlxlink); reseat or replace; set the switch port
to auto.

Silent when: the port is down (its rate is a placeholder); it is an accelerated-networking function; another kind of
card; a role of its own; both ends can do more ("Could be" of iblinkinfo) but all its kind run alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip, equals_of
from topocheck.graph import Device, Topology
from topocheck.judging import judged_nics
from topocheck.model import Scenario
from topocheck.patches import SetPort

ID = "NET002"
NAME = "port-slow"


def check(node: Topology) -> Iterator[Answer]:
    """Active rate against the other active ports of the kind; without one, against what both ends support."""
    if not node.nics:
        yield NotApplicable("no NIC in the input")
        return
    judged = [n for n in judged_nics(node) if not n.is_vf and n.state == "active"]
    rates = {n.id: n.rate_gbit_per_s for n in judged if n.rate_gbit_per_s}
    if not rates:
        yield Skip("no rate of an active port in the input")
        return
    if len(rates) < len(judged):
        yield Skip(f"{len(rates)} of {len(judged)} active NICs show a rate", partial=True)
    for name, rate in rates.items():
        nic = node.by_id[name]
        others = [rates[e.id] for e in equals_of(node, nic) if e.id in rates]
        faster = [other for other in others if other > rate]
        able = max((p.able_gbit_per_s or 0 for p in nic.ports if p.state == "active"), default=0)
        if faster:
            yield _finding(node, nic, max(faster), f"{len(faster)} of its kind at {max(faster):g}", faster)
        elif not others and able > rate:
            yield _finding(node, nic, able, f"both ends of its cable support {able:g}")


def _finding(node: Topology, nic: Device, best: float, against: str, faster: Sequence[float] = ()) -> Finding:
    severity: Severity = "error" if len(faster) >= 3 and nic.role == "compute" else "warning"
    gpus = node.gpus_of(nic)
    slow = [p for p in nic.ports if p.state == "active" and (p.rate_gbit_per_s or best) < best]
    keys = ("rate", "rate_gbit_per_s") if faster else ("rate_gbit_per_s", "able")
    lines = [line for p in slow for key in keys if (line := p.lines.get(key))]
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=(nic.id,),
        message=f"{nic.id} is Active at {nic.rate_gbit_per_s:g} Gb/s, {against}",
        repair="Compare cable, transceiver and switch port with those of its equals; reseat or replace",
        evidence=tuple(lines),
        expected_from="equals" if faster else "both ends",
        patches=tuple(SetPort(nic.id, p.port, best) for p in slow),
        scenarios=(*(Scenario("gpu-nic", g) for g in gpus), Scenario("nic-host", nic.id)),
        price_kind="computed",
    )
