"""
Several GPUs share one PCIe uplink to the host that cannot carry all of them.

Why it costs: traffic to host memory and to GPUs and NICs of other switches takes the uplink; while all its GPUs copy,
each has only its share. The figure is the least that is lost: other traffic on the uplink comes on top.

Usual cause: the server's design; where other GPUs of the node do not share, a card in the wrong slot or a switch
cabled or bifurcated for fewer uplinks.

Repair: by design there is none but to keep traffic inside the switch; otherwise move the card, or restore the switch's
second uplink.

Silent when: the uplink carries all its GPUs at once; for traffic inside one switch, which never climbs; the GPU reaches
its CPU over C2C. Alike for all GPUs it is one info for the node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip, enough, equals_of
from topocheck.graph import Device, PcieLink, Topology
from topocheck.judging import link_evidence, link_words
from topocheck.model import Scenario, link_capacity_gb_per_s
from topocheck.patches import OwnUplink

ID = "PCI005"
NAME = "uplink-shared"
_CARRIES_ALL = 0.99  # of the GPU's own link: a share that differs by rounding is none


class Shared(NamedTuple):
    """An uplink and the GPUs that have less on it than their own links can."""

    link: PcieLink
    gpus: tuple[Device, ...]


def check(node: Topology) -> Iterator[Answer]:
    """The tightest shared link above each GPU, by fair share against the GPU's own link."""
    gpus = [g for g in node.gpus if not (g.part and g.part.c2c)]
    read = [g for g in gpus if len(node.path_up(g)) > 1 or (g.bdf in node.functions and node.whole_pci)]
    if len(gpus) < 2:
        yield NotApplicable("fewer than two GPUs on PCIe")
        return
    if len(read) < len(gpus):
        yield Skip(f"PCIe path read for {len(read)} of {len(gpus)} GPUs", partial=bool(read))
    crossing = _crossing(node, read)
    found = _shared(node, read, crossing)
    tightest = {gpu.id: _tightest(node, gpu, crossing) for gpu in read}
    sharers = {gpu: len(crossing[link.id]) if link else 1 for gpu, link in tightest.items()}
    odd = [group for group in found if all(_unlike(node, gpu, sharers) for gpu in group.gpus)]
    for group in odd:
        yield _finding([group], "warning")
    if alike := [group for group in found if group not in odd]:
        yield _finding(alike, "info")


def _crossing(node: Topology, gpus: list[Device]) -> dict[str, list[Device]]:
    """The GPUs whose path crosses each link."""
    crossing: dict[str, list[Device]] = {}
    for gpu in gpus:
        for link in node.path_up(gpu):
            crossing.setdefault(link.id, []).append(gpu)
    return crossing


def _tightest(node: Topology, gpu: Device, crossing: dict[str, list[Device]]) -> PcieLink | None:
    """The shared link that leaves the GPU least, None where it shares none."""
    shared = [x for x in node.path_up(gpu)[1:] if len(crossing[x.id]) > 1]
    return min(shared, key=lambda x: (_share_gb_per_s(x, crossing), x.id), default=None)


def _share_gb_per_s(link: PcieLink, crossing: dict[str, list[Device]]) -> float:
    return link_capacity_gb_per_s(link) / len(crossing[link.id])


def _shared(node: Topology, gpus: list[Device], crossing: dict[str, list[Device]]) -> list[Shared]:
    """Each GPU under the shared link that leaves it least, if that is less than its own link, grouped by link."""
    groups: dict[str, list[Device]] = {}
    for gpu in gpus:
        link = _tightest(node, gpu, crossing)
        if link is None:
            continue
        own = link_capacity_gb_per_s(node.path_up(gpu)[0])
        if _share_gb_per_s(link, crossing) < own * _CARRIES_ALL < float("inf"):
            groups.setdefault(link.id, []).append(gpu)
    return [Shared(node.links[key], tuple(members)) for key, members in groups.items()]


def _unlike(node: Topology, gpu: Device, sharers: dict[str, int]) -> bool:
    """Whether its equals share with fewer; those whose path was not read may share as well."""
    equals = equals_of(node, gpu)
    return enough(sum(e.id in sharers and sharers[e.id] < sharers[gpu.id] for e in equals), len(equals))


def _finding(groups: list[Shared], severity: Severity) -> Finding:
    gpus = [gpu for group in groups for gpu in group.gpus]
    first = groups[0].link
    if severity == "warning":
        who = f"{', '.join(g.id for g in gpus)} share one {link_words(first)} uplink ({first.id}), unlike their equals"
    else:
        sizes = "/".join(map(str, sorted({len(group.gpus) for group in groups})))
        span = f"{gpus[0].id} to {gpus[-1].id} ({len(gpus)} GPUs)"
        who = f"{span if len(gpus) > 4 else ', '.join(g.id for g in gpus)}, {sizes} on each {link_words(first)} uplink"
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=tuple(gpu.id for gpu in gpus),
        message=f"{who}{'' if severity == 'warning' else ' as built'}, lose at least this while all copy to the host",
        repair="Keep traffic inside the switch; where equals do not share, move the card or restore the second uplink",
        evidence=tuple(line for group in groups for line in link_evidence(group.link, "width")),
        expected_from="equals" if severity == "warning" else None,
        patches=tuple(OwnUplink(gpu.id) for gpu in gpus),
        scenarios=(Scenario("gpu-host", gpus[0].id),),
        price_kind="computed",
        covers=frozenset(group.link.id for group in groups) if severity == "warning" else frozenset(),
    )
