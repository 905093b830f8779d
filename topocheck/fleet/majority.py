"""Nodes unlike their sisters, without a table of what should be: what four fifths of a kind have is the measure.

Counts of GPUs and NICs are compared over nodes of one platform and GPU model, all else over nodes of one kind, whose
counts agree. At least five nodes and four fifths of them make a majority; below that a difference is only shown. A
node that has more of a good thing (lanes, links, MTU) than its sisters is shown, too, not accused.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

from topocheck.fleet.chassis import ENOUGH_NODES, Crowd, crowds
from topocheck.fleet.record import Fault, Kind, NodeRecord
from topocheck.fleet.report import Other, Unlike
from topocheck.fleet.values import COUNTS, HARDWARE, NIC_MODELS, PLACE, SAID_BY, SOFTWARE, name_of, place_of

_LISTS = ("GPU numbering", "NIC numbering", "GPU–NIC map")  # "A 1, B 2, …": only what differs of them is told
_MORE_IS_BETTER = (*COUNTS, "PCIe width", "PCIe speed", "PCIe slot speed", "MTU", "port rate", "NVLinks")
_DEVICES = ("gpu ", "nic ", "nvswitch ")  # what the place of a device begins with
_NUMBER = re.compile(r"x?([0-9]+(?:\.[0-9]+)?)\b")
_MOST_OTHERS = 8  # values of a minority that are told one by one
_MOST_PARTS = 2
_MOST_PLACES = 4
Tally = dict[str, dict[str, list[NodeRecord]]]  # field → value → nodes


def unlike(nodes: Sequence[NodeRecord]) -> tuple[Unlike, ...]:
    """Where nodes of one kind differ: the accused first, hardware before versions."""
    families: dict[tuple[str | None, str | None], list[NodeRecord]] = defaultdict(list)
    for node in nodes:
        if node.kind.platform or node.kind.gpu_model:  # else nothing says that two nodes are of one kind
            families[node.kind.platform, node.kind.gpu_model].append(node)
    found = [entry for family in families.values() for crowd in crowds(family) for entry in _of_crowd(crowd)]
    return tuple(sorted(found, key=_order))


def _of_crowd(crowd: Crowd) -> Iterator[Unlike]:
    """Whoever is accused of a count is not compared further: what else differs follows from what is not there."""
    counted = [*crowd.nodes, *(node for node in crowd.strangers if node.kind.platform)]
    counts = _differences(counted, lambda name: name in COUNTS)
    yield from counts
    short = {host for entry in counts if entry.accused for other in entry.others for host in other.hosts}
    kinds: dict[Kind, tuple[list[NodeRecord], list[NodeRecord]]] = defaultdict(lambda: ([], []))
    for place, group in enumerate(crowd):
        for node in group:
            if node.host not in short:
                kinds[node.kind][place].append(node)
    for own, strangers in kinds.values():
        yield from _differences(own, lambda name: name == NIC_MODELS)
        for alike in _by_models(own):
            yield from _differences(alike, lambda name: name in HARDWARE and name not in (*COUNTS, NIC_MODELS))
        yield from _differences([*own, *strangers], lambda name: name in SOFTWARE)


def _by_models(nodes: Sequence[NodeRecord]) -> Iterable[list[NodeRecord]]:
    """Nodes with cards of another generation have other links and rates, too; with one odd card they are as the
    others."""
    tally = _tally(nodes, lambda name: name == NIC_MODELS).get(NIC_MODELS, {})
    usual = min(tally, key=lambda value: (-len(tally[value]), value), default="")
    of_host = {n.host: value for value, alike in tally.items() if _cards_unlike(value, usual) > 1 for n in alike}
    found: dict[str, list[NodeRecord]] = defaultdict(list)
    for node in nodes:
        found[of_host.get(node.host, usual)].append(node)
    return found.values()


def _cards_unlike(value: str, majority: str) -> int:
    """How many cards of "15b3:1021 ×2, 15b3:1023 ×8" the other has not: 8 where that has ten of the first."""
    own, usual = (
        Counter({m: int(n) for m, _, n in (part.partition(" ×") for part in text.split(", ")) if n})
        for text in (value, majority)
    )
    return (own - usual).total()


def _differences(nodes: Sequence[NodeRecord], wanted: Callable[[str], bool]) -> list[Unlike]:
    """The fields in which these nodes differ, places of one difference folded."""
    tally = _tally(nodes, wanted)
    found = [entry for field in tally if len(tally[field]) > 1 for entry in _of_field(field, tally[field])]
    return _folded(found)


def _tally(nodes: Iterable[NodeRecord], wanted: Callable[[str], bool]) -> Tally:
    """Nodes that are alike share one object of values: those are counted first, their fields once."""
    alike: dict[int, list[NodeRecord]] = defaultdict(list)
    for node in nodes:
        alike[id(node.values)].append(node)
    tally: Tally = {}
    for group in alike.values():
        for field, value in group[0].values:
            if wanted(name_of(field)):
                tally.setdefault(field, {}).setdefault(value, []).extend(group)
    return tally


def _of_field(field: str, values: Mapping[str, list[NodeRecord]]) -> Iterator[Unlike]:
    """The minorities of one field: those to be accused, and those that are only shown."""
    total = sum(len(nodes) for nodes in values.values())
    majority = min(values, key=lambda value: (-len(values[value]), value))
    count = len(values[majority])
    strong = total >= ENOUGH_NODES and 5 * count >= 4 * total
    others = {value: nodes for value, nodes in values.items() if value != majority}
    meant = {value for value in others if strong and _meant(field, value, majority)}
    kind = values[majority][0].kind
    severity = "warning" if name_of(field) in HARDWARE else "info"
    for accused in (True, False):
        chosen = {value: nodes for value, nodes in others.items() if (strong and value not in meant) is accused}
        if chosen:
            usual, shown = shortened(field, majority, chosen)
            minority = _others(field, chosen, shown)
            yield Unlike(field, severity, kind, total, usual, count / total, accused, minority)


def _meant(field: str, value: str, majority: str) -> bool:
    """More than the sisters have, or several cards of another model: nobody's fault."""
    if name_of(field) == NIC_MODELS:
        return _cards_unlike(value, majority) > 1
    a, b = _NUMBER.match(value), _NUMBER.match(majority)
    return name_of(field) in _MORE_IS_BETTER and a is not None and b is not None and float(a[1]) > float(b[1])


