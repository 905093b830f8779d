"""
A device could do more than the slot above it, or only one end of a link that runs low was read.

Why it costs: the device's own lanes or generation stay unused; a 400 Gb/s NIC in a Gen4 slot gets about half.

Usual cause: a slot wired or configured (BIOS) for less, a Gen4 riser or switch under a Gen5 card. Where the other end
was not read the link may as well be degraded: both causes are named.

Repair: move the card to a full slot, or accept it as built (a policy waiver says so); where the other end was not
read, run `lspci -vv` as root on the whole machine.

Silent when: the card is the limit; the platform is built so; an upstream port states less than its root port and all
its devices (its own figure is then not believed).
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.as_built import built_so
from topocheck.finding import Answer, Finding, Severity, Skip, equals_of
from topocheck.graph import PcieLink, Topology
from topocheck.hardware.pcie import gen_word
from topocheck.judging import (
    JudgedLink,
    equal_links,
    gts,
    judged_links,
    lanes,
    link_evidence,
    link_scenarios,
    link_words,
    measurable,
    misstated,
    unread_links,
)
from topocheck.patches import SetLink

ID = "PCI003"
NAME = "pcie-slot-capped"


def check(node: Topology) -> Iterator[Answer]:
    """What the upper end can against what the lower end can; low links whose upper end was not read."""
    judged = judged_links(node)
    read = [j for j in judged if measurable(j)]
    yield from unread_links(node, judged, len(read), "")
    if doubted := [j for j in read if _capped(j.link) and misstated(node, j)]:
        yield Skip(f"{len(doubted)} links of a switch that states too little: not believed", partial=True)
    for j in read:
        if _capped(j.link) and j not in doubted and not built_so(node, ID, j.owner):
            yield _capped_finding(node, j)
        elif _one_ended(j.link):
            yield _unread_finding(node, j)


def _capped(link: PcieLink) -> bool:
    wider = link.max_width and link.a_max_width and link.a_max_width < link.max_width
    faster = link.max_speed_gts and link.a_max_speed_gts and link.a_max_speed_gts < link.max_speed_gts
    return bool(wider or faster) and not link.at_boot


def _one_ended(link: PcieLink) -> bool:
    """Runs below what its own end can, the other end not read; speed counts only where sleep is ruled out."""
    if link.can_width is None and link.max_width and lanes(link) < link.max_width:
        return True
    slow = link.max_speed_gts and gts(link) < link.max_speed_gts
    return bool(link.can_speed_gts is None and slow and not link.asleep)


def _alike(node: Topology, j: JudgedLink) -> bool:
    """Whether no equal is in a better slot; one in a worse slot makes this one no exception."""
    (speed, width), *others = ((x.a_max_speed_gts or 0.0, x.a_max_width or 0) for x in (j.link, *equal_links(node, j)))
    return not any(faster > speed or wider > width for faster, wider in others)


def _capped_finding(node: Topology, j: JudgedLink) -> Finding:
    link = j.link
    severity: Severity = "info" if _alike(node, j) else "warning"
    slot = f"{gen_word(link.a_max_speed_gts or 0)} x{link.a_max_width or link.width}"
    device = f"{gen_word(link.max_speed_gts or 0)} x{link.max_width or link.width}"
    others = len(equals_of(node, j.owner)) if j.owner else 0
    alike = f", as all {others + 1} of its kind" if others else ""
    peers = ", unlike its equals" if severity == "warning" else alike
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=(j.subject,),
        message=f"{j.subject} can PCIe {device}, {link.a or 'the host'} above it only {slot}{peers}",
        repair="Move the card to a slot that can as much, or waive it as built",
        evidence=tuple(x for key in ("a LnkCap", "LnkCap", "smi gen") if (x := link.lines.get(key))),
        expected_from="equals" if severity == "warning" else "both ends",
        patches=(SetLink(link.id, speed_gts=link.max_speed_gts, width=link.max_width or link.width),),
        scenarios=link_scenarios(node, j),
        price_kind="computed",
        covers=frozenset({link.id}),
    )


def _unread_finding(node: Topology, j: JudgedLink) -> Finding:
    link = j.link
    can = f"{gen_word(link.max_speed_gts)} x{link.max_width}" if link.max_speed_gts else f"x{link.max_width}"
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning",
        confidence="low",
        subjects=(j.subject,),
        message=f"{j.subject} runs {link_words(link)} {'at boot' if link.at_boot else 'now'} and can {can}; "
        "degraded or capped is not known, the other end was not read",
        repair="Run lspci -vv as root on the whole machine: reseat if both ends can more, else move the card",
        evidence=link_evidence(link, "width" if lanes(link) < (link.max_width or 0) else "gen"),
        expected_from="its own capability",
        patches=(SetLink(link.id, speed_gts=link.max_speed_gts, width=link.max_width),),
        scenarios=link_scenarios(node, j),
        price_kind="computed",
        covers=frozenset({link.id}),
    )
