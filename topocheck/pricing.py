"""The counterfactual: a finding's price is the node as found against the same node with its repair applied."""

from __future__ import annotations

from dataclasses import replace

from topocheck.finding import Finding, Price
from topocheck.graph import Topology
from topocheck.model import Bandwidth, Scenario, bandwidth
from topocheck.patches import patched

MIN_LOSS = 0.05  # interface section 7: an error must cost this much of a scenario, or stop or corrupt
NODE_NICS = "node NICs"
_NOTHING = 1e-6


def priced(node: Topology, finding: Finding, min_loss: float = MIN_LOSS) -> Finding:
    """The finding with its price, and its cost at the end of the message."""
    price = price_of(node, finding, min_loss)
    if price is None:
        return finding
    return replace(finding, price=price, message=f"{finding.message}: {in_words(price)}")


def price_of(node: Topology, finding: Finding, min_loss: float = MIN_LOSS) -> Price | None:
    """The price by the first scenario that loses `min_loss` (node NICs: that loses anything), else the one that loses
    most; a range where only a class is known."""
    if finding.price_kind == "unknown":
        return None
    repaired_node = patched(node, finding.patches)
    prices = [
        _compare(finding, scenario, node, bandwidth(node, scenario), repaired)
        for scenario in finding.scenarios
        if (repaired := bandwidth(repaired_node, scenario)) is not None
    ]
    if finding.price_kind == "typical":
        return prices[0] if prices else Price(finding.name, None, None, None, finding.loss_range, "typical")
    if not prices:
        return None
    worst = max(prices, key=lambda p: p.loss or 0.0)
    enough = (
        p for p in prices if (p.loss or 0.0) >= (_NOTHING if p.scenario == NODE_NICS else max(min_loss, _NOTHING))
    )
    return next(enough, worst)._replace(worst_loss=worst.loss)


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
        return NODE_NICS
    if scenario.kind == "ring":
        return f"ring of {len(node.gpus)} GPUs"
    if scenario.kind == "gpu-host":
        return f"{scenario.subject} <-> host"
    if scenario.kind == "nic-host":
        return f"{scenario.subject} <-> host"
    if scenario.kind == "nvlink":
        return f"{scenario.subject} NVLink"
    if scenario.kind == "gpu-pair":
        return f"{scenario.subject} -> {scenario.other} peer copy"
    nics = node.assignment.get(scenario.subject, ())
    return f"{scenario.subject} -> {'+'.join(nics) or 'its NIC'} GPUDirect RDMA"


def in_words(price: Price) -> str:
    """ "gpu3 -> mlx5_3 GPUDirect RDMA 26.9 of 49.0 GB/s (−45 %)"."""
    if price.range is not None:
        low, high = price.range
        share = f"{low * 100:.0f}" if round(low, 2) == round(high, 2) else f"{low * 100:.0f}–{high * 100:.0f}"
        span = f"typically {share} % lost"
        return (
            f"{price.scenario}, {span}"
            if price.repaired_gb_per_s is None
            else (f"{price.scenario}, {span} of {price.repaired_gb_per_s:.1f} GB/s")
        )
    loss = price.loss or 0.0
    if loss <= _NOTHING:
        return f"{price.scenario} loses nothing now (something else binds)"
    if price.found_gb_per_s is None or price.repaired_gb_per_s is None:
        return f"{price.scenario} −{loss * 100:.0f} %"
    return f"{price.scenario} {price.found_gb_per_s:.1f} of {price.repaired_gb_per_s:.1f} GB/s (−{loss * 100:.0f} %)"


def together(node: Topology, findings: list[Finding]) -> Price | None:
    """All repairs at once, since losses do not add: by the node's NICs, or by the first finding's own scenario. An info
    is how the node was built: nothing to repair."""
    findings = [f for f in findings if f.severity != "info"]
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
