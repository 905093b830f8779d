"""The best ring through all GPUs: the one whose slowest edge is fastest (what an all-reduce in a node follows)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MOST = 16  # ends of a ring that are tried exactly; larger nodes of one kernel are not known


def slowest_edge(names: Sequence[str], edges: Mapping[frozenset[str], float]) -> float | None:
    """The bandwidth of the slowest edge of the best ring; None where there is no ring, or too many ends to try.

    >>> slowest_edge("abc", {frozenset("ab"): 9.0, frozenset("bc"): 5.0, frozenset("ac"): 2.0})
    2.0
    """
    if not 2 <= len(names) <= MOST:
        return None
    levels = sorted(set(edges.values()))
    low, high = 0, len(levels)
    while low < high:
        middle = (low + high) // 2
        if _has_ring(_neighbours(names, edges, levels[middle])):
            low = middle + 1
        else:
            high = middle
    return levels[low - 1] if low else None


def _neighbours(names: Sequence[str], edges: Mapping[frozenset[str], float], least: float) -> list[int]:
    """For each end a bit set of those it reaches over edges of at least so much."""
    return [
        sum(1 << j for j, b in enumerate(names) if i != j and edges.get(frozenset((a, b)), 0.0) >= least)
        for i, a in enumerate(names)
    ]


def _has_ring(near: list[int]) -> bool:
    """Whether a ring visits all. Two ends count as a ring over their one edge."""
    count = len(near)
    degrees = [bits.bit_count() for bits in near]
    if count == 2:
        return degrees[0] == 1
    if min(degrees) < 2:
        return False
    return 2 * min(degrees) >= count or _ring_by_paths(near)  # Dirac's theorem spares the search in every mesh


def _ring_by_paths(near: list[int]) -> bool:
    """Held-Karp without weights: at which ends paths from the first can arrive, for every set they may have visited."""
    arrive = [0] * (1 << len(near))
    arrive[1] = 1
    for visited in range(1, len(arrive), 2):
        for end in _bits(arrive[visited]):
            for following in _bits(near[end] & ~visited):
                arrive[visited | 1 << following] |= 1 << following
    return bool(arrive[-1] & near[0])


def _bits(mask: int) -> list[int]:
    return [i for i in range(mask.bit_length()) if mask >> i & 1]
