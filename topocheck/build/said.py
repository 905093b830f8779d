"""The facts sorted by kind, so that each step of build takes what it needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from topocheck.facts import (
    BandwidthLimit,
    Cabling,
    Fact,
    Gap,
    GpuState,
    Host,
    LogEvent,
    Matrix,
    NumaNode,
    NvlinkGpu,
    P2pMatrix,
    PciFunction,
    PciListing,
    PortCounters,
    RdmaDevice,
)


@dataclass(slots=True)
class Said:
    """What the inputs said, and what build itself has to add: gaps and assumptions."""

    pci: list[PciFunction] = field(default_factory=list)
    listings: list[PciListing] = field(default_factory=list)
    gpus: list[GpuState] = field(default_factory=list)
    matrices: list[Matrix] = field(default_factory=list)
    p2p: list[P2pMatrix] = field(default_factory=list)
    nvlinks: list[NvlinkGpu] = field(default_factory=list)
    numa: list[NumaNode] = field(default_factory=list)
    hosts: list[Host] = field(default_factory=list)
    rdma: list[RdmaDevice] = field(default_factory=list)
    cabling: list[Cabling] = field(default_factory=list)
    counters: list[PortCounters] = field(default_factory=list)
    limits: list[BandwidthLimit] = field(default_factory=list)
    events: list[LogEvent] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)


_FIELDS: dict[type, str] = {
    PciFunction: "pci",
    PciListing: "listings",
    GpuState: "gpus",
    Matrix: "matrices",
    P2pMatrix: "p2p",
    NvlinkGpu: "nvlinks",
    NumaNode: "numa",
    Host: "hosts",
    RdmaDevice: "rdma",
    Cabling: "cabling",
    PortCounters: "counters",
    BandwidthLimit: "limits",
    LogEvent: "events",
    Gap: "gaps",
}


def sort_facts(facts: Iterable[Fact]) -> Said:
    """One list a kind of fact, in the order given."""
    said = Said()
    for fact in facts:
        getattr(said, _FIELDS[type(fact)]).append(fact)
    return said
