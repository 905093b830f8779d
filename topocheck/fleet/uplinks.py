"""Cables between switches that are not as others in the same place: slower or narrower (NET002), or not there (NET001).

A switch of an older generation is slow on all its ports, a leaf of storage hosts has as many uplinks as it needs:
neither is a fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from topocheck.fleet.fabric import Trunk
from topocheck.fleet.peers import LEAST, Peers, compared, family, few, fix, most, place
from topocheck.fleet.report import RailFault
from topocheck.fleet.tiers import Tree, host_key, other_end, port_at

_SAME = 2  # leaves that lack the same by chance; more were rather built so
Tiers = tuple[int | None, ...]


def uplink_faults(found: Tree) -> Iterator[RailFault]:
    """Slow cables, then leaves that lack some."""
    yield from _slow(found)
    for leaves in _blocks(found):
        yield from _MissingUplinks(leaves, found).faults()


def _slow(found: Tree) -> Iterator[RailFault]:
    """Outrun by most others of the same tiers, and by most at each of its ends; with few at an end by one there, for
    all may be slow at a switch of an older generation. Fewer lanes need no such witness."""
    at: dict[tuple[str, Tiers], list[Trunk]] = {}
    between: dict[Tiers, list[Trunk]] = {}
    for trunk in found.all_trunks:
        tiers = _tiers(trunk, found)
        between.setdefault(tiers, []).append(trunk)
        for switch in (trunk.a, trunk.b):
            at.setdefault((switch, tiers), []).append(trunk)
    at_end = {end: Peers(trunks) for end, trunks in at.items()}
    for tiers, trunks in between.items():
        peers = Peers(trunks)
        for trunk in filter(peers.outrun, trunks):
            ends = [at_end[switch, tiers] for switch in (trunk.a, trunk.b)]
            if all(_outrun_at(end, trunk, peers) for end in ends):
                message = f"{place(trunk)} runs {compared(trunk, peers, 'cables between such switches')}"
                yield RailFault("NET002", "error", (), message, fix(trunk, peers))


def _outrun_at(end: Peers, trunk: Trunk, peers: Peers) -> bool:
    if end.total >= LEAST:
        return end.outrun(trunk)
    return end.faster(trunk) > 0 or (trunk.width or 0) < peers.usual[1]


def _tiers(trunk: Trunk, found: Tree) -> Tiers:
    return tuple(sorted(found.tier.get(switch, -1) for switch in (trunk.a, trunk.b)))


def _blocks(found: Tree) -> list[list[str]]:
    """Leaves of one family of hosts that have spines in common."""
    of_family: dict[str, list[str]] = {}
    for leaf in found.leaves():
        families = Counter(family(c.host) for c in found.cables[leaf] if c.host)
        of_family.setdefault(max(families, key=families.__getitem__, default=""), []).append(leaf)
    return [block for leaves in of_family.values() for block in _connected(leaves, found) if len(block) >= LEAST]


def _connected(leaves: Iterable[str], found: Tree) -> Iterator[list[str]]:
    spines_of = {leaf: _spines(leaf, found) for leaf in leaves}
    leaves_on: dict[str, list[str]] = {}
    for leaf, spines in spines_of.items():
        for spine in spines:
            leaves_on.setdefault(spine, []).append(leaf)
    seen: set[str] = set()
    for leaf in spines_of:
        block, ahead = [], [leaf]
        while ahead:
            if (one := ahead.pop()) not in seen:
                seen.add(one)
                block.append(one)
                ahead += [other for spine in spines_of[one] for other in leaves_on.pop(spine, ())]
        yield block


def _spines(leaf: str, found: Tree) -> Counter[str]:
    """How many cables it has to each spine."""
    others = (other_end(t, leaf) for t in found.trunks.get(leaf, ()))
    return Counter(other for other in others if found.tier[other] == 1)


class _MissingUplinks:
    """Leaves with fewer uplinks than most of their block have, by half at most: by which spines they lack them."""

    def __init__(self, leaves: Sequence[str], found: Tree) -> None:
        self.leaves, self.found = leaves, found
        self.counts = {leaf: _spines(leaf, found) for leaf in leaves}
        self.usual_total = Counter(c.total() for c in self.counts.values()).most_common(1)[0]
        self.usual = self._usual()

    def _usual(self) -> dict[str, tuple[int, int]]:
        """Spine → how many cables most leaves have to it, and how many leaves those are."""
        seen: dict[str, Counter[int]] = {}
        for counts in self.counts.values():
            for spine, count in counts.items():
                seen.setdefault(spine, Counter())[count] += 1
        for having in seen.values():
            having[0] = len(self.leaves) - having.total()
        return {spine: having.most_common(1)[0] for spine, having in sorted(seen.items())}

    def faults(self) -> Iterator[RailFault]:
        """One a leaf and spine."""
        total, having = self.usual_total
        if not most(having, len(self.leaves)):
            return
        lacking = {leaf: self._lacking(counts) for leaf, counts in self.counts.items()}
        alike: dict[tuple[tuple[str, int], ...], list[str]] = {}
        for leaf, spines in lacking.items():
            alike.setdefault(spines, []).append(leaf)
        planned = {spines for spines, leaves in alike.items() if self._planned(leaves)}
        for leaf, spines in lacking.items():
            missing = total - self.counts[leaf].total()
            most_missing = total / (2 if len(alike[spines]) <= _SAME else 4)
            if spines not in planned and missing == sum(count for _, count in spines) <= most_missing:
                yield from (self._fault(leaf, s, self.counts[leaf]) for s, _ in spines if self._is_seen(leaf, s))

    def _planned(self, alike: Sequence[str]) -> bool:
        """Whether these leaves, which lack the same, were rather built so: they are many, or all that a unit's hosts
        are on."""
        if len(alike) <= _SAME:
            return False
        if not few(len(alike), len(self.leaves)):
            return True
        on: dict[str, int] = Counter(host_key(c) for leaf in alike for c in self.found.cables[leaf])
        every = Counter(host_key(c) for leaf in self.leaves for c in self.found.cables[leaf])
        return min(on.values()) > 1 and all(every[host] == count for host, count in on.items())

    def _is_seen(self, leaf: str, spine: str) -> bool:
        """Whether both show all their cables, and most leaves have as many to the spine."""
        return {leaf, spine} <= self.found.whole and most(self.usual[spine][1], len(self.leaves))

    def _lacking(self, counts: Counter[str]) -> tuple[tuple[str, int], ...]:
        return tuple((spine, n - counts[spine]) for spine, (n, _) in self.usual.items() if counts[spine] < n)

    def _fault(self, leaf: str, spine: str, counts: Counter[str]) -> RailFault:
        usual, having = self.usual[spine]
        own = "no cable" if not counts[spine] else f"{counts[spine]} of {usual} cables"
        at, far = self._port(leaf, spine, self.leaves), self._port(spine, leaf, list(self.usual))
        ends = f"{leaf}{at} to {spine}{far}"
        message = f"{ends}: {own} seen; {having} of {len(self.leaves)} leaves have {usual} to {spine}"
        return RailFault("NET001", "warning", (), message, f"Plug in or reseat the cable from {ends}")

    def _port(self, switch: str, other: str, alike: Sequence[str]) -> str:
        """ " port 37": where most switches like it have the other's cable, if that port is free on this one."""
        peers = set(alike)
        numbers = Counter(port_at(t, s) for t in self.found.trunks[other] if (s := other_end(t, other)) in peers)
        taken = self.found.taken(switch)
        free = [port for port, count in numbers.items() if most(count, len(peers)) and port not in taken]
        return f" port {free[0]}" if free else ""
