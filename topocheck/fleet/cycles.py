"""Exchanged cables among misplaced ones: who reaches what another should, round and back to the first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from topocheck.fleet.pods import Stray


def cycles(strays: Iterable[Stray]) -> tuple[list[list[Stray]], list[Stray]]:
    """The rounds, pairs first, and what is left: each cable of a round reaches what the one before it should."""
    pairs, rest = _pairs(strays)
    rounds, left = _rounds(rest)
    return pairs + rounds, left


def _pairs(strays: Iterable[Stray]) -> tuple[list[list[Stray]], list[Stray]]:
    waiting: dict[tuple[str, str], deque[Stray]] = {}
    pairs: list[list[Stray]] = []
    for stray in strays:
        if partners := waiting.get((stray.cable.at, stray.expected)):
            pairs.append([partners.popleft(), stray])
        else:
            waiting.setdefault((stray.expected, stray.cable.at), deque()).append(stray)
    return pairs, [stray for queue in waiting.values() for stray in queue]


def _rounds(strays: list[Stray]) -> tuple[list[list[Stray]], list[Stray]]:
    """Walks from leaf to leaf by what is expected and what is reached; a leaf met again closes a round."""
    ways: dict[str, deque[Stray]] = {}
    for stray in strays:
        ways.setdefault(stray.expected, deque()).append(stray)
    rounds: list[list[Stray]] = []
    left: list[Stray] = []
    for start in list(ways):
        path: list[Stray] = []
        met = {start: 0}
        leaf = start
        while path or ways[start]:
            if not ways.get(leaf):  # a dead end: its last cable belongs to no round
                stray = path.pop()
                left.append(stray)
                del met[leaf]
                leaf = stray.expected
                continue
            stray = ways[leaf].popleft()
            path.append(stray)
            leaf = stray.cable.at
            if leaf in met:
                rounds.append(path[met[leaf] :])
                for closed in path[met[leaf] + 1 :]:
                    del met[closed.expected]
                del path[met[leaf] :]
            else:
                met[leaf] = len(path)
    return rounds, left
