"""What is kept of one node's report: some kilobytes, most of them shared with its sisters.

Equal texts and equal tuples of values are one object over the whole fleet, so ten thousand nodes that are alike cost
little more than their host names, GUIDs and findings.
"""

from __future__ import annotations

from typing import NamedTuple

from topocheck.finding import SEVERITIES as _MILDEST_FIRST

VERDICTS = ("failed", "degraded", "unknown", "healthy")  # worst first
SEVERITIES: tuple[str, ...] = _MILDEST_FIRST[::-1]  # worst first
RANK = {severity: rank for rank, severity in enumerate(SEVERITIES)}


class Kind(NamedTuple):
    """What makes nodes comparable: those of one kind should be alike."""

    platform: str | None
    gpu_model: str | None
    gpus: int
    nics: int

    def __str__(self) -> str:
        """For the reader: "HGX H100 8-GPU, 8 GPUs, 10 NICs"."""
        numbers = f"{self.gpus} GPU{'s' * (self.gpus != 1)}, {self.nics} NIC{'s' * (self.nics != 1)}"
        return f"{self.platform or self.gpu_model or 'unknown platform'}, {numbers}"


class Fault(NamedTuple):
    """A finding of a node's report that counts (not waived, follows nothing). `device` is its first subject's id on
    that node, `bdf` its PCI address where it has one: the position that is the same on every sister."""

    rule: str
    name: str
    severity: str  # error, warning, info
    device: str  # "" of the node as a whole
    bdf: str | None
    message: str
    effect: str
    loss: float | None  # share of the scenario's bandwidth, computed ones only


class RailPort(NamedTuple):
    """A port of a compute NIC. `rail`: its NIC's place in PCI address order; leaf as the node's own report has it."""

    nic: str  # mlx5_3, a name only
    bdf: str | None
    port: int
    rail: int | None
    guid: str | None  # "b83f:d203:0001:1040"
    state: str | None  # active, down, …
    link_layer: str | None
    rate_gbit_per_s: float | None
    subnet: str | None
    netdev: str | None
    leaf: str | None
    leaf_port: str | None
    by: str | None  # lldp, ibnetdiscover, iblinkinfo


class NodeRecord(NamedTuple):
    """One node. `values`: what is compared with sisters, (field, value) pairs, nothing that was not read."""

    host: str
    time: str  # UTC, "2026-11-20T03:04:05Z": as text it sorts by age
    origin: str  # "reports/gpu017.json", "nodes.jsonl:17"
    version: str
    verdict: str
    kind: Kind
    values: tuple[tuple[str, str], ...]
    faults: tuple[Fault, ...]
    waived: int
    skipped: tuple[str, ...]  # rules that could not see
    ports: tuple[RailPort, ...]
    nics_gb_per_s: float | None  # compute NICs in step, one direction, as found; None where not known
