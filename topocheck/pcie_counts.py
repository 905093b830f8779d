"""What counts of PCIe errors prove: those of the kernel log, the bits that stay set, a GPU's replays."""

from __future__ import annotations

import re
from typing import NamedTuple

from topocheck.facts import Evidence, LogEvent, PciFunction
from topocheck.graph import Device

A_MINUTE = 8  # rules.md; DCGM's PCIe replay limit is the same 8 a minute
_LEAST_S = 60.0  # rules.md: samples at least so far apart
# Bits that speak of the link or of lost data; AdvNonFatalErr and UnsupReq are set by enumeration on most servers.
_LINK_BITS = frozenset({"RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout"})
_DATA_BITS = frozenset({"DLP", "SDES", "TLP", "FCP", "CmpltTO", "RxOF", "MalfTLP", "ECRC"})


class Replays(NamedTuple):
    """How many a GPU has counted: in all, or in so many minutes between two readings."""

    total: int
    minutes: float | None
    evidence: tuple[Evidence, ...]

    @property
    def flood(self) -> bool:
        """Whether they are too many for the time."""
        return self.minutes is not None and self.total > A_MINUTE * self.minutes


def replays(gpu: Device) -> Replays | None:
    """Between the first and the last reading where they are far enough apart, else in all; None for none."""
    counted = [s for s in gpu.readings if s.pcie_replays is not None]
    timed = sorted((s for s in counted if s.read_at_s is not None), key=lambda s: s.read_at_s or 0.0)
    if len(timed) > 1:
        first, last = timed[0], timed[-1]
        seconds = (last.read_at_s or 0.0) - (first.read_at_s or 0.0)
        grown = (last.pcie_replays or 0) - (first.pcie_replays or 0)
        if seconds >= _LEAST_S and grown > A_MINUTE * seconds / 60:
            lines = (s.lines.get("pcie_replays") for s in (first, last))
            return Replays(grown, seconds / 60, tuple(line for line in lines if line))
    most = max(counted, key=lambda s: s.pcie_replays or 0, default=None)
    if most is None or not most.pcie_replays:
        return None
    line = most.lines.get("pcie_replays")
    return Replays(most.pcie_replays, None, (line,) if line else ())


def latched(f: PciFunction) -> set[str]:
    """The AER bits of a function that are set and speak of its link or of lost data."""
    set_bits = {bit for _, bits in f.aer for bit in re.findall(r"(\w+)\+", bits)}
    return set_bits & (_LINK_BITS | _DATA_BITS)


def flood(events: list[LogEvent]) -> bool:
    """Whether more of them than are normal fell into some minute."""
    times = sorted(e.time_s for e in events if e.time_s is not None)
    return any(b - a <= 60 for a, b in zip(times, times[A_MINUTE:], strict=False))
