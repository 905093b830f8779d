"""What a collective takes on so many nodes like this one: every algorithm and protocol as α + n·β, the best one wins.

busbw and algbw as nccl-tests define them (doc/PERFORMANCE.md): algbw = S/t, busbw = algbw times the factor of the
operation; S of allgather and reducescatter is the whole array. Bandwidths of large messages are those of
`hardware/collectives.py`, medians of published rows; latencies NCCL's tables times what was found over them.
"""

from __future__ import annotations

from typing import NamedTuple

from topocheck.hardware import collectives, latency, tuning
from topocheck.hardware.collectives import nics_gb_per_s
from topocheck.hardware.network import achievable_gb_per_s
from topocheck.hardware.tuning import PROTOCOLS, Latency, Protocol
from topocheck.predict.algorithms import rounds_of_tree
from topocheck.predict.machine import Machine

OPS = (
    "allreduce", "allgather", "reducescatter", "broadcast", "reduce", "alltoall", "gather", "scatter", "sendrecv",
    "barrier",
)  # fmt: skip
_AMPERE = 3  # NVLink generation
_LEAST_NVLS = 5  # four GPUs run a ring (rows ONE-13, ONE-19), six and more NVLS (ONE-14)
BARRIER_BYTES = 8  # NCCL has no barrier: one element is reduced


class Way(NamedTuple):
    """One way to run a collective of n bytes: α + n / (1000·algbw) µs, and which level binds large messages."""

    algorithm: str
    protocol: str
    alpha_us: float
    algbw_gb_per_s: float
    bottleneck: str

    def time_us(self, size_bytes: float) -> float:
        """µs for so many bytes."""
        return self.alpha_us + size_bytes / (1000 * self.algbw_gb_per_s)


class Span(NamedTuple):
    """From this size on, this way is the fastest."""

    from_bytes: float
    way: Way


def bus_factor(op: str, ranks: int) -> float:
    """busbw over algbw.

    >>> bus_factor("allreduce", 8), bus_factor("alltoall", 8), bus_factor("broadcast", 8)
    (1.75, 0.875, 1.0)
    """
    if op in ("allreduce", "barrier"):
        return 2 * (ranks - 1) / ranks
    return 1.0 if op in ("broadcast", "reduce", "sendrecv") else (ranks - 1) / ranks


def nvls_share(ranks: int) -> float:
    """busbw of an all_reduce in the switches over that of 8 GPUs: each link carries n(1 + 1/G) one way, so busbw goes
    as 2(G−1)/(G+1). Measured on 6 of 8 H200: 436 of 480 (ONE-14). Not more beyond 8 GPUs (ONE-17, ONE-20).

    >>> round(480 * nvls_share(6))
    441
    """
    return min(1.0, 2 * (ranks - 1) / (ranks + 1) / (14 / 9))


def ways(machine: Machine, op: str, nodes: int = 1) -> list[Way]:
    """Every way this operation can run; [] where a path it needs is not known, or there is nobody to talk to."""
    gpus, domains = machine.domain(nodes)
    if gpus * domains < 2 or (domains > 1 and not machine.nics) or (gpus > 1 and not machine.ring):
        return []
    place = _Place(machine, gpus, domains)
    if op in ("alltoall", "gather", "scatter", "sendrecv"):
        return [place.pointwise(op)]
    return place.allreduces() if op in ("allreduce", "barrier") else place.rings(op)


def best(found: list[Way], size_bytes: float) -> Way:
    """The fastest way for this size."""
    return min(found, key=lambda way: way.time_us(size_bytes))


def spans(found: list[Way]) -> list[Span]:
    """Which way wins from which size on: the lower hull of the lines."""
    at = min(found, key=lambda way: (way.alpha_us, -way.algbw_gb_per_s))
    hull = [Span(0.0, at)]
    while True:
        meets = [(_meeting(at, way), -way.algbw_gb_per_s, way) for way in found]
        later = [(size, slope, way) for size, slope, way in meets if size is not None]
        if not later:
            return hull
        size, _, at = min(later)
        hull.append(Span(size, at))


def _meeting(at: Way, way: Way) -> float | None:
    """From which size `way` beats `at`; None if never."""
    if way.algbw_gb_per_s <= at.algbw_gb_per_s:
        return None
    slope = (1 / at.algbw_gb_per_s - 1 / way.algbw_gb_per_s) / 1000
    return max(0.0, (way.alpha_us - at.alpha_us) / slope)


