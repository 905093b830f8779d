"""
A device's NUMA node is not that of its host bridge's other devices or of its local CPUs, or two inputs differ.

Why it matters: one of the two is wrong, and ranks are bound by it.

Usual cause: firmware tables, a hot-plugged bridge, an override written to numa_node by hand.

Repair: compare with lstopo and the board's manual; correct the BIOS or the override.

Silent when: "GPU NUMA ID" is meant (Grace); cells of the matrix are cut or blank.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.finding import Answer, Finding, NotApplicable, Skip
from topocheck.graph import Device, Topology

ID = "NUM002"
NAME = "numa-disagrees"


def check(node: Topology) -> Iterator[Answer]:
    """Each device against its host bridge's others, then inputs against each other."""
    devices = [d for d in (*node.gpus, *node.nics) if d.numa_node is not None]
    if not devices:
        none = not node.gpus and not node.nics
        yield NotApplicable("no GPU or NIC in the input") if none else Skip("no NUMA node of a GPU or NIC in the input")
        return
    by_root: dict[str, list[Device]] = {}
    for device in devices:
        if device.bdf and (root := list(node.climb(device.bdf))[-1]).startswith("root:"):
            by_root.setdefault(root, []).append(device)
    told: set[str] = set()
    for root, below in by_root.items():
        odd = [d for d in below if d.numa_node != _of_root(node, root, d)]
        for device in odd:
            told.add(device.id)
            yield _finding(device, f"not {_of_root(node, root, device)} as the others below its host bridge")
    for device in devices:
        if device.id not in told and (near := _of_cpus(node, device)) not in (None, device.numa_node):
            told.add(device.id)
            yield _finding(device, f"but its local CPUs are those of node {near}", "local_cpulist")
    for differ in node.disagreements:
        if differ.field == "numa_node" and differ.subject not in told:
            other = next((f"{value} in {source}" for value, source in differ.values if value != differ.used), "")
            yield _finding(node.by_id[differ.subject], f"but {other}")


def _of_cpus(node: Topology, device: Device) -> int | None:
    """The NUMA node that has exactly the CPUs which the kernel calls local to the device."""
    cpus = device.pci.local_cpus if device.pci else None
    return next((n.id for n in node.numa_nodes if cpus and n.cpus == cpus), None)


def _of_root(node: Topology, root: str, device: Device) -> int | None:
    """The NUMA node of the host bridge's other functions, whatever they are; the device's own if none states one."""
    others = [
        f.numa_node
        for f in node.functions.values()
        if f.bdf != device.bdf and f.numa_node is not None and root in node.climb(f.bdf)
    ]
    return max(sorted(set(others)), key=others.count) if others else device.numa_node


def _finding(device: Device, what: str, seen_in: str = "NUMA node") -> Finding:
    line = device.lines.get(seen_in) or device.lines.get("NUMA node") or device.lines.get("header")
    return Finding(
        rule=ID,
        name=NAME,
        severity="info",
        subjects=(device.id,),
        message=f"{device.id}'s NUMA node is {device.numa_node}, {what}",
        repair="Compare with lstopo and the board's manual; correct the BIOS table or the override",
        evidence=(line,) if line else (),
        effect="none",
    )
