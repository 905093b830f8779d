"""
A port waits to send, or drops what it should send.

Why it matters: a port that has data and may not send it is held back by the fabric: by a rail that is shared, a slow
receiver, flow control (credits on InfiniBand, pause frames on RoCE). How much it costs is not known.

Usual cause: two rails on one leaf uplink, a slow node in the job, routing that puts flows on one link.

Repair: look at the switch port's own counters and the routing; find the receiver that holds the others back.

Silent when: waiting is short beside what was sent. One reading says nothing of when: info.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.facts import RdmaPort
from topocheck.finding import Answer, Finding, NotApplicable, Skip
from topocheck.graph import Device, Topology
from topocheck.judging import judged_nics
from topocheck.patches import SetField

ID = "NET008"
NAME = "port-congested"
# PortXmitWait counts ticks with data but none sent, PortXmitData words of four bytes sent (InfiniBand Architecture
# Specification, PortCountersExtended): as many ticks waited as words sent is much by any clock.
_WAIT_PER_WORD = 1.0
_COUNTERS = ("port_xmit_wait", "port_xmit_data", "port_xmit_discards")


def check(node: Topology) -> Iterator[Answer]:
    """XmitWait against XmitData, and discards, between two readings or since the counters were cleared."""
    judged = [n for n in judged_nics(node) if not n.is_vf]
    if not judged:
        yield NotApplicable("no compute NIC in the input")
        return
    ports = [(n, p) for n in judged for p in n.ports if any(dict(r).keys() & set(_COUNTERS) for r in p.readings)]
    if not ports:
        yield Skip("no traffic counters in the input")
    elif (counted := len({n.id for n, _ in ports})) < len(judged):
        yield Skip(f"traffic counters read of {counted} of {len(judged)} NICs", partial=True)
    for nic, port in ports:
        if said := _signs(port):
            yield _finding(nic, port, said)


def _signs(port: RdmaPort) -> dict[str, int]:
    """The counters that speak of congestion, with what they counted."""
    first = dict(port.readings[0]) if len(port.readings) > 1 else {}
    last = dict(port.readings[-1])
    grown = {c: last[c] - first.get(c, 0) for c in _COUNTERS if c in last}
    signs = {}
    sent = grown.get("port_xmit_data", 0)
    if sent > 0 and grown.get("port_xmit_wait", 0) > _WAIT_PER_WORD * sent:
        signs["port_xmit_wait"] = grown["port_xmit_wait"]
    if grown.get("port_xmit_discards", 0) > 0:
        signs["port_xmit_discards"] = grown["port_xmit_discards"]
    return signs


def _finding(nic: Device, port: RdmaPort, signs: dict[str, int]) -> Finding:
    two = len(port.readings) > 1
    said = ", ".join(f"{counter} {'+' if two else ''}{value}" for counter, value in signs.items())
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning" if two else "info",
        subjects=(nic.id,),
        message=f"{nic.id} port {port.port} is held back by the fabric: {said}"
        + (" between two readings" if two else " in one reading"),
        repair="Look at the switch port's counters and at the routing; find the receiver that holds the others back",
        evidence=tuple(line for c in signs if (line := port.lines.get(c))),
        readings=len(port.readings),
        patches=(SetField(nic.id, "readings", (), port.port),),
    )