class _Place(NamedTuple):
    """A machine, and how its GPUs are grouped."""

    machine: Machine
    gpus: int  # of a domain
    domains: int

    @property
    def ranks(self) -> int:
        return self.gpus * self.domains

    @property
    def between(self) -> float:
        """What a ring between domains gets of their NICs."""
        trays = self.gpus / self.machine.gpus
        return _under_nccl(self.machine.nics or 0.0) * trays

    @property
    def inside(self) -> str:
        return "NVLink" if self.machine.links else "PCIe"

    def bottleneck(self, inside: float, between: float) -> str:
        return "network" if self.domains > 1 and between < inside else self.inside

    def rings(self, op: str) -> list[Way]:
        inside, between = self.machine.ring or float("inf"), self.between if self.domains > 1 else float("inf")
        twice = 2 if op in ("allreduce", "barrier") else 1
        factor = bus_factor(op, self.ranks)
        found = []
        for protocol in self.protocols():
            table = tuning.RING[protocol]
            crossings = twice * (self.domains - 1)
            alpha = table.base + (twice * (self.ranks - 1) - crossings) * self.step(table) + crossings * table.net
            busbw = self.carried(protocol, min(inside, between) * tuning.RING_SHARE[protocol])
            found.append(self.way("ring", protocol, alpha, crossings, busbw / factor, self.bottleneck(inside, between)))
        return found

    def allreduces(self) -> list[Way]:
        found = self.rings("allreduce") + self.trees()
        nvls = (self.machine.nvls or 0.0) * nvls_share(self.gpus) if self.gpus >= _LEAST_NVLS else 0.0
        factor = bus_factor("allreduce", self.ranks)
        if nvls and self.domains == 1:
            found.append(self.way("NVLS", "Simple", tuning.NVLS_US, 0, nvls / factor, "NVLink"))
        elif nvls:
            hops = 2 * rounds_of_tree(self.domains)
            alpha = tuning.NVLS_US + hops * tuning.NVLSTREE_NET_US
            tree = self.tree_between
            found.append(
                self.way("NVLSTree", "Simple", alpha, hops, min(nvls, tree) / factor, self.bottleneck(nvls, tree))
            )
        return found

    def trees(self) -> list[Way]:
        inside = (self.machine.ring or float("inf")) * tuning.TREE_ALLREDUCE
        between = self.tree_between if self.domains > 1 else float("inf")
        factor = bus_factor("allreduce", self.ranks)
        hops = 2 * rounds_of_tree(self.domains)
        found = []
        for protocol in self.protocols():
            table = tuning.TREE[protocol]
            share = tuning.TREE_SHARE[protocol]
            if protocol == "LL128" and self.domains > 1:
                share = tuning.TREE_LL128_BETWEEN
            alpha = table.base + 2 * (self.gpus - 1) * self.step(table) + hops * table.net
            busbw = self.carried(protocol, min(inside, between) * share)
            found.append(self.way("tree", protocol, alpha, hops, busbw / factor, self.bottleneck(inside, between)))
        return found

    @property
    def tree_between(self) -> float:
        """On exactly two nodes a tree sends half of what a ring does; on more as much, less well. A100 and before
        take the ring over InfiniBand (MULTI-21, 23, 26: 0.91-0.96 of the NICs), the tree over EFA (MULTI-02, 57)."""
        gen = self.machine.part.nvlink_gen if self.machine.part else 0
        rated = (self.machine.nics or 0.0) / achievable_gb_per_s(8.0) * self.gpus / self.machine.gpus
        if self.domains == 2 and (gen > _AMPERE or self.machine.fabric == "efa"):
            return collectives.tree_of_two_gb_per_s(rated * 8, self.gpus)
        return self.between * tuning.TREE_OVER_RING

    def pointwise(self, op: str) -> Way:
        """Messages between pairs: every GPU's own links, or its share of the NICs, carry what must leave."""
        leaving = (self.ranks - self.gpus) / self.ranks
        staying = (self.gpus - 1) / self.ranks
        link = self.machine.copy or self.machine.ring or float("inf")
        nic = _under_nccl(self.machine.nics or 0.0) / self.machine.gpus if self.domains > 1 else float("inf")
        if op == "sendrecv":
            leaving, staying = (1.0, 0.0) if self.domains > 1 else (0.0, 1.0)
        rounds = 1 if op == "sendrecv" else self.ranks - 1
        us_per_byte = max(leaving / nic, staying / link)
        table = tuning.RING["LL"]
        across = rounds if op == "sendrecv" and self.domains > 1 else self.ranks - self.gpus if rounds > 1 else 0
        alpha = table.base + (rounds - across) * self.step(table) + across * table.net
        bottleneck = "network" if leaving / nic > staying / link else self.inside
        name = "direct" if op == "sendrecv" else "pairwise" if op == "alltoall" else "root"
        return self.way(name, "Simple", alpha, 1 if across else 0, 1 / us_per_byte, bottleneck)

    def protocols(self) -> tuple[Protocol, ...]:
        """LL128 needs NVLink's order of stores."""
        return PROTOCOLS if self.machine.links or self.gpus == 1 else ("LL", "Simple")

    def step(self, table: Latency) -> float:
        return table.nvlink if self.machine.links else table.pcie

    def carried(self, protocol: Protocol, busbw: float) -> float:
        gen = self.machine.part.nvlink_gen if self.machine.part else 0
        return min(busbw, tuning.ll_most_gb_per_s(gen, self.domains)) if protocol == "LL" else busbw

    def way(self, algorithm: str, protocol: str, tuner_us: float, hops: int, algbw: float, bottleneck: str) -> Way:
        """With what small messages take over the tuner's table, and what EFA adds to every message on the way."""
        extra = hops * latency.EFA_MEASURED_US if self.machine.fabric == "efa" else 0.0
        return Way(algorithm, protocol, tuner_us * tuning.LATENCY_FOUND + extra, algbw, bottleneck)


def _under_nccl(achievable: float) -> float:
    """What NCCL gets of NICs that reach so much under perftest."""
    return nics_gb_per_s(achievable / achievable_gb_per_s(1.0))
