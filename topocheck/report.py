"""Report: everything a format shows, already decided. Formats lay out; they work nothing out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from topocheck.facts import Gap
from topocheck.finding import Finding, Price
from topocheck.graph import Device, Disagreement, Numa, PcieLink

# What a format may know: itself, and the parts a report is made of.
__all__ = [
    "Coverage",
    "Device",
    "Disagreement",
    "GpuRow",
    "Numa",
    "NvlinkBundle",
    "Pair",
    "PcieLink",
    "Report",
    "Skipped",
    "SourceLabel",
    "WhatIf",
    "WhatIfFigure",
]


class Coverage(NamedTuple):
    """How many rules could speak."""

    ran: int
    skipped: int
    not_applicable: int


class SourceLabel(NamedTuple):
    """Where the texts came from (interface section 4)."""

    kind: str
    name: str


class Skipped(NamedTuple):
    """A rule that could not see, or saw only a part."""

    rule: str
    partial: bool
    reason: str


class Pair(NamedTuple):
    """Two devices and what lies between them; GB/s one direction, one flow."""

    a: str
    b: str
    cls: str | None
    pcie_cls: str | None
    line_rate_gb_per_s: float | None
    achievable_gb_per_s: float | None
    bottleneck: str | None
    p2p: str


class NvlinkBundle(NamedTuple):
    """All NVLinks between two ends, or of one GPU to the NVSwitches."""

    a: str
    b: str
    links: int
    line_rate_gb_per_s: float
    achievable_gb_per_s: float
    witness: str


class GpuRow(NamedTuple):
    """One line of the screen's table: a GPU and its own (or nearest) NICs."""

    gpu: Device
    link: PcieLink | None
    nvlinks: str | None  # "18/18"
    nics: tuple[Device, ...]
    nic_link: PcieLink | None
    cls: str | None
    rdma_gb_per_s: float | None


class WhatIfFigure(NamedTuple):
    """One scenario's bandwidth, GB/s one direction, by the choice of repairs: bit i of the place is repair i."""

    scenario: str
    by_choice: tuple[float, ...]


class WhatIf(NamedTuple):
    """What choices of repairs would bring."""

    repairs: tuple[Finding, ...]
    figures: tuple[WhatIfFigure, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """One run's answer. None means not known."""

    version: str
    host: str | None
    time: str  # UTC, "2026-11-20T03:04:05Z"
    duration_s: float
    privileged: bool | None
    boot_id: str | None
    driver: str | None
    kernel: str | None
    fabric_manager: str | None
    source: SourceLabel
    verdict: str  # healthy, degraded, failed, unknown
    verdict_reason: str
    coverage: Coverage
    platform: str | None
    virtual: bool
    devices: tuple[Device, ...]
    nearest_nics: dict[str, tuple[str, ...]]
    numa_nodes: tuple[Numa, ...]
    pairs: tuple[Pair, ...]
    links: tuple[PcieLink, ...]
    nvlinks: tuple[NvlinkBundle, ...]
    findings: tuple[Finding, ...]  # worst first
    together: Price | None
    skipped: tuple[Skipped, ...]
    gaps: tuple[Gap, ...]
    disagreements: tuple[Disagreement, ...]
    assumptions: tuple[str, ...]
    rows: tuple[GpuRow, ...]
    sockets: int | None = None
    recognised: bool = True
    not_applicable: tuple[tuple[str, str], ...] = field(default=())  # (rule, reason)
    rules: tuple[str, ...] = ()  # every rule there is, in the catalogue's order
    nccl: tuple[str, ...] = ()  # what NCCL would make of the node, for -v
    settings: tuple[str, ...] = ()  # the screen's third line after the driver: "IOMMU pt", "GPUDirect dma-buf"
