"""Simulated fleets: a few real reports, copied and edited for thousands of nodes, with faults in some of them.

fleet = simulate(10_000, faults=3, seed=1)    four platforms of unequal size, one with three nodes
fleet.lines()                                 a report a node, each a line of JSON
fleet.listing()                               what ibnetdiscover prints of its InfiniBand fabric
fleet.injected                                what must be said, and of whom

Only what tells one node from another is edited: host, time, boot, GUIDs, LIDs, leaf and leaf port. A fault is one of
those of fixtures/nodes, put into the capture before it is checked; or one that only sisters show.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import nodes

from topocheck.check import check
from topocheck.formats import json as node_json

Document = dict[str, Any]

POD = 32  # nodes that share their leaves: half of a 64-port switch's ports
SPINES = 32
_STARTED = datetime(2026, 11, 20, 3, 4, 5, tzinfo=timezone.utc)
_MARK = re.compile('"<<([^>]*)>>"')
_CABLING = ("RAIL001", "RAIL002")  # a single node's witness of cabling, which here is the fleet's


class Family(NamedTuple):
    """Nodes of one platform. `share` of the fleet below 1, or a number; `leaves`: what tells where its cables end."""

    name: str  # its hosts are gpu0001, gpu0002, …
    node: str  # of fixtures/nodes
    share: float
    leaves: str | None = None
    edits: tuple[tuple[str, str], ...] = ()  # of every text of the capture


_H200 = (
    ("H100 80GB HBM3", "H200"),
    ("H100 SXM5 80GB", "H200 SXM 141GB"),
    ("G8-H100 SXM5", "G8-H200 SXM"),
    ("10de:2330", "10de:2335"),
    ("233010DE", "233510DE"),
)
FAMILIES = (
    Family("gpu", "hgx-h100", 0.6, "ibnetdiscover"),
    Family("dgx", "dgx-a100", 0.3),
    Family("eth", "hgx-h100-roce", 0.1, "lldp", _H200),
    Family("inf", "pcie-box", 3),
)


class Injected(NamedTuple):
    """A fault, and what must be said of it: a rule's id; "unlike" for a value that its sisters do not have; "missing"
    for a node that is expected and silent."""

    host: str
    fault: str
    said: str
    subjects: tuple[str, ...] | None = None
    severity: str = "error"


class OnlyInFleet(NamedTuple):
    """A fault that no node can see by itself: an edit of its report."""

    edit: Callable[[Document], None]
    said: str
    severity: str = "info"


def _other_firmware(document: Document) -> None:
    for device in document["devices"]:
        if device["kind"] == "nic":
            device["firmware"] = "28.39.1002"


def _other_driver(document: Document) -> None:
    document["versions"]["driver"] = "570.86.15"


SISTERS = {
    "older-nic-firmware": OnlyInFleet(_other_firmware, "unlike"),
    "other-driver": OnlyInFleet(_other_driver, "unlike"),
}


@dataclass(frozen=True)
class Fleet:
    """Hosts in the order in which they are written, and what is wrong with some of them."""

    hosts: dict[str, tuple[Family, int]]  # host → family, its number within it, from 0
    injected: tuple[Injected, ...] = ()
    crossed: frozenset[str] = field(default=frozenset())  # hosts whose cables of rails 2 and 3 are swapped

    @property
    def accused(self) -> set[str]:
        """The hosts that something must be said about."""
        return {fault.host for fault in self.injected}

    def lines(self) -> Iterator[str]:
        """A report a node, as `topocheck node --format json` prints it."""
        faults = {fault.host: fault for fault in self.injected}
        for number, (host, (family, place)) in enumerate(self.hosts.items()):
            fault = faults.get(host)
            if fault is None or fault.said != "missing":
                name = fault.fault if fault and not fault.fault.startswith("cables") else None
                yield template(family, name).filled(host, number, leaves(family, place, host in self.crossed))

    def write(self, place: Path) -> Path:
        """All reports in one file of JSON lines."""
        with place.open("w", encoding="ascii") as file:
            file.writelines(self.lines())
        return place

    def listing(self) -> str:
        """ibnetdiscover's output: the leaves of every family that has them there, their hosts and uplinks."""
        rows: dict[str, list[str]] = {}
        for number, (host, (family, place)) in enumerate(self.hosts.items()):
            if family.leaves == "ibnetdiscover":
                where = leaves(family, place, host in self.crossed)
                for (index, nic), (switch, port) in zip(template(family, None).rails, where, strict=True):
                    guid, lid = _guid(number, index).replace(":", ""), _lid(number, index)
                    row = f'[{port}]\t"H-{guid}"[1]({guid}) \t\t# "{host} {nic}" lid {lid} 4xNDR\n'
                    rows.setdefault(switch, []).append(row)
        return "".join(_switch(number, name, rows[name]) for number, name in enumerate(rows)) + _spines(list(rows))


