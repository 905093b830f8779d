"""The time of one message: a fixed part α and a part that grows with its bytes, T(n) = α + nβ (+ nγ to add up)."""

from __future__ import annotations

from typing import NamedTuple

from topocheck.hardware import latency

US_PER_BYTE = 1e-3  # of a path of 1 GB/s


class AlphaBeta(NamedTuple):
    """A path: α in µs, and what it carries, GB/s one direction."""

    alpha_us: float
    gb_per_s: float

    @property
    def beta_us_per_byte(self) -> float:
        """1 / bandwidth."""
        return US_PER_BYTE / self.gb_per_s

    def time_us(self, size_bytes: float) -> float:
        """α + nβ.

        >>> AlphaBeta(12.0, 45.0).time_us(540_000)
        24.0
        """
        return self.alpha_us + size_bytes * self.beta_us_per_byte

    @property
    def n_half_bytes(self) -> float:
        """α / β: at this size half of the time is fixed cost."""
        return self.alpha_us / self.beta_us_per_byte

    def in_flight_bytes(self, round_trip_us: float | None = None) -> float:
        """Bandwidth × round trip (2α where none is given): what must be under way to keep the path busy."""
        return (2 * self.alpha_us if round_trip_us is None else round_trip_us) / self.beta_us_per_byte


class AlphaParts(NamedTuple):
    """α by cause, µs. Software and injection were never measured apart: they are what the other parts leave."""

    software_and_injection: float
    propagation: float
    switching: float
    queueing: float  # 0: an idle network; it depends on everybody else's traffic

    @property
    def total_us(self) -> float:
        """α."""
        return sum(self)


def parts_of(alpha_us: float, metres: float = latency.CABLE_M, hops: int = 1) -> AlphaParts:
    """α over this much cable and so many switches.

    >>> parts_of(2.5).propagation
    0.15
    """
    propagation = metres * latency.PROPAGATION_US_PER_M
    switching = hops * latency.SWITCH_US
    return AlphaParts(max(0.0, alpha_us - propagation - switching), propagation, switching, 0.0)


def pcie_crossings(*, gpudirect: bool) -> int:
    """How often a byte from one node's GPU to another's crosses PCIe, both nodes together."""
    return 2 if gpudirect else 4
