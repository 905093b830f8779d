"""CPU lists as the tools spell them, in the kernel's own form: "0-55,112-167", "" for none."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_CPU = 8191  # the largest NR_CPUS a kernel is built with: a larger number is no CPU
MAX_NODE = 1023  # the same for NUMA nodes (MAX_NUMNODES)

_PART = re.compile(r"(\d{1,5})(?:-(\d{1,5})(?::(\d{1,5}))?)?")


def parse_cpus(text: str) -> frozenset[int] | None:
    """The CPUs of a list with commas or blanks, ranges and strides ("0-62:2"); None if something in it is no CPU.

    >>> sorted(parse_cpus("0-6:2, 8 9"))
    [0, 2, 4, 6, 8, 9]
    """
    runs = _runs(text)
    return None if runs is None else frozenset(cpu for first, last in runs for cpu in range(first, last + 1))


def spell_cpus(cpus: Iterable[int]) -> str:
    """The kernel's spelling of a set of CPUs.

    >>> spell_cpus({0, 1, 2, 5, 8, 9})
    '0-2,5,8-9'
    """
    return _spell([(cpu, cpu) for cpu in cpus])


def kernel_form(text: str) -> str | None:
    """A list as printed, respelled; None if it cannot be read whole."""
    runs = _runs(text)
    return None if runs is None else _spell(runs)


def _runs(text: str) -> list[tuple[int, int]] | None:
    """First and last CPU of each part, in the order printed; a stride makes parts of one CPU."""
    runs: list[tuple[int, int]] = []
    for part in text.replace(",", " ").split():
        match = _PART.fullmatch(part)
        if match is None:
            return None
        first, last, stride = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last > MAX_CPU or first > last or stride == 0:
            return None
        runs += [(first, last)] if stride == 1 else [(cpu, cpu) for cpu in range(first, last + 1, stride)]
    return runs


def _spell(runs: list[tuple[int, int]]) -> str:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in merged)
