"""What a GPU computes and reads by itself: dense bf16 tensor rate, memory, and the two levels on the chip.

Rated figures are NVIDIA's (dense: half of what a sheet marks "with sparsity"); docs/predict.md says where each was
found and which were not. Shared memory: 30,000 GB/s of a Hopper SXM part is the article's 989 TFLOP/s over
33 FLOP/byte (132 SMs × 128 bytes × 1.75-1.83 GHz); others SMs × 128 bytes × boost clock. L2: 5,120 bytes a clock of
the A100 whitepaper; for Hopper NVIDIA states none, and the same bytes a clock at 1.755 GHz are ours.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Chip(NamedTuple):
    """One GPU by itself; None where no figure is known. TFLOP/s dense bf16 (fp16 before Ampere), GB/s, GB = 1e9."""

    pattern: str
    tensor_tflop_per_s: float
    hbm_gb_per_s: float
    memory_gb: float
    shared_gb_per_s: float | None = None
    l2_gb_per_s: float | None = None


_HOPPER = (30_000.0, 8_986.0)  # 5120 × 1.755 = 8,986
_AMPERE = (19_492.0, 7_219.0)  # 108 × 128 × 1.41 and 5120 × 1.41
_CHIPS = (
    Chip(r"GB300", 2500.0, 8000.0, 279.0),
    Chip(r"GB200", 2500.0, 8000.0, 186.0),
    Chip(r"GH200.*144", 989.4, 4900.0, 144.0, *_HOPPER),
    Chip(r"GH200", 989.4, 4000.0, 96.0, *_HOPPER),
    Chip(r"B300", 2250.0, 8000.0, 270.0),
    Chip(r"B200", 2250.0, 8000.0, 180.0),
    Chip(r"H200 NVL", 835.5, 4800.0, 141.0),
    Chip(r"H200", 989.4, 4800.0, 141.0, *_HOPPER),
    Chip(r"H100 NVL", 835.5, 3900.0, 94.0),
    Chip(r"H[18]00.*PCIE", 756.5, 2000.0, 80.0),
    Chip(r"H[18]00\b", 989.4, 3350.0, 80.0, *_HOPPER),
    Chip(r"H20\b", 148.0, 4000.0, 96.0),
    Chip(r"A[18]00.*(PCIE.*80GB|80GB.*PCIE)", 312.0, 1935.0, 80.0, *_AMPERE),
    Chip(r"A[18]00.*80GB", 312.0, 2039.0, 80.0, *_AMPERE),
    Chip(r"A[18]00\b", 312.0, 1555.0, 40.0, *_AMPERE),
    Chip(r"\bV100S", 130.0, 1134.0, 32.0),
    Chip(r"\bV100.*PCIE.*32GB", 112.0, 900.0, 32.0),
    Chip(r"\bV100.*PCIE", 112.0, 900.0, 16.0),
    Chip(r"\bV100.*32GB", 125.0, 900.0, 32.0),
    Chip(r"\bV100", 125.0, 900.0, 16.0),
    Chip(r"L40S", 362.0, 864.0, 48.0),
    Chip(r"A40\b", 149.7, 696.0, 48.0),
    Chip(r"A30\b", 165.0, 933.0, 24.0),
    Chip(r"A10\b", 125.0, 600.0, 24.0),
    Chip(r"\bL4\b", 121.0, 300.0, 24.0),
)
_COMPILED = tuple((re.compile(chip.pattern, re.IGNORECASE), chip) for chip in _CHIPS)


def chip_of(model: str | None) -> Chip | None:
    """The chip of a model's name; None for one that is not in the table.

    >>> chip_of("NVIDIA H100 80GB HBM3").hbm_gb_per_s
    3350.0
    """
    return next((chip for pattern, chip in _COMPILED if model and pattern.search(model)), None)
