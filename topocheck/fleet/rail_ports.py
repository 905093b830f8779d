"""Which leaf, or for RoCE which subnet, each rail's port of each node reaches, with rails counted alike on all nodes.

A listing's cable belongs to the port of its GUID, whatever the node description says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from topocheck.fleet.fabric import HostCable, Listing
from topocheck.fleet.hosts import short_name
from topocheck.fleet.listed_hosts import listed_hosts
from topocheck.fleet.rail_nodes import Cable, RailNode, aligned
from topocheck.fleet.record import NodeRecord, RailPort


class Cabling(NamedTuple):
    """All nodes of which some cable was seen, who told of it, and what was left out."""

    nodes: tuple[RailNode, ...]
    by: tuple[str, ...]
    notes: tuple[str, ...] = ()


def cabled(records: Sequence[NodeRecord], listings: Sequence[Listing]) -> Cabling:
    """The leaves: by listing, else by the node's own report; then the hosts that only a listing knows."""
    cables = _each_once(cable for listing in listings for cable in listing.cables)
    of_port = {c.guid: c for c in reversed(cables) if c.guid}
    named = {(c.host, c.device, c.port or 1): c for c in reversed(cables) if not c.guid}
    by: set[str] = set()
    nodes = []
    for record in records:
        ports = _rail_ports(record)
        seen = [of_port.get(p.guid or "") or named.get((short_name(record.host), p.nic, p.port)) for p in ports]
        if any(seen):
            reached = [_cable(record, p, c.switch, c.switch_port) for p, c in zip(ports, seen, strict=True) if c]
            by.update(c.by for c in seen if c)
        else:
            reached = [_cable(record, p, p.leaf, p.leaf_port) for p in ports if p.leaf]
            by.update(p.by for p in ports if p.leaf and p.by)
        nodes.append(_node(record, reached))
    guids = {port.guid for record in records for port in record.ports if port.guid}
    reported = {short_name(record.host) for record in records}
    reported |= {short_name(c.host) for c in cables if c.host and c.guid in guids}  # by whatever name
    alone, shared = listed_hosts(cables, reported)
    by.update(c.by for c in cables if alone)
    nameless = sum(not c.host and c.guid not in guids for c in cables)
    found = tuple(n for n in (*aligned(nodes), *alone) if n.cables)
    return Cabling(found, tuple(sorted(by)), tuple(_notes(nameless, sorted(shared))))


def _notes(nameless: int, shared: Sequence[str]) -> Iterator[str]:
    if nameless:
        yield f"{nameless} CA ports not compared: their description names no host"
    if shared:
        yield f"{', '.join(shared[:5])}: not compared, several hosts go by this name"


def addressed(records: Sequence[NodeRecord]) -> Cabling:
    """The subnets of RoCE ports; a link-local prefix is none."""
    nodes = [
        _node(record, [_cable(record, p, p.subnet, None) for p in _rail_ports(record) if p.subnet and _routed(p)])
        for record in records
    ]
    return Cabling(tuple(n for n in aligned(nodes) if n.cables), ("subnet",) if any(n.cables for n in nodes) else ())


def _routed(port: RailPort) -> bool:
    return port.link_layer == "ethernet" and not (port.subnet or "").startswith("fe80")


def _rail_ports(record: NodeRecord) -> list[RailPort]:
    return [p for p in record.ports if p.rail is not None and p.link_layer != "efa" and p.state != "down"]


def _cable(record: NodeRecord, port: RailPort, at: str | None, at_port: str | None) -> Cable:
    rate = port.rate_gbit_per_s
    return Cable(record.host, port.nic, port.bdf, port.guid, port.port, port.rail or 0, at or "", at_port, rate)


def _node(record: NodeRecord, cables: Iterable[Cable]) -> RailNode:
    """A port that is down takes no part, its NIC keeps its place in the order."""
    positions = {p.rail: p.bdf or p.nic for p in sorted(record.ports, key=_rail) if p.rail is not None}
    order = tuple(dict.fromkeys(positions.values()))
    node = RailNode(record.host, f"{record.kind.platform}, {record.kind.gpu_model}", order, tuple(cables))
    return node if list(positions) == list(range(len(order))) else node.ordered(order)


def _rail(port: RailPort) -> int:
    return -1 if port.rail is None else port.rail


def _each_once(cables: Iterable[HostCable]) -> list[HostCable]:
    """A port that is listed from both sides, or by two tools, counts once; the entry with a GUID first."""
    found: dict[tuple[str | None, str | None, int | None, str, str], HostCable] = {}
    for cable in sorted(cables, key=lambda c: c.guid is None):
        found.setdefault((cable.host, cable.device, cable.port or 1, cable.switch, cable.switch_port), cable)
    return list(found.values())
