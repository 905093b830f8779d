"""What should be here by another word than the inputs': the site's policy, and an earlier report of this node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from topocheck.facts import Evidence
from topocheck.names import NameSet


class EarlierDevice(NamedTuple):
    """A GPU or NIC as it was reported."""

    id: str
    kind: str
    bdf: str | None
    pci_id: str | None
    model: str | None
    role: str | None

    def evidence(self, report: str) -> Evidence:
        """The device's entry in words, for one that is not there any more."""
        return Evidence(report, None, " ".join(word for word in (self.id, self.bdf, self.model) if word))


class EarlierLink(NamedTuple):
    """A PCIe link as it ran then; `a` is the port above."""

    a: str | None
    speed_gts: float | None
    width: int | None


@dataclass(frozen=True)
class Baseline:
    """An earlier report of this node: its file, its time (UTC), its devices, and its links by their lower ends."""

    name: str
    time: str
    devices: tuple[EarlierDevice, ...] = ()
    links: Mapping[str, EarlierLink] = field(default_factory=dict)

    @property
    def gpus(self) -> list[EarlierDevice]:
        """The GPUs it had."""
        return [d for d in self.devices if d.kind == "gpu"]

    @property
    def compute_nics(self) -> list[EarlierDevice]:
        """The NICs that carried GPU traffic."""
        return [d for d in self.devices if d.kind == "nic" and d.role == "compute"]


@dataclass(frozen=True)
class Expected:
    """rails: the leaf switches that rail 0, rail 1, … reach, by the policy."""

    baseline: Baseline | None = None
    rails: tuple[NameSet, ...] = ()

    def before(self, what: str) -> str:
        """The end of a message: ", x16 in the baseline of 2026-11-01"; nothing without a baseline."""
        return f", {what} in the baseline of {self.baseline.time[:10]}" if self.baseline else ""
