"""
The driver cannot use a GPU or a compute NIC that the bus has.

Why it costs: no job can run on the GPU; a NIC without driver carries nothing.

Usual cause: driver and library versions differ after an update, the module was not loaded or not built for this
kernel, nouveau took the GPU, the BIOS did not assign its BARs.

A driver that does not answer in time is a warning; with Xid 79, 119 or 120 in the log it is GPU004.

Repair: load or reinstall the driver and reboot; for BARs enable "Above 4G decoding" (and Resizable BAR) in the BIOS.

Silent when: the function is bound to vfio-pci (passed through), is an audio, USB or management function, or a virtual
function not assigned; or the input states no driver.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.facts import PciFunction
from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip, enough
from topocheck.graph import Topology
from topocheck.hardware.pci_ids import is_gpu
from topocheck.hardware.xids import SILENCING

ID = "GPU003"
NAME = "driver-unusable"


def check(node: Topology) -> Iterator[Answer]:
    """The driver's own refusal, then each GPU's and compute NIC's binding and BARs."""
    gpus = [f for f in node.functions.values() if is_gpu(f) and not f.dead and not _passed_through(f)]
    nics = [n.pci for n in node.compute_nics if n.pci and not n.is_vf and not _passed_through(n.pci)]
    refusal = node.machine.driver_error
    if not gpus and not nics and not refusal and not node.machine.driver_hung:
        no_device = not node.devices
        yield NotApplicable("no GPU or NIC in the input") if no_device else Skip("no driver or BAR in the input")
        return
    if refusal and (gpus or not node.functions):
        yield _refused(node, refusal)
    if node.machine.driver_hung and not _explained(node):
        yield _hung(node, node.machine.driver_hung)
    for function in gpus:
        yield from _of_function(node, function, "GPU", gpus)
    for function in nics:
        yield from _of_function(node, function, "NIC", nics)


def _passed_through(function: PciFunction) -> bool:
    return "vfio" in (function.driver or "")


def _refused(node: Topology, refusal: str) -> Finding:
    """An error where there is a GPU: seen, or proven by a kernel module that is loaded in another version. Otherwise
    the machine may have none (a login node, a container)."""
    line = node.machine.driver_error_line
    proven = bool(node.functions or node.gpus) or "mismatch" in refusal
    return Finding(
        rule=ID,
        name=NAME,
        severity="error" if proven else "info",
        subjects=tuple(g.id for g in node.gpus),
        message=f"the NVIDIA driver cannot be used: {refusal}; "
        + ("no job can run on a GPU" if proven else "whether the machine has a GPU was not seen"),
        repair="Load the driver that matches the libraries (reboot after an update); look into the kernel log for NVRM",
        evidence=(line,) if line else (),
        effect="stops",
    )


def _explained(node: Topology) -> bool:
    """Whether GPU004 says it: an Xid that silences the driver, logged since it was loaded."""
    after = [e for e in node.events if e.kind == "xid" and (e.line.line or 0) >= node.driver_load_line]
    return any(e.number in SILENCING for e in after)


def _hung(node: Topology, what: str) -> Finding:
    line = node.machine.lines.get("driver_hung")
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning",
        subjects=(),
        message=f"the NVIDIA driver did not answer in time ({what}); a job on this node may hang too",
        repair="Look into the kernel log for NVRM and Xid; if it stays so, drain the node and reboot it",
        evidence=(line,) if line else (),
        effect="risks",
    )


def _of_function(node: Topology, function: PciFunction, kind: str, like: list[PciFunction]) -> Iterator[Finding]:
    """BARs first: a driver does not bind to a function without them. Its equals are of its own model."""
    if not function.bars_unassigned and (not function.driver_shown or _bound(function, kind)):
        return
    like = [
        f for f in like if (f.vendor_id, f.device_id, f.name) == (function.vendor_id, function.device_id, function.name)
    ]
    if function.bars_unassigned:
        good = [f for f in like if not f.bars_unassigned]
        repair = "Enable Above 4G decoding in the BIOS, or give the bridge above more address space"
        yield _finding(node, function, kind, "whose memory BARs are disabled or unassigned", repair, good, like)
    elif not (kind == "GPU" and node.machine.driver_error):
        by = f"bound to {function.driver}" if function.driver else "bound to no driver"
        good = [f for f in like if f.driver_shown and _bound(f, kind)]
        yield _finding(node, function, kind, by, "Load the driver for it and reboot if need be", good, like)


def _bound(function: PciFunction, kind: str) -> bool:
    return function.driver == "nvidia" if kind == "GPU" else function.driver is not None


def _finding(
    node: Topology,
    function: PciFunction,
    kind: str,
    what: str,
    repair: str,
    good: list[PciFunction],
    like: list[PciFunction],
) -> Finding:
    """An error where the GPU's equals are usable; what is alike on all is a warning."""
    subject = node.by_id[function.bdf].id if function.bdf in node.by_id else function.bdf
    severity: Severity = "error" if kind == "GPU" and enough(len(good), len(like) - 1) else "warning"
    keys = ("Region", "Kernel driver in use", "header")
    lines = [line for key in keys for name, line in function.lines.items() if name.startswith(key)]
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=(subject,),
        message=f"{subject} is a {kind} {what}; no job can use it",
        repair=repair,
        evidence=tuple(lines[:1]),
        expected_from="equals" if severity == "error" else None,
        effect="stops",
    )
