"""The algorithms by the book, on this node: a flat network of ranks that exchange messages of α + nβ.

NCCL runs a few of them and never one alone; here each stands by itself, with the bytes it moves over the least that
any algorithm must move, to show what a size and a number of ranks ask for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from topocheck.hardware import latency
from topocheck.predict import algorithms
from topocheck.predict.algorithms import ALGORITHMS, POWERS_OF_TWO, Cost
from topocheck.predict.alpha_beta import AlphaBeta
from topocheck.predict.machine import Machine


class Entry(NamedTuple):
    """One algorithm and size. sent_bytes: what the busiest rank moves one way (by level: over the network)."""

    op: str
    bytes: int
    algorithm: str
    chunks: int
    messages: float  # one after the other
    sent_bytes: float
    over_least: float | None  # of the least that must be moved; None where nothing must, or not over one network
    time_us: float


class Textbook(NamedTuple):
    """The flat network, and what each algorithm takes on it."""

    ranks: int
    level: str
    alpha_us: float
    gb_per_s: float
    network_saving: float | None  # by level against a flat ring; None inside one NVLink domain
    tree_ring_crossover_bytes: float  # allreduce: below it a tree beats a ring
    rows: tuple[Entry, ...]


def textbook_of(machine: Machine, nodes: int, ops: Sequence[str], sizes: Sequence[int]) -> Textbook | None:
    """For the first, the middle and the last of these sizes; None where a path is not known, or nobody to talk to."""
    gpus, domains = machine.domain(nodes)
    inside = _inside(machine)
    level, path = ("network", _between(machine)) if domains > 1 else inside
    if gpus * domains < 2 or path is None:
        return None
    shown = sorted({sizes[0], sizes[len(sizes) // 2], sizes[-1]}) if sizes else []
    rows = [
        _entry(op, size, name, chunks, cost, gpus * domains, path)
        for op in ops
        if op in ALGORITHMS
        for size in (shown if op != "barrier" else shown[:1])
        for name, chunks, cost in _known(op, gpus * domains, size, path, machine, domains)
    ]
    if "allreduce" in ops and domains > 1 and gpus > 1 and inside[1]:
        rows += [_by_level(size, gpus, domains, inside[1], path) for size in shown]
    return Textbook(
        gpus * domains,
        level,
        path.alpha_us,
        path.gb_per_s,
        algorithms.network_saving(gpus, domains) if domains > 1 else None,
        algorithms.tree_ring_crossover_bytes(gpus * domains, path),
        tuple(rows),
    )


def _inside(machine: Machine) -> tuple[str, AlphaBeta | None]:
    if machine.copy:
        return "NVLink", AlphaBeta(latency.NVLINK_US, machine.copy)
    return "PCIe", AlphaBeta(machine.alpha_pcie_us, machine.pcie) if machine.ring and machine.pcie else None


def _between(machine: Machine) -> AlphaBeta | None:
    share = machine.network_per_gpu
    return AlphaBeta(machine.alpha_network_us, share) if share else None


def _known(
    op: str, ranks: int, size: int, path: AlphaBeta, machine: Machine, domains: int
) -> Iterator[tuple[str, int, Cost]]:
    """Name, chunks and cost of every algorithm that so many ranks can run."""
    for name, formula in ALGORITHMS[op].items():
        if name not in POWERS_OF_TWO or ranks & (ranks - 1) == 0:
            yield name, 1, formula(ranks, size)
    if op == "broadcast" and ranks > 2:
        chunks = round(algorithms.best_chunks(ranks - 2, size, path))
        yield "chain in chunks", chunks, algorithms.chain(ranks, size, chunks)
    if op == "allreduce" and ranks > 2 and ranks % 2 == 0:
        chunks = round(algorithms.best_chunks(algorithms.double_tree_stages(ranks), size / 2, path))
        yield "double tree", chunks, algorithms.double_tree(ranks, size, chunks)
    if op == "allreduce" and (machine.fabric == "infiniband" if domains > 1 else machine.nvls):
        yield "in the switches", 1, algorithms.in_network(size)


def _entry(op: str, size: int, name: str, chunks: int, cost: Cost, ranks: int, path: AlphaBeta) -> Entry:
    least = algorithms.least_bytes(op, ranks, size)
    over = cost.busiest_bytes / least if least else None
    return Entry(op, size, name, chunks, cost.rounds, cost.busiest_bytes, over, cost.time_us(path))


def _by_level(size: int, gpus: int, domains: int, inside: AlphaBeta, between: AlphaBeta) -> Entry:
    within, over = algorithms.by_level(size, gpus, domains)
    us = within.time_us(inside) + over.time_us(between)
    return Entry("allreduce", size, "by level", 1, within.rounds + over.rounds, over.busiest_bytes, None, us)
