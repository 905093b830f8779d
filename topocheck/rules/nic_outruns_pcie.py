"""
A NIC's active ports carry more than the PCIe path to its GPU.

Why it costs: the network waits for the bus; 400 Gb/s is 50 GB/s, PCIe 4.0 x16 is 31.5.

Usual cause: a dual-port card with both ports in use, or a fast card on a narrow or older slot, by order.

Repair: use one port, or a card and slot whose PCIe generation fits the ports.

Silent when: PCI001, PCI002 or PCI003 explain the path; the line rate suffices (100 Gb/s on Gen3 x16); ports are down;
the function is virtual.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip, equals_of
from topocheck.graph import Device, PcieLink, Topology
from topocheck.hardware import network, pcie
from topocheck.judging import awake_gts, judged_nics, lanes, link_evidence, link_words
from topocheck.model import Scenario, route
from topocheck.patches import Patch, SetLink

ID = "PCI004"
NAME = "nic-outruns-pcie"


def check(node: Topology) -> Iterator[Answer]:
    """Line rate of a card's active ports against that of the narrowest link to its GPU."""
    nics = [n for n in judged_nics(node) if n.rate_gbit_per_s and not n.is_vf]
    if not nics:
        yield Skip("no rate of an active NIC port in the input") if node.nics else NotApplicable("no NIC")
        return
    seen = [n for n in nics if _narrowest(node, n) is not None]
    if len(seen) < len(nics):
        yield Skip(f"{len(seen)} of {len(nics)} NICs with a PCIe link read", partial=bool(seen))
    outrun = {n.id for n in seen if _outruns(node, n)}
    for nic in seen:
        if nic.id in outrun:
            yield _finding(node, nic, alike=all(e.id in outrun for e in _comparable(node, nic)))


def _comparable(node: Topology, nic: Device) -> list[Device]:
    """Its equals that carry as much over as many links: a port that is down, or a lost GPU, makes no card better."""
    rate, links = _card_rate_gbit_per_s(node, nic), len(_path(node, nic))
    return [e for e in equals_of(node, nic) if _card_rate_gbit_per_s(node, e) >= rate and len(_path(node, e)) >= links]


def _card_rate_gbit_per_s(node: Topology, nic: Device) -> float:
    """All active ports of the card: its functions share the slot."""
    return sum(
        p.rate_gbit_per_s
        for n in node.nics
        if n.card == nic.card and not n.is_vf
        for p in n.ports
        if p.state == "active" and p.rate_gbit_per_s
    )


def _path(node: Topology, nic: Device) -> list[PcieLink]:
    gpu = next(iter(node.gpus_of(nic)), None)
    if gpu is None:
        links = node.path_up(nic)
    else:
        up, down = route(node, node.by_id[gpu], nic)
        links = [*down, *up]
    return [x for x in links if x.speed_gts and x.width and not x.implausible and not x.at_boot]


def _line_rate(link: PcieLink) -> float:
    return pcie.line_rate_gb_per_s(awake_gts(link), lanes(link))


def _narrowest(node: Topology, nic: Device) -> PcieLink | None:
    return min(_path(node, nic), key=_line_rate, default=None)


def _outruns(node: Topology, nic: Device) -> bool:
    link = _narrowest(node, nic)
    return link is not None and network.line_rate_gb_per_s(_card_rate_gbit_per_s(node, nic)) > _line_rate(link)


def _finding(node: Topology, nic: Device, *, alike: bool) -> Finding:
    link = _narrowest(node, nic)
    assert link is not None
    rate = _card_rate_gbit_per_s(node, nic)
    need_gb_per_s = network.line_rate_gb_per_s(rate)
    severity: Severity = "info" if alike else "warning"
    gpu = next(iter(node.gpus_of(nic)), None)
    ports = tuple(line for p in nic.ports if (line := p.lines.get("rate_gbit_per_s") or p.lines.get("rate")))
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=(nic.id,),
        message=f"{nic.id}'s card has {rate:g} Gb/s of active ports ({rate / 8:.1f} GB/s) over {link_words(link)} "
        f"({_line_rate(link):.1f} GB/s line rate, link of {link.b})",
        repair="Use one port of the card, or a slot and card of a generation that fits its ports",
        evidence=(*link_evidence(link, "gen"), *ports),
        expected_from="both ends" if alike else "equals",
        patches=_patches(node, nic, need_gb_per_s),
        scenarios=(Scenario("gpu-nic", gpu),) if gpu else (Scenario("nic-host", nic.id),),
        price_kind="computed",
        covers=frozenset({nic.id, *(x.id for x in _path(node, nic) if _line_rate(x) < need_gb_per_s)}),
    )


def _patches(node: Topology, nic: Device, need_gb_per_s: float) -> tuple[Patch, ...]:
    """Every link of the path at the lowest generation that fits."""
    patches: list[Patch] = []
    for link in _path(node, nic):
        if _line_rate(link) < need_gb_per_s:
            fits = (s for s in pcie.GTS_OF_GEN.values() if pcie.line_rate_gb_per_s(s, lanes(link)) >= need_gb_per_s)
            patches.append(SetLink(link.id, speed_gts=next(fits, max(pcie.GTS_OF_GEN.values()))))
    return tuple(patches)
