"""Cables of hosts that are not as their sisters': slower or narrower (NET002), or not there (NET001).

Sisters are hosts whose names differ in numbers only and that have the same ports cabled. A management, login or storage
host is none of a compute node, and a CA whose description names no host is compared with nobody.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from topocheck.fleet.fabric import HostCable, Listing, Trunk, contradictions
from topocheck.fleet.hosts import short_name
from topocheck.fleet.peers import Peers, compared, family, few, fix, most, place, speed_words
from topocheck.fleet.record import NodeRecord, RailPort
from topocheck.fleet.report import RailEnd, RailFault, Rails
from topocheck.fleet.tiers import Tree, bisection_gbit_per_s, leaves, tier_words, tree
from topocheck.fleet.uplinks import uplink_faults

_RESEAT = "Reseat the cable at both ends and set both ports' speed to auto; else exchange cable or transceiver"
_ALL_LANES = 4
_SEVERAL = 4  # cables of one host
_SHAPES = 16  # the commonest ones, among which that of a host with a cable missing is looked for
Key = tuple[str, int]  # device and port
Ports = dict[Key, HostCable]


def with_cables(rails: Rails, nodes: Sequence[NodeRecord], listings: Sequence[Listing]) -> Rails:
    """The rails with what the listings say of leaves, bisection and faulty cables; errors first."""
    if not listings:
        return rails
    found = tree(listings)
    faults = sorted((*rails.faults, *cable_faults(found, nodes)), key=lambda fault: fault.severity != "error")
    return replace(
        rails,
        leaves=leaves(found),
        bisection_gbit_per_s=bisection_gbit_per_s(found),
        faults=tuple(faults),
        notes=(*_disagreement(listings), *rails.notes, *tier_words(found)),
    )


def _disagreement(listings: Sequence[Listing]) -> Iterator[str]:
    if ports := contradictions(listings):
        yield f"the listings have different hosts in {ports} switch ports: of different times? The first counts"


def cable_faults(found: Tree, nodes: Sequence[NodeRecord]) -> tuple[RailFault, ...]:
    """The cables, of hosts and between switches, that are not as others in the same place."""
    reports = _Reports(nodes)
    faults: list[RailFault] = []
    for group in _sisters(_hosts(found, reports)):
        faults += _slow(group, reports)
        faults += _MissingCables(group, found, reports).faults()
    faults += uplink_faults(found)
    return (*faults, *_lone(found, reports, {f.message.partition(" runs ")[0] for f in faults}))


def _lone(found: Tree, reports: _Reports, told: set[str]) -> Iterator[RailFault]:
    """Slow by what the listing says of the cable itself, where there may be no sister to compare it with."""
    groups: dict[str, list[HostCable | Trunk]] = {"between switches": [*found.all_trunks]}
    for of_host in (reports.named(c) for of_switch in found.cables.values() for c in of_switch):
        groups.setdefault(family(of_host.host or ""), []).append(of_host)
    everywhere = [cable for alike in groups.values() for cable in alike]
    meant = not few(len(_below(everywhere)), len(everywhere))
    for alike in groups.values():
        for cable, why in (*(() if meant else _below_both_ends(alike)), *_single_lane(alike)):
            if (where := place(cable)) not in told:
                told.add(where)
                own = speed_words(cable.rate_gbit_per_s, cable.width, cable.speed)
                yield RailFault("NET002", "warning", _ends(cable, reports), f"{where} runs at {own}; {why}", _RESEAT)


def _below_both_ends(alike: Sequence[HostCable | Trunk]) -> Iterator[tuple[HostCable | Trunk, str]]:
    """As iblinkinfo says of few; many were meant to be so."""
    slow = _below(alike)
    for cable in slow if few(len(slow), len(alike)) else ():
        yield cable, f"both ends support {cable.able_gbit_per_s:g} Gb/s"


def _below(cables: Sequence[HostCable | Trunk]) -> list[HostCable | Trunk]:
    return [c for c in cables if (c.able_gbit_per_s or 0) > (c.rate_gbit_per_s or math.inf)]


def _single_lane(alike: Sequence[HostCable | Trunk]) -> Iterator[tuple[HostCable | Trunk, str]]:
    """The only one beside several with all lanes."""
    known = [c for c in alike if c.rate_gbit_per_s]
    narrow, wide = ([c for c in known if c.width == lanes] for lanes in (1, _ALL_LANES))
    if len(narrow) == 1 and len(wide) > 1:
        yield narrow[0], f"{len(wide)} of {len(alike)} have {_ALL_LANES} lanes"


def _ends(cable: HostCable | Trunk, reports: _Reports) -> tuple[RailEnd, ...]:
    if isinstance(cable, Trunk) or cable.host is None or cable.device is None:
        return ()
    key = cable.device, cable.port or 1
    port = reports.port(cable.host, key)
    return (_end(cable.host, key, port, cable.guid, cable.switch, cable.switch_port, None),)


class _Reports:
    """What the nodes' own reports say of their ports."""

    def __init__(self, nodes: Iterable[NodeRecord]) -> None:
        self._nodes = {short_name(n.host): n for n in nodes}
        self._ports = {p.guid: (n, p) for n in self._nodes.values() for p in n.ports if p.guid}

    def named(self, cable: HostCable) -> HostCable:
        """The cable with its host and NIC as they are called in the report that has its GUID."""
        if cable.guid not in self._ports:
            return cable
        node, port = self._ports[cable.guid]
        return cable._replace(host=node.host, device=port.nic, port=port.port)

    def port(self, host: str, key: Key) -> RailPort | None:
        """The port of a host, as its report has it."""
        node = self._nodes.get(short_name(host))
        return next((p for p in node.ports if (p.nic, p.port) == key), None) if node else None


