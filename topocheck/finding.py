"""What a rule says: findings, skips, and the repair as data. A rule knows no price; the engine works it out.

A rule is a module in `rules/` with

    ID, NAME  "PCI001", "pcie-width-degraded"
    check     Topology → Findings, Skips (could not see) or NotApplicable (nothing here it could speak of)

and a docstring the user reads (`topocheck rules PCI001`): first line what is wrong, then "Why it costs:",
"Usual cause:", "Repair:", "Silent when:".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

from topocheck.facts import Evidence
from topocheck.graph import Device, Topology
from topocheck.model import Scenario
from topocheck.patches import Patch

Severity = Literal["info", "warning", "error"]
Confidence = Literal["high", "medium", "low"]
Effect = Literal["slows", "stops", "corrupts", "risks", "none"]
PriceKind = Literal["computed", "typical", "unknown"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")


class Price(NamedTuple):
    """What a finding costs in one scenario, GB/s one direction; None where no single figure is honest."""

    scenario: str
    found_gb_per_s: float | None
    repaired_gb_per_s: float | None
    loss: float | None
    range: tuple[float, float] | None
    confidence: PriceKind
    slowest: str | None = None  # what the slowest flow of the scenario loses, for -v
    worst_loss: float | None = None  # the most that any scenario of the finding loses: it decides the severity


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault. `message` starts with the device and says what is and what could be; the engine adds what it costs.

    patches: the repair as data; scenarios: which ones to price it by, the first that loses anything counts;
    covers: what else this one cause explains (device ids, link ids), see follows.py.
    """

    rule: str
    name: str
    severity: Severity
    subjects: tuple[str, ...]
    message: str
    repair: str
    evidence: tuple[Evidence, ...]
    confidence: Confidence = "high"
    effect: Effect = "slows"
    expected_from: str | None = None
    patches: tuple[Patch, ...] = ()
    scenarios: tuple[Scenario, ...] = ()
    price_kind: PriceKind = "unknown"
    loss_range: tuple[float, float] | None = None
    covers: frozenset[str] = frozenset()
    follows: tuple[str, ...] = ()
    price: Price | None = None
    alike: str | None = None  # the message without its subject: findings that share it are told as one
    waived: bool = False
    waiver: str | None = None  # "until 2027-03-31: reason"; not waived: "expired 2026-03-31"
    readings: int = 1

    def at(self, severity: Severity) -> Finding:
        """The same at another severity."""
        return replace(self, severity=severity)


class Skip(NamedTuple):
    """The rule could not see; `partial` when it saw some of it ("6 of 10 links")."""

    reason: str
    partial: bool = False


class NotApplicable(NamedTuple):
    """There is nothing here that the rule could speak of."""

    reason: str


Answer = Finding | Skip | NotApplicable


class Rule(Protocol):
    """A module of `rules/`."""

    ID: str
    NAME: str
    __doc__: str | None

    def check(self, node: Topology) -> Iterator[Answer]:
        """What this rule says of the node."""


def worst(severities: list[Severity]) -> Severity | None:
    """The worst of some severities."""
    return max(severities, key=SEVERITIES.index, default=None)


def equals_of(node: Topology, device: Device) -> list[Device]:
    """The devices of one model and one role on this node, itself left out."""
    if device.kind == "nic":
        return [d for d in node.nics if d.id != device.id and d.role == device.role and kind_key(d) == kind_key(device)]
    return [d for d in node.gpus if d.id != device.id and d.model == device.model and d.part == device.part]


def kind_key(nic: Device) -> tuple[str | None, ...]:
    """What makes two NICs the same kind of card, as far as read, whatever their ports do now."""
    layer = next((p.link_layer for p in nic.ports if p.link_layer), None)
    return (nic.pci_id or nic.device_type, nic.board_id, layer)


def enough(better: int, equals: int) -> bool:
    """Whether equals prove what is normal here: at least half of them, and at least two."""
    return better >= 2 and 2 * better >= equals
