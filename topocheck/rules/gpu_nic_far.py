"""
A GPU reaches its nearest compute NIC only through the CPU, while others have one on their PCIe switch.

Why it costs: NCCL leaves GPUDirect RDMA off at PHB and beyond; the data is staged in host memory.

Usual cause: a NIC in a slot of another switch or directly on the CPU.

Repair: move the NIC under the GPU's switch. Where all GPUs are alike it is the design: NCCL_NET_GDR_LEVEL=PHB may help.

Silent when: PXB against PIX; on Grace (NODE is the nearest there is); a VM shows a flat tree; alike for all: one info;
the node's only place with compute NICs is on the other socket (info).
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.finding import Answer, Finding, NotApplicable, Severity
from topocheck.graph import RANK, Topology
from topocheck.guards import placed_in_part, unplaced
from topocheck.hardware.network import FAR_BRIDGE_LOSS
from topocheck.model import Scenario
from topocheck.nearness import Service, on_other_socket, one_place, row_of, services
from topocheck.patches import AddNic, MoveNic

ID = "AFF002"
NAME = "gpu-nic-far"


def check(node: Topology) -> Iterator[Answer]:
    """Each GPU's nearest compute NIC: on its switch or through the CPU."""
    if silence := unplaced(node):
        yield silence
        return
    if part := placed_in_part(node):
        yield part
    served = [s for s in services(node) if not (s.gpu.part and s.gpu.part.c2c)]
    if not served:
        yield NotApplicable("Grace: NODE is the nearest there is")
        return
    far = [s for s in served if not s.local]
    if far and len(far) == len(served):
        yield _alike(node, far)
    elif 2 * (len(served) - len(far)) >= len(node.gpus):
        for service in far:
            elsewhere = one_place(node) and on_other_socket(node, service.gpu, service.nearest[0])
            yield _finding(node, service, "info" if elsewhere else "warning")


def _finding(node: Topology, service: Service, severity: Severity) -> Finding:
    gpu, nic = service.gpu, (service.own or service.nearest)[0]
    what = f"has its nearest compute NIC, {nic.id}, only at {service.cls}, where GPUDirect RDMA is off"
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=(gpu.id,),
        message=f"{gpu.id} {what}",
        alike=what,
        repair=f"Move {nic.id} under {gpu.id}'s switch" if service.own else f"Add a NIC under {gpu.id}'s switch",
        evidence=row_of(node, gpu, nic),
        expected_from="equals",
        patches=(MoveNic(gpu.id, nic.id) if service.own else AddNic(gpu.id, nic.id),),
        scenarios=(Scenario("gpu-nic", gpu.id),),
        price_kind="typical",
        loss_range=FAR_BRIDGE_LOSS,
        covers=frozenset({gpu.id}),
    )


def _alike(node: Topology, far: list[Service]) -> Finding:
    built = node.platform.gpu_nic_class if node.platform else None
    nearer = RANK[built] < RANK[far[0].cls]
    by_platform = f" ({node.platform.name} has them at {built})" if node.platform and nearer else ""
    return Finding(
        rule=ID,
        name=NAME,
        severity="info",
        subjects=tuple(s.gpu.id for s in far),
        message=f"no GPU has a compute NIC nearer than {far[0].cls}{by_platform}: "
        "NCCL leaves GPUDirect RDMA off at PHB and beyond",
        repair=f"{'Look for what hides or moves the NICs' if nearer else 'As built'}; NCCL_NET_GDR_LEVEL=PHB (or SYS) "
        "may turn GPUDirect RDMA on if the CPU's root ports bear it",
        evidence=row_of(node, far[0].gpu),
        effect="none",
        expected_from="platform" if nearer else None,
        covers=frozenset(s.gpu.id for s in far),
    )
