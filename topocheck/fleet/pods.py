"""Nodes that share their leaves, and what most of them have: a leaf for each rail and port.

Whether there is an order at all is decided here: in a plain tree, where each node's ports share a leaf or are spread as
they came, nothing is told, so that nobody is accused.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, lgamma
from typing import NamedTuple

from topocheck.fleet.rail_nodes import COMMON, Cable, RailNode
from topocheck.names import NameSet

Key = tuple[int, int]  # rail, port of its NIC
_LIKELY, _CERTAIN = 0.02, 0.001  # that it is chance, where an order is taken for one, and for proven
_SEEDS = 64  # pods in which one leaf is looked for; a leaf that more of them have tells nothing


class Common(NamedTuple):
    """What most nodes reach at a rail's port: `agree` of `total`."""

    at: str
    agree: int
    total: int


@dataclass(frozen=True, slots=True)
class Pod:
    """Nodes of one kind that share their leaves. `common`: where a majority has the same; `counts`: all that is reached
    at each rail's port; `allowed`: the policy's leaves of rail 0, rail 1, …, which win over what most nodes have;
    `strangers`: cables of nodes of other pods on the leaves of the map."""

    nodes: Sequence[RailNode]
    counts: dict[Key, Counter[str]]
    common: dict[Key, Common]
    whole: int  # nodes without a cable that is unlike the majority's
    strangers: int
    allowed: tuple[NameSet, ...] = ()

    @property
    def leaves(self) -> set[str]:
        """The leaves of the map."""
        return {c.at for c in self.common.values()}

    def wrong(self, cable: Cable) -> bool:
        """Whether it reaches what it should not; never where nothing tells."""
        if self.allowed:
            return cable.at not in self.allowed[cable.rail]
        common = self.common.get(cable.key)
        return common is not None and common.at != cable.at

    def expected(self, key: Key) -> str | None:
        """What a rail's port should reach; by the policy a leaf that is seen here, else its pattern."""
        if not self.allowed:
            return self.common[key].at if key in self.common else None
        own = [at for at, _ in self.most(key)]
        others = sorted({at for counts in self.counts.values() for at in counts})
        allowed = self.allowed[key[0]]
        return next((at for at in (*own, *others) if at in allowed), allowed.text)

    def most(self, key: Key) -> list[tuple[str, int]]:
        """What is reached at a rail's port and by how many nodes, the commonest first."""
        return sorted(self.counts[key].items(), key=lambda entry: (-entry[1], entry[0]))

    def firm(self, key: Key) -> bool:
        """Whether what a rail's port should reach is certain enough to call another leaf an error."""
        if self.allowed:
            return True
        common = self.common[key]
        return common.agree >= COMMON and 3 * common.agree >= 2 * common.total and self.by_chance <= _CERTAIN

    @property
    def orderly(self) -> bool:
        """Whether there are rails at all: the nodes agree, and not by chance."""
        return self.agreed and self.by_chance <= _LIKELY

    @property
    def agreed(self) -> bool:
        """Whether most ports have a majority, on different leaves."""
        nodes, leaves = len(self.nodes), len(self.leaves)
        agree, total = sum(c.agree for c in self.common.values()), sum(c.total for c in self.common.values())
        if nodes < COMMON or leaves < 2 or 2 * len(self.common) <= len(self.counts) or 3 * self.strangers > total:
            return False
        return 3 * self.whole >= 2 * nodes or 5 * agree >= 4 * total

    @property
    def by_chance(self) -> float:
        """At most so likely as many nodes have one order of cables where there is none: of all ways to spread a node's
        cables over the leaves all of them but the first must have met the same. Two cables are soon in order."""
        nodes, whole, on_leaf = len(self.nodes), self.whole, Counter(c.at for c in self.common.values())
        groups = lgamma(nodes + 1) - lgamma(whole + 1) - lgamma(nodes - whole + 1)
        ways = lgamma(on_leaf.total() + 1) - sum(lgamma(count + 1) for count in on_leaf.values())
        return exp(min(0.0, groups - (whole - 1) * ways))


class Stray(NamedTuple):
    """A cable of a pod's node and what it should reach."""

    cable: Cable
    expected: str
    pod: Pod


def strays(pod: Pod, node: RailNode) -> list[Stray]:
    """The cables of a node that reach what they should not."""
    wrong = [c for c in node.cables if pod.wrong(c)]
    return [Stray(c, pod.expected(c.key) or "", pod) for c in wrong]


def pods(nodes: Iterable[RailNode], patterns: tuple[NameSet, ...] = ()) -> Iterator[Pod]:
    """The pods of each kind of node; the policy's patterns count for nodes with as many rails."""
    kinds: dict[tuple[str, int], dict[frozenset[str], list[RailNode]]] = {}
    for node in nodes:
        leaves = frozenset(c.at for c in node.cables)
        kinds.setdefault(node.kind, {}).setdefault(leaves, []).append(node)
    for (_, rails), by_leaves in kinds.items():
        cables = Counter(c.at for members in by_leaves.values() for n in members for c in n.cables)
        for members in _merged(by_leaves):
            yield _pod(members, cables, patterns if len(patterns) == rails else ())


def _merged(by_leaves: dict[frozenset[str], list[RailNode]]) -> list[list[RailNode]]:
    """The commonest sets of leaves are pods; another joins the pod with which it shares more than half of its leaves,
    or just half where only one or two nodes have it."""
    found: list[list[RailNode]] = []
    pods_at: dict[str, list[int]] = {}
    for leaves, members in sorted(by_leaves.items(), key=lambda e: (-len(e[1]), -len(e[0]), sorted(e[0]))):
        shared = Counter(place for leaf in leaves for place in pods_at.get(leaf, ())[:_SEEDS])
        place, count = max(shared.items(), key=lambda e: (e[1], -e[0]), default=(0, 0))
        if 2 * count > len(leaves) or (2 * count == len(leaves) and len(members) < COMMON):
            found[place] += members
            continue
        for leaf in leaves:
            pods_at.setdefault(leaf, []).append(len(found))
        found.append(list(members))
    return found


def _pod(nodes: list[RailNode], cables: Counter[str], allowed: tuple[NameSet, ...]) -> Pod:
    """`cables`: how many all nodes of the kind have at each leaf."""
    reached: dict[Key, list[str]] = defaultdict(list)
    for node in nodes:
        for cable in node.cables:
            reached[cable.rail, cable.port].append(cable.at)
    counts = {key: Counter(reached[key]) for key in sorted(reached)}
    common = {}
    for key, found in counts.items():
        total = found.total()
        at, count = found.most_common(1)[0]
        if count > 1 and 2 * count > total:
            common[key] = Common(at, count, total)
    usual = {key: c.at for key, c in common.items()}
    whole = sum(all(usual.get((c.rail, c.port), c.at) == c.at for c in n.cables) for n in nodes)
    own = Counter(c.at for n in nodes for c in n.cables)
    strangers = sum(cables[leaf] - own[leaf] for leaf in set(usual.values()))
    return Pod(sorted(nodes, key=lambda n: n.host), counts, common, whole, strangers, allowed)
