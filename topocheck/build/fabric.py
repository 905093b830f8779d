"""What fabric tools and LLDP say of this node's own ports: the leaf at the other end, counters read by LID.

A fabric file lists other nodes' ports too: only a port's GUID, its LID, or this host's name beside the device's tie an
entry to a port of ours; LLDP speaks of this host's interfaces.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from topocheck.facts import Cabling, Gap, LeafPort, PortCounters, RdmaPort
from topocheck.graph import Device
from topocheck.hardware.network import ib_rate_gbit_per_s

_TRUST = ("lldp", "ibnetdiscover", "iblinkinfo")


def with_fabric(
    nics: list[Device], cabling: list[Cabling], counters: list[PortCounters], host: str | None
) -> list[Device]:
    """The NICs, their ports with leaf and counters as far as some input says."""
    if not cabling and not counters:
        return nics
    ordered = sorted(cabling, key=lambda c: _TRUST.index(c.leaf.by))
    return [
        replace(nic, ports=tuple(_with_counters(_with_leaf(nic, p, ordered, host), counters) for p in nic.ports))
        for nic in nics
    ]


def _with_leaf(nic: Device, port: RdmaPort, cabling: Iterable[Cabling], host: str | None) -> RdmaPort:
    own = [c for c in cabling if _is_of(c, nic, port, host)]
    if not own:
        return port
    able, line = next(((ib_rate_gbit_per_s(*c.able), c.leaf.line) for c in own if c.able), (None, None))
    lines = port.lines if line is None else {**port.lines, "able": line}
    return replace(port, leaf=own[0].leaf, able_gbit_per_s=able, lines=lines)


def _is_of(cable: Cabling, nic: Device, port: RdmaPort, host: str | None) -> bool:
    if cable.netdev is not None:
        return cable.netdev == port.netdev
    if cable.port_guid and port.guid:
        return cable.port_guid == port.guid
    if cable.lid and port.lid:
        return cable.lid == port.lid
    return bool(host and len(nic.ports) == 1 and cable.node_desc == f"{host.partition('.')[0]} {nic.id}")


def _with_counters(port: RdmaPort, counters: list[PortCounters]) -> RdmaPort:
    """perfquery's readings where they are more than sysfs gave; a port of a node is the one its LID names."""
    own = [c for c in counters if port.lid and c.lid == port.lid and c.port == port.port]
    if len(own) <= len(port.readings):
        return port
    lines = {**own[-1].lines, **port.lines}
    return replace(port, readings=tuple(c.values for c in own), lines=lines)


def untied(nics: list[Device], cabling: Iterable[Cabling], counters: Iterable[PortCounters]) -> list[Gap]:
    """A gap for each fabric tool in whose output no port of this node was found."""
    tied = {p.leaf.by for n in nics for p in n.ports if p.leaf}
    own_lids = {p.lid for n in nics for p in n.ports if p.lid}
    foreign = {c.witness for c in cabling if c.netdev is None} - tied
    foreign |= {c.witness for c in counters} if own_lids.isdisjoint(c.lid for c in counters) else set()
    return [Gap(tool, "no port of this node was found in it") for tool in sorted(foreign)]


def other_hosts_leaves(cabling: Iterable[Cabling], nics: list[Device]) -> dict[str, dict[str, LeafPort]]:
    """Host name → device → leaf, of the nodes whose descriptions name both ("gpu02 mlx5_3"), this node left out."""
    ours = {(p.guid, None) for n in nics for p in n.ports if p.guid} | {(None, p.lid) for n in nics for p in n.ports}
    found: dict[str, dict[str, LeafPort]] = {}
    own: set[str] = set()
    for cable in cabling:
        name, _, device = (cable.node_desc or "").partition(" ")
        if not device or " " in device:
            continue
        found.setdefault(name, {})[device] = cable.leaf
        if (cable.port_guid, None) in ours or (cable.port_guid is None and cable.lid and (None, cable.lid) in ours):
            own.add(name)
    return {name: leaves for name, leaves in found.items() if name not in own}
