"""
A compute NIC is gone: the baseline has it, a minority of the GPUs has none, or a NIC function has no RDMA device.

Why it costs: the GPU shares another's NIC; the node has one NIC less, and a rail is broken.

Usual cause: the card fell off the bus, a slot without power, a driver that did not bind.

Repair: look for the card in lspci and the kernel log; reseat it, load the driver.

Silent when: the node has fewer NICs than GPUs by design; a container or VM was given a part; no NIC is listed at all.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.build.pci import is_vf
from topocheck.facts import PciFunction
from topocheck.finding import Answer, Finding, NotApplicable
from topocheck.graph import Topology
from topocheck.hardware.pci_ids import is_rdma_nic
from topocheck.missing import Gone, gone_nics, without_own
from topocheck.model import Scenario
from topocheck.nearness import flat_tree, row_of, why_not
from topocheck.patches import AddNic

ID = "NET005"
NAME = "nic-missing"


def check(node: Topology) -> Iterator[Answer]:
    """Functions of the compute kind without an RDMA device; GPUs without a NIC while most have their own."""
    if gone := gone_nics(node):
        yield _gone_finding(node, gone)
        return
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


def _gone_finding(node: Topology, gone: Gone) -> Finding:
    without = without_own(node)
    like = node.compute_nics[0].id if node.compute_nics else None
    of = node.expected.before(f"{gone.before} compute NICs")
    return Finding(
        rule=ID,
        name=NAME,
        severity="error",
        subjects=gone.subjects,
        message=f"{gone.words('compute NICs')}: gone, not on the bus{of}",
        repair="Look for the card in the kernel log; reseat it",
        evidence=gone.evidence,
        expected_from="baseline",
        patches=tuple(AddNic(gpu, like) for gpu in without),
        scenarios=(Scenario("node-nics"), *(Scenario("gpu-nic", g) for g in without)),
        price_kind="computed" if without else "unknown",
        covers=frozenset(without),
    )


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
    baseline = node.expected.baseline
    before = baseline is not None and any(d.bdf == function.bdf for d in baseline.compute_nics)
    return Finding(
        rule=ID,
        name=NAME,
        severity="error" if before else "warning",
        subjects=(function.bdf,),
        message=f"{function.bdf} is a card of the compute kind, but no RDMA device stands for it"
        + (node.expected.before("one did") if before else ""),
        repair="Load its driver (mlx5_core, mlx5_ib) and look into the kernel log why it did not bind",
        evidence=(line,) if line else (),
        expected_from="baseline" if before else "equals",
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
