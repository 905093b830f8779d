"""
A compute NIC is gone: the baseline has it, a minority of the GPUs has none, or a NIC function has no RDMA device.

Why it costs: the GPU shares another's NIC; the node has one NIC less, and a rail is broken.

Usual cause: the card fell off the bus, a slot without power, a driver that did not bind.

Repair: look for the card in lspci and the kernel log; reseat it, load the driver.

Silent when: the node has fewer NICs than GPUs by design; a container or VM was given a part; no NIC is listed at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from topocheck.as_built import NicsShort, nics_short, unbound_functions
from topocheck.facts import PciFunction
from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip
from topocheck.graph import Topology
from topocheck.hardware.platforms import Platform
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
    unbound = unbound_functions(node)
    for function in unbound:
        yield _unbound_finding(node, function)
    if (short := nics_short(node, len(unbound))) and node.platform:
        yield _short_finding(node, short, node.platform)
        return
    if flat_tree(node) or unbound:
        return
    without = without_own(node)
    if without and any(n.tie_unsure for n in node.compute_nics):
        yield Skip("NICs are tied to PCI functions by order alone, among cards of several models", partial=True)
    elif without and 2 * len(without) < len(node.gpus):
        yield _minority_finding(node, tuple(without))


def _short_finding(node: Topology, short: NicsShort, platform: Platform) -> Finding:
    has = "has" if len(short.gpus) == 1 else "have"
    count = f"{len(node.compute_nics)} compute NICs, {platform.name} has {platform.compute_nics}"
    said = f"{', '.join(short.gpus)} {has} fewer NICs than the others ({count})" if short.gpus else count
    gpus = (short.gpus * short.missing)[: short.missing]
    line = node.machine.lines.get("product")
    rows = row_of(node, node.by_id[short.gpus[0]] if short.gpus else node.gpus[0])
    found = _absent(node, "error", short.gpus, said, gpus)
    return replace(found, evidence=(*rows, *((line,) if line else ())), expected_from="platform")


def _gone_finding(node: Topology, gone: Gone) -> Finding:
    of = node.expected.before(f"{gone.before} compute NICs")
    message = f"{gone.words('compute NICs')}: gone, not on the bus{of}"
    found = _absent(node, "error", gone.subjects, message, tuple(without_own(node)))
    return replace(found, evidence=gone.evidence, expected_from="baseline")


def _minority_finding(node: Topology, without: tuple[str, ...]) -> Finding:
    one = len(without) == 1
    message = (
        f"{', '.join(without)} {'has' if one else 'have'} no compute NIC of {'its' if one else 'their'} own, "
        f"{len(node.gpus) - len(without)} GPUs have one"
    )
    found = _absent(node, "warning", without, message, without)
    return replace(found, evidence=row_of(node, node.by_id[without[0]]), expected_from="equals")


def _absent(
    node: Topology, severity: Severity, subjects: tuple[str, ...], message: str, gpus: tuple[str, ...]
) -> Finding:
    """NICs that are not there; `gpus` are those that lack them, once for each NIC."""
    like = node.compute_nics[0].id if node.compute_nics else None
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=subjects,
        message=message,
        repair="Look for the card in lspci and the kernel log; reseat it, load its driver",
        evidence=(),
        patches=tuple(AddNic(gpu, like) for gpu in gpus),
        scenarios=(Scenario("node-nics"), *(Scenario("gpu-nic", g) for g in dict.fromkeys(gpus))),
        price_kind="computed" if gpus else "unknown",
        covers=frozenset(gpus),
    )


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
