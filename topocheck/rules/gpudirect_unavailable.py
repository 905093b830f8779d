"""
GPUDirect RDMA cannot work: neither a peer-memory module nor dma-buf.

Why it costs: NICs cannot reach GPU memory; every message is copied through host memory, on both nodes.

Usual cause: nvidia_peermem not loaded at boot; the proprietary kernel modules or a kernel before 5.12 rule out dma-buf.

Repair: load nvidia_peermem (after the RDMA drivers), or move to the open kernel modules and a newer kernel.

Silent when: either works; EFA (its own way); in a container (modules are the host's); modules, kernel or driver unread.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.finding import Answer, Finding, NotApplicable, Skip
from topocheck.graph import Topology
from topocheck.hardware.network import NO_GPUDIRECT_LOSS
from topocheck.model import Scenario
from topocheck.nccl import dma_buf
from topocheck.patches import SetField

ID = "AFF004"
NAME = "gpudirect-unavailable"


def check(node: Topology) -> Iterator[Answer]:
    """Modules, kernel and driver of the host."""
    nics = [n for n in node.compute_nics if not n.efa]
    if not node.gpus or not nics:
        yield NotApplicable("no GPU with a compute NIC for GPUDirect RDMA")
        return
    machine = node.machine
    if machine.container:
        yield Skip("in a container: the modules are the host's")
        return
    if machine.peermem or dma_buf(machine):
        return
    if machine.peermem is None or dma_buf(machine) is None:
        unread = "loaded modules" if machine.peermem is None else "kernel version and kind of driver"
        yield Skip(f"{unread} not in the input")
        return
    why = f"kernel {machine.kernel}" if machine.open_driver else "proprietary kernel modules"
    yield Finding(
        rule=ID,
        name=NAME,
        severity="warning",
        subjects=tuple(g.id for g in node.gpus),
        message=f"all {len(node.gpus)} GPUs are without GPUDirect RDMA, as nvidia_peermem is not loaded "
        f"and {why} cannot do dma-buf",
        repair="Load nvidia_peermem at boot (after the RDMA drivers), or use the open kernel modules on kernel 5.12 up",
        evidence=tuple(x for key in ("open_driver", "kernel") if (x := machine.lines.get(key))),
        patches=(SetField("", "peermem", True),),
        scenarios=(Scenario("node-nics"),),
        price_kind="typical",
        loss_range=NO_GPUDIRECT_LOSS,
    )
