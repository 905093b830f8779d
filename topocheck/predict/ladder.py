"""The ladder: for each level what it carries, what it costs to ask, and how much arithmetic a byte from it must feed.

Rated over rated: the break-even intensity divides the tensor rate by the line rate; what a level reaches stands beside.
"""

from __future__ import annotations

from typing import NamedTuple

from topocheck.hardware import latency
from topocheck.predict.alpha_beta import AlphaBeta
from topocheck.predict.machine import Machine


class Rung(NamedTuple):
    """One level; GB/s one direction and per GPU. None: not known. kind: rated, derived, ours, this node."""

    level: str
    gb_per_s: float
    achievable_gb_per_s: float | None
    break_even_flop_per_byte: float | None
    alpha_us: float | None
    n_half_bytes: float | None
    bdp_bytes: float | None
    kind: str


def ladder(machine: Machine) -> list[Rung]:
    """The levels this node has, fastest first; a level nobody knows a figure of is left out."""
    chip = machine.chip
    levels: list[tuple[str, float | None, float | None, float | None, str]] = [
        ("shared memory", chip.shared_gb_per_s if chip else None, None, None, "derived"),
        ("L2", chip.l2_gb_per_s if chip else None, None, None, "ours"),
        ("HBM", chip.hbm_gb_per_s if chip else None, None, None, "rated"),
        ("NVLink", machine.nvlink_line, machine.copy, latency.NVLINK_US, "this node"),
        ("PCIe", machine.pcie_line, machine.pcie, machine.alpha_pcie_us, "this node"),
        (
            "network",
            machine.nics_line and machine.nics_line / machine.gpus,
            machine.network_per_gpu,
            machine.alpha_network_us,
            "this node",
        ),
    ]
    return [_rung(machine, *level) for level in levels if level[1]]  # type: ignore[arg-type]


def _rung(
    machine: Machine, level: str, line: float, achievable: float | None, alpha_us: float | None, kind: str
) -> Rung:
    break_even = machine.chip.tensor_tflop_per_s * 1000 / line if machine.chip else None
    if alpha_us is None:
        return Rung(level, line, achievable, break_even, None, None, None, kind)
    path = AlphaBeta(alpha_us, achievable or line)
    rated = AlphaBeta(alpha_us, line)
    return Rung(level, line, achievable, break_even, alpha_us, path.n_half_bytes, rated.in_flight_bytes(), kind)
