"""What a GPU model has: NVLinks, the board it sits on, how its PCIe link behaves when idle.

NVLink counts and rates per link and direction: NVIDIA's architecture whitepapers (P100 4 × 20, V100 6 × 25, A100
12 × 25, H100 18 × 25, B200 18 × 50 GB/s); the export parts (A800, H800) and the bridged PCIe cards as
`nvidia-smi topo -m` of published nodes shows them (`shared/facts/topo_matrix_formats.md` section 7). k of NVLink
copies: prediction.md section 2.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Part(NamedTuple):
    """One family of GPUs.

    board: "nvswitch" where all GPUs of the board meet in NVSwitches (or, on a four-GPU board, in a full mesh), "mesh"
    for the P100/V100 cube mesh, "bridge" for cards that take bridges in pairs, "none" without NVLink.
    holds_link: the PCIe link stays at full speed when idle (rules.md, "Four PCIe answers").
    no_p2p: the product never has PCIe peer-to-peer (GeForce).
    """

    pattern: str
    board: str
    nvlinks: int = 0
    nvlink_gb_per_s: float = 0.0
    nvlink_gen: int = 0
    holds_link: bool = False
    c2c: bool = False
    no_p2p: bool = False


_SLOW_BRIDGE_GB_PER_S = 14.0625  # the bridge of Ampere cards: 112.5 GB/s over 4 links and both ways
# First match wins; patterns are tried on nvidia-smi's and on lspci's name for the part.
_PARTS = (
    Part(r"GB[23]00", "nvswitch", 18, 50.0, 5, holds_link=True, c2c=True),
    Part(r"GH200", "none", 18, 25.0, 4, holds_link=True, c2c=True),
    Part(r"GB10|THOR|ORIN", "none", c2c=True),
    Part(r"B[23]00", "nvswitch", 18, 50.0, 5, holds_link=True),
    Part(r"(H100|H200|H800|H20)\b.*(NVL|PCIE)", "bridge", 18, 25.0, 4, holds_link=True),
    Part(r"H800", "nvswitch", 8, 25.0, 4, holds_link=True),
    Part(r"(H100|H200|H20)\b", "nvswitch", 18, 25.0, 4, holds_link=True),
    Part(r"A800.*SXM", "nvswitch", 8, 25.0, 3, holds_link=True),
    Part(r"\bA100.*SXM", "nvswitch", 12, 25.0, 3, holds_link=True),
    Part(r"A800", "bridge", 8, 25.0, 3, holds_link=True),
    Part(r"\bA100", "bridge", 12, 25.0, 3, holds_link=True),
    Part(r"\bV100.*SXM3", "nvswitch", 6, 25.0, 2, holds_link=True),
    Part(r"\bV100.*SXM", "mesh", 6, 25.0, 2, holds_link=True),
    Part(r"\bV100", "none", holds_link=True),
    Part(r"P100.*SXM", "mesh", 4, 20.0, 1),
    Part(r"A30\b", "bridge", 4, 25.0, 3),
    Part(r"A40\b|RTX A(4500|5000|5500|6000)|RTX 3090", "bridge", 4, _SLOW_BRIDGE_GB_PER_S, 3),
    Part(r"QUADRO GV", "bridge", 4, 25.0, 2),
    Part(r"QUADRO RTX|TITAN RTX", "bridge", 2, 25.0, 2),
    Part(r"RTX 2080( TI|\b)", "bridge", 2, 25.0, 2),
    Part(r"GEFORCE|RTX [2345]0[5-9]0|GTX|TITAN", "none", no_p2p=True),
    Part(r"RTX|L4|L20|L2\b|T4|A10|A16|A2\b|QUADRO|TESLA|M60|P[0-9]+|K80|NVIDIA", "none"),
)
_COMPILED = tuple((re.compile(part.pattern, re.IGNORECASE), part) for part in _PARTS)
_NAMELESS = re.compile(r"\bDevice [0-9a-f]{4}\b", re.IGNORECASE)
_GEFORCE = re.compile(r"GeForce|RTX [2345]0[5-9]0|GTX", re.IGNORECASE)

# PCI ids of parts whose lspci name is often missing from pci.ids; ids as in the pci.ids database.
_NAME_OF_ID = {
    "10de:20b0": "A100 SXM4 40GB", "10de:20b2": "A100 SXM4 80GB", "10de:20b5": "A100 PCIe 80GB",
    "10de:20f1": "A100 PCIe 40GB", "10de:2330": "H100 SXM5 80GB", "10de:2331": "H100 PCIe",
    "10de:2321": "H100 NVL", "10de:2335": "H200 SXM 141GB", "10de:233b": "H200 NVL", "10de:2324": "H800",
    "10de:2329": "H20", "10de:2901": "B200", "10de:3182": "B300", "10de:2941": "GB200", "10de:2342": "GH200",
    "10de:2bb5": "RTX PRO 6000 Blackwell Server",
}  # fmt: skip

# Achievable over line rate of NVLink copies by generation; generation 2 has no row and takes generation 1's.
_K_NVLINK = {1: 0.920, 2: 0.920, 3: 0.909, 4: 0.870, 5: 0.830}
# NCCL ring busbw over NVLink's line rate by generation (prediction.md section 2, ring1 to ring5: 13 rows).
_K_RING = {1: 0.778, 2: 0.813, 3: 0.769, 4: 0.807, 5: 0.753}
# What nvidia-smi nvlink -s prints for one link at full speed, encoding included; A100 and later as in rules.md
# (25, 26.562, 53.125), V100 25.781 and P100 19.375 as published listings show.
_PRINTED_GB_PER_S = {1: 19.375, 2: 25.781, 3: 25.0, 4: 26.562, 5: 53.125}
# The PCIe link beside NVLink of a generation, where none was read (0: a part
# without NVLink, taken as Gen4): P100 and V100 Gen3, A100 Gen4, Hopper on Gen5.
PCIE_GTS_BESIDE_NVLINK = {0: 16.0, 1: 8.0, 2: 8.0, 3: 16.0, 4: 32.0, 5: 32.0}
NVLINK_PAIR_STAGED_REMAINS = 0.09  # FAULT-41: staged Gen5 over NV18


def part_of(model: str | None, pci_id: str | None = None) -> Part | None:
    """The family of a GPU by its name, else by its PCI id; None if neither says.

    A name that is only the id ("NVIDIA Corporation Device 2330": an old pci.ids) is looked up by the id first.
    """
    names = (model, model_of_id(pci_id))
    for name in reversed(names) if model and _NAMELESS.search(model) else names:
        if not name:
            continue
        for pattern, part in _COMPILED:
            if pattern.search(name):
                return part._replace(no_p2p=part.no_p2p or bool(_GEFORCE.search(name)))
    return None


def model_of_id(pci_id: str | None) -> str | None:
    """The common name of a PCI id, for listings whose pci.ids does not know it yet."""
    return _NAME_OF_ID.get(pci_id or "")


def nvlink_line_rate_gb_per_s(links: int, part: Part | None) -> float:
    """Links × rate, one direction: 450 for the 18 links of an H100."""
    return links * (part.nvlink_gb_per_s if part and part.nvlink_gb_per_s else 25.0)


def nvlink_achievable_gb_per_s(links: int, part: Part | None) -> float:
    """What a peer copy reaches: 391 for the 18 links of an H100 (prediction.md section 2)."""
    return nvlink_line_rate_gb_per_s(links, part) * _K_NVLINK[part.nvlink_gen if part and part.nvlink_gen else 4]


def nvlink_ring_gb_per_s(links: int, part: Part | None) -> float:
    """What a ring edge over NVLink carries: 363 for the 18 links of an H100 (prediction.md section 2)."""
    return nvlink_line_rate_gb_per_s(links, part) * _K_RING[part.nvlink_gen if part and part.nvlink_gen else 4]


def bar1_covers_memory(part: Part | None) -> bool:
    """Whether BAR1 ships as large as the memory: the data-centre parts without a display head, which are those that
    hold their link (V100 to B300; `nvidia-smi -q` of published nodes shows 16 to 256 GiB). L40S, A40 and workstation
    cards have 256 MiB in display mode."""
    return bool(part and part.holds_link and not part.c2c)


def nvlink_printed_gb_per_s(part: Part | None) -> float:
    """The rate nvidia-smi prints for one link of the part's generation."""
    if part and part.nvlink_gb_per_s == _SLOW_BRIDGE_GB_PER_S:
        return part.nvlink_gb_per_s
    return _PRINTED_GB_PER_S[part.nvlink_gen if part and part.nvlink_gen else 4]
