"""
A port's error counters rise, or stand far above those of its equals.

Why it matters: a link that goes down or recovers stops its traffic for up to seconds, and a collective waits for its
slowest member; symbol errors are the early sign. How much it costs is not known.

Usual cause: a dirty or damaged cable or transceiver, a bad switch port.

Repair: clean or reseat the cable, swap cable and transceiver with a neighbour and see which side the errors follow.

Silent when: the counters are alike on all equals. One reading says nothing of when: info.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median

from topocheck.facts import RdmaPort
from topocheck.finding import Answer, Finding, NotApplicable, Skip, equals_of
from topocheck.graph import Device, Topology
from topocheck.judging import judged_nics
from topocheck.patches import SetField

ID = "NET003"
NAME = "port-errors"
_COUNTERS = ("link_downed", "link_error_recovery", "symbol_error", "packet_seq_err", "local_ack_timeout_err")
_TIMES_MEDIAN = 10  # rules.md
_SATURATED = 0xFFFFFFFF  # a 32-bit counter at its end says no number


def check(node: Topology) -> Iterator[Answer]:
    """Counters that rise between readings; in one reading those far above the equals' median."""
    judged = [n for n in judged_nics(node) if not n.is_vf]
    if not judged:
        yield NotApplicable("no compute NIC in the input")
        return
    counted = [n for n in judged if any(p.readings for p in n.ports)]
    if not counted:
        yield Skip("no port counters in the input")
    elif len(counted) < len(judged):
        yield Skip(f"port counters read of {len(counted)} of {len(judged)} NICs", partial=True)
    for nic in counted:
        for port in nic.ports:
            if rising := _rising(port):
                yield _finding(nic, port, rising, rose=True)
            elif high := _high(node, nic, port):
                yield _finding(nic, port, high, rose=False)


def _rising(port: RdmaPort) -> dict[str, int]:
    """By how much each counter grew from the first reading to the last."""
    if len(port.readings) < 2:
        return {}
    first, last = dict(port.readings[0]), dict(port.readings[-1])
    return {c: last[c] - first[c] for c in _COUNTERS if c in first and c in last and last[c] > first[c]}


def _high(node: Topology, nic: Device, port: RdmaPort) -> dict[str, int]:
    others = [_last(p) for e in equals_of(node, nic) for p in e.ports]
    found = {}
    for counter, value in _last(port).items():
        known = [o[counter] for o in others if counter in o]
        if len(known) >= 2 and value >= _TIMES_MEDIAN * max(1.0, median(known)):
            found[counter] = value
    return found


def _last(port: RdmaPort) -> Mapping[str, int]:
    values = dict(port.readings[-1]) if port.readings else {}
    return {c: values[c] for c in _COUNTERS if values.get(c, _SATURATED) != _SATURATED}


def _finding(nic: Device, port: RdmaPort, counts: dict[str, int], *, rose: bool) -> Finding:
    much = f"at least {_TIMES_MEDIAN} times its equals' median"
    still = f"{much}, in one reading" if len(port.readings) == 1 else f"{much}, not rising"
    how = "rose between two readings" if rose else still
    said = ", ".join(f"{counter} {'+' * rose}{value}" for counter, value in counts.items())
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning" if rose else "info",
        subjects=(nic.id,),
        message=f"{nic.id} port {port.port}: {said} ({how})",
        repair="Clean or reseat its cable and transceiver; swap them with a neighbour's and see where the errors go",
        evidence=tuple(line for c in counts if (line := port.lines.get(c))),
        effect="risks",
        expected_from=None if rose else "equals",
        readings=len(port.readings),
        patches=(SetField(nic.id, "readings", (), port.port),),
    )
