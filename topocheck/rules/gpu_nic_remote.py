"""
A GPU's nearest compute NIC is on another CPU socket, while others have one on theirs.

Why it costs: GPUDirect RDMA is lost or crosses the socket link; published runs keep 45 to 65 % of the NIC.

Usual cause: a NIC in a slot of the other socket, a riser in the wrong place, a container given the wrong NIC.

Repair: move the NIC to a slot on the GPU's socket, best under the GPU's own switch; until then bind the job's ranks so
that this GPU does not carry network traffic.

Silent when: the node has one compute NIC; both are on one socket although in different NUMA nodes (NPS, SNC); they
share a switch whatever numa_node says; a VM shows a flat tree; fewer than half of the GPUs have better, or all compute
NICs are one card or in one place (info).
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.finding import Answer, Finding, Severity
from topocheck.graph import Topology
from topocheck.guards import placed_in_part, unplaced
from topocheck.hardware.network import FAR_SOCKET_LOSS
from topocheck.model import Scenario
from topocheck.nearness import Service, on_other_socket, one_place, row_of, services
from topocheck.patches import AddNic, MoveNic

ID = "AFF001"
NAME = "gpu-nic-remote"


def check(node: Topology) -> Iterator[Answer]:
    """Each GPU's nearest compute NIC: across the socket or not."""
    if silence := unplaced(node, "one compute NIC for the node" if len(node.compute_nics) < 2 else None):
        yield silence
        return
    if part := placed_in_part(node):
        yield part
    served = services(node)
    remote = [s for s in served if all(on_other_socket(node, s.gpu, n) for n in s.nearest)]
    near = [s for s in served if any(on_other_socket(node, s.gpu, n) is False for n in s.nearest)]
    severity: Severity = "warning" if 2 * len(near) >= len(node.gpus) and not one_place(node) else "info"
    for service in remote:
        yield _finding(node, service, severity)


def _finding(node: Topology, service: Service, severity: Severity) -> Finding:
    gpu, nic = service.gpu, (service.own or service.nearest)[0]
    what = f"has its nearest compute NIC, {nic.id}, on another socket ({service.cls})"
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=(gpu.id,),
        message=f"{gpu.id} {what}",
        alike=what,
        repair=(
            f"Move {nic.id} to a slot under {gpu.id}'s switch or socket; bind ranks accordingly until then"
            if service.own
            else f"Add a NIC on {gpu.id}'s socket; bind ranks accordingly until then"
        ),
        evidence=row_of(node, gpu, nic),
        confidence="high" if node.has_matrix else "medium",
        expected_from="equals",
        patches=(MoveNic(gpu.id, nic.id) if service.own else AddNic(gpu.id, nic.id),),
        scenarios=(Scenario("gpu-nic", gpu.id),),
        price_kind="typical",
        loss_range=FAR_SOCKET_LOSS,
        covers=frozenset({gpu.id}),
    )
