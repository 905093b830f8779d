"""An InfiniBand fabric as `ibnetdiscover`, `iblinkinfo` or ibdiagnet lists it: every cable once, with both its ends.

What follows from it: `tiers.py` (leaves, uplinks, bisection), `cables.py` (slow, narrow and missing cables), `rails.py`
(which rail is on which leaf).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from sys import intern
from typing import NamedTuple

from topocheck.fleet.hosts import short_name
from topocheck.hardware.network import ib_rate_gbit_per_s
from topocheck.probes import ibdiagnet_lst, iblinkinfo, ibnetdiscover
from topocheck.probes import rdma_draft as rdma
from topocheck.probes.ib_links import End, Link, SwitchNames


class HostCable(NamedTuple):
    """A CA's port on a switch. Host and device are of its node description, None in a factory text."""

    host: str | None  # "gpu01"
    device: str | None  # "mlx5_3", "" in one that is the host's name alone
    guid: str | None  # of the port, "b83f:d203:0001:1040"
    lid: int | None
    port: int | None  # of the CA
    switch: str
    switch_port: str
    rate_gbit_per_s: float | None
    width: int | None
    speed: str | None  # "HDR"
    by: str  # ibnetdiscover, iblinkinfo, ibdiagnet
    description: str
    able_gbit_per_s: float | None = None  # what both ends support, where the listing says that it is more
    model: str | None = None  # the CA's device id, "0x1017", where its own record is there


class Trunk(NamedTuple):
    """A cable between two switches."""

    a: str
    a_port: str
    b: str
    b_port: str
    rate_gbit_per_s: float | None
    width: int | None
    speed: str | None
    able_gbit_per_s: float | None = None


class Listing(NamedTuple):
    """One tool's output, each cable once. `whole`: the switches whose own record is there to its end, so that what it
    does not hold is not there; `guids`: (name, GUID) of switches."""

    origin: str
    cables: tuple[HostCable, ...]
    trunks: tuple[Trunk, ...]
    switches: tuple[str, ...]
    whole: frozenset[str] = frozenset()
    guids: tuple[tuple[str, str], ...] = ()


_TOOLS = (ibnetdiscover, iblinkinfo, ibdiagnet_lst)


def is_listing(text: str) -> bool:
    """Whether one of the tools wrote it."""
    return any(tool.sniff(text) for tool in _TOOLS)


def listing(text: str, origin: str) -> Listing:
    """The fabric that a text lists."""
    tool = next((tool for tool in _TOOLS if tool.sniff(text)), ibnetdiscover)
    return _Cables(tool.links(text), tool.INPUT).listing(origin)


def distinct(listings: Iterable[Listing]) -> tuple[Listing, ...]:
    """Listings that can be read together: switches of one name in two fabrics go by GUID, and a cable that several
    listings have stays in the first."""
    taken: set[tuple[str, str]] = set()
    return tuple(_untaken(each, taken) for each in _apart(tuple(listings)))


def contradictions(listings: Iterable[Listing]) -> int:
    """In how many switch ports a later listing has another CA than an earlier one: they are of different times."""
    told: dict[tuple[str, str], str] = {}
    cables = [c for each in _apart(tuple(listings)) for c in each.cables]
    return sum(told.setdefault((c.switch, c.switch_port), c.guid) != c.guid for c in cables if c.guid)


def _apart(listings: tuple[Listing, ...]) -> Iterator[Listing]:
    known: dict[str, set[str]] = {}
    for name, guid in (pair for each in listings for pair in each.guids):
        known.setdefault(name, set()).add(guid)
    twice = {name for name, guids in known.items() if len(guids) > 1}
    return (_renamed(each, twice) for each in listings)


def _renamed(each: Listing, names: set[str]) -> Listing:
    new = {name: guid for name, guid in each.guids if name in names}
    if not new:
        return each
    return each._replace(
        cables=tuple(c._replace(switch=new.get(c.switch, c.switch)) for c in each.cables),
        trunks=tuple(t._replace(a=new.get(t.a, t.a), b=new.get(t.b, t.b)) for t in each.trunks),
        switches=tuple(new.get(s, s) for s in each.switches),
        whole=frozenset(new.get(s, s) for s in each.whole),
        guids=tuple((new.get(name, name), guid) for name, guid in each.guids),
    )


def _untaken(each: Listing, taken: set[tuple[str, str]]) -> Listing:
    """What no earlier listing has; a switch port has one cable."""
    cables = tuple(c for c in each.cables if (c.switch, c.switch_port) not in taken)
    trunks = tuple(t for t in each.trunks if (t.a, t.a_port) not in taken and (t.b, t.b_port) not in taken)
    taken.update((c.switch, c.switch_port) for c in cables)
    taken.update(end for t in trunks for end in ((t.a, t.a_port), (t.b, t.b_port)))
    return each._replace(cables=cables, trunks=trunks)


_Port = tuple[str, int]  # of a switch, by GUID or name
_Pair = tuple[End, End]
_OWN, _FAR = 1, 2  # which end's record told of a cable