def _hosts(found: Tree, reports: _Reports) -> dict[str, Ports]:
    """Host → port → cable; a name with two cables at one port is several hosts', none of them known."""
    hosts: dict[str, Ports] = {}
    shared = set()
    for cable in (reports.named(c) for cables in found.cables.values() for c in cables):
        if cable.host and cable.device is not None:
            key = cable.device, cable.port or 1
            if hosts.setdefault(cable.host, {}).setdefault(key, cable) is not cable:
                shared.add(cable.host)
    return {host: ports for host, ports in hosts.items() if host not in shared}


def _sisters(hosts: dict[str, Ports]) -> list[dict[str, Ports]]:
    """Hosts by kind."""
    shapes: dict[str, Counter[frozenset[Key]]] = {}
    for host, ports in hosts.items():
        shapes.setdefault(family(host), Counter())[frozenset(ports)] += 1
    full = {(name, shape): _full(shape, counts) for name, counts in shapes.items() for shape in counts}
    groups: dict[tuple[str, frozenset[Key]], dict[str, Ports]] = {}
    for host, ports in hosts.items():
        name = family(host)
        groups.setdefault((name, full[name, frozenset(ports)]), {})[host] = ports
    return list(groups.values())


def _full(shape: frozenset[Key], counts: Counter[frozenset[Key]]) -> frozenset[Key]:
    """The ports that a host with these should have: a quarter may be missing on few, half on one."""
    alike = counts[shape]
    for other, count in counts.most_common(_SHAPES):
        lacking = other - shape
        fewest = len(lacking) <= len(other) // (2 if alike == 1 else 4) and count > 2 * alike
        if shape < other and fewest and (few(alike, count) or _skipped(lacking, shape)):
            return other
    return shape


def _skipped(lacking: frozenset[Key], shape: frozenset[Key]) -> bool:
    """Whether all of these are passed over in a count: mlx5_2, mlx5_4. Names count what is there, so they are."""
    last: dict[str, int] = {}
    for prefix, number in (_counted(device) for device, _ in shape):
        last[prefix] = max(number, last.get(prefix, -1))
    return all(number < last.get(prefix, -1) for prefix, number in (_counted(device) for device, _ in lacking))


def _counted(device: str) -> tuple[str, int]:
    """mlx5_3 → mlx5_, 3."""
    prefix = device.rstrip("0123456789")
    return prefix, int(device[len(prefix) :] or 0)


