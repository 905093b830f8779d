"""
A port runs a smaller MTU than the ports of its equals.

Why it matters: two ends of a path agree on the smaller MTU; more packets for the same data, and on RoCE the whole rail
is as slow as its smallest MTU. How much it costs is not known.

Usual cause: an interface left at 1500 bytes when the others were set to 9000; a switch port or partition (P_Key) with
another MTU.

Repair: set the interface's MTU (RoCE), or the partition's in the subnet manager (InfiniBand), to that of the others.

Silent when: the port is down; front-end and storage NICs; all RoCE ports alike at 1024 (info: a choice of the cluster).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from topocheck.facts import RdmaPort
from topocheck.finding import Answer, Finding, NotApplicable, Skip, enough, equals_of
from topocheck.graph import Device, Topology
from topocheck.patches import SetField

ID = "NET004"
NAME = "port-mtu"
_SMALLEST_ROCE = 1024  # what an interface MTU of 1500 leaves


class ActivePort(NamedTuple):
    """An active port of a compute NIC whose MTU was read."""

    nic: Device
    port: RdmaPort
    mtu: int


def check(node: Topology) -> Iterator[Answer]:
    """The active MTU against that of the equals' active ports."""
    active = [n for n in node.compute_nics if n.state == "active" and not n.is_vf]
    if not active:
        yield NotApplicable("no active port of a compute NIC")
        return
    read = [ActivePort(n, p, p.mtu) for n in active for p in n.ports if p.state == "active" and p.mtu]
    if not read:
        yield Skip("no MTU of an active port in the input")
    elif (known := len({at.nic.id for at in read})) < len(active):
        yield Skip(f"MTU read of {known} of {len(active)} active NICs", partial=True)
    for at in read:
        equals = {e.id for e in equals_of(node, at.nic)}
        others = [o.mtu for o in read if o.nic.id in equals]
        larger = [mtu for mtu in others if mtu > at.mtu]
        if enough(len(larger), len(others)):
            yield _unlike(at, max(set(larger), key=larger.count), len(larger))
    if len(read) > 1 and all(o.mtu == _SMALLEST_ROCE and o.port.link_layer == "ethernet" for o in read):
        yield _all_small(read)


def _unlike(at: ActivePort, mtu: int, count: int) -> Finding:
    line = at.port.lines.get("mtu")
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning",
        subjects=(at.nic.id,),
        message=f"{at.nic.id} port {at.port.port} has an active MTU of {at.mtu} bytes, {count} of its equals {mtu}",
        repair=f"Set its MTU to that of the others ({mtu}): the interface's on RoCE, the partition's on InfiniBand",
        evidence=(line,) if line else (),
        expected_from="equals",
        patches=(SetField(at.nic.id, "mtu", mtu, at.port.port),),
    )


def _all_small(read: list[ActivePort]) -> Finding:
    line = read[0].port.lines.get("mtu")
    return Finding(
        rule=ID,
        name=NAME,
        severity="info",
        subjects=tuple(dict.fromkeys(o.nic.id for o in read)),
        message=f"all {len(read)} RoCE ports have an active MTU of {_SMALLEST_ROCE} bytes (interface MTU 1500): "
        f"4096 needs 4200 or more on hosts and switches",
        repair="Raise the interface MTU on all hosts and switches of the fabric, or leave it as it was chosen",
        evidence=(line,) if line else (),
        effect="none",
    )
