"""What is wrong in pods: one finding a fault. First what one node explains, then two nodes, then the rest.

A node in mirror or another order, exchanged cables (RAIL001); a rail that a part of the nodes has elsewhere; a cable on
another rail's leaf (RAIL002); the same of RoCE subnets (RAIL004).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from topocheck.fleet.cycles import cycles
from topocheck.fleet.pods import Key, Pod, Stray, strays
from topocheck.fleet.rail_nodes import RailNode
from topocheck.fleet.rail_words import SUBNETS, Words, against_policy, crossed, misplaced, reordered, split
from topocheck.fleet.report import RailFault

_MANY = 4  # cables of one node in another order, or nodes with the same cable elsewhere: no slip of the hand
_RENUMBERED = "; its NICs have other PCI addresses than its sisters': the order may be another, not the cabling"
_NAMED = "; by device names only: without its report the order may be another, not the cabling"


def faults(pods: Iterable[Pod], words: Words) -> Iterator[RailFault]:
    """The faults of these pods, which have an order."""
    pods = list(pods)
    left: list[Stray] = []
    nodes: dict[str, RailNode] = {}
    of_rails = {c.at for pod in pods for c in pod.common.values()}
    for pod in pods:
        rest: list[Stray] = []
        usual = _usual_order(pod)
        for node in pod.nodes:
            if wrong := strays(pod, node):
                nodes[node.host] = node
                found, remaining = _of_node(words, pod, node, wrong, usual)
                yield from found
                rest += remaining
        plans, remaining = _plans(words, pod, rest, of_rails)
        yield from plans
        left += remaining
    rounds, left = cycles(left)
    yield from (crossed(words, exchanged) for exchanged in rounds)
    yield from _misplaced(words, left, of_rails, nodes)


def _usual_order(pod: Pod) -> tuple[str, ...] | None:
    """The PCI addresses that most of its nodes have, None where no majority has the same."""
    orders = Counter(n.order for n in pod.nodes if n.reported)
    (order, count), *_ = orders.most_common(1) or [((), 0)]
    return order if 2 * count > len(pod.nodes) else None


def _of_node(
    words: Words, pod: Pod, node: RailNode, wrong: list[Stray], usual: tuple[str, ...] | None
) -> tuple[list[RailFault], list[Stray]]:
    """What exchanges among the node's own cables explain, and the cables that are left."""
    renumbered = node.reported and usual is not None and node.order != usual
    remark = _RENUMBERED if renumbered else "" if node.reported or len(wrong) < _MANY else _NAMED
    if len(wrong) >= _MANY and _mirrored(pod, node):
        how = f"its {len(node.order)} rails are in mirror order"
        return [reordered(words, wrong, how, remark, error=not remark)], []
    exchanged, rest = cycles(wrong)
    if not rest and len(wrong) >= _MANY and 4 * len(wrong) >= 3 * len(node.cables):
        how = f"{len(wrong)} of its {len(node.cables)} {words.what} are in another order"
        return [reordered(words, wrong, how, remark, error=not remark)], []
    return [crossed(words, pair, remark, error=not remark) for pair in exchanged], rest


def _mirrored(pod: Pod, node: RailNode) -> bool:
    """Whether each cable reaches what the rail counted from the other end should."""
    last = len(node.order) - 1
    pairs = [((last - c.rail, c.port), c.at) for c in node.cables]
    return all(key in pod.counts and pod.expected(key) == at for key, at in pairs)


def _plans(words: Words, pod: Pod, left: list[Stray], others: set[str]) -> tuple[list[RailFault], list[Stray]]:
    """Rails that a good part of the nodes has elsewhere: a plan, not a slip; and the cables that are left."""
    groups: dict[tuple[Key, str], list[Stray]] = {}
    for stray in left:
        groups.setdefault((stray.cable.key, stray.cable.at), []).append(stray)
    planned = {place: g for place, g in groups.items() if _is_plan(pod, place[0], len(g))}
    rest = [stray for place, g in groups.items() if place not in planned for stray in g]
    if pod.allowed:
        return [against_policy(words, g) for g in planned.values()], rest
    parts: dict[frozenset[str], list[Key]] = {}
    for (key, at), g in planned.items():
        if words is not SUBNETS or at in others:
            parts.setdefault(frozenset(s.cable.host for s in g), []).append(key)
    for key in _halved(pod):
        if words is not SUBNETS:
            reached = [(c.at, n.host) for n in pod.nodes for c in n.cables if c.key == key]
            parts.setdefault(frozenset(host for at, host in reached if at == reached[0][0]), []).append(key)
    return [split(words, pod, keys) for keys in parts.values()], rest


def _is_plan(pod: Pod, key: Key, count: int) -> bool:
    return count >= _MANY or (count > 1 and 3 * count > pod.counts[key].total())


def _halved(pod: Pod) -> Iterator[Key]:
    """The rails of which no leaf has the majority but two have almost all nodes."""
    for key in sorted(pod.counts.keys() - pod.common.keys()):
        two = [count for _, count in pod.most(key)[:2]]
        if two[-1] > 1 and 10 * sum(two) >= 9 * pod.counts[key].total():
            yield key


def _misplaced(words: Words, left: list[Stray], of_rails: set[str], nodes: dict[str, RailNode]) -> Iterator[RailFault]:
    """One finding a node; a subnet that is no other rail's proves nothing, since only its /24 is known."""
    by_host: dict[str, list[Stray]] = {}
    for stray in left:
        if words is not SUBNETS or stray.cable.at in of_rails:
            by_host.setdefault(stray.cable.host, []).append(stray)
    for host, wrong in by_host.items():
        reached = {s.cable.at for s in wrong}
        beside = [c.nic for c in nodes[host].cables if c.at in reached and not wrong[0].pod.wrong(c)]
        # Half of its cables here and half there: which half is right?
        yield misplaced(words, wrong, beside, error=2 * len(wrong) != len(nodes[host].cables))
