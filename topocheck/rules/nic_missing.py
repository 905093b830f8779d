"""
A compute NIC is gone: a minority of the GPUs has none, or a NIC function has no RDMA device.

Why it costs: the GPU shares another's NIC; the node has one NIC less, and a rail is broken.

Usual cause: the card fell off the bus, a slot without power, a driver that did not bind.

Repair: look for the card in lspci and the kernel log; reseat it, load the driver.

Silent when: the node has fewer NICs than GPUs by design; a container or VM was given a part; no NIC is listed at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from topocheck.build.pci import is_vf
from topocheck.facts import PciFunction
from topocheck.finding import Answer, Finding, NotApplicable
from topocheck.graph import Topology
from topocheck.hardware.pci_ids import is_rdma_nic
from topocheck.model import Scenario
from topocheck.nearness import flat_tree, row_of, services, why_not
from topocheck.patches import AddNic

ID = "NET005"
NAME = "nic-missing"


def check(node: Topology) -> Iterator[Answer]:
    """Functions of the compute kind without an RDMA device; GPUs without a NIC while most have their own."""
    reason = why_not(node)
    if reason:
        yield NotApplicable(reason)
        return
    unbound = _unbound(node)
    for function in unbound:
        yield _unbound_finding(node, function)
    if flat_tree(node) or unbound:
        return
    without = without_own(node)
    if without and 2 * len(without) < len(node.gpus):
        yield _finding(node, without)


def without_own(node: Topology) -> list[str]:
    """GPUs that the assignment leaves without a NIC, all NICs being on some GPU's switch; none where it gives none, or
    where a cut matrix hides which NICs some GPU has."""
    if len(node.compute_nics) >= len(node.gpus) or len(services(node)) < len(node.gpus) or _shared_alike(node):
        return []
    return [g.id for g in node.gpus if not node.assignment.get(g.id)]


def _shared_alike(node: Topology) -> bool:
    """Every GPU has the same share of the NICs nearest to it, or as many at the same distance (two beside each CPU):
    fewer NICs than GPUs by design."""
    served = services(node)
    near = [frozenset(n.id for n in s.nearest) for s in served]
    shares = {Fraction(len(nics), near.count(nics)) for nics in near}
    return len(shares) == 1 or len({(s.cls, len(s.nearest)) for s in served}) == 1


def _unbound(node: Topology) -> list[PciFunction]:
    """Functions of the compute NICs' part that no RDMA device names, where every RDMA device names its function."""
    named = [n for n in node.compute_nics if n.ports]
    if not named or any(n.pci is None for n in named) or any("ascending order" in a for a in node.assumptions):
        return []
    parts = {n.pci_id for n in named}
    taken = {n.bdf for n in node.nics}
    return [
        f
        for f in node.functions.values()
        if is_rdma_nic(f) and not is_vf(f) and f.bdf not in taken and f"{f.vendor_id}:{f.device_id}" in parts
    ]


def _unbound_finding(node: Topology, function: PciFunction) -> Finding:
    line = function.lines.get("header")
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning",
        subjects=(function.bdf,),
        message=f"{function.bdf} is a card of the compute kind, but no RDMA device stands for it",
        repair="Load its driver (mlx5_core, mlx5_ib) and look into the kernel log why it did not bind",
        evidence=(line,) if line else (),
        expected_from="equals",
        price_kind="unknown",
    )


def _finding(node: Topology, without: list[str]) -> Finding:
    like = node.compute_nics[0].id
    one = len(without) == 1
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning",
        subjects=tuple(without),
        message=f"{', '.join(without)} {'has' if one else 'have'} no compute NIC of {'its' if one else 'their'} own, "
        f"{len(node.gpus) - len(without)} GPUs have one",
        repair="Look for the card in lspci and the kernel log; reseat it, load its driver",
        evidence=row_of(node, node.by_id[without[0]]),
        expected_from="equals",
        patches=tuple(AddNic(gpu, like) for gpu in without),
        scenarios=(Scenario("node-nics"), *(Scenario("gpu-nic", g) for g in without)),
        price_kind="computed",
        covers=frozenset(without),
    )
