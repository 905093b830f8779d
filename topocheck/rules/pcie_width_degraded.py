"""
A PCIe link runs with fewer lanes than both its ends can.

Why it costs: every byte in or out of the device crosses this link; half the lanes are half the bandwidth, and an
inter-node ring goes at the pace of its slowest NIC.

Usual cause: a riser, cable or card not seated, a dirty connector, a failing lane, a bifurcated slot.

Repair: reseat the card or riser and let the link retrain; if it stays narrow, swap the riser, then the card.

Silent when: the card or the slot has no more lanes by design (PCI003 speaks of slots), the function is virtual, the
bridge is emulated, or the GPU talks to its CPU over C2C. The word "(downgraded)" proves nothing: numbers at both ends
are compared, and, with a baseline in the policy, what the link ran at then. Alike on all it is a warning, unless the
platform is known to have more.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.finding import Answer, Finding
from topocheck.graph import Topology
from topocheck.judging import (
    JudgedLink,
    built_lanes,
    can_lanes,
    equal_links,
    judged_links,
    lanes,
    lanes_before,
    link_evidence,
    link_scenarios,
    link_words,
    measurable,
    severity_by_equals,
    unread_links,
)
from topocheck.patches import SetLink

ID = "PCI001"
NAME = "pcie-width-degraded"


def check(node: Topology) -> Iterator[Answer]:
    """Width now against what both ends can, and against what the link ran at in the baseline."""
    judged = judged_links(node)
    read = [j for j in judged if measurable(j) and j.link.can_width and not j.link.at_boot]
    yield from unread_links(node, judged, len(read), " at both ends")
    for j in judged:
        if measurable(j) and not j.link.at_boot and lanes(j.link) < max(can_lanes(j.link), lanes_before(node, j.link)):
            yield _finding(node, j)


def _finding(node: Topology, j: JudgedLink) -> Finding:
    link, then, both = j.link, lanes_before(node, j.link), can_lanes(j.link)
    can, ran_wider = max(both, then), then > lanes(link)
    equals = equal_links(node, j)
    severity, better = severity_by_equals(equals, lambda x: lanes(x) > lanes(link))
    by_baseline = ran_wider and (severity != "error" or then > both)
    by_platform = severity != "error" and not ran_wider and built_lanes(node, j) > lanes(link)
    seen = "asleep now; " if link.asleep else ""
    peers = f", {better} of {len(equals)} equals run wider" if better else ""
    where = f"both ends can x{both}" if both == can else "it ran wider before"
    earlier = node.expected.before(f"x{then}") if ran_wider else ""
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning" if link.asleep else "error" if ran_wider or by_platform else severity,
        subjects=(j.subject,),
        message=f"{j.subject} runs {link_words(link)} where {where} ({seen}link of {link.b}){peers}{earlier}",
        repair="Reseat the card, riser or cable and retrain; if it stays narrow, swap riser, then card",
        evidence=link_evidence(link, "width"),
        confidence="medium" if link.asleep else "high",
        expected_from="baseline" if by_baseline else "platform" if by_platform else "both ends",
        patches=(SetLink(link.id, width=can),),
        scenarios=link_scenarios(node, j),
        price_kind="computed",
        covers=frozenset({link.id}),
    )
