"""Which leaf, or for RoCE which subnet, each rail's port of each node reaches, with rails counted alike on all nodes.

A listing's cable belongs to the port of its GUID. Hosts that only a listing knows go by their node description, and
their rails by the order of the device names.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from topocheck.fleet.fabric import HostCable, Listing
from topocheck.fleet.record import NodeRecord, RailPort

UNREPORTED = "known from a listing alone"
COMMON = 3  # nodes that make an order of NICs one of its own
_LAYOUTS = 16  # the commonest ones, in which a node's missing NIC is looked for
_LEAST_ALONE = 4  # ports that make a host without a report a rail node, however many others have


class Cable(NamedTuple):
    """A port of a rail and what it reaches; `at`: the leaf or the subnet."""

    host: str
    nic: str
    bdf: str | None
    guid: str | None
    port: int
    rail: int
    at: str
    at_port: str | None
    rate_gbit_per_s: float | None = None

    @property
    def position(self) -> str:
        """Its NIC's PCI address; the name where there is no report."""
        return self.bdf or self.nic

    @property
    def key(self) -> tuple[int, int]:
        """The place that is the same on all nodes: the rail, and the port of its NIC."""
        return self.rail, self.port


class RailNode(NamedTuple):
    """A node's cables. Only nodes of one species (platform and GPU model, or known from a listing alone) and one number
    of NICs are compared. `order`: the NICs' PCI addresses, or their names where there is no report, by rail."""

    host: str
    species: str
    order: tuple[str, ...]
    cables: tuple[Cable, ...]

    @property
    def kind(self) -> tuple[str, int]:
        """What makes nodes comparable."""
        return self.species, len(self.order)

    @property
    def reported(self) -> bool:
        """Whether there is a report of it, so that its NICs are known by PCI position."""
        return self.species != UNREPORTED

    def ordered(self, order: tuple[str, ...]) -> RailNode:
        """The same with its rails counted in another order; a NIC that is not in it is left out."""
        place = {position: rail for rail, position in enumerate(order)}
        moved = ((place.get(c.position), c) for c in self.cables)
        return self._replace(order=order, cables=tuple(c._replace(rail=r) for r, c in moved if r is not None))


class Cabling(NamedTuple):
    """All nodes of which some cable was seen, and who told of it."""

    nodes: tuple[RailNode, ...]
    by: tuple[str, ...]


def cabled(records: Sequence[NodeRecord], listings: Sequence[Listing]) -> Cabling:
    """The leaves: by listing, else by the node's own report; then the hosts that only a listing knows."""
    cables = _each_once(cable for listing in listings for cable in listing.cables)
    of_port = {c.guid: c for c in reversed(cables) if c.guid}
    named = {(c.host, c.device): c for c in reversed(cables) if not c.guid}
    by: set[str] = set()
    nodes = []
    for record in records:
        ports = _rail_ports(record)
        seen = [of_port.get(p.guid or "") or named.get((_short(record.host), p.nic)) for p in ports]
        if any(seen):
            reached = [_cable(record, p, c.switch, c.switch_port) for p, c in zip(ports, seen, strict=True) if c]
            by.update(c.by for c in seen if c)
        else:
            reached = [_cable(record, p, p.leaf, p.leaf_port) for p in ports if p.leaf]
            by.update(p.by for p in ports if p.leaf and p.by)
        nodes.append(_node(record, reached))
    alone = _unreported(cables, records)
    by.update(c.by for c in cables if alone)
    found = [*_aligned(nodes), *_fast(_aligned(alone))]
    return Cabling(tuple(n for n in found if n.cables), tuple(sorted(by)))


def addressed(records: Sequence[NodeRecord]) -> Cabling:
    """The subnets of RoCE ports; a link-local prefix is none."""
    nodes = [
        _node(record, [_cable(record, p, p.subnet, None) for p in _rail_ports(record) if p.subnet and _routed(p)])
        for record in records
    ]
    return Cabling(tuple(n for n in _aligned(nodes) if n.cables), ("subnet",) if any(n.cables for n in nodes) else ())


def _routed(port: RailPort) -> bool:
    return port.link_layer == "ethernet" and not (port.subnet or "").startswith("fe80")


def _rail_ports(record: NodeRecord) -> list[RailPort]:
    return [p for p in record.ports if p.rail is not None and p.link_layer != "efa" and p.state != "down"]


def _cable(record: NodeRecord, port: RailPort, at: str | None, at_port: str | None) -> Cable:
    rate = port.rate_gbit_per_s
    return Cable(record.host, port.nic, port.bdf, port.guid, port.port, port.rail or 0, at or "", at_port, rate)


def _node(record: NodeRecord, cables: Iterable[Cable]) -> RailNode:
    """A port that is down takes no part, its NIC keeps its place in the order."""
    order = tuple({p.rail: p.bdf or p.nic for p in sorted(record.ports, key=_rail) if p.rail is not None}.values())
    return RailNode(record.host, f"{record.kind.platform}, {record.kind.gpu_model}", order, tuple(cables))


