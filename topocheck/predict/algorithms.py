"""Collectives on a flat network of p ranks: rounds of messages, and the bytes that stand in each other's way.

Every rank has one full-duplex port and sends and receives one message at a time; n is the size of the whole vector.
T = rounds·α + serial·β + added·γ. tests/test_predict_algorithms.py plays every one of them message by message.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import NamedTuple

from topocheck.predict.alpha_beta import AlphaBeta


class Cost(NamedTuple):
    """rounds and serial_bytes on the critical path; busiest_bytes: what the busiest rank moves one way;
    added_bytes: what it adds up on the critical path."""

    rounds: float
    serial_bytes: float
    busiest_bytes: float
    added_bytes: float = 0.0

    def time_us(self, path: AlphaBeta, gamma_us_per_byte: float = 0.0) -> float:
        """On a network of such paths. γ is negligible on GPUs: they add at the speed of their memory."""
        moving = self.rounds * path.alpha_us + self.serial_bytes * path.beta_us_per_byte
        return moving + self.added_bytes * gamma_us_per_byte


def rounds_of_tree(p: int) -> int:
    """⌈log₂ p⌉.

    >>> [rounds_of_tree(p) for p in (1, 2, 5, 64)]
    [0, 1, 3, 6]
    """
    return (p - 1).bit_length()


def best_chunks(stages: float, n: float, path: AlphaBeta) -> float:
    """Into how many chunks to cut n bytes that pass so many stages after the first: √(stages·nβ/α), at least 1.

    It is where (stages + k)(α + nβ/k) is least: a pipelined chain has p−2 such stages.
    """
    return max(1.0, sqrt(stages * n * path.beta_us_per_byte / path.alpha_us))


def chain(p: int, n: float, chunks: float) -> Cost:
    """Broadcast down a chain in chunks: the first needs p−1 rounds, each further one a round more."""
    rounds = p - 2 + chunks
    return Cost(rounds, rounds * n / chunks, n)


def double_tree_stages(p: int) -> float:
    """Messages before the pipeline of a double tree is full, of the four a chunk takes: L − 3/2."""
    return rounds_of_tree(p) - 1.5


def double_tree(p: int, n: float, chunks: float) -> Cost:
    """allreduce over two binary trees (p even), half of the vector each, an inner rank of one a leaf of the other:
    every port moves 4 pieces of n/2k for each chunk, 2n in all. Exact for one chunk and p = 2ᵏ; else about, since no
    schedule keeps all ports busy at the ends."""
    pieces = 4 * (chunks + double_tree_stages(p))
    return Cost(pieces, pieces * n / (2 * chunks), 2 * n, n)


def _from_root(p: int, n: float) -> Cost:
    return Cost(p - 1, (p - 1) * n, (p - 1) * n)


def _tree(p: int, n: float) -> Cost:
    deep = rounds_of_tree(p)
    return Cost(deep, deep * n, deep * n)


def _to_root(p: int, n: float) -> Cost:
    return _from_root(p, n)._replace(added_bytes=(p - 1) * n)


def _tree_up(p: int, n: float) -> Cost:
    return _tree(p, n)._replace(added_bytes=rounds_of_tree(p) * n)


def _parts_direct(p: int, n: float) -> Cost:
    part = (p - 1) / p * n
    return Cost(p - 1, part, part)


def _parts_by_tree(p: int, n: float) -> Cost:
    part = (p - 1) / p * n
    return Cost(rounds_of_tree(p), part, part)


def _adding(cost: Cost) -> Cost:
    return cost._replace(added_bytes=cost.serial_bytes)


def _both(first: Cost, second: Cost) -> Cost:
    return Cost(*(a + b for a, b in zip(first, second, strict=True)))


def _there_and_back(up: Cost, down: Cost) -> Cost:
    """Who receives most on the way up sends most on the way down: one way each."""
    return _both(up, down)._replace(busiest_bytes=max(up.busiest_bytes, down.busiest_bytes))


def _halving_doubling(p: int, n: float) -> Cost:
    """Rabenseifner; where p is no power of two, the ranks beyond it hand over first and are handed the result last."""
    core = 1 << (p.bit_length() - 1)
    within = _both(_adding(_parts_by_tree(core, n)), _parts_by_tree(core, n))
    return within if core == p else _both(within, Cost(2, 2 * n, n, n))


def _bruck(p: int, n: float) -> Cost:
    """alltoall in ⌈log₂ p⌉ rounds: in round i every rank sends the parts whose distance has bit i set."""
    parts = sum(_with_bit(p, bit) for bit in range(rounds_of_tree(p)))
    return Cost(rounds_of_tree(p), parts * n / p, parts * n / p)


def _with_bit(p: int, bit: int) -> int:
    """How many numbers below p have this bit."""
    return (p >> bit + 1 << bit) + max(0, (p & (2 << bit) - 1) - (1 << bit))


Formula = Callable[[int, float], Cost]
ALGORITHMS: dict[str, dict[str, Formula]] = {
    "broadcast": {"root": _from_root, "tree": _tree},
    "reduce": {"root": _to_root, "tree": _tree_up},
    "gather": {"root": _parts_direct, "tree": _parts_by_tree},
    "scatter": {"root": _parts_direct, "tree": _parts_by_tree},
    "allgather": {"ring": _parts_direct, "doubling": _parts_by_tree},
    "reducescatter": {
        "ring": lambda p, n: _adding(_parts_direct(p, n)),
        "halving": lambda p, n: _adding(_parts_by_tree(p, n)),
    },
    "allreduce": {
        "root": lambda p, n: _there_and_back(_to_root(p, n), _from_root(p, n)),
        "tree": lambda p, n: _there_and_back(_tree_up(p, n), _tree(p, n)),
        "ring": lambda p, n: _both(_adding(_parts_direct(p, n)), _parts_direct(p, n)),
        "halving-doubling": _halving_doubling,
    },
    "alltoall": {"pairwise": _parts_direct, "bruck": _bruck},
    "barrier": {"dissemination": lambda p, n: Cost(rounds_of_tree(p), 0.0, 0.0)},
}
POWERS_OF_TWO = ("doubling", "halving")  # defined for such p only


def in_network(n: float) -> Cost:
    """allreduce inside the switch: the vector up once and the sum down once, two messages whatever p is. 2n pass a
    rank's port, n each way: half of a ring's one way, no less than a ring sends if both ways are counted once."""
    return Cost(2, 2 * n, n)


def least_bytes(op: str, p: int, n: float) -> float:
    """What the busiest rank must move one way, whatever the algorithm (nobody adds but the ranks)."""
    if op in ("broadcast", "reduce"):
        return n if p > 1 else 0.0
    return 0.0 if op == "barrier" else (p - 1) / p * n * (2 if op == "allreduce" else 1)


def by_level(n: float, gpus: int, nodes: int) -> tuple[Cost, Cost]:
    """allreduce by level, what is paid inside the nodes and between them: reduce-scatter and allgather in the node, a
    ring between nodes with n/G bytes a GPU."""
    inside = _both(_adding(_parts_direct(gpus, n)), _parts_direct(gpus, n))
    return inside, ALGORITHMS["allreduce"]["ring"](nodes, n / gpus)


def network_saving(gpus: int, nodes: int) -> float:
    """How much less a GPU sends over the network when the ring is taken by level: G(P−1)/P · N/(N−1).

    >>> round(network_saving(8, 2), 1), round(network_saving(8, 8), 1)
    (15.0, 9.0)
    """
    ranks = gpus * nodes
    return gpus * (ranks - 1) / ranks * nodes / (nodes - 1)


def tree_ring_crossover_bytes(p: int, path: AlphaBeta) -> float:
    """The allreduce size from which a ring of p ≥ 2 beats a binomial tree: where the messages it sends more weigh as
    much as the bytes it sends less."""
    tree, ring = (ALGORITHMS["allreduce"][name](p, 1.0) for name in ("tree", "ring"))
    fixed_us = (ring.rounds - tree.rounds) * path.alpha_us
    return fixed_us / ((tree.serial_bytes - ring.serial_bytes) * path.beta_us_per_byte)


def best_buckets(backward_us: float, p: int, alpha_us: float) -> float:
    """Into how many buckets a backward pass should cut its gradients where communication binds: √(t/(2(p−1)α)), the
    least of t/k + k·2(p−1)α. No bandwidth in it."""
    return max(1.0, sqrt(backward_us / (2 * (p - 1) * alpha_us))) if p > 1 else 1.0
