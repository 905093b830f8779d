"""
The machine has several NUMA nodes, yet the kernel does not say which one a GPU or NIC is on.

Why it matters: CPU pinning and memory placement for the device are guesses.

Usual cause: firmware without a proximity entry (_PXM) for the host bridge; a VM without a virtual topology.

Repair: update the BIOS; in a VM expose the NUMA layout. Bind ranks by measurement until then.

Silent when: the machine has one CPU node; in a VM it is info.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip, equals_of
from topocheck.graph import Device, Topology
from topocheck.judging import judged_nics

ID = "NUM001"
NAME = "numa-unknown"


def check(node: Topology) -> Iterator[Answer]:
    """Devices whose numa_node the kernel gives as -1."""
    devices = [*node.gpus, *judged_nics(node)]
    if not devices:
        yield NotApplicable("no GPU or NIC in the input")
        return
    cpu_nodes = [n for n in node.numa_nodes if n.cpus]
    if len(cpu_nodes) == 1:
        yield NotApplicable("one CPU node")
        return
    if not any(d.pci and (d.numa_unknown or d.pci.numa_node is not None) for d in devices):
        yield Skip("no PCI listing with NUMA nodes in the input")
        return
    unknown = [d for d in devices if d.numa_unknown]
    if unknown and not cpu_nodes:
        yield Skip("number of CPU nodes not in the input")
        return
    for device in unknown:
        yield _finding(node, device)


def _finding(node: Topology, device: Device) -> Finding:
    known = any(e.numa_node is not None for e in equals_of(node, device))
    severity: Severity = "warning" if known and node.machine.virtual is False else "info"
    line = device.lines.get("NUMA node") or device.lines.get("header")
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=(device.id,),
        message=f"{device.id}'s NUMA node is unknown to the kernel (-1)" + (", its equals have one" if known else ""),
        repair="Update the BIOS (ACPI _PXM of the host bridge); in a VM expose the NUMA layout",
        evidence=(line,) if line else (),
        effect="none",
    )
