"""Sizes as nccl-tests takes them: 1K is 1024 bytes, a range doubles from its lower end to its upper. And how sizes and
times are printed."""

from __future__ import annotations

import re

from topocheck.errors import UsageError

_SIZE = re.compile(r"(\d{1,15})\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)
_POWER = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_MOST = 1 << 50


def sizes(text: str) -> list[int]:
    """The sizes of `--bytes`, rising.

    >>> sizes("1K:8K"), sizes("1M,64"), label(1 << 20)
    ([1024, 2048, 4096, 8192], [64, 1048576], '1M')
    """
    found: set[int] = set()
    for word in text.split(","):
        low, colon, high = word.partition(":")
        first = _size(low, text)
        last = _size(high, text) if colon else first
        if last < first:
            raise UsageError(f"--bytes {text}: {high.strip()} is less than {low.strip()}")
        while first <= last:
            found.add(first)
            first *= 2
    return sorted(found)


def label(size: float) -> str:
    """A size in the largest unit that leaves at least 1."""
    for name, power in (("T", 4), ("G", 3), ("M", 2), ("K", 1)):
        if size >= 1024**power:
            return f"{size / 1024**power:.3g}{name}"
    return f"{size:.0f}"


def decimal(size: float) -> str:
    """Bytes that are counted, not asked for: KB is 1000.

    >>> decimal(540_000), decimal(6.14e6), duration(1512), duration(24.4)
    ('540 KB', '6.14 MB', '1.51 ms', '24.4 µs')
    """
    if size >= 1e9:
        return f"{size / 1e9:.2f} GB" if size < 1e12 else f"{size / 1e12:,.2f} TB"
    return f"{size / 1e6:.2f} MB" if size >= 1e6 else f"{size / 1e3:.0f} KB"


def duration(us: float) -> str:
    """µs in the unit one reads."""
    if us < 1000:
        return f"{us:.1f} µs"
    if us < 1e6:
        return f"{us / 1000:.2f} ms"
    return f"{us / 1e6:.2f} s" if us < 1e9 else f"{us / 1e6:,.0f} s"


def _size(word: str, text: str) -> int:
    match = _SIZE.fullmatch(word.strip())
    value = int(match[1]) * 1024 ** _POWER[match[2].upper()] if match else 0
    if not 0 < value <= _MOST:
        raise UsageError(f"--bytes {text}: give sizes such as 64, 1M or 1K:16G, above 0 and up to 1024T")
    return value