def shortened(field: str, majority: str, others: Iterable[str]) -> tuple[str, Callable[[str], str]]:
    """The majority's value and how to tell another: of a list only the parts that are not the majority's."""
    if name_of(field) not in _LISTS:
        return majority, str
    usual = majority.split(", ")
    common = set(usual).intersection(*(value.split(", ") for value in others))
    return _parts(usual, common), lambda value: _parts(value.split(", "), set(usual))


def _parts(parts: Sequence[str], left_out: Set[str]) -> str:
    differing = [part for part in parts if part not in left_out]
    more = f" and {len(differing) - _MOST_PARTS} more" if len(differing) > _MOST_PARTS else ""
    return ", ".join(differing[:_MOST_PARTS]) + more


def _others(field: str, values: Mapping[str, list[NodeRecord]], shown: Callable[[str], str]) -> tuple[Other, ...]:
    """The largest minority first, whoever's own findings say it apart; many small ones are counted, not told."""
    hosts: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    by_faults: dict[int, tuple[str, ...]] = {}  # sisters with the same findings share one object of them
    for value, nodes in values.items():
        for node in nodes:
            rules = by_faults.get(id(node.faults))
            if rules is None:
                rules = by_faults[id(node.faults)] = said(field, node.faults)
            hosts[value, rules].append(node.host)
    found = [Other(shown(value), tuple(sorted(who)), rules) for (value, rules), who in hosts.items()]
    found.sort(key=lambda other: (bool(other.follows), -len(other.hosts), other.value))
    if len(found) <= _MOST_OTHERS:
        return tuple(found)
    rest = found[_MOST_OTHERS - 1 :]
    return (
        *found[: _MOST_OTHERS - 1],
        *_and_more([o for o in rest if not o.follows]),
        *_and_more([o for o in rest if o.follows]),
    )


def _and_more(rest: Sequence[Other]) -> Iterator[Other]:
    if len(rest) > 1:
        hosts = tuple(sorted({host for other in rest for host in other.hosts}))
        rules = tuple(sorted({rule for other in rest for rule in other.follows}))
        yield Other(f"{len(rest)} other values", hosts, rules)
    else:
        yield from rest


def said(field: str, faults: Iterable[Fault]) -> tuple[str, ...]:
    """The rules by which a node's own findings say this of this place already. A finding of several devices names one
    of them, and an uplink's faults are told of what hangs below it."""
    rules, place = SAID_BY[name_of(field)], place_of(field)
    return tuple(sorted({f.rule for f in faults if f.rule in rules and _covers(f, place)}))


def _covers(fault: Fault, place: str) -> bool:
    if fault.bdf is None or " +" in fault.device or not place.startswith(_DEVICES):
        return True
    return f"{fault.bdf.rpartition('.')[0]}." in place  # the functions of a card share its link


def _folded(found: Iterable[Unlike]) -> list[Unlike]:
    """One entry for what is the same difference on the same nodes at many places: eight narrow links of one node."""
    same: dict[tuple[object, ...], list[Unlike]] = defaultdict(list)
    for entry in found:
        at_address = place_of(entry.field).startswith((*_DEVICES, "link "))
        name = name_of(entry.field) if at_address else entry.field
        same[name, entry.kind, entry.majority, entry.accused, entry.others].append(entry)
    return [_fold(entries) for entries in same.values()]


def _fold(entries: Sequence[Unlike]) -> Unlike:
    first = entries[0]
    if len(entries) == 1:
        return first
    weakest = min(entries, key=lambda entry: entry.share)
    return weakest._replace(field=folded_field(name_of(first.field), [place_of(e.field) for e in entries]))


def folded_field(name: str, places: Sequence[str]) -> str:
    """ "PCIe width of 8 places: gpu 0000:19:00.0, gpu 0000:3b:00.0, … and 4 more"; one place as it is."""
    if len(places) == 1:
        return f"{name}{PLACE}{places[0]}"
    more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
    return f"{name}{PLACE}{len(places)} places: {', '.join(places[:_MOST_PLACES])}{more}"


def _order(entry: Unlike) -> tuple[object, ...]:
    hosts = sum(len(other.hosts) for other in entry.others)
    return not entry.accused, entry.severity != "warning", -hosts, entry.field, str(entry.kind), entry.majority
