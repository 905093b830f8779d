"""
A PCIe path uses smaller packets than everything on it can: MaxPayload, or a NIC's MaxReadReq.

Why it costs: each packet carries some 26 bytes of header; 128 instead of 256 bytes of payload cost about 9.5 % of the
link by arithmetic. No measurement of the repair was found, so the price says "calculated". A small read request
throttles what a NIC reads from memory; that loss is not known.

Usual cause: a BIOS that sets 128 bytes for all; a kernel started without `pci=pcie_bus_perf`; a hot-plugged card.

Repair: set MaxPayload and MaxReadReq in the BIOS, or boot with `pci=pcie_bus_perf` (`pcie_bus_safe` for MaxPayload
only); setpci for one NIC's read request.

Silent when: the path's other end was not read; some port on the path can no more; the function is virtual. MaxReadReq
of bridges and switch ports means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.facts import PciFunction
from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip, enough, equals_of
from topocheck.graph import Device, Topology
from topocheck.judging import judged_nics
from topocheck.model import Scenario
from topocheck.patches import SetPayload, SetPci

ID = "PCI006"
NAME = "pcie-payload-small"
LEAST_READ_REQUEST_BYTES = 512  # the PCIe default after reset is 512 (base specification, Device Control register)


def check(node: Topology) -> Iterator[Answer]:
    """Payload in use against the least capability of each whole path; read requests of compute NICs."""
    devices = [d for d in (*node.gpus, *judged_nics(node)) if not d.is_vf and not (d.part and d.part.c2c)]
    if not devices:
        yield NotApplicable("no GPU or compute NIC")
        return
    payloads = {d.id: sizes for d in devices if (sizes := _payloads(node, d))}
    if len(payloads) < len(devices):
        seen = f"{len(payloads)} of {len(devices)} whole paths (lspci -vv as root)"
        yield Skip(f"payload sizes read on {seen}", partial=bool(payloads))
    for device in devices:
        if device.id in payloads and payloads[device.id][0] < payloads[device.id][1]:
            yield _small_payload(node, device, payloads)
        if device.kind == "nic" and (finding := _small_request(node, device)):
            yield finding


def _ends(node: Topology, device: Device) -> list[PciFunction]:
    """Every function with a link end between the device and its root port."""
    ends = {end for link in node.path_up(device) for end in (link.a, link.b)}
    return [f for bdf, f in node.functions.items() if bdf in ends]


def _payloads(node: Topology, device: Device) -> tuple[int, int] | None:
    """What is in use and what all of the path can, bytes; None where an end was not read."""
    ends = _ends(node, device)
    used = [f.payload_bytes for f in ends if f.payload_bytes]
    can = [f.max_payload_bytes for f in ends if f.max_payload_bytes]
    whole = any(f.port_type == "root" for f in ends) and len(used) == len(can) == len(ends)
    return (min(used), min(can)) if whole else None


def _small_payload(node: Topology, device: Device, payloads: dict[str, tuple[int, int]]) -> Finding:
    used, can = payloads[device.id]
    equals = equals_of(node, device)
    better = sum(e.id in payloads and payloads[e.id][0] > used for e in equals)
    severity: Severity = "warning" if enough(better, len(equals)) else "info"
    low = [f for f in _ends(node, device) if f.payload_bytes == used]
    peers = f", {better} of {len(equals)} equals use more" if better else ""
    said = f"uses MaxPayload {used} where its whole path can {can} bytes{peers} (calculated, not measured)"
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=(device.id,),
        message=f"{device.id} {said}",
        alike=None if better else said,
        repair="Set MaxPayload in the BIOS, or boot with pci=pcie_bus_perf",
        evidence=tuple(line for f in low if (line := f.lines.get("DevCtl")))[:1],
        expected_from="equals" if better else "both ends",
        patches=tuple(SetPayload(link.id, can) for link in node.path_up(device)),
        scenarios=(Scenario("gpu-host", device.id) if device.kind == "gpu" else Scenario("nic-host", device.id),),
        price_kind="computed",
    )


def _small_request(node: Topology, nic: Device) -> Finding | None:
    size = nic.pci.read_request_bytes if nic.pci else None
    if size is None or nic.is_vf:
        return None
    equals = equals_of(node, nic)
    larger = [r for e in equals if e.pci and (r := e.pci.read_request_bytes) and r > size]
    odd = enough(len(larger), len(equals))
    if not odd and size >= LEAST_READ_REQUEST_BYTES:
        return None
    wanted = max([LEAST_READ_REQUEST_BYTES, *larger])
    peers = f", {len(larger)} of {len(equals)} equals more" if larger else ""
    line = nic.lines.get("DevCtl")
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning" if odd else "info",
        subjects=(nic.id,),
        message=f"{nic.id} asks for at most {size} bytes a read (MaxReadReq) where {wanted} are usual{peers}",
        repair=f"Set MaxReadReq to {wanted} (BIOS or setpci)",
        evidence=(line,) if line else (),
        expected_from="equals" if larger else None,
        patches=(SetPci(nic.bdf or "", "read_request_bytes", wanted),),
    )
