"""
A GPU or compute NIC may not use PCIe relaxed ordering, while its equals may.

Why it costs: writes then wait for each other on their way to memory; 15 of 47 GB/s were seen on one machine
(FAULT-25), nothing on others. The loss cannot be computed from the topology.

Usual cause: a BIOS setting for one slot or root port, a NIC whose PCI_WR_ORDERING is not its equals', a kernel quirk
for a root port that orders badly.

Repair: enable it where the equals have it: BIOS (PCIe Relaxed Ordering), `mlxconfig -d DEV set PCI_WR_ORDERING=1`.

Silent when: it is a bridge, a root port or a virtual function, or has no equal on the node. Off on all alike: info.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.finding import Answer, Finding, NotApplicable, Skip, enough, equals_of
from topocheck.graph import Device, Topology
from topocheck.judging import judged_nics
from topocheck.patches import SetPci

ID = "PCI009"
NAME = "relaxed-ordering-off"


def check(node: Topology) -> Iterator[Answer]:
    """DevCtl's RlxdOrd of each device against its equals'."""
    devices = [d for d in (*node.gpus, *judged_nics(node)) if not d.is_vf and not (d.part and d.part.c2c)]
    read = [d for d in devices if d.pci and d.pci.relaxed_ordering is not None]
    if not devices:
        yield NotApplicable("no GPU or compute NIC")
    elif len(read) < len(devices):
        yield Skip(f"DevCtl read of {len(read)} of {len(devices)} devices (lspci -vv as root)", partial=bool(read))
    for device in read:
        if device.pci and not device.pci.relaxed_ordering and equals_of(node, device):
            yield _finding(node, device)


def _finding(node: Topology, device: Device) -> Finding:
    equals = equals_of(node, device)
    on = sum(bool(e.pci and e.pci.relaxed_ordering) for e in equals)
    odd = enough(on, len(equals))
    said = "has PCIe relaxed ordering off" + (f", {on} of {len(equals)} equals have it on" if on else "")
    line = device.lines.get("RlxdOrd") or device.lines.get("DevCtl")
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning" if odd else "info",
        subjects=(device.id,),
        message=f"{device.id} {said}",
        alike=None if on else said,
        repair="Enable relaxed ordering: BIOS, or mlxconfig PCI_WR_ORDERING=1 for a NIC",
        evidence=(line,) if line else (),
        expected_from="equals" if on else None,
        patches=(SetPci(device.bdf or "", "relaxed_ordering", True),),
    )
