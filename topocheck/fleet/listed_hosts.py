"""Hosts that only a fabric listing knows: by node description, their rails in the order of the device names.

Those whose names differ in numbers only are of one species; login, storage and management hosts are none of a GPU node.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from topocheck.fleet.fabric import HostCable
from topocheck.fleet.hosts import short_name
from topocheck.fleet.peers import family
from topocheck.fleet.rail_nodes import COMMON, UNREPORTED, Cable, RailNode, aligned

_LEAST_ALONE = 4  # ports that make a host without a report a rail node, however many others have


def listed_hosts(cables: Iterable[HostCable], reported: Collection[str]) -> tuple[list[RailNode], set[str]]:
    """The hosts that have no report. Where one name has two cables at one port, several hosts go by it: those names."""
    of_host: dict[str, dict[tuple[str, int], HostCable]] = {}
    shared = set()
    for cable in cables:
        if cable.host and cable.device is not None and short_name(cable.host) not in reported:
            ports = of_host.setdefault(cable.host, {})
            if ports.setdefault((cable.device, cable.port or 1), cable) is not cable:
                shared.add(cable.host)
    hosts = [_host(host, ports) for host, ports in of_host.items() if host not in shared]
    return _fast(aligned(_by_name(_rail_hosts(hosts)))), shared


def _by_name(hosts: list[RailNode]) -> list[RailNode]:
    """Storage nodes are not compared with compute nodes; where every host has a name of its own, all are."""
    stems = [family(h.host) for h in hosts]
    counts = Counter(stems)
    if 2 * sum(count for count in counts.values() if count >= COMMON) < len(hosts):
        return hosts
    return [h._replace(species=f"{UNREPORTED} {stem}") for h, stem in zip(hosts, stems, strict=True)]


def _host(host: str, ports: Mapping[tuple[str, int], HostCable]) -> RailNode:
    order = tuple(sorted({device for device, _ in ports}, key=_natural))
    place = {device: rail for rail, device in enumerate(order)}
    cables = tuple(
        Cable(host, device, None, c.guid, port, place[device], c.switch, c.switch_port, c.rate_gbit_per_s)
        for (device, port), c in ports.items()
    )
    return RailNode(host, UNREPORTED, order, cables)


@lru_cache(maxsize=4096)
def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """mlx5_9 before mlx5_10."""
    return tuple((int(piece[:18]), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"(\d+)", name))


def _rail_hosts(hosts: list[RailNode]) -> list[RailNode]:
    """Without those that have few ports beside the others: login, storage and management hosts."""
    sizes = Counter(len(h.order) for h in hosts)
    usual = max((size for size, count in sizes.items() if count >= COMMON), default=0)
    common = {size for size, count in sizes.items() if count >= COMMON and size >= _LEAST_ALONE}
    return [h for h in hosts if 2 * len(h.order) > usual or len(h.order) in common]


def _fast(nodes: Iterable[RailNode]) -> list[RailNode]:
    """Without the NICs that are slower than others on most hosts: storage, in a listing that knows no roles."""
    nodes = list(nodes)
    rates: dict[tuple[str, int], dict[int, Counter[float]]] = defaultdict(lambda: defaultdict(Counter))
    for node in nodes:
        for cable in node.cables:
            rates[node.kind][cable.rail][cable.rate_gbit_per_s or 0.0] += 1
    usual = {kind: {r: c.most_common(1)[0][0] for r, c in of_rail.items()} for kind, of_rail in rates.items()}
    slow = {kind: {r for r, rate in rails.items() if 0 < rate < max(rails.values())} for kind, rails in usual.items()}
    return [
        n.ordered(tuple(p for rail, p in enumerate(n.order) if rail not in slow[n.kind])) if slow[n.kind] else n
        for n in nodes
    ]