def _rail(port: RailPort) -> int:
    return -1 if port.rail is None else port.rail


def _each_once(cables: Iterable[HostCable]) -> list[HostCable]:
    """A port that is listed from both sides, or by two tools, counts once; the entry with a GUID first."""
    found: dict[tuple[str | None, str | None, int | None, str, str], HostCable] = {}
    for cable in sorted(cables, key=lambda c: c.guid is None):
        found.setdefault((cable.host, cable.device, cable.port or 1, cable.switch, cable.switch_port), cable)
    return list(found.values())


def _short(host: str) -> str:
    return host.partition(".")[0]


def _unreported(cables: Iterable[HostCable], records: Iterable[NodeRecord]) -> list[RailNode]:
    """Hosts by node description. Where one name has two cables at one port, several hosts go by it: none is known."""
    reported = {_short(record.host) for record in records}
    of_host: dict[str, dict[tuple[str, int], HostCable]] = {}
    twofold = set()
    for cable in cables:
        if cable.host and cable.device and _short(cable.host) not in reported:
            ports = of_host.setdefault(cable.host, {})
            if ports.setdefault((cable.device, cable.port or 1), cable) is not cable:
                twofold.add(cable.host)
    return _rail_hosts([_host(host, ports) for host, ports in of_host.items() if host not in twofold])


def _host(host: str, ports: Mapping[tuple[str, int], HostCable]) -> RailNode:
    order = tuple(sorted({device for device, _ in ports}, key=_natural))
    place = {device: rail for rail, device in enumerate(order)}
    cables = tuple(
        Cable(host, device, None, c.guid, port, place[device], c.switch, c.switch_port, c.rate_gbit_per_s)
        for (device, port), c in ports.items()
    )
    return RailNode(host, UNREPORTED, order, cables)


@lru_cache(maxsize=4096)
def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """mlx5_9 before mlx5_10."""
    return tuple((int(piece[:18]), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"(\d+)", name))


def _rail_hosts(hosts: list[RailNode]) -> list[RailNode]:
    """Without those that have few ports beside the others: login, storage and management hosts."""
    sizes = Counter(len(h.order) for h in hosts)
    usual = max((size for size, count in sizes.items() if count >= COMMON), default=0)
    common = {size for size, count in sizes.items() if count >= COMMON and size >= _LEAST_ALONE}
    return [h for h in hosts if 2 * len(h.order) > usual or len(h.order) in common]


def _aligned(nodes: Iterable[RailNode]) -> Iterator[RailNode]:
    """A node that lacks a NIC keeps the rails of its sisters: its order is part of a commoner one. One that has another
    number of NICs than most, in an order that few have, cannot be compared."""
    nodes = list(nodes)
    layouts: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    sizes: dict[str, Counter[int]] = defaultdict(Counter)
    for node in nodes:
        layouts[node.species][node.order] += 1
        sizes[node.species][len(node.order)] += 1
    known = {species: [_Layout(*entry) for entry in c.most_common(_LAYOUTS)] for species, c in layouts.items()}
    usual = {species: max(c, key=lambda size: (c[size], size)) for species, c in sizes.items()}
    for node in nodes:
        count = layouts[node.species][node.order]
        if order := _commoner(node, count, known[node.species]):
            yield node.ordered(order)
        elif count >= COMMON or len(node.order) == usual[node.species]:
            yield node


class _Layout(NamedTuple):
    order: tuple[str, ...]
    nodes: int


def _commoner(node: RailNode, count: int, layouts: Iterable[_Layout]) -> tuple[str, ...] | None:
    size = len(node.order)
    return next(
        (
            layout.order
            for layout in layouts
            if layout.nodes >= count and size < len(layout.order) < 2 * size and set(node.order).issubset(layout.order)
        ),
        None,
    )


def _fast(nodes: Iterable[RailNode]) -> list[RailNode]:
    """Without the NICs that are slower than others on most hosts: storage, in a listing that knows no roles."""
    nodes = list(nodes)
    rates: dict[tuple[str, int], dict[int, Counter[float]]] = defaultdict(lambda: defaultdict(Counter))
    for node in nodes:
        for cable in node.cables:
            rates[node.kind][cable.rail][cable.rate_gbit_per_s or 0.0] += 1
    usual = {kind: {r: c.most_common(1)[0][0] for r, c in of_rail.items()} for kind, of_rail in rates.items()}
    slow = {kind: {r for r, rate in rails.items() if 0 < rate < max(rails.values())} for kind, rails in usual.items()}
    return [
        n.ordered(tuple(p for rail, p in enumerate(n.order) if rail not in slow[n.kind])) if slow[n.kind] else n
        for n in nodes
    ]
