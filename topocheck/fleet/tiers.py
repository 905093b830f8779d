"""The tiers of a fabric: its leaves with what hosts can send and uplinks can carry, and the bisection.

A leaf is a switch with hosts; a spine is one switch further from hosts, a core two. A management host on a spine does
not make a leaf of it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from topocheck.fleet.fabric import HostCable, Listing, Trunk, distinct
from topocheck.fleet.report import Leaf

_FEW = 4  # a switch above leaves has at most a quarter of their hosts


@dataclass(slots=True)
class Tree:
    """All listings together, by switch. `tier`: 0 leaf, 1 spine, 2 core; a switch that no leaf reaches has none."""

    cables: dict[str, list[HostCable]] = field(default_factory=dict)
    trunks: dict[str, list[Trunk]] = field(default_factory=dict)
    all_trunks: list[Trunk] = field(default_factory=list)
    tier: dict[str, int] = field(default_factory=dict)
    switches: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        """Whether every switch has its whole record, so that nothing is merely not listed."""
        return self.switches <= self.whole

    def taken(self, switch: str) -> set[str]:
        """Its ports that have a cable."""
        ports = {c.switch_port for c in self.cables.get(switch, ())}
        return ports | {port_at(t, switch) for t in self.trunks.get(switch, ())}

    def uplinks(self, switch: str) -> list[Trunk]:
        """Its trunks to a higher tier; of a leaf that has none, those to other leaves."""
        trunks, tier = self.trunks.get(switch, []), self.tier.get(switch, 0)
        higher = [t for t in trunks if self.tier.get(other_end(t, switch), 0) > tier]
        return higher or (trunks if tier == 0 else [])

    def leaves(self) -> list[str]:
        """The switches of tier 0, by name."""
        return sorted(s for s, tier in self.tier.items() if tier == 0)


def other_end(trunk: Trunk, switch: str) -> str:
    """The switch at the other end."""
    return trunk.b if trunk.a == switch else trunk.a


def port_at(trunk: Trunk, switch: str) -> str:
    """Its port on a switch."""
    return trunk.a_port if trunk.a == switch else trunk.b_port


def tree(listings: Iterable[Listing]) -> Tree:
    """The fabric of these listings, or several side by side."""
    found = Tree()
    for each in distinct(listings):
        found.whole |= each.whole
        found.switches.update(each.switches)
        for cable in each.cables:
            found.cables.setdefault(cable.switch, []).append(cable)
        found.all_trunks += each.trunks
        for trunk in each.trunks:
            for switch in {trunk.a, trunk.b}:
                found.trunks.setdefault(switch, []).append(trunk)
    _set_tiers(found)
    return found


def _set_tiers(found: Tree) -> None:
    """Steps from the nearest leaf."""
    few = _small_hosts(found)
    hosts = {switch: len({host_key(c) for c in cables}) for switch, cables in found.cables.items()}
    found.tier = {switch: 0 for switch in found.cables if not _above(switch, found, hosts, few)}
    ahead = deque(found.tier)
    while ahead:
        switch = ahead.popleft()
        for trunk in found.trunks.get(switch, ()):
            other = other_end(trunk, switch)
            if other not in found.tier:
                found.tier[other] = found.tier[switch] + 1
                ahead.append(other)


def host_key(cable: HostCable) -> str:
    """Its host; a CA without one counts for itself."""
    return cable.host or cable.guid or f"{cable.switch} {cable.switch_port}"


def _small_hosts(found: Tree) -> set[str]:
    """Hosts with at most half of the cables that most have: management, not compute."""
    ports = Counter(host_key(c) for cables in found.cables.values() for c in cables if c.host)
    usual = Counter(ports.values()).most_common(1)
    return {host for host, count in ports.items() if 2 * count <= usual[0][0]}


def _above(switch: str, found: Tree, hosts: dict[str, int], few: set[str]) -> bool:
    """Whether it is a spine in spite of its hosts: most of its neighbours have hosts too, and its own are few beside
    theirs, or none is a compute node."""
    neighbours = {other_end(t, switch) for t in found.trunks.get(switch, ())}
    below = [hosts[n] for n in neighbours if n in hosts]
    if len(neighbours) < 2 or 2 * len(below) <= len(neighbours):
        return False
    own = {host_key(c) for c in found.cables[switch]}
    return _FEW * hosts[switch] <= median(below) or own <= few


def leaves(found: Tree) -> tuple[Leaf, ...]:
    """The switches with hosts, by name."""
    return tuple(_leaf(switch, found) for switch in found.leaves())


def tier_words(found: Tree) -> tuple[str, ...]:
    """ "tiers: 16 leaves, 8 spines, 2 cores"; nothing of a single switch."""
    counts = Counter(found.tier.values())
    names = {0: ("leaf", "leaves"), 1: ("spine", "spines"), 2: ("core", "cores")}
    words = (f"{n} {names.get(tier, ('higher', 'higher'))[n != 1]}" for tier, n in sorted(counts.items()))
    return (f"tiers: {', '.join(words)}",) if len(found.tier) > 1 else ()


def _leaf(switch: str, found: Tree) -> Leaf:
    cables, uplinks = found.cables[switch], found.uplinks(switch)
    hosts = len({host_key(c) for c in cables})
    return Leaf(switch, hosts, len(cables), _rate(cables), len(uplinks), _rate(uplinks))


def _rate(cables: Sequence[HostCable | Trunk]) -> float | None:
    """Of all of them; None if one is not known."""
    rates = [c.rate_gbit_per_s for c in cables]
    return None if None in rates else sum((r for r in rates if r is not None), 0.0)


def bisection_gbit_per_s(found: Tree) -> float | None:
    """What half of the hosts can send to the other half, one direction; None where hosts cannot reach each other or a
    rate is not known.

    Hosts that share their leaves form a group, and no uplink is between them. A group sends out what its hosts can, and
    at most what its uplinks carry; groups below common switches form a larger one.
    """
    joined = _sharing_leaves(found)
    rates = {leaf: _rate(found.cables[leaf]) for leaf in found.leaves()}
    if not rates or None in rates.values() or _rate(found.all_trunks) is None:
        return None
    sends: dict[str, float] = {}
    for leaf, rate in rates.items():
        sends[joined.of(leaf)] = sends.get(joined.of(leaf), 0.0) + (rate or 0.0)
    total = sum(sends.values())
    while len(sends) > 1:
        between = [t for t in found.all_trunks if joined.leaves_one(t.a, t.b)]
        if not between:
            return None
        sends = _at_most(sends, _carried(between, joined))
        total = sum(sends.values())
        for trunk in between:
            joined.join(trunk.a, trunk.b)
        sends = _merged(sends, joined)
    return total / 2


def _at_most(sends: dict[str, float], carried: dict[str, float]) -> dict[str, float]:
    return {group: min(rate, carried.get(group, 0.0)) for group, rate in sends.items()}


def _merged(sends: dict[str, float], joined: _Groups) -> dict[str, float]:
    found: dict[str, float] = {}
    for group, rate in sends.items():
        found[joined.of(group)] = found.get(joined.of(group), 0.0) + rate
    return found


def _carried(trunks: Iterable[Trunk], joined: _Groups) -> dict[str, float]:
    """By group: what its trunks to elsewhere carry."""
    found: dict[str, float] = {}
    for trunk in trunks:
        for switch in (trunk.a, trunk.b):
            group = joined.of(switch)
            found[group] = found.get(group, 0.0) + (trunk.rate_gbit_per_s or 0.0)
    return found


class _Groups:
    """Switches joined to groups; each group goes by one of its members."""

    def __init__(self, members: Iterable[str]) -> None:
        self._parent = {member: member for member in members}

    def of(self, switch: str) -> str:
        """Its group; a switch that is in none stands for itself."""
        while (parent := self._parent.get(switch, switch)) != switch:
            self._parent[switch] = self._parent.get(parent, parent)
            switch = parent
        return switch

    def join(self, a: str, b: str) -> None:
        """Makes one group of two."""
        a, b = self.of(a), self.of(b)
        self._parent[a] = self._parent[b] = a

    def leaves_one(self, a: str, b: str) -> bool:
        """Whether a cable between them leads out of a group."""
        known = a in self._parent or b in self._parent
        return known and self.of(a) != self.of(b)


def _sharing_leaves(found: Tree) -> _Groups:
    """Leaves that at least half of the hosts of the smaller share, as rails of one unit do."""
    groups = _Groups(found.leaves())
    leaves_of: dict[str, set[str]] = {}
    for leaf in found.leaves():
        for cable in found.cables[leaf]:
            leaves_of.setdefault(host_key(cable), set()).add(leaf)
    hosts: Counter[str] = Counter(leaf for leaves in leaves_of.values() for leaf in leaves)
    shared: Counter[tuple[str, str]] = Counter()
    for leaves in leaves_of.values():
        first, *others = sorted(leaves)
        shared.update((first, other) for other in others)
    for (a, b), count in shared.items():
        if 2 * count >= min(hosts[a], hosts[b]):
            groups.join(a, b)
    return groups
