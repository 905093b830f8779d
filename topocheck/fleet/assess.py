"""Records and listings → Fleet: the whole answer over all nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from topocheck import __version__
from topocheck.fleet.cables import with_cables
from topocheck.fleet.changes import compare
from topocheck.fleet.choose import exclude, job
from topocheck.fleet.groups import groups, states
from topocheck.fleet.hosts import short_name
from topocheck.fleet.majority import unlike
from topocheck.fleet.rails import rails
from topocheck.fleet.reading import Reading
from topocheck.fleet.record import RANK, VERDICTS, Kind, NodeRecord
from topocheck.fleet.records import Records
from topocheck.fleet.report import Fleet, Rails, Unlike
from topocheck.fleet.streams import origin_of

if TYPE_CHECKING:
    from topocheck.names import NameSet

_RAIL_RULES = ("RAIL001", "RAIL002", "RAIL004")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user wants to know beside the reports themselves."""

    expected: tuple[str, ...] = ()  # hosts
    wanted: int | None = None  # nodes of a job
    earlier: tuple[tuple[str, tuple[NodeRecord, ...]], ...] = ()  # name → records of then
    patterns: tuple[NameSet, ...] = ()  # the policy's leaf switches of rail 0, rail 1, …
    fabric: tuple[str, ...] = ()  # files that were called listings of the fabric


def read(names: Sequence[str]) -> tuple[list[NodeRecord], Reading]:
    """The records of everything that was named, each host once with its newest report; and the reading itself."""
    reading, records = Reading(), Records()
    newest: dict[str, NodeRecord] = {}
    for document in reading.documents(names):
        try:
            record = records.record(document.data, document.origin, document.host)
        except ValueError as error:
            reading.count("torn", document.origin, str(error))
            continue
        other = newest.get(record.host)
        if other is not None:
            reading.count("duplicate", min(record, other, key=_time).origin, f"an older report of {record.host}")
        newest[record.host] = record if other is None else max(other, record, key=_time)
    return sorted(_each_once(newest.values(), reading), key=lambda n: n.host), reading


def _each_once(nodes: Iterable[NodeRecord], reading: Reading) -> Iterator[NodeRecord]:
    """A host with a domain, or in capitals, and one without are one node if they have a port in common."""
    of_name: dict[str, list[NodeRecord]] = {}
    for node in nodes:
        of_name.setdefault(short_name(node.host).lower(), []).append(node)
    for alike in of_name.values():
        seen: set[str] = set()
        for node in sorted(alike, key=_time, reverse=True) if len(alike) > 1 else alike:
            guids = {port.guid for port in node.ports if port.guid}
            if seen.isdisjoint(guids):
                seen |= guids
                yield node
            else:
                reading.count("duplicate", node.origin, f"an older report of {node.host}, by another name")


def assess(nodes: Sequence[NodeRecord], reading: Reading, time: str, asked: Asked | None = None) -> Fleet:
    """The fleet's report; `time` is now, UTC."""
    asked = asked or Asked()
    cabling = with_cables(rails(nodes, reading.listings, asked.patterns), nodes, reading.listings)
    cabling = replace(cabling, notes=(*_no_listings(asked.fabric, reading), *cabling.notes))
    hosts = [n.host for n in nodes] or _listed(cabling, reading)
    missing, unexpected = _expected(asked.expected, hosts)
    odd = unlike(nodes)
    by_verdict = {v: tuple(n.host for n in nodes if n.verdict == v) for v in VERDICTS}
    newest, old = _ages(nodes, time)
    seen = bool(nodes) or any(listing.cables or listing.trunks for listing in reading.listings)
    verdict, reason = _verdict(by_verdict, cabling, odd, missing, seen=seen)
    return Fleet(
        version=__version__,
        time=time,
        verdict=verdict,
        reason=reason,
        hosts=tuple(hosts),
        verdicts=by_verdict,
        kinds=_kinds(nodes),
        groups=groups(nodes, _said_by_rails(cabling)),
        unlike=odd,
        rails=cabling,
        missing=missing,
        unexpected=unexpected,
        exclude=tuple(entry.host for entry in exclude(nodes, cabling)),
        unread=reading.unread,
        comparisons=tuple(compare(name, nodes, then) for name, then in asked.earlier),
        job=None if asked.wanted is None else job(asked.wanted, nodes, cabling, old),
        states=_states(nodes, cabling),
        versions=tuple(sorted({n.version for n in nodes})),
        skipped=tuple(Counter(rule for n in nodes for rule in n.skipped).most_common()),
        newest=newest,
        old=old,
        expected=asked.expected,
    )