def simulate(count: int, faults: int = 0, seed: int = 0, kinds: tuple[str, ...] | None = None) -> Fleet:
    """A fleet of `count` nodes with faults at random nodes, one a node; `kinds`: the names to choose from, else any."""
    random = Random(seed)
    hosts = {
        f"{family.name}{place + 1:04}": (family, place)
        for family, size in zip(FAMILIES, sizes(count), strict=True)
        for place in range(size)
    }
    injected = []
    for host in random.sample(sorted(hosts), faults):
        possible = faults_of(hosts[host][0])
        name = random.choice(sorted(set(possible) & set(kinds or possible)))
        injected.append(possible[name]._replace(host=host))
    crossed = frozenset(fault.host for fault in injected if fault.fault == "cables-2-3-swapped")
    return Fleet(hosts, tuple(injected), crossed)


def sizes(count: int) -> list[int]:
    """How many nodes each family has; the first has what is left over."""
    found = [int(family.share * count) if family.share < 1 else int(family.share) for family in FAMILIES]
    return [count - sum(found[1:]), *found[1:]]


@cache
def faults_of(family: Family) -> dict[str, Injected]:
    """Every fault a node of this family can have, by name, without its host."""
    found = {
        edit.name: Injected("", edit.name, edit.expect.rule, edit.expect.subjects, edit.expect.severity)
        for edit in nodes.edits(family.node)
        if edit.expect.severity in ("error", "warning") and edit.expect.rule not in _CABLING
    }
    if family.share >= 1:  # too few to be compared
        return found
    found |= {name: Injected("", name, fault.said, None, fault.severity) for name, fault in SISTERS.items()}
    found["silent"] = Injected("", "silent", "missing")
    if family.leaves:
        found["cables-2-3-swapped"] = Injected("", "cables-2-3-swapped", "RAIL001", ("mlx5_2", "mlx5_3"))
    return found


class Template:
    """One report with holes where nodes differ. `rails`: of each rail's port its place among all ports, and its NIC."""

    def __init__(self, document: Document) -> None:
        of_ports = [device for device in document["devices"] for _ in device.get("ports", ())]
        self.rails = [(i, device["id"]) for i, device in enumerate(of_ports) if device["rail"] is not None]
        ports = [port for device in document["devices"] for port in device.get("ports", ())]
        document |= {key: f"<<{key}>>" for key in ("host", "time", "boot_id")}
        for number, port in enumerate(ports):
            port["guid"] = f"<<guid {number}>>"
            if port["lid"]:
                port["lid"] = f"<<lid {number}>>"
        for device in document["devices"]:
            if device.get("rail") is not None and device["ports"] and device["ports"][0]["leaf"]:
                device["ports"][0]["leaf"] = f"<<leaf {device['rail']}>>"
        self.parts = _MARK.split(json.dumps(document, separators=(",", ":")) + "\n")
        self.ports = len(ports)

    def filled(self, host: str, number: int, where: list[tuple[str, int]]) -> str:
        """The report of the node of this number in the fleet, with the leaf and leaf port of each rail."""
        time = _STARTED + timedelta(seconds=number % 600)
        values = {"host": f'"{host}"', "time": f'"{time:%Y-%m-%dT%H:%M:%SZ}"'}
        values["boot_id"] = f'"5c8f1d2a-0000-4000-8000-{number:012x}"'
        for port in range(self.ports):
            values[f"guid {port}"] = f'"{_guid(number, port)}"'
            values[f"lid {port}"] = str(_lid(number, port))
        for rail, (switch, port) in enumerate(where):
            values[f"leaf {rail}"] = f'{{"switch":"{switch}","port":{port},"by":"lldp"}}'
        parts = list(self.parts)
        parts[1::2] = [values[key] for key in parts[1::2]]
        return "".join(parts)