class _Cables:
    """Collects the lines of a listing: two of them are one cable."""

    def __init__(self, links: Iterable[Link], by: str) -> None:
        self.by = by
        self.hosts: dict[_Port, tuple[_Pair, Link]] = {}  # (CA, switch)
        self.trunks: dict[tuple[_Port, _Port], tuple[_Pair, Link]] = {}
        self.models: dict[_Port, str] = {}  # by the switch's port: of the CA that is in it
        self.told: dict[_Port, int] = {}  # by the switch's port: which records told of what is in it
        self.records: dict[str, None] = {}
        self.last: str | None = None  # whose record it is
        for link in links:
            self._add(link)

    def _add(self, link: Link) -> None:
        own = link.own
        if own.kind == "SW":
            self.records.setdefault(_id(own))
        self.last = _id(own)
        if own.kind == link.far.kind == "SW":
            self._add_trunk(link)
        elif pair := _host_pair(link):
            port = _id(pair[1]), pair[1].port
            self.hosts.setdefault(port, (pair, link))
            if link.model and pair[0] is own:
                self.models[port] = intern(link.model)
            self._tell(port, _OWN if pair[1] is own else _FAR)

    def _add_trunk(self, link: Link) -> None:
        own, far = (_id(link.own), link.own.port), (_id(link.far), link.far.port)
        pair = (link.own, link.far) if own <= far else (link.far, link.own)
        self.trunks.setdefault((min(own, far), max(own, far)), (pair, link))
        self._tell(own, _OWN)
        self._tell(far, _FAR)

    def _tell(self, port: _Port, record: int) -> None:
        self.told[port] = self.told.get(port, 0) | record

    def listing(self, origin: str) -> Listing:
        """What was collected, with names."""
        ends = [pair[1] for pair, _ in self.hosts.values()]
        ends += [end for pair, _ in self.trunks.values() for end in pair]
        names = SwitchNames(ends)
        name_of = {_id(end): intern(names.of(end)) for end in ends}
        guids = {name_of[_id(end)]: f"0x{end.guid}" for end in ends if end.guid}
        return Listing(
            origin,
            tuple(self._cable(*found, name_of) for found in self.hosts.values() if not _aggregates(found[0][0])),
            tuple(_trunk(*found, name_of) for found in self.trunks.values()),
            tuple(name_of.values()),
            frozenset(name_of[s] for s in self._whole() if s in name_of),
            tuple(guids.items()),
        )

    def _whole(self) -> Iterable[str]:
        """A record is whole if it has every cable that others tell of; the last one, which may be cut, if others also
        tell of each of its own."""
        lacking = {switch for (switch, _), told in self.told.items() if told == _FAR}
        untold = {switch for (switch, _), told in self.told.items() if told == _OWN}
        return (s for s in self.records if s not in lacking and not (s == self.last and s in untold))

    def _cable(self, pair: _Pair, link: Link, name_of: dict[str, str]) -> HostCable:
        ca, switch = pair
        host, device = _host_and_device(ca.name)
        guid = rdma.guid(ca.guid) if ca.guid else None
        at, port = name_of[_id(switch)], intern(str(switch.port))
        return HostCable(
            host,
            device,
            guid,
            ca.lid or None,
            ca.port,
            at,
            port,
            ib_rate_gbit_per_s(link.width, link.speed),
            link.width,
            link.speed,
            self.by,
            " ".join(ca.name.split()),
            _able(link),
            self.models.get((_id(switch), switch.port)),
        )


def _trunk(pair: _Pair, link: Link, name_of: dict[str, str]) -> Trunk:
    (a, a_port), (b, b_port) = sorted((name_of[_id(end)], intern(str(end.port))) for end in pair)
    rate = ib_rate_gbit_per_s(link.width, link.speed)
    return Trunk(a, a_port, b, b_port, rate, link.width, link.speed, _able(link))


def _able(link: Link) -> float | None:
    """What both ends support, where the listing says that it is more."""
    return ib_rate_gbit_per_s(*link.able) if link.able else None


def _id(end: End) -> str:
    return end.guid or f"{end.lid} {end.name}"


def _host_pair(link: Link) -> _Pair | None:
    """(CA, switch). An end of unknown kind is a CA if its description names a host and device, else a switch."""
    for ca, switch in link.ca_and_switch():
        if (ca.kind or switch.kind) and (ca.kind or _names_ca(ca)) and (switch.kind or not _names_ca(switch)):
            return ca, switch
    return None


def _names_ca(end: End) -> bool:
    return all(_host_and_device(end.name))


def _aggregates(ca: End) -> bool:
    """Whether it is the SHARP engine of a switch, which stands on its last port as a CA."""
    return "Aggregation Node" in ca.name


_DESCRIPTION = re.compile(r"([A-Za-z0-9][\w.-]{0,254})\s+([A-Za-z][\w-]{0,62}\d\w{0,62})(?:\s+\([^)]{0,80}\))?")
_ALONE = re.compile(r"[A-Za-z][\w.-]{0,254}")
_FACTORY = re.compile(r"MT\d{4,6}|localhost|none", re.IGNORECASE)


def _host_and_device(description: str) -> tuple[str | None, str | None]:
    """What the driver writes once it knows its host; a name without the domain, as `hostname -s` prints it.

    >>> _host_and_device("gpu01 mlx5_3"), _host_and_device("MT4129 ConnectX7   Mellanox Technologies")
    (('gpu01', 'mlx5_3'), (None, None))
    """
    if match := _DESCRIPTION.fullmatch(description):
        host, device = match.groups()
    elif _ALONE.fullmatch(description) and any(map(str.isdigit, description)):
        host, device = description, ""
    else:
        return None, None
    short = short_name(host)
    return (None if _FACTORY.fullmatch(short) else intern(short)), intern(device)
