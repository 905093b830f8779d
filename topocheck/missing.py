"""What is missing, by the baseline or by what the other GPUs have: the common ground of GPU001 and NET005."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import NamedTuple

from topocheck.expected import EarlierDevice
from topocheck.facts import Evidence
from topocheck.graph import RANK, Topology
from topocheck.hardware.pci_ids import is_gpu
from topocheck.nearness import services


class Gone(NamedTuple):
    """`number` of `before` devices; `devices` which, empty where the addresses changed as well."""

    number: int
    before: int
    devices: tuple[EarlierDevice, ...]
    evidence: tuple[Evidence, ...]

    @property
    def subjects(self) -> tuple[str, ...]:
        """By address: a number or name may have passed to another device."""
        return tuple(d.bdf or d.id for d in self.devices)

    def words(self, kind: str) -> str:
        """ "0000:5d:00.0 (gpu3)", or "1 of 8 GPUs"."""
        named = ", ".join(f"{d.bdf} ({d.id})" if d.bdf else d.id for d in self.devices)
        return named or f"{self.number} of {self.before} {kind}"


def gone_gpus(node: Topology) -> Gone | None:
    """GPUs that are not on the bus any more; those the driver calls lost are told by that. None where the listing of
    the bus is an excerpt."""
    baseline = node.expected.baseline
    if baseline is None or not node.whole_pci:
        return None
    on_bus = {f.bdf for f in node.functions.values() if is_gpu(f)}
    lost = {state.bdf for state in node.lost_gpus if state.bdf} - on_bus
    return _gone(baseline.name, baseline.gpus, len(on_bus | lost), on_bus | lost)


def gone_nics(node: Topology) -> Gone | None:
    """Compute NICs that are neither on the bus nor a device any more; None where no input lists NICs."""
    baseline = node.expected.baseline
    if baseline is None or not (node.nics or node.whole_pci):
        return None
    here = {name for nic in node.nics for name in (nic.id, nic.bdf) if name} | set(node.functions)
    return _gone(baseline.name, baseline.compute_nics, len(node.compute_nics), here)


def without_own(node: Topology) -> list[str]:
    """GPUs that the assignment leaves without a NIC, all NICs being on some GPU's switch; none where it gives none, or
    where a cut matrix hides which NICs some GPU has."""
    if len(node.compute_nics) >= len(node.gpus) or len(services(node)) < len(node.gpus) or _designed_so(node):
        return []
    return [g.id for g in node.gpus if not node.assignment.get(g.id)]


def _designed_so(node: Topology) -> bool:
    """Fewer NICs than GPUs by design: NICs beside the CPUs are no GPU's own; else every GPU has an equal share of the
    cards near it, or every switch as many (where it has fewer GPUs, a GPU is gone and not a NIC). All GPUs near the
    same cards share them equally if they go into their number, or if no input says which NICs are one card."""
    served = services(node)
    (usual, _), *_ = Counter(s.cls for s in served).most_common()
    if RANK[usual] > RANK["PHB"] and not any(s.gpu.part and s.gpu.part.c2c for s in served):
        return True
    sharing = Counter(frozenset(n.card or n.id for n in s.nearest) for s in served)
    shares = {Fraction(len(cards), gpus) for cards, gpus in sharing.items()}
    if len(sharing) == 1:
        return shares.pop().numerator == 1 or all(n.card == n.id for n in node.compute_nics)
    return len(shares) == 1 or (len({len(cards) for cards in sharing}) == 1 and all(s.local for s in served))


def _gone(report: str, before: list[EarlierDevice], now: int, here: set[str]) -> Gone | None:
    absent = tuple(d for d in before if (d.bdf or d.id) not in here)
    count = min(len(absent), len(before) - now)
    if count <= 0:
        return None
    named = absent if count == len(absent) else ()
    return Gone(count, len(before), named, tuple(d.evidence(report) for d in named))
