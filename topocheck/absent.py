"""NICs that are not there, as a finding: the common ground of NET005 and RAIL003."""

from __future__ import annotations

from typing import NamedTuple

from topocheck.facts import Evidence
from topocheck.finding import Finding, PriceKind, Severity
from topocheck.graph import Topology
from topocheck.model import Scenario
from topocheck.patches import AddNic


class AbsentNics(NamedTuple):
    """What is said of them; `gpus` are those that lack them, once for each NIC: with none it has no price."""

    rule: str
    name: str
    severity: Severity
    subjects: tuple[str, ...]
    message: str
    repair: str
    evidence: tuple[Evidence, ...]
    expected_from: str
    price_kind: PriceKind
    gpus: tuple[str, ...]

    def finding(self, node: Topology) -> Finding:
        """Priced by what the node's NICs, and these GPUs, would carry with them."""
        like = node.compute_nics[0].id if node.compute_nics else None
        return Finding(
            rule=self.rule,
            name=self.name,
            severity=self.severity,
            subjects=self.subjects,
            message=self.message,
            repair=self.repair,
            evidence=self.evidence,
            expected_from=self.expected_from,
            patches=tuple(AddNic(gpu, like) for gpu in self.gpus),
            scenarios=(Scenario("node-nics"), *(Scenario("gpu-nic", g) for g in dict.fromkeys(self.gpus))),
            price_kind=self.price_kind if self.gpus else "unknown",
            covers=frozenset(self.gpus),
        )