@cache
def template(family: Family, fault: str | None) -> Template:
    """The report of a node of this family, healthy or with a fault; one check each."""
    in_fleet = SISTERS.get(fault or "")
    with TemporaryDirectory() as folder:
        capture = Path(folder) / "capture"
        if fault is None or in_fleet:
            shutil.copytree(nodes.healthy(family.node), capture)
        else:
            nodes.apply(family.node, nodes.edit(family.node, fault), Path(folder))
        for file in [file for file in capture.rglob("*") if file.is_file()] if family.edits else ():
            text = file.read_text()
            for old, new in family.edits:
                text = text.replace(old, new)
            file.write_text(text)
        document = json.loads(node_json.render(check(str(capture)).report))
    document["source"] = {"kind": "live", "name": "this machine"}
    if in_fleet:
        in_fleet.edit(document)
    return Template(document)


def leaves(family: Family, place: int, crossed: bool) -> list[tuple[str, int]]:
    """Leaf and leaf port of each rail: one leaf a rail and pod, a port a node."""
    if family.leaves is None:
        return []
    pod, port = divmod(place, POD)
    found = [(f"{family.name}-pod{pod + 1:03}-leaf{rail + 1}", port + 1) for rail in range(8)]
    if crossed:
        found[2], found[3] = found[3], found[2]
    return found


def _guid(number: int, port: int) -> str:
    return f"b83f:d2{number >> 16:02x}:{number & 0xFFFF:04x}:{0x1000 + port * 0x40:04x}"


def _lid(number: int, port: int) -> int:
    """Unicast LIDs end at 0xbfff: in a fleet of more ports than that there are several subnets."""
    return 1 + (number * 16 + port) % 0xBFFF


def _switch(number: int, name: str, rows: list[str]) -> str:
    """A leaf of a listing: its hosts, then an uplink to each spine."""
    uplinks = [
        f'[{33 + i}]\t"S-{_spine(i)}"[{number + 1}] \t\t# "spine{i + 1}" lid {i + 1} 4xNDR\n' for i in range(SPINES)
    ]
    return _head(f"a088c203{number:08x}", f"MF0;{name}:MQM9700/U1") + "".join([*rows, *uplinks])


def _spines(names: list[str]) -> str:
    """The spines, every leaf on each."""
    return "".join(
        _head(_spine(i), f"spine{i + 1}")
        + "".join(
            f'[{number + 1}]\t"S-a088c203{number:08x}"[{33 + i}] \t\t# "MF0;{name}:MQM9700/U1" lid 1 4xNDR\n'
            for number, name in enumerate(names)
        )
        for i in range(SPINES)
    )


def _spine(number: int) -> str:
    return f"a088c2ff{number:08x}"


def _head(guid: str, name: str) -> str:
    made = f"\nvendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x{guid}\nswitchguid=0x{guid}({guid})\n"
    return f'{made}Switch\t65 "S-{guid}"\t\t# "{name}" enhanced port 0 lid 1 lmc 0\n'
