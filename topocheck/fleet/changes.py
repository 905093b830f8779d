"""This fleet against earlier reports of it, yesterday's or those of its baseline: what came, went, or is another now.

Nodes are compared host by host, changes folded over hosts. What only one of the two reports has read is no change: a
finding whose rule cannot see any more is called unseen, not gone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from topocheck.fleet.hosts import short_name
from topocheck.fleet.majority import folded_field, said, shortened
from topocheck.fleet.record import RANK, Fault, NodeRecord
from topocheck.fleet.report import Change, Comparison
from topocheck.fleet.values import COUNTS, PLACE, name_of, place_of

_MOST = 200  # changes that are told one by one
_WHATEVER_COUNTS = ("driver", "kernel", "fabric manager")  # compared although a GPU or NIC is gone or new
_WORDS = (
    "new",
    "worse",
    "gone",
    "gone or waived",
    "unseen",
    "better",
    "verdict",
    "value",
)  # the order in which they are told


class _Key(NamedTuple):
    """What makes a change on two hosts the same one."""

    word: str
    rule: str  # or the field's name
    position: str  # PCI address, else the device's name
    severity: str
    what: str  # of a verdict or value: "x16 → x8"


def compare(name: str, now: Sequence[NodeRecord], then: Sequence[NodeRecord]) -> Comparison:
    """What changed, worst first. `name`: the file or folder that `then` was read from."""
    several = _ambiguous(then) | _ambiguous(now)
    before, after = ({_name(node, several): node for node in nodes} for nodes in (then, now))
    both = sorted(before.keys() & after.keys())
    hosts: dict[_Key, list[str]] = defaultdict(list)
    devices: dict[_Key, Counter[str]] = defaultdict(Counter)
    for called in both:
        for key, device in _of_node(before[called], after[called]):
            hosts[key].append(after[called].host)
            devices[key][device] += 1
    changes = [
        Change(_words(key, min(devices[key].items(), key=lambda d: (-d[1], d[0]))[0]), key.severity, tuple(hosts[key]))
        for key in sorted(hosts, key=lambda key: _order(key, len(hosts[key])))
    ]
    return Comparison(
        name,
        len(both),
        tuple(sorted(before[host].host for host in before.keys() - after.keys())),
        tuple(sorted(after[host].host for host in after.keys() - before.keys())),
        tuple(_capped(changes)),
    )


def _ambiguous(nodes: Sequence[NodeRecord]) -> set[str]:
    """Names that several hosts have in different domains."""
    return {short for short, count in Counter(short_name(node.host) for node in nodes).items() if count > 1}


def _name(node: NodeRecord, ambiguous: Set[str]) -> str:
    """What its node goes by, with a domain or without."""
    short = short_name(node.host)
    return node.host if short in ambiguous else short


def _of_node(then: NodeRecord, now: NodeRecord) -> Iterator[tuple[_Key, str]]:
    """The changes of one node, with the device's name on it."""
    if then.faults != now.faults:
        yield from _of_faults(then, now)
    if then.verdict != now.verdict:
        yield _Key("verdict", "verdict", "", "info", f"{then.verdict} → {now.verdict}"), ""
    if then.values != now.values:
        told_by = [*then.faults, *now.faults] if then.faults != now.faults else []
        for key in _of_values(dict(then.values), dict(now.values), told_by):
            yield key, ""


def _of_faults(then: NodeRecord, now: NodeRecord) -> Iterator[tuple[_Key, str]]:
    before, after = _by_position(then.faults), _by_position(now.faults)
    for (rule, position), fault in after.items():
        other = before.get((rule, position))
        if other is None:
            yield _Key("new", rule, position, fault.severity, ""), _device(fault)
        elif other.severity != fault.severity:
            what = f"{other.severity} → {fault.severity}"
            worse = RANK[fault.severity] < RANK[other.severity]
            word, severity = ("worse", fault.severity) if worse else ("better", "info")
            yield _Key(word, rule, position, severity, what), _device(fault)
    gone = "gone or waived" if now.waived > then.waived else "gone"
    for (rule, position), fault in before.items():
        if (rule, position) not in after:
            yield _Key("unseen" if rule in now.skipped else gone, rule, position, "info", ""), _device(fault)


def _by_position(faults: Iterable[Fault]) -> dict[tuple[str, str], Fault]:
    """The worst of a rule at each position."""
    worst_last = sorted(faults, key=lambda fault: -RANK[fault.severity])
    return {(fault.rule, fault.bdf or _device(fault)): fault for fault in worst_last}


def _device(fault: Fault) -> str:
    """ "gpu0" of "gpu0 +7": how many more there are changes from day to day."""
    return fault.device.partition(" +")[0]


def _of_values(then: Mapping[str, str], now: Mapping[str, str], told_by: Iterable[Fault]) -> Iterator[_Key]:
    """Values that were read both times and differ; of a node whose devices are not as many, what else differs follows
    from that."""
    counted = any(then.get(field, now.get(field)) != now.get(field, then.get(field)) for field in COUNTS)
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for field, value in now.items():
        other = then.get(field, value)
        if other == value or said(field, told_by):
            continue
        if not counted or field in COUNTS or name_of(field) in _WHATEVER_COUNTS:
            usual, shown = shortened(field, other, [value])
            places[name_of(field), f"{usual} → {shown(value)}"].append(place_of(field))
    for (name, what), at in places.items():
        field = folded_field(name, at) if at != [""] else name
        yield _Key("value", field, "", "info", what)


def _words(key: _Key, device: str) -> str:
    """ "new PCI001 mlx5_3", "gone NET001 mlx5_0", "worse …: warning → error", "driver 580.1 → 580.2"."""
    if key.word in ("verdict", "value"):
        return f"{key.rule} {key.what}" if PLACE not in key.rule else f"{key.rule}: {key.what}"
    words = " ".join(filter(None, (key.word, key.rule, device or key.position)))
    return f"{words}: {key.what}" if key.what else words


def _order(key: _Key, hosts: int) -> tuple[object, ...]:
    return RANK[key.severity], _WORDS.index(key.word), -hosts, key


def _capped(changes: Sequence[Change]) -> Iterator[Change]:
    """The worst, and how many more there are."""
    if len(changes) <= _MOST:
        yield from changes
        return
    yield from changes[: _MOST - 1]
    rest = changes[_MOST - 1 :]
    worst = min((change.severity for change in rest), key=RANK.__getitem__)
    hosts = tuple(sorted({host for change in rest for host in change.hosts}))
    yield Change(f"{len(rest)} other changes", worst, hosts)
