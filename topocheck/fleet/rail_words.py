"""How a cabling fault is said: its ends, message and repair, of leaves and of subnets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from topocheck.fleet.pods import Key, Pod, Stray
from topocheck.fleet.report import RailEnd, RailFault
from topocheck.fleet.words import brief

_NAMES = 60  # characters of folded names


class Words(NamedTuple):
    """What differs between cables that reach a leaf and addresses that are in a subnet."""

    crossed: str  # rule
    wrong: str
    reaches: str
    what: str
    places: str
    exchange: str
    move: str


LEAVES = Words(
    "RAIL001", "RAIL002", "reaches", "cables", "leaves", "Exchange the {} cables",
    "Move the cable to a port of the rail's own leaf",
)  # fmt: skip
SUBNETS = Words(
    "RAIL004", "RAIL004", "is in", "addresses", "subnets", "Exchange the addresses of these {} interfaces",
    "Give the interface an address of its own rail's subnet",
)  # fmt: skip


def fault(rule: str, strays: Sequence[Stray], message: str, repair: str, *, error: bool) -> RailFault:
    """A fault of these cables, an error only where each one's own leaf is certain."""
    certain = error and all(s.pod.firm(s.cable.key) for s in strays)
    return RailFault(rule, "error" if certain else "warning", tuple(_end(s) for s in strays), message, repair)


def crossed(words: Words, strays: Sequence[Stray], remark: str = "", *, error: bool = True) -> RailFault:
    """Cables that reach what another of them should."""
    count = "two" if len(strays) == 2 else str(len(strays))
    hosts = {s.cable.host for s in strays}
    nodes = "" if len(hosts) == 1 else f" of {'two' if len(hosts) == 2 else len(hosts)} nodes"
    said = _each(words, strays)
    message = f"{said}: {words.what}{nodes} exchanged{_sisters(strays[0])}{remark}"
    return fault(words.crossed, strays, message, words.exchange.format(count), error=error)


def reordered(words: Words, strays: Sequence[Stray], how: str, remark: str = "", *, error: bool = True) -> RailFault:
    """A node whose rails are all, or almost all, in another order."""
    host = strays[0].cable.host
    message = f"{host}: {how}{_sisters(strays[0])}: {_each(words, strays, named=False)}{remark}"
    repair = f"Compare the order of its slots with a sister, then exchange its {words.what}"
    return fault(words.crossed, strays, message, repair, error=error)


def misplaced(words: Words, strays: Sequence[Stray], beside: Sequence[str], *, error: bool) -> RailFault:
    """Cables of one node that no exchange explains; `beside`: its NICs that reach the same and should."""
    more = f"; {', '.join(beside)} {words.reaches if len(beside) == 1 else _verb(words)} it too" if beside else ""
    message = f"{_each(words, strays)}{more}{_sisters(strays[0])}"
    return fault(words.wrong, strays, message, words.move, error=error)


def against_policy(words: Words, strays: Sequence[Stray]) -> RailFault:
    """One rail's cables that reach on many nodes what the policy does not allow."""
    cable, expected, pod = strays[0]
    rail = _rail(pod, cable.key)
    message = f"{rail} {words.reaches} {cable.at} instead of {expected} on {len(strays)} nodes (policy)"
    return fault(words.wrong, strays, message, words.move, error=True)


def split(words: Words, pod: Pod, keys: Sequence[Key]) -> RailFault:
    """Rails that a part of the nodes, the same for all these rails, has elsewhere: nobody is accused."""
    rails = " and ".join(_rail(pod, key) for key in keys)
    two = {key: pod.most(key)[:2] for key in keys}
    parts = " and ".join(f"{at} with {count} nodes" for at, count in two[keys[0]])
    last = two[keys[0]][-1][0]
    there = (node.host for node in pod.nodes if any((c.key, c.at) == (keys[0], last) for c in node.cables))
    parts += f", {brief(tuple(there), _NAMES)}"
    if len(keys) == 1:
        message = f"{rails} is split over {parts}"
    elif len({at for most in two.values() for at, _ in most}) == 2:
        message = f"{rails} are exchanged on a part of the nodes: {parts}"
    else:
        message = f"{rails} are each split over two {words.places}: {_rail(pod, keys[0])} over {parts}"
    repair = "Compare with the cabling plan: nodes of one rail on two leaves meet only over the spine"
    return RailFault(words.wrong, "warning", (), message, repair)


def _verb(words: Words) -> str:
    return "are in" if words is SUBNETS else "reach"


def _rail(pod: Pod, key: Key) -> str:
    rail, port = key
    return f"rail {rail}" if len({p for _, p in pod.counts}) == 1 else f"rail {rail} port {port}"


def _sisters(stray: Stray) -> str:
    if stray.pod.allowed:
        return " (policy)"
    common = stray.pod.common[stray.cable.key]
    return f" ({common.agree} of {common.total} nodes have {_rail(stray.pod, stray.cable.key)} on {common.at})"


def _each(words: Words, strays: Sequence[Stray], *, named: bool = True) -> str:
    """ "gpu017 mlx5_2 reaches leaf05 port 17 instead of leaf02, mlx5_5 reaches …": a host is named where it changes."""
    said, last = [], None if named else strays[0].cable.host
    for cable, expected, pod in strays:
        several = len({port for _, port in pod.counts}) > 1
        nic = f"{cable.nic} port {cable.port}" if several else cable.nic
        host = "" if cable.host == last else f"{cable.host} "
        where = f"{cable.at} port {cable.at_port}" if cable.at_port else cable.at
        said.append(f"{host}{nic} {words.reaches} {where} instead of {expected}")
        last = cable.host
    return ", ".join(said)


def _end(stray: Stray) -> RailEnd:
    c = stray.cable
    return RailEnd(c.host, c.nic, c.bdf, c.guid, c.port, c.at, c.at_port, stray.expected)
