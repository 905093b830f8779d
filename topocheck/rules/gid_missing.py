"""
A RoCE port has no RoCE v2 GID, or has it at another index than its equals.

Why it matters: NCCL and MPI take one GID index for all NICs (NCCL_IB_GID_INDEX, or the one they find): where it is
another's or none, connections fail or run over another address. It stops jobs rather than slowing them.

Usual cause: an interface without an IPv4 address (DHCP, netplan), addresses set in another order on this interface.

Repair: give the interface its address as on the others, then restart it, so that the GID table is filled alike.

Silent when: the port is InfiniBand or EFA, or down; front-end and storage NICs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from topocheck.facts import Gid, RdmaPort
from topocheck.finding import Answer, Finding, NotApplicable, Skip, enough, equals_of
from topocheck.graph import Device, Topology
from topocheck.patches import SetField

ID = "NET007"
NAME = "gid-missing"


class RocePort(NamedTuple):
    """A RoCE port in use whose GID table was read; v2_index: of its v2 entry with an IPv4 address."""

    nic: Device
    port: RdmaPort
    v2_index: int | None


def check(node: Topology) -> Iterator[Answer]:
    """GID tables of the compute NICs' Ethernet ports."""
    judged = [n for n in node.nics if n.role in ("compute", "unknown") and not n.efa]
    ports = [(n, p) for n in judged for p in n.ports if p.link_layer == "ethernet" and p.state in ("active", None)]
    if not ports:
        yield NotApplicable("no RoCE port in use")
        return
    read = [RocePort(n, p, _v2_ipv4(p)) for n, p in ports if any(g.version for g in p.gids)]
    if not read:
        yield Skip("no GID table in the input")
    elif len(read) < len(ports):
        yield Skip(f"GID table read of {len(read)} of {len(ports)} RoCE ports", partial=True)
    for at in read:
        if not any(g.version == "v2" for g in at.port.gids):
            yield _missing(at, _others_index(node, at, read))
        elif (common := _others_index(node, at, read)) is not None and common != at.v2_index:
            yield _unlike(at, common)


def _v2_ipv4(port: RdmaPort) -> int | None:
    return next((g.number for g in port.gids if g.version == "v2" and g.ipv4), None)


def _others_index(node: Topology, at: RocePort, read: list[RocePort]) -> int | None:
    """The index most of its equals have their v2/IPv4 GID at."""
    equals = {e.id for e in equals_of(node, at.nic)}
    indexes = [o.v2_index for o in read if o.nic.id in equals]
    if not indexes:
        return None
    (common, count), *_ = Counter(indexes).most_common()
    return common if enough(count, len(indexes)) else None


def _missing(at: RocePort, common: int | None) -> Finding:
    line = at.port.lines.get("gids")
    last = at.port.gids[-1]
    new = last._replace(version="v2", number=last.number + 1 if common is None else common)
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning",
        subjects=(at.nic.id,),
        message=f"{at.nic.id} port {at.port.port} has {len(at.port.gids)} GIDs, none of them RoCE v2",
        repair="Give its interface an address as on the others and restart it; check that RoCE v2 is enabled",
        evidence=(line,) if line else (),
        effect="stops",
        patches=(SetField(at.nic.id, "gids", (*at.port.gids, new), at.port.port),),
    )


def _unlike(at: RocePort, common: int) -> Finding:
    line = at.port.lines.get("gids")
    where = f"its RoCE v2 IPv4 GID at index {at.v2_index}"
    have = "no RoCE v2 GID with an IPv4 address" if at.v2_index is None else where
    gids = tuple(g._replace(number=common) if g.number == at.v2_index else g for g in at.port.gids)
    if at.v2_index is None:
        gids = (*gids, Gid(common, "0000:0000:0000:0000:0000:ffff:0a00:0001", "v2"))
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning",
        subjects=(at.nic.id,),
        message=f"{at.nic.id} port {at.port.port} has {have}, its equals at index {common}",
        repair="Set the interface's address as on the others and restart it, so that the GID table is filled alike",
        evidence=(line,) if line else (),
        effect="stops",
        expected_from="equals",
        patches=(SetField(at.nic.id, "gids", gids, at.port.port),),
    )
