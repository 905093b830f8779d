"""The slowest edge of the best ring: exact, on shapes whose answer can be seen."""

from __future__ import annotations

from itertools import combinations, permutations
from random import Random

from topocheck.ring import MOST, slowest_edge


def edges(*pairs: str, worth: float = 1.0) -> dict[frozenset[str], float]:
    return {frozenset(pair): worth for pair in pairs}


def test_two_ends_have_one_edge() -> None:
    assert slowest_edge("ab", edges("ab", worth=7.0)) == 7.0
    assert slowest_edge("ab", {}) is None


def test_a_chain_is_no_ring() -> None:
    assert slowest_edge("abcd", edges("ab", "bc", "cd")) is None
    assert slowest_edge("abcd", edges("ab", "bc", "cd", "da")) == 1.0


def test_two_halves_over_one_fast_edge_must_cross_twice() -> None:
    fast = edges("ab", "bc", "ca", "de", "ef", "fd", "ad", worth=9.0)
    slow = {frozenset(p): 2.0 for p in combinations("abcdef", 2) if frozenset(p) not in fast}
    assert slowest_edge("abcdef", fast | slow) == 2.0
    assert slowest_edge("abcdef", fast | slow | edges("be", worth=5.0)) == 5.0


def test_too_many_ends_are_not_tried() -> None:
    names = [str(i) for i in range(MOST + 1)]
    assert slowest_edge(names, {frozenset(p): 1.0 for p in combinations(names, 2)}) is None


def test_it_agrees_with_trying_every_order() -> None:
    random = Random(7)
    for _ in range(20):
        names = "abcdef"
        worth = {frozenset(p): float(random.choice((0, 1, 2, 3))) for p in combinations(names, 2)}
        worth = {pair: w for pair, w in worth.items() if w}
        rings = (("a", *order) for order in permutations(names[1:]))
        best = max(min(worth.get(frozenset(e), 0.0) for e in zip(r, (*r[1:], "a"), strict=True)) for r in rings)
        assert slowest_edge(names, worth) == (best or None)