def _no_listings(names: Iterable[str], reading: Reading) -> Iterator[str]:
    for name in map(origin_of, names):
        if not any(listing.origin.startswith(name) for listing in reading.listings):
            yield f"{name} is no output of ibnetdiscover, iblinkinfo or ibdiagnet"


def _time(node: NodeRecord) -> str:
    return node.time


def _ages(nodes: Sequence[NodeRecord], now: str) -> tuple[str | None, tuple[str, ...]]:
    """When the newest report was written, and whose is a day older or more. A node whose clock is ahead makes nobody
    old."""
    newest = max((n.time for n in nodes if n.time and n.time <= now), default=None)
    if newest is None:
        return None, ()
    limit = (datetime.fromisoformat(newest[:-1]) - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return newest, tuple(n.host for n in nodes if n.time and n.time <= limit)


def _kinds(nodes: Iterable[NodeRecord]) -> tuple[tuple[Kind, int], ...]:
    """The largest first."""
    return tuple(Counter(n.kind for n in nodes).most_common())


def _listed(cabling: Rails, reading: Reading) -> list[str]:
    """Without reports the hosts of the fabric: those that have rails, else all whose names a listing tells."""
    railed = {host for pod in cabling.pods for host in pod.hosts}
    railed |= {end.host for fault in cabling.faults for end in fault.ends} if railed else set()
    return sorted(railed or {c.host for listing in reading.listings for c in listing.cables if c.host})


def _expected(expected: Sequence[str], hosts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Who is missing and who was not expected; a name without a domain is met by one with any, and meets it."""
    if not expected:
        return (), ()
    return _unmet(expected, hosts), _unmet(hosts, expected)


def _unmet(names: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    known, short = set(others), {short_name(other) for other in others}
    return tuple(name for name in names if known.isdisjoint((name, short_name(name))) and name not in short)


def _said_by_rails(cabling: Rails) -> frozenset[tuple[str, str]]:
    """(host, rule) of what a node saw alone and the fleet sees with its reason."""
    hosts = {end.host for fault in cabling.faults if fault.rule in _RAIL_RULES for end in fault.ends}
    return frozenset((host, rule) for host in hosts for rule in _RAIL_RULES)


def _states(nodes: Iterable[NodeRecord], cabling: Rails) -> dict[str, dict[str, str]]:
    found = states(nodes)
    for fault in cabling.faults:
        for host in {end.host for end in fault.ends}:
            of_host = found.setdefault(host, {})
            of_host[fault.rule] = min(fault.severity, of_host.get(fault.rule, "info"), key=RANK.__getitem__)
    return found


def _verdict(
    by_verdict: Mapping[str, Sequence[str]], cabling: Rails, odd: Sequence[Unlike], missing: Sequence[str], seen: bool
) -> tuple[str, str]:
    """The first that fits, as for a node; a node without an answer makes the fleet's unknown unless one failed."""
    severities = Counter(fault.severity for fault in cabling.faults)
    reasons = {
        "failed": {"node failed": len(by_verdict["failed"]), "cabling error": severities["error"]},
        "unknown": {"node without a report": len(missing), "node unknown": len(by_verdict["unknown"])},
        "degraded": {
            "node degraded": len(by_verdict["degraded"]),
            "cabling warning": severities["warning"],
            "node unlike its sisters": len(_accused(odd)),
        },
    }
    if not seen:
        return "unknown", "no report was read, nor a cable between switch and host"
    for verdict, counts in reasons.items():
        if any(counts.values()):
            return verdict, ", ".join(_counted(count, words) for words, count in counts.items() if count)
    alone = not any(by_verdict.values())
    return "healthy", "no fault in the cabling; no node's own report was read" if alone else "no fault on any node"


def _accused(odd: Iterable[Unlike]) -> set[str]:
    """Hosts whose hardware is not as their sisters', where no finding of their own says so."""
    others = [other for u in odd if u.accused and u.severity != "info" for other in u.unexplained]
    return {host for other in others for host in other.hosts}


def _counted(count: int, words: str) -> str:
    """ "3 nodes failed", "1 cabling error"."""
    noun, rest = words.split(" ", 1) if words.startswith("node") else (words, "")
    return " ".join(filter(None, (str(count), noun if count == 1 else f"{noun}s", rest)))
