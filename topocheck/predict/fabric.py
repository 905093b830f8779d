"""Beyond the port: rails, bisection, hash collisions, incast. What a capture of one node cannot tell is a question
("if 2:1"), never a figure."""

from __future__ import annotations

from functools import cache
from math import log
from typing import NamedTuple

from topocheck.predict.machine import Machine

RADIX = 64  # ports of the switches that large clusters are built of
UPLINKS = 64
BUFFER_BYTES = 1e6  # the article's example; switches share tens of megabytes
FAN_IN = 32


class Fabric(NamedTuple):
    """What the network between the nodes does to their traffic. GB/s one direction."""

    rails: int
    endpoints_of_fat_tree: int
    bisection_gb_per_s: float  # non-blocking; divide by the oversubscription
    alltoall_per_gpu_gb_per_s: dict[int, float]  # by oversubscription 1, 2, 4
    sprayed: bool  # packets take all paths: flows cannot collide
    busiest_of_uplinks: float
    leading_term: float
    incast_fills_us: float


def fabric_of(machine: Machine, nodes: int, share: float) -> Fabric:
    """The network of so many nodes, were it built as a fat tree with a rail a NIC; `share`: a GPU's, as found."""
    per_nic = (machine.nics_line or 0.0) / machine.nic_count
    ports = machine.nic_count * nodes
    return Fabric(
        machine.nic_count,
        fat_tree_endpoints(RADIX),
        bisection_gb_per_s(ports, per_nic),
        {over: alltoall_per_gpu(nodes, share, over) for over in (1, 2, 4)},
        machine.fabric == "efa",
        busiest_expected(UPLINKS),
        busiest_leading(UPLINKS),
        incast_fills_us(FAN_IN, per_nic),
    )


def fat_tree_endpoints(radix: int) -> int:
    """Endpoints of a non-blocking fat tree of three levels: k³/4.

    >>> fat_tree_endpoints(64)
    65536
    """
    return radix**3 // 4


def full_mesh_links(gpus: int) -> tuple[int, int]:
    """Pairs of a mesh where every two GPUs are wired, in all and of a GPU: N(N−1)/2 and N−1. Switches spare them.

    >>> full_mesh_links(8)
    (28, 7)
    """
    return gpus * (gpus - 1) // 2, gpus - 1


def bisection_gb_per_s(endpoints: int, gb_per_s: float, oversubscription: float = 1.0) -> float:
    """What crosses the middle one way: half of what the endpoints send, over the oversubscription."""
    return endpoints * gb_per_s / 2 / oversubscription


def alltoall_per_gpu(nodes: int, share_gb_per_s: float, oversubscription: float) -> float:
    """What a GPU sends to GPUs of other nodes: all of it may have to cross the leaf's uplinks, save what stays."""
    crossing = (nodes - 1) / nodes
    return share_gb_per_s / max(1.0, oversubscription * crossing)


@cache
def busiest_expected(links: int) -> float:
    """Expected flows on the busiest of k links under k flows hashed at random (exact).

    Σ over m of P(some link has more than m); P(none has) is k!/kᵏ times the coefficient of xᵏ in (Σ_{i≤m} xⁱ/i!)ᵏ.

    >>> busiest_expected(2), round(busiest_expected(64), 2)
    (1.5, 3.96)
    """
    expected, most = 1.0, 1
    while most < links:
        above = 1 - _none_above(links, most)
        if above < 1e-12:
            break
        expected += above
        most += 1
    return expected


def busiest_leading(links: int) -> float:
    """The leading term of the same for large k, ln k / ln ln k: 2.9 at 64.

    >>> round(busiest_leading(64), 1)
    2.9
    """
    return log(links) / log(log(links)) if links > 3 else 1.0


def _none_above(links: int, most: int) -> float:
    """P(no link has more than `most` of as many flows as links): link by link, how the flows fall. Flows left are
    thrown at links left, one link takes each with probability 1 / links left."""
    chances = {links: 1.0}
    for left in range(links, 0, -1):
        after: dict[int, float] = {}
        for flows, chance in chances.items():
            for taken, share in _binomial(flows, 1 / left, most):
                after[flows - taken] = after.get(flows - taken, 0.0) + chance * share
        chances = after
    return chances.get(0, 0.0)


def _binomial(flows: int, p: float, most: int) -> list[tuple[int, float]]:
    if p == 1.0:
        return [(flows, 1.0)] if flows <= most else []
    shares, share = [], (1 - p) ** flows
    for taken in range(min(most, flows) + 1):
        shares.append((taken, share))
        share *= (flows - taken) / (taken + 1) * p / (1 - p)
    return shares


def drain_us(size_bytes: float, gb_per_s: float) -> float:
    """How long a port takes to send what its buffer holds: 1 MB at 50 GB/s in 20 µs.

    >>> drain_us(1e6, 50.0)
    20.0
    """
    return size_bytes / gb_per_s / 1000


def incast_fills_us(senders: int, gb_per_s: float, buffer_bytes: float = BUFFER_BYTES) -> float:
    """After how long so many senders to one port have filled its buffer."""
    return drain_us(buffer_bytes, (senders - 1) * gb_per_s)
