"""
Two GPUs share one compute NIC although there are as many NICs as GPUs.

Why it costs: one of the two gets half of the shared NIC, or takes its own across the CPU, which carries about half
too; the price counts the second.

Usual cause: a NIC in a slot of another switch; two NICs under one switch and none under its neighbour.

Repair: move its own NIC under the switch of the GPU without its own.

Silent when: the node has fewer NICs than GPUs, alike for all (p4d): info; every pair of GPUs shares alike, or the other
NICs belong to GPUs that are not here (a container with a part of a node): info; idle NICs beyond the same number a GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from topocheck.finding import Answer, Finding, Severity
from topocheck.graph import RANK, SWITCH_LOCAL, Topology
from topocheck.guards import placed_in_part, unplaced
from topocheck.model import Scenario
from topocheck.nearness import Service, on_other_socket, places, row_of, services
from topocheck.patches import MoveNic

ID = "AFF003"
NAME = "gpu-nic-shared"


def check(node: Topology) -> Iterator[Answer]:
    """GPUs whose own NIC is beyond their switch while a NIC of another GPU is on it."""
    if silence := unplaced(node, "one GPU" if len(node.gpus) < 2 else None):
        yield silence
        return
    if len(node.compute_nics) < len(node.gpus):
        yield from _by_design(node)
        return
    served = services(node)
    if part := placed_in_part(node):
        yield part._replace(partial=False)  # no best assignment
        return
    near = {s.gpu.id: _on_switch(node, s) for s in served if s.local}
    sizes = Counter(near.values())
    crowded = {gpu for gpu, nics in near.items() if sizes[nics] > len(nics)}
    elsewhere = _of_gpus_not_here(node, near)
    shares = {(gpus, places(node, nics)) for nics, gpus in sizes.items()}
    all_alike = len(near) == len(node.gpus) <= 2 * len(crowded) and len(shares) == 1
    if all_alike and (elsewhere or len(sizes) > 1):
        gpus, nics = shares.pop()
        what = f"{gpus} GPUs share {nics} NIC{'s' if nics > 1 else ''} on their switch, alike for all"
        yield _note(node, f"{what}: as built, or the other NICs belong to GPUs not seen here")
        return
    for service in served:
        own = [node.pcie_class(service.gpu.id, nic.id) for nic in service.own]
        if service.gpu.id in crowded and own and all(cls and RANK[cls] > SWITCH_LOCAL for cls in own):
            yield _finding(node, service, "info" if elsewhere else "warning")


def _on_switch(node: Topology, service: Service) -> frozenset[str]:
    return frozenset(n.id for n in node.compute_nics if RANK[node.pcie_class(service.gpu.id, n.id)] <= SWITCH_LOCAL)


def _of_gpus_not_here(node: Topology, near: Mapping[str, frozenset[str]]) -> bool:
    """Whether the NICs on no GPU's switch are as many as the GPUs, or on a socket without GPUs: a part of a node."""
    used = frozenset[str]().union(*near.values())
    others = [nic for nic in node.compute_nics if nic.id not in used]
    beyond = all(on_other_socket(node, gpu, nic) for gpu in node.gpus for nic in others)
    return bool(others) and (beyond or len(others) >= len(node.gpus))


def _finding(node: Topology, service: Service, severity: Severity) -> Finding:
    gpu, shared, far = service.gpu, service.nearest[0], service.own[0]
    other = next(iter(node.gpus_of(shared)), None)
    who = f"{gpu.id} and {other}" if other else gpu.id
    assignment = ", ".join(f"{g} {'+'.join(own)}" for g, own in node.assignment.items())
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=(gpu.id, *((other,) if other else ())),
        message=f"{who} share {shared.id} on their switch, {gpu.id}'s own {far.id} is "
        f"{node.pcie_class(gpu.id, far.id)} away and carries about half (best assignment: {assignment})",
        repair=f"Move {far.id} under {gpu.id}'s switch",
        evidence=row_of(node, gpu, far),
        expected_from="equals",
        patches=(MoveNic(gpu.id, far.id),),
        scenarios=(Scenario("node-nics"), Scenario("gpu-nic", gpu.id)),
        price_kind="computed",
        covers=frozenset({gpu.id}),
    )


def _by_design(node: Topology) -> Iterator[Answer]:
    """Every GPU has a NIC on its switch, and several share it alike: as built."""
    served = services(node)
    even = len(node.gpus) % len(node.compute_nics) == 0
    if served and all(s.local for s in served) and len(served) == len(node.gpus) and even:
        yield _note(node, f"{len(node.gpus) / len(node.compute_nics):g} GPUs share a compute NIC, alike for all")


def _note(node: Topology, message: str) -> Finding:
    return Finding(
        rule=ID,
        name=NAME,
        severity="info",
        subjects=tuple(g.id for g in node.gpus),
        message=message,
        repair="As built",
        evidence=row_of(node, node.gpus[0]),
        effect="none",
    )
