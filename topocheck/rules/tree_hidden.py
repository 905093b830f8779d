"""
The PCIe tree is hidden: every pair of devices is at one distance and no device has a NUMA node.

Why it matters: NCCL cannot tell near NICs from far ones; nor can topocheck.

Usual cause: a VM or container runtime that shows a flat tree and passes no topology file.

Repair: give NCCL the provider's topology file (NCCL_TOPO_FILE, /var/run/nvidia-topologyd/virtualTopology.xml).

Silent when: on bare metal; distances differ, or devices have NUMA nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.finding import Answer, Finding, NotApplicable
from topocheck.graph import Topology
from topocheck.nearness import flat_tree, row_of

ID = "VIRT001"
NAME = "tree-hidden"


def check(node: Topology) -> Iterator[Answer]:
    """A flat tree without NUMA nodes."""
    if len(node.gpus) < 2:
        yield NotApplicable("fewer than two GPUs")
        return
    if node.machine.virtual is False:
        yield NotApplicable("bare metal")
        return
    if flat_tree(node) and all(g.numa_node is None for g in node.gpus):
        yield Finding(
            rule=ID,
            name=NAME,
            severity="info",
            subjects=tuple(g.id for g in node.gpus),
            message="the PCIe tree is hidden: all pairs are at one distance, no NUMA node is shown; distances unknown",
            repair="Give NCCL the provider's topology file (NCCL_TOPO_FILE)",
            evidence=row_of(node, node.gpus[0]),
            effect="none",
        )