def _slow(group: dict[str, Ports], reports: _Reports) -> Iterator[RailFault]:
    """At a rate below that of most sisters with such a device at the same port. A host that is slow at all of several
    ports has other HCAs, and so have several that are slow at the same ones, and several alike with few ports."""
    alike_at: dict[tuple[Key, str | None], list[HostCable]] = {}
    for ports in group.values():
        for key, cable in ports.items():
            alike_at.setdefault((key, cable.model), []).append(cable)
    of_kind = {place: Peers(cables) for place, cables in alike_at.items()}
    peers = {host: {k: of_kind[k, c.model] for k, c in ports.items()} for host, ports in group.items()}
    outrun = {h: tuple(k for k, c in sorted(ports.items()) if peers[h][k].outrun(c)) for h, ports in group.items()}
    alike = Counter(outrun.values())
    for host, slow in outrun.items():
        ports = group[host]
        if len(slow) == len(ports) >= _SEVERAL:
            continue
        if len(ports) < _SEVERAL or (len(slow) > 1 and not few(alike[slow], len(group))):
            slow = tuple(key for key in slow if peers[host][key].rare(ports[key]))
        yield from (_slow_fault(host, key, ports[key], peers[host][key], reports) for key in slow)


def _slow_fault(host: str, key: Key, cable: HostCable, peers: Peers, reports: _Reports) -> RailFault:
    message = (
        f"{place(cable)} runs {compared(cable, peers, f'cables at {cable.device}' if cable.device else 'such cables')}"
    )
    end = _end(host, key, reports.port(host, key), cable.guid, cable.switch, cable.switch_port, None)
    return RailFault("NET002", "error", (end,), message, fix(cable, peers))


def _end(
    host: str, key: Key, port: RailPort | None, guid: str | None, leaf: str | None, at: str | None, expected: str | None
) -> RailEnd:
    return RailEnd(host, key[0], port.bdf if port else None, guid, key[1], leaf, at, expected)


class _MissingCables:
    """Ports without a cable where most sisters have one, as far as the leaf is told by sisters on the same leaves."""

    def __init__(self, group: dict[str, Ports], found: Tree, reports: _Reports) -> None:
        self.group, self.found, self.reports = group, found, reports
        having = Counter(key for ports in group.values() for key in ports)
        self.usual = [key for key, count in having.items() if count < len(group) and most(count, len(group))]
        self.leaves: dict[tuple[Key, str, Key], Counter[str]] = {}  # of those with such a leaf: that of a usual port
        for ports in group.values() if self.usual else ():
            for key, cable in ports.items():
                for usual in self.usual:
                    if usual in ports:
                        seen = self.leaves.setdefault((key, cable.switch, usual), Counter())
                        seen[ports[usual].switch] += 1

    def faults(self) -> Iterator[RailFault]:
        """One a port. A listing that is cut, or a CA without a name on the leaf, may hide the cable."""
        if not self.usual or not self.found.complete:
            return
        for host, ports in self.group.items():
            for key in self.usual:
                leaf = self._leaf(ports, key) if key not in ports else None
                port = self.reports.port(host, key)
                unnamed = leaf and any(c.host is None for c in map(self.reports.named, self.found.cables[leaf]))
                if leaf and not unnamed and not (port and port.state == "active"):
                    yield self._fault(host, ports, key, leaf, port)

    def _leaf(self, ports: Ports, key: Key) -> str | None:
        """Where most sisters have it that share a leaf at another port, two at least."""
        seen = [self.leaves.get((other, cable.switch, key), Counter()) for other, cable in ports.items()]
        votes = max(seen, key=Counter.total, default=Counter())
        leaf, count = votes.most_common(1)[0] if votes else ("", 0)
        return leaf if count > 1 and 4 * count >= 3 * votes.total() else None

    def _fault(self, host: str, ports: Ports, key: Key, leaf: str, port: RailPort | None) -> RailFault:
        device = key[0] if key[1] == 1 else f"{key[0]} port {key[1]}"
        at = self._switch_port(ports, leaf)
        place = f"{leaf} port {at}" if at else leaf
        having = sum(key in other for other in self.group.values())
        sisters = f"{having} of {len(self.group)} sisters have one"
        message = f"{host} {device}: no cable seen, expected on {place}{', which is empty' if at else ''}; {sisters}"
        end = _end(host, key, port, port.guid if port else None, None, at, leaf)
        repair = f"Plug in or reseat the cable to {place}; see that the port is enabled"
        return RailFault("NET001", "error", (end,), message, repair)

    def _switch_port(self, ports: Ports, leaf: str) -> str | None:
        """The number that the host has on all its other leaves, if it is free on this one."""
        numbers = {cable.switch_port for cable in ports.values()}
        number = numbers.pop() if len(numbers) == 1 and len(ports) > 1 else None
        return number if number and number not in self.found.taken(leaf) else None
