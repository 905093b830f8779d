"""
The driver cannot use a GPU or a compute NIC that the bus has.

Why it costs: no job can run on the GPU; a NIC without driver carries nothing.

Usual cause: driver and library versions differ after an update, the module was not loaded or not built for this
kernel, nouveau took the GPU, the BIOS did not assign its BARs.

Repair: load or reinstall the driver and reboot; for BARs enable "Above 4G decoding" (and Resizable BAR) in the BIOS.

Silent when: the function is bound to vfio-pci (passed through), is an audio, USB or management function, or a virtual
function not assigned; or the input states no driver.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.facts import Evidence, PciFunction
from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip
from topocheck.graph import Topology
from topocheck.hardware.pci_ids import is_gpu

ID = "GPU003"
NAME = "driver-unusable"


def check(node: Topology) -> Iterator[Answer]:
    """The driver's own refusal, then each GPU's and compute NIC's binding and BARs."""
    gpus = [f for f in node.functions.values() if is_gpu(f) and not f.dead and not _passed_through(f)]
    nics = [n.pci for n in node.compute_nics if n.pci and not n.is_vf and not _passed_through(n.pci)]
    refusal = node.machine.driver_error
    if not gpus and not nics and not refusal:
        no_device = not node.devices
        yield NotApplicable("no GPU or NIC in the input") if no_device else Skip("no driver or BAR in the input")
        return
    if refusal and (gpus or not node.functions):
        yield _refused(node, refusal)
    for function in gpus:
        yield from _of_function(node, function, "error", ("nvidia",))
    for function in nics:
        yield from _of_function(node, function, "warning", ())


def _passed_through(function: PciFunction) -> bool:
    return "vfio" in (function.driver or "")


def _refused(node: Topology, refusal: str) -> Finding:
    line = node.machine.driver_error_line
    return Finding(
        rule=ID,
        name=NAME,
        severity="error",
        subjects=tuple(g.id for g in node.gpus),
        message=f"the NVIDIA driver cannot be used: {refusal}; no job can run on a GPU",
        repair="Load the driver that matches the libraries (reboot after an update); look into the kernel log for NVRM",
        evidence=(line,) if line else (),
        effect="stops",
    )


def _of_function(
    node: Topology, function: PciFunction, severity: Severity, wanted: tuple[str, ...]
) -> Iterator[Finding]:
    subject = node.by_id[function.bdf].id if function.bdf in node.by_id else function.bdf
    kind = "GPU" if severity == "error" else "NIC"
    if function.driver_shown and (function.driver is None or (wanted and function.driver not in wanted)):
        by = f"bound to {function.driver}" if function.driver else "bound to no driver"
        yield _finding(subject, severity, f"is a {kind} {by}", "Load the driver for it and reboot if need be", function,
                       "Kernel driver in use")  # fmt: skip
    if function.bars_unassigned:
        alike = severity == "error" and not _usable_equal(node, function)
        yield _finding(subject, "warning" if alike else severity,
                       f"is a {kind} whose memory BARs are disabled or unassigned",
                       "Enable Above 4G decoding in the BIOS, or give the bridge above more address space", function,
                       "Region")  # fmt: skip


def _usable_equal(node: Topology, function: PciFunction) -> bool:
    """At least two other GPUs have their BARs: then this one's are the fault, not the machine's address space."""
    others = [f for f in node.functions.values() if is_gpu(f) and f.bdf != function.bdf]
    good = sum(not f.bars_unassigned for f in others)
    return good >= 2 and 2 * good >= len(others)


def _finding(subject: str, severity: Severity, what: str, repair: str, function: PciFunction, key: str) -> Finding:
    lines: list[Evidence] = [line for name, line in function.lines.items() if name.startswith(key)]
    if header := function.lines.get("header"):
        lines.append(header)
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=(subject,),
        message=f"{subject} {what}; no job can use it",
        repair=repair,
        evidence=tuple(lines[:1]),
        effect="stops",
    )
