"""NICs that are not there: how NET005 and RAIL003 price a finding about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from topocheck.finding import Finding
from topocheck.graph import Topology
from topocheck.model import Scenario
from topocheck.patches import AddNic


def priced(finding: Finding, node: Topology, gpus: Iterable[str]) -> Finding:
    """With the repair and the price: what the node's NICs, and these GPUs, would carry with the NICs they lack. A GPU
    is named once for each NIC; with none there is no price."""
    lacking = tuple(gpus)
    like = node.compute_nics[0].id if node.compute_nics else None
    return replace(
        finding,
        patches=tuple(AddNic(gpu, like) for gpu in lacking),
        scenarios=(Scenario("node-nics"), *(Scenario("gpu-nic", gpu) for gpu in dict.fromkeys(lacking))),
        price_kind=finding.price_kind if lacking else "unknown",
        covers=frozenset(lacking),
    )
