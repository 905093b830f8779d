"""Nodes by checks: a row for each node that is not well, one row for all that are alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from topocheck.fleet.record import RANK, VERDICTS
from topocheck.fleet.report import Fleet
from topocheck.fleet.words import folded, nodes, position

UNLIKE = "unlike"
MOST_ROWS = 1000  # of one node each
_MOST_PLACES = 3
_Said = tuple[str | None, ...]  # the severity in each column


class Cell(NamedTuple):
    """What one check says of one row: the severity, and at which devices."""

    severity: str
    about: str


class Row(NamedTuple):
    """A node, or all nodes of which the same is true; a cell for each column, None where the check is silent."""

    name: str
    hosts: str  # of a row of many, folded
    verdict: str
    worst: str  # severity, "" without any
    cells: tuple[Cell | None, ...]


class Grid(NamedTuple):
    """`columns`: rules that speak on any node, with their names, then what only the comparison with sisters tells."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]


def grid(fleet: Fleet) -> Grid:
    """The worst nodes first, a row each; healthy ones that differ in nothing but notes share a row, and so do those
    of which the same is true where there are more bad ones than a page holds."""
    odd = _odd(fleet)
    columns = _columns(fleet, odd)
    bad: list[tuple[str, str, _Said]] = []
    alike: dict[tuple[str, _Said], list[str]] = {}
    for verdict, host in _in_order(fleet):
        found = fleet.states.get(host, {}) | ({UNLIKE: odd[host].severity} if host in odd else {})
        said = tuple(found.get(column) for column, _ in columns)
        if verdict == "healthy" and host not in odd and set(said) <= {None, "info"}:
            alike.setdefault((verdict, said), []).append(host)
        else:
            bad.append((host, verdict, said))
    bad.sort(key=lambda row: (RANK.get(_worst(row[2]), len(RANK)), VERDICTS.index(row[1])))
    for host, verdict, said in bad[MOST_ROWS:]:
        alike.setdefault((verdict, said), []).append(host)
    places = _places(fleet) | {(host, UNLIKE): cell.about for host, cell in odd.items()}
    own = [_row(*row, [places.get((row[0], column), "") for column, _ in columns]) for row in bad[:MOST_ROWS]]
    return Grid(columns, (*own, *(_shared(who, *same) for same, who in alike.items())))


def _columns(fleet: Fleet, odd: Mapping[str, Cell]) -> tuple[tuple[str, str], ...]:
    names = {group.rule: group.name for group in fleet.groups}
    rules = sorted({rule for of_host in fleet.states.values() for rule in of_host})
    return (*((rule, names.get(rule, "")) for rule in rules), *(((UNLIKE, "unlike its sisters"),) if odd else ()))


def _in_order(fleet: Fleet) -> Iterable[tuple[str, str]]:
    """Verdict and host; hosts that only a fabric listing knows have no verdict of their own."""
    known = {host: verdict for verdict, hosts in fleet.verdicts.items() for host in hosts}
    return ((known.get(host, "unknown"), host) for host in fleet.hosts)


def _row(host: str, verdict: str, said: _Said, about: Iterable[str]) -> Row:
    cells = tuple(None if s is None else Cell(s, words) for s, words in zip(said, about, strict=True))
    return Row(host, "", verdict, _worst(said), cells)


def _shared(hosts: list[str], verdict: str, said: _Said) -> Row:
    row = _row(hosts[0], verdict, said, [""] * len(said))
    return row if len(hosts) == 1 else row._replace(name=nodes(len(hosts)), hosts=folded(tuple(hosts)))


def _worst(said: _Said) -> str:
    return min((s for s in said if s is not None), key=lambda s: RANK.get(s, len(RANK)), default="")


def _places(fleet: Fleet) -> dict[tuple[str, str], str]:
    """(host, rule) → its devices, those of what counts only: notes are on every node."""
    found: dict[tuple[str, str], list[str]] = {}
    for group in fleet.groups:
        at = position(group.device, group.bdf)
        if at and group.severity != "info":
            for host in group.hosts:
                found.setdefault((host, group.rule), []).append(at)
    for fault in fleet.rails.faults:
        for end in fault.ends:
            found.setdefault((end.host, fault.rule), []).append(position(end.nic, end.bdf))
    return {at: _listed(devices) for at, devices in found.items()}


def _listed(devices: list[str]) -> str:
    more = f" +{len(devices) - _MOST_PLACES}" if len(devices) > _MOST_PLACES else ""
    return ", ".join(devices[:_MOST_PLACES]) + more


def _odd(fleet: Fleet) -> dict[str, Cell]:
    """Host → where it is unlike its sisters and no finding says so."""
    found: dict[str, list[tuple[str, str]]] = {}
    for entry in fleet.unlike:
        for other in entry.unexplained if entry.accused else ():
            for host in other.hosts:
                found.setdefault(host, []).append((entry.severity, f"{entry.field} {other.value}"))
    return {
        host: Cell(min((s for s, _ in told), key=lambda s: RANK.get(s, len(RANK))), _listed([t for _, t in told]))
        for host, told in found.items()
    }
