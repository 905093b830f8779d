"""The counterfactual: a finding's price is the node as found against the same node with its repair applied."""

from __future__ import annotations

from dataclasses import replace

from topocheck.finding import Finding, Price
from topocheck.graph import Topology
from topocheck.model import Bandwidth, Scenario, bandwidth
from topocheck.patches import patched

_NOTHING = 1e-6


def priced(node: Topology, finding: Finding) -> Finding:
    """The finding with its price, and its cost at the end of the message."""
    price = price_of(node, finding)
    if price is None:
        return finding
    return replace(finding, price=price, message=f"{finding.message}: {in_words(price)}")


def price_of(node: Topology, finding: Finding) -> Price | None:
    """The price by the first scenario in which the repair gains anything; a range where only a class is known."""
    if finding.price_kind == "unknown":
        return None
    repaired_node = patched(node, finding.patches)
    first: Price | None = None
    for scenario in finding.scenarios:
        found, repaired = bandwidth(node, scenario), bandwidth(repaired_node, scenario)
        if repaired is None:
            continue
        price = _compare(finding, scenario, node, found, repaired)
        if finding.price_kind == "typical" or (price.loss or 0.0) > _NOTHING:
            return price
        first = first or price
    if first is None and finding.price_kind == "typical":
        return Price(finding.name, None, None, None, finding.loss_range, "typical")
    return first


def _compare(
    finding: Finding, scenario: Scenario, node: Topology, found: Bandwidth | None, repaired: Bandwidth
) -> Price:
    name = scenario_name(node, scenario)
    b = None if repaired.nominal else round(repaired.gb_per_s, 1)
    if finding.price_kind == "typical":
        return Price(name, None, b, None, finding.loss_range, "typical")
    before = found.gb_per_s if found else 0.0
    loss = max(0.0, 1 - before / repaired.gb_per_s) if repaired.gb_per_s else 0.0
    a = None if repaired.nominal else round(before, 1)
    slowest = None
    if scenario.kind == "node-nics" and found and not repaired.nominal:
        slowest = f"slowest GPU {found.slowest_gb_per_s:.1f} of {repaired.slowest_gb_per_s:.1f} GB/s"
    return Price(name, a, b, round(loss, 3), None, "computed", slowest)


def scenario_name(node: Topology, scenario: Scenario) -> str:
    """The scenario as the user reads it."""
    if scenario.kind == "node-nics":
        return "node NICs"
    if scenario.kind == "gpu-host":
        return f"{scenario.subject} <-> host"
    if scenario.kind == "nic-host":
        return f"{scenario.subject} <-> host"
    nics = node.assignment.get(scenario.subject, ())
    return f"{scenario.subject} -> {'+'.join(nics) or 'its NIC'} GPUDirect RDMA"


def in_words(price: Price) -> str:
    """ "gpu3 -> mlx5_3 GPUDirect RDMA 26.9 of 49.0 GB/s (−45 %)"."""
    if price.range is not None:
        low, high = price.range
        span = f"typically {low * 100:.0f}–{high * 100:.0f} % lost"
        return (
            f"{price.scenario}, {span}"
            if price.repaired_gb_per_s is None
            else (f"{price.scenario}, {span} of {price.repaired_gb_per_s:.1f} GB/s")
        )
    loss = price.loss or 0.0
    if loss <= _NOTHING:
        return f"{price.scenario} loses nothing now: something else binds"
    if price.found_gb_per_s is None or price.repaired_gb_per_s is None:
        return f"{price.scenario} −{loss * 100:.0f} %"
    return f"{price.scenario} {price.found_gb_per_s:.1f} of {price.repaired_gb_per_s:.1f} GB/s (−{loss * 100:.0f} %)"


def together(node: Topology, findings: list[Finding]) -> Price | None:
    """All repairs at once, since losses do not add: by the node's NICs, or by the first finding's own scenario."""
    patches = tuple(p for f in findings for p in f.patches)
    computed = [f for f in findings if f.patches and f.price and f.price.confidence == "computed"]
    if not computed:
        return None
    repaired_node = patched(node, patches)
    options = [Scenario("node-nics"), *computed[0].scenarios]
    for scenario in options:
        found, repaired = bandwidth(node, scenario), bandwidth(repaired_node, scenario)
        if found and repaired and repaired.gb_per_s > found.gb_per_s * (1 + _NOTHING):
            return _compare(computed[0], scenario, node, found, repaired)
    return None
