"""
A PCIe switch port sends peer-to-peer traffic up to the root (ACS redirect) although both ends meet in the switch.

Why it costs: traffic between GPU and NIC, or GPU and GPU, climbs the shared uplink and comes back: half of it when both
ways run at once, nothing when one does and the uplink is free; latency doubles.

Usual cause: the kernel switches ACS redirect on together with the IOMMU; a BIOS option; virtualisation once needed it.

Repair: on bare metal switch it off: BIOS (ACS), the IOMMU off or in passthrough, or setpci on the ports at each boot.

Silent when: the pair meets at a host bridge anyway, or only over NVLink; SrcValid, TransBlk or UpstreamFwd alone; the
port forwards translated requests directly (DirectTrans) and the device has ATS on; in a VM, on hosts that pass GPUs
through (vfio), on Grace. Not readable without root.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.facts import PciFunction
from topocheck.finding import Answer, Finding, NotApplicable, Skip
from topocheck.graph import Device, Topology
from topocheck.judging import judged_nics
from topocheck.model import Scenario
from topocheck.nvlink import on_nvlink
from topocheck.patches import SetPci

ID = "P2P002"
NAME = "acs-redirect"
_REDIRECT = frozenset({"ReqRedir", "CmpltRedir", "EgressCtrl"})
_LOSS = (0.0, 0.5)  # prediction.md section 3: both flows cross the uplink, 0.5 both ways, 1.0 one way


def check(node: Topology) -> Iterator[Answer]:
    """Every switch port below which a GPU or NIC meets a partner in the same switch."""
    reason = _why_not(node)
    if reason:
        yield NotApplicable(reason)
        return
    devices = [d for d in (*node.gpus, *judged_nics(node)) if d.bdf and not d.is_vf]
    ports = [(d, port) for d in devices for port in _ports_above(node, d) if _partners(node, d, port, devices)]
    read = [(d, port) for d, port in ports if port.acs_ctl is not None or port.max_payload_bytes is not None]
    if not ports and (not node.whole_pci or _untold(node, devices)):
        denied = any(f.access_denied for f in node.functions.values())
        yield Skip(f"no ACS in the input ({'lspci was run without root' if denied else 'lspci -vv of the machine'})")
    elif len(read) < len(ports):
        yield Skip(f"ACS read at {len(read)} of {len(ports)} switch ports (lspci -vv as root)", partial=bool(read))
    for device, port in read:
        if port.acs_ctl and port.acs_ctl & _REDIRECT and not _direct(device, port):
            yield _finding(device, port, _partners(node, device, port, devices))


def _why_not(node: Topology) -> str | None:
    if len(node.gpus) + len(node.nics) < 2 or not node.gpus:
        return "no pair of a GPU with another GPU or a NIC"
    if node.machine.virtual:
        return "a VM needs ACS"
    if any(g.part and g.part.c2c for g in node.gpus):
        return "on Grace peer traffic goes by the CPU"
    if any(g.pci and (g.pci.driver or "").startswith("vfio") for g in node.gpus):
        return "GPUs are passed through (vfio), which needs ACS"
    return None


def _ports_above(node: Topology, device: Device) -> list[PciFunction]:
    above = (node.functions.get(at) for at in node.climb(device.bdf or ""))
    return [f for f in above if f is not None and f.port_type == "downstream"]


def _untold(node: Topology, devices: list[Device]) -> bool:
    """Whether some bridge above a device does not say what kind of port it is."""
    above = (node.functions.get(at) for d in devices for at in node.climb(d.bdf or ""))
    return any(f is not None and f.is_bridge and f.port_type is None for f in above)


def _partners(node: Topology, device: Device, port: PciFunction, devices: list[Device]) -> list[Device]:
    """Who meets the device in the switch of this port over PCIe: at least one of the two is a GPU."""
    switch = node.parents.get(port.bdf, "")
    found = []
    for other in devices:
        way = list(node.climb(other.bdf or ""))
        one_is_a_gpu = "gpu" in (device.kind, other.kind)
        if switch in way and port.bdf not in way and one_is_a_gpu and not on_nvlink(node, device, other):
            found.append(other)
    return found


def _direct(device: Device, port: PciFunction) -> bool:
    """Translated requests go straight, and the device translates its own."""
    return "DirectTrans" in (port.acs_ctl or ()) and bool(device.pci and device.pci.ats_enabled)


def _finding(device: Device, port: PciFunction, partners: list[Device]) -> Finding:
    bits = sorted((port.acs_ctl or frozenset()) & _REDIRECT)
    said = f"is below a switch port with ACS redirect ({', '.join(bits)}), so peer traffic climbs to the root"
    line = port.lines.get("ACSCtl")
    ends = sorted((device, partners[0]), key=lambda d: d.kind != "gpu")
    pair = Scenario("gpu-pair", ends[0].id, ends[1].id) if ends[1].kind == "gpu" else Scenario("gpu-nic", ends[0].id)
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning",
        subjects=(device.id,),
        message=f"{device.id} {said}",
        alike=said,
        repair="Switch ACS redirect off on bare metal: BIOS, iommu=pt or off, or setpci on the switch ports at boot",
        evidence=(line,) if line else (),
        patches=(SetPci(port.bdf, "acs_ctl", (port.acs_ctl or frozenset()) - _REDIRECT),),
        scenarios=(pair,),
        price_kind="typical",
        loss_range=_LOSS,
        covers=frozenset(d.id for d in (device, *partners) if d.kind == "gpu"),
    )
