"""
A NIC is gone: it does not answer, the platform or baseline has it, few GPUs have none, or no RDMA device is there.

Why it costs: the GPU shares another's NIC; the node has one NIC less, and a rail is broken.

Usual cause: the card fell off the bus, a slot without power, a driver that did not bind.

Repair: look for the card in lspci and the kernel log; reseat it, load the driver.

Silent when: fewer NICs than GPUs are the design; a container or VM was given a part; no input lists NICs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from topocheck.absent import priced
from topocheck.as_built import NicsShort, nics_short, silent_functions, unbound_functions
from topocheck.facts import Evidence, PciFunction
from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip
from topocheck.graph import Topology
from topocheck.hardware.platforms import Platform
from topocheck.missing import Gone, gone_nics, without_own
from topocheck.nearness import flat_tree, row_of, why_not

ID = "NET005"
NAME = "nic-missing"
Names = tuple[str, ...]
Lines = tuple[Evidence, ...]
_BIND = "Load its driver (mlx5_ib, efa) and look into the kernel log why it did not bind"
_REPAIR = "Look for the card in lspci and the kernel log; reseat it, load its driver"


def check(node: Topology) -> Iterator[Answer]:
    """Dead cards; functions of the compute kind without an RDMA device; GPUs without a NIC while most have one."""
    for nic in (n for n in node.nics if n.pci and n.pci.dead and not n.is_vf):
        message, lines = f"{nic.id} is gone: its config space reads all ones (rev ff)", _lines(nic.lines.get("header"))
        yield _absent(node, "warning", (nic.id,), message, (), lines, None)
    if gone := gone_nics(node):
        yield _gone_finding(node, gone)
    elif reason := why_not(node):
        yield _none(node, reason)
    elif silent := silent_functions(node):
        yield _unbound_finding(node, silent)
    else:
        yield from _of_some(node)


def _none(node: Topology, reason: str) -> Answer:
    """No NIC at all: said where the platform has some, and the list of the bus is whole."""
    platform = node.platform
    wanted = platform.compute_nics if platform and node.gpus and not node.nics and not node.machine.container else None
    if platform is None or not wanted:
        return NotApplicable(reason)
    if not node.whole_pci:
        return Skip(f"{reason}, and no whole list of the bus: whether the {wanted} of {platform.name} are there")
    given = platform.launch or bool(node.machine.virtual)
    message = f"no RDMA NIC is on the bus, {platform.name} has {wanted}{' if attached at its launch' * given}"
    lines = _lines(node.machine.lines.get("product"))
    return _absent(node, "info" if given else "error", (), message, (), lines, "platform")


def _of_some(node: Topology) -> Iterator[Answer]:
    unbound = unbound_functions(node)
    yield from (_unbound_finding(node, [function]) for function in unbound)
    if (short := nics_short(node, len(unbound))) and node.platform:
        yield _short_finding(node, short, node.platform)
        return
    if flat_tree(node) or unbound:
        return
    without = tuple(without_own(node))
    if without and any(n.tie_unsure for n in node.compute_nics):
        yield Skip("NICs are tied to PCI functions by order alone, among cards of several models", partial=True)
    elif without and 2 * len(without) < len(node.gpus):
        one, have = len(without) == 1, len(node.gpus) - len(without)
        whose = "has no compute NIC of its own" if one else "have no compute NIC of their own"
        message = f"{', '.join(without)} {whose}, {have} GPUs have one"
        yield _absent(node, "warning", without, message, without, row_of(node, node.by_id[without[0]]), "equals")


def _short_finding(node: Topology, short: NicsShort, platform: Platform) -> Finding:
    has = "has" if len(short.gpus) == 1 else "have"
    count = f"{len(node.compute_nics)} compute NICs, {platform.name} has {platform.compute_nics}"
    said = f"{', '.join(short.gpus)} {has} fewer NICs than the others ({count})" if short.gpus else count
    gpus = (short.gpus * short.missing)[: short.missing]
    rows = row_of(node, node.by_id[short.gpus[0]] if short.gpus else node.gpus[0])
    lines = _lines(*rows, node.machine.lines.get("product"))
    return _absent(node, "error", short.gpus, said, gpus, lines, "platform")


def _gone_finding(node: Topology, gone: Gone) -> Finding:
    before = node.expected.before(f"{gone.before} compute NICs")
    message = f"{gone.words('compute NICs')}: gone, not on the bus{before}"
    return _absent(node, "error", gone.subjects, message, tuple(without_own(node)), gone.evidence, "baseline")


def _absent(
    node: Topology, severity: Severity, subjects: Names, message: str, gpus: Names, lines: Lines, by: str | None
) -> Finding:
    found = Finding(ID, NAME, severity, subjects, message, _REPAIR, lines, price_kind="computed", expected_from=by)
    return priced(found, node, gpus)


def _unbound_finding(node: Topology, functions: list[PciFunction]) -> Finding:
    baseline, names = node.expected.baseline, tuple(f.bdf for f in functions)
    before = baseline is not None and any(d.bdf in names for d in baseline.compute_nics)
    two = f"{names[0]} and {names[-1]}: " * (len(names) == 2)
    many = f"{two}no RDMA device stands for any of the {len(names)} compute NICs on the bus"
    one = f"{names[0]} is a card of the compute kind, but no RDMA device stands for it"
    message = (many if names[1:] else one) + node.expected.before("one did") * before
    lines = _lines(node.machine.lines.get("no_rdma_device"), functions[0].lines.get("header"))
    found = _absent(node, "warning", names, message, (), lines, "baseline" if before else "equals")
    if node.machine.no_rdma_device:  # the cards are there: another network namespace may hold their devices
        return replace(found, repair=f"{_BIND}; see that no other network namespace has it", confidence="medium")
    return replace(found, repair=_BIND, severity="error" if before else "warning")


def _lines(*lines: Evidence | None) -> tuple[Evidence, ...]:
    return tuple(line for line in lines if line)
