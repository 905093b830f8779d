"""
The driver cannot use a GPU or a compute NIC that the bus has.

Why it costs: no job can run on the GPU; a NIC without driver carries nothing.

Usual cause: driver and library versions differ after an update, the module was not loaded or not built for this
kernel, nouveau took the GPU, the BIOS did not assign its BARs, the GPU's own firmware does not start.

Repair: load or reinstall the driver and reboot; for BARs enable "Above 4G decoding" (and Resizable BAR) in the BIOS.

Silent when: the function is bound to vfio-pci (passed through), is an audio, USB or management function, or a virtual
function not assigned; or the input states no driver. Alike on all GPUs it is a warning, as for a NIC, for a driver that
does not answer in time and for what only the kernel log says; with Xid 79, 119 or 120 in the log it is GPU004.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from topocheck.facts import Evidence, PciFunction
from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip, enough
from topocheck.graph import Topology
from topocheck.hardware.pci_ids import is_gpu
from topocheck.refused import Refused, explained, refused_gpus

ID = "GPU003"
NAME = "driver-unusable"
_MOST_GPUS = 512  # each is compared with all others; build says where it looked at fewer devices than there are


def check(node: Topology) -> Iterator[Answer]:
    """The driver's own refusal, then each GPU's and compute NIC's binding and BARs."""
    gpus = [f for f in node.functions.values() if is_gpu(f) and not f.dead and not _passed_through(f)][:_MOST_GPUS]
    nics = [n.pci for n in node.compute_nics if n.pci and not n.is_vf and not _passed_through(n.pci)]
    refusal = node.machine.driver_error
    logged = refused_gpus(node)
    if not gpus and not nics and not refusal and not node.machine.driver_hung and not logged:
        no_device = not node.devices
        yield NotApplicable("no GPU or NIC in the input") if no_device else Skip("no driver or BAR in the input")
        return
    if refusal and (gpus or not node.functions):
        yield _refused(node, refusal, logged)
    if node.machine.driver_hung and not explained(node):
        yield _hung(node, node.machine.driver_hung)
    for function in gpus:
        yield from _of_function(node, function, "GPU", gpus)
    yield from (_not_initialised(gpu) for gpu in logged if not refusal and not explained(node))
    for function in nics:
        yield from _of_function(node, function, "NIC", nics)


def _passed_through(function: PciFunction) -> bool:
    return "vfio" in (function.driver or "")


def _refused(node: Topology, refusal: str, logged: list[Refused]) -> Finding:
    """An error where there is a GPU: seen, or proven by a kernel module that is loaded in another version. Otherwise
    the machine may have none (a login node, a container)."""
    proven = bool(node.functions or node.gpus or logged) or "mismatch" in refusal
    then = "no job can run on a GPU" if proven else "whether the machine has a GPU was not seen"
    return _finding(
        "error" if proven else "info",
        tuple(g.id for g in node.gpus) or tuple(subject for gpu in logged for subject in gpu.subjects),
        f"the NVIDIA driver cannot be used ({refusal}); {then}",
        "Load the driver that matches the libraries (reboot after an update); look into the kernel log for NVRM",
        node.machine.driver_error_line,
    )


def _not_initialised(gpu: Refused) -> Finding:
    message = f"the driver cannot use {gpu.name} ({gpu.words}), nor can a job"
    repair = "Read the lines of NVRM in the kernel log; reset the GPU or power-cycle, then look into the BIOS"
    return replace(_finding("warning", gpu.subjects, message, repair, gpu.line), confidence="medium")


def _hung(node: Topology, what: str) -> Finding:
    message = f"the NVIDIA driver did not answer in time ({what}); a job on this node may hang too"
    repair = "Look into the kernel log for NVRM and Xid; if it stays so, drain the node and reboot it"
    line = node.machine.lines.get("driver_hung")
    return replace(_finding("warning", (), message, repair, line), effect="risks")


def _of_function(node: Topology, f: PciFunction, kind: str, all_of_kind: list[PciFunction]) -> Iterator[Finding]:
    """BARs first: a driver does not bind to a function without them. Its equals are of its own model."""
    like = [o for o in all_of_kind if (o.vendor_id, o.device_id, o.name) == (f.vendor_id, f.device_id, f.name)]
    if f.bars_unassigned:
        good, what = [o for o in like if not o.bars_unassigned], "whose memory BARs are disabled or unassigned"
        repair = "Enable Above 4G decoding in the BIOS, or give the bridge above more address space"
    elif f.driver_shown and not _bound(f, kind) and not (kind == "GPU" and node.machine.driver_error):
        good = [o for o in like if o.driver_shown and _bound(o, kind)]
        what = f"bound to {f.driver}" if f.driver else "bound to no driver"
        repair = "Load the driver for it and reboot if need be"
    else:
        return
    subject = node.by_id[f.bdf].id if f.bdf in node.by_id else f.bdf
    severity: Severity = "error" if kind == "GPU" and enough(len(good), len(like) - 1) else "warning"
    shows = ("Region", "Memory at") if f.bars_unassigned else ("Kernel driver in use",)
    line = next((x for key in (*shows, "header") for name, x in f.lines.items() if name.startswith(key)), None)
    found = _finding(severity, (subject,), f"{subject} is a {kind} {what}; no job can use it", repair, line)
    yield replace(found, expected_from="equals" if severity == "error" else None)


def _bound(function: PciFunction, kind: str) -> bool:
    return function.driver == "nvidia" if kind == "GPU" else function.driver is not None


def _finding(level: Severity, subjects: tuple[str, ...], message: str, repair: str, line: Evidence | None) -> Finding:
    return Finding(
        rule=ID,
        name=NAME,
        severity=level,
        subjects=subjects,
        message=message,
        repair=repair,
        evidence=(line,) if line else (),
        effect="stops",
    )
