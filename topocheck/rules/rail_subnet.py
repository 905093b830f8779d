"""
Two RoCE rails are in one IP subnet while the others have each their own.

Why it matters: the kernel sends a subnet's traffic by one of the two interfaces, and answers ARP for both on either:
one NIC idles or packets arrive at the wrong one. How much it costs is not known.

Usual cause: an address typed twice in a cabling plan, an interface configured as its neighbour.

Repair: give the interface the address of its own rail's subnet.

Silent when: all rails share one subnet or have point-to-point addresses (info: ARP settings then matter); their
addresses are evenly spaced, as in subnets smaller than a /24; InfiniBand. No input gives the prefix: a /24 is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address
from itertools import pairwise
from typing import NamedTuple

from topocheck.cabling import no_rails
from topocheck.facts import Gid, RdmaPort
from topocheck.finding import Answer, Finding, NotApplicable, Skip
from topocheck.graph import Device, Topology
from topocheck.patches import SetField

ID = "RAIL004"
NAME = "rail-subnet"


class RailAddress(NamedTuple):
    """The IPv4 address of a RoCE rail's port. No input gives the prefix length: /24 is taken, and said so."""

    nic: Device
    port: RdmaPort
    gid: Gid
    address: str

    @property
    def subnet(self) -> str:
        """Its /24."""
        return f"{self.address.rpartition('.')[0]}.0/24"


def check(node: Topology) -> Iterator[Answer]:
    """The addresses of the compute NICs' RoCE ports, by their GIDs."""
    reason = no_rails(node)
    roce = [(n, p) for n in node.compute_nics for p in n.ports if p.link_layer == "ethernet" and p.state != "down"]
    if reason or len(roce) < 2:
        yield NotApplicable(reason or "fewer than two RoCE rails")
        return
    rails = [rail for n, p in roce if (rail := _address(n, p))]
    if len(rails) < 2:
        yield Skip("no IPv4 address of the RoCE rails in the input")
        return
    by_subnet: dict[str, list[RailAddress]] = {}
    for rail in rails:
        by_subnet.setdefault(rail.subnet, []).append(rail)
    alone = [subnet for subnet, members in by_subnet.items() if len(members) == 1]
    if len(by_subnet) == 1:
        yield _all_in_one(rails)
    elif _evenly_spaced(rails):
        return
    for members in by_subnet.values():
        if len(members) == 2 and len(alone) >= 2 and len(by_subnet) == len(rails) - 1:
            yield _finding(members, len(alone))


def _evenly_spaced(rails: list[RailAddress]) -> bool:
    """Whether the addresses count the rails in equal steps: subnets smaller than a /24, of which two fall into one."""
    numbers = sorted(int(IPv4Address(rail.address)) for rail in rails)
    return len({b - a for a, b in pairwise(numbers)}) == 1


def _address(nic: Device, port: RdmaPort) -> RailAddress | None:
    """By the port's first IPv4 GID."""
    return next((RailAddress(nic, port, g, g.ipv4) for g in port.gids if g.ipv4), None)


def _finding(members: list[RailAddress], alone: int) -> Finding:
    one, two = members
    moved = two.gid._replace(gid="0000:0000:0000:0000:0000:ffff:ffff:ff01")
    gids = tuple(moved if g == two.gid else g for g in two.port.gids if g == two.gid or not g.ipv4)
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning",
        confidence="medium",
        subjects=(one.nic.id, two.nic.id),
        message=f"{one.nic.id} ({one.address}) and {two.nic.id} ({two.address}) share {one.subnet} (/24 assumed), "
        f"the other {alone} rails have each their own",
        repair="Give the interface an address of its own rail's subnet",
        evidence=tuple(line for m in members if (line := m.port.lines.get("gids"))),
        expected_from="equals",
        patches=(SetField(two.nic.id, "gids", gids, two.port.port),),
    )


def _all_in_one(rails: list[RailAddress]) -> Finding:
    line = rails[0].port.lines.get("gids")
    return Finding(
        rule=ID,
        name=NAME,
        severity="info",
        subjects=tuple(r.nic.id for r in rails),
        message=f"all {len(rails)} RoCE rails have addresses of {rails[0].subnet} (/24 assumed): "
        f"with one subnet arp_ignore, arp_announce and a route for each interface are needed",
        repair="None if these settings are made, or if each is a /31 of its own",
        evidence=(line,) if line else (),
        effect="none",
    )
