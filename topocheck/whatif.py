"""What each choice of repairs would bring: every subset of the first few, worked out beforehand.

Losses do not add, so no figure of a subset can be had from those of its parts.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.finding import Finding
from topocheck.graph import Topology
from topocheck.model import Scenario, bandwidth
from topocheck.patches import patched
from topocheck.pricing import scenario_name
from topocheck.report import Report, WhatIf, WhatIfFigure

_MOST_REPAIRS = 6  # 64 subsets
_MOST_SCENARIOS = 7


def what_if(node: Topology, report: Report) -> WhatIf | None:
    """The figures; None where no repair has one that can be computed."""
    repairs = tuple(f for f in report.findings if _has_figure(f))[:_MOST_REPAIRS]
    if not repairs:
        return None
    choices = [
        patched(node, tuple(p for place, f in enumerate(repairs) if choice >> place & 1 for p in f.patches))
        for choice in range(1 << len(repairs))
    ]
    figures = []
    for name, scenario in list(_scenarios(node, report, repairs))[:_MOST_SCENARIOS]:
        answers = [bandwidth(choice, scenario) for choice in choices]
        if not any(b is None or b.nominal for b in answers):
            figures.append(WhatIfFigure(name, tuple(round(b.gb_per_s, 1) for b in answers if b)))
    return WhatIf(repairs, tuple(figures)) if figures else None


def _has_figure(finding: Finding) -> bool:
    computed = finding.price is not None and finding.price.repaired_gb_per_s is not None
    standing = not finding.waived and finding.severity != "info"
    return bool(standing and computed and finding.patches and finding.price and finding.price.confidence == "computed")


def _scenarios(node: Topology, report: Report, repairs: tuple[Finding, ...]) -> Iterator[tuple[str, Scenario]]:
    """That of all repairs together, then those the findings are priced by, each once."""
    known = {scenario_name(node, s): s for s in (Scenario("node-nics"), *(s for f in repairs for s in f.scenarios))}
    asked = [report.together, *(f.price for f in repairs)]
    for name in dict.fromkeys(price.scenario for price in asked if price is not None):
        if name in known:
            yield name, known[name]
