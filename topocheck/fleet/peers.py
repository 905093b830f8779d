"""What is compared with what: hosts of one family, and cables in the same role, whether one is slower than most of
them, and how that is said."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from topocheck.fleet.fabric import HostCable, Trunk

LEAST = 4  # fewer tell nothing of what is usual


def most(part: int, whole: int) -> bool:
    """Whether it is three quarters or more of at least four."""
    return whole >= LEAST and 4 * part >= 3 * whole


def few(part: int, whole: int) -> bool:
    """Whether it is one, or an eighth at most: more that are alike were rather meant to be so."""
    return part == 1 or 8 * part <= whole


@lru_cache(maxsize=4096)
def family(host: str) -> str:
    """What names of hosts have in common that differ in numbers only.

    >>> family("rk08-su04-t17")
    'rk#-su#-t#'
    """
    return re.sub(r"\d+", "#", host)


class Peers:
    """Cables of one role; those whose rate is not known take no part."""

    def __init__(self, cables: Iterable[HostCable | Trunk]) -> None:
        self._counts: Counter[tuple[float, int, str]] = Counter(_speed(c) for c in cables if c.rate_gbit_per_s)
        self.total = sum(self._counts.values())

    def faster(self, cable: HostCable | Trunk) -> int:
        """How many are faster."""
        return sum(n for (rate, _, _), n in self._counts.items() if rate > (cable.rate_gbit_per_s or rate))

    def outrun(self, cable: HostCable | Trunk) -> bool:
        """Whether most are faster."""
        return most(self.faster(cable), self.total)

    def rare(self, cable: HostCable | Trunk) -> bool:
        """Whether few are as slow; a single lane is nobody's intention."""
        return cable.width == 1 or few(self._counts[_speed(cable)], self.total)

    @property
    def usual(self) -> tuple[float, int, str]:
        """The commonest rate in Gb/s, width and speed."""
        return self._counts.most_common(1)[0][0]


def _speed(cable: HostCable | Trunk) -> tuple[float, int, str]:
    return cable.rate_gbit_per_s or 0.0, cable.width or 0, cable.speed or ""


def speed_words(rate_gbit_per_s: float | None, width: int | None, speed: str | None) -> str:
    """ "4x HDR (200 Gb/s)"."""
    return f"{width}x {speed} ({rate_gbit_per_s:g} Gb/s)"


def place(cable: HostCable | Trunk) -> str:
    """Both ends: "gpu03 mlx5_5 on leaf6 port 3", "leaf6 port 37 – spine2 port 6"."""
    if isinstance(cable, Trunk):
        return f"{cable.a} port {cable.a_port} – {cable.b} port {cable.b_port}"
    own = " ".join(filter(None, (cable.host, cable.device))) if cable.host else cable.guid or cable.description
    return f"{own} on {cable.switch} port {cable.switch_port}"


def compared(cable: HostCable | Trunk, peers: Peers, what: str) -> str:
    """ "at 1x HDR (50 Gb/s), 31 of 32 … are faster, most at 4x HDR (200 Gb/s)"."""
    own = speed_words(cable.rate_gbit_per_s, cable.width, cable.speed)
    usual = speed_words(*peers.usual)
    return f"at {own}; {peers.faster(cable)} of {peers.total} {what} are faster, most at {usual}"


def fix(cable: HostCable | Trunk, peers: Peers) -> str:
    """What to do about a cable that is narrower or slower than its peers."""
    _, width, _ = peers.usual
    if (cable.width or width) < width:
        return "Reseat the cable at both ends; if lanes stay lost, exchange it, then try another switch port"
    return "Compare cable and transceiver with a sister's and set both ports' speed to auto; exchange what is older"
