"""
A PCIe link runs at a lower speed than both its ends can, or the port above is told to hold it there.

Why it costs: a generation lower is half the bandwidth of every byte in or out of the device.

Usual cause: signal trouble (riser, cable, retimer), a link that fell back after errors, a speed set in the BIOS slot
setup or by setpci (Target Link Speed of the port).

Repair: retrain the link; if it falls back again, reseat or swap riser and card; set the slot's speed to Auto in
the BIOS.

Silent when: the GPU's link is asleep (its P-state says so, or it is a part that sleeps at 2.5 or 5 GT/s and full
width); the card is the limit; the function is virtual; the bridge is emulated. A baseline in the policy, or a known
platform, that has the link faster proves the fault.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.facts import Evidence
from topocheck.finding import Answer, Finding
from topocheck.graph import PcieLink, Topology
from topocheck.hardware.pcie import gen_word
from topocheck.judging import (
    JudgedLink,
    built_gts,
    can_gts,
    equal_links,
    gts,
    gts_before,
    judged_links,
    link_evidence,
    link_scenarios,
    link_words,
    measurable,
    severity_by_equals,
    unread_links,
)
from topocheck.patches import SetLink

ID = "PCI002"
NAME = "pcie-speed-degraded"


def check(node: Topology) -> Iterator[Answer]:
    """Speed now, and the port's target speed, against what both ends can; and against what the link ran at in the
    baseline."""
    judged = judged_links(node)
    read = [j for j in judged if measurable(j) and j.link.can_speed_gts and not j.link.at_boot]
    awake = [j for j in read if not j.link.asleep]
    asleep = f", {len(read) - len(awake)} asleep" if len(awake) < len(read) else ""
    yield from unread_links(node, judged, len(awake), f" at both ends and awake{asleep}")
    for j in judged:
        if not measurable(j) or j.link.at_boot:
            continue
        if not j.link.asleep and gts(j.link) < max(can_gts(j.link), gts_before(node, j.link)):
            yield _finding(node, j, held=_held(j.link))
        elif _held(j.link):
            yield _finding(node, j, held=True)


def _held(link: PcieLink) -> bool:
    return link.target_speed_gts is not None and link.target_speed_gts < can_gts(link)


def _finding(node: Topology, j: JudgedLink, *, held: bool) -> Finding:
    link, then, both = j.link, gts_before(node, j.link), can_gts(j.link)
    can, ran_faster = max(both, then), then > gts(link) and not link.asleep
    equals = equal_links(node, j)
    severity, better = severity_by_equals(equals, lambda x: gts(x) > gts(link))
    why = f"; Target Link Speed of {link.a} is {link.target_speed_gts:g} GT/s" if held else ""
    peers = f", {better} of {len(equals)} equals run faster" if better else ""
    by_baseline = ran_faster and (severity != "error" or then > both)
    by_platform = severity != "error" and not ran_faster and built_gts(node, j) > gts(link)
    where = f"both ends can {gen_word(both)}" if both == can else "it ran faster before"
    earlier = node.expected.before(gen_word(then)) if ran_faster else ""
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning" if link.asleep else "error" if ran_faster or by_platform else severity,
        subjects=(j.subject,),
        message=f"{j.subject} runs {link_words(link)} where {where} (link of {link.b}{why}){peers}{earlier}",
        repair="Set the slot's link speed to Auto (BIOS, Target Link Speed) and retrain"
        if held
        else "Retrain; if it falls back again, reseat or swap riser and card, and check the slot's speed in the BIOS",
        evidence=_evidence(link, held),
        expected_from="baseline" if by_baseline else "platform" if by_platform else "both ends",
        patches=(SetLink(link.id, speed_gts=can),),
        scenarios=link_scenarios(node, j),
        price_kind="computed",
        covers=frozenset({link.id}),
    )


def _evidence(link: PcieLink, held: bool) -> tuple[Evidence, ...]:
    target = link.lines.get("a LnkCtl2") if held else None
    return (*link_evidence(link, "gen"), *((target,) if target else ()))
