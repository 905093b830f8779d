"""
The PCIe tree is hidden: all pairs are at one distance without a NUMA node, and no topology file of this machine helps.

Why it matters: NCCL cannot tell near NICs from far ones; nor can topocheck.

Usual cause: a VM or container runtime that shows a flat tree and passes no topology file, or one of another machine.

Repair: give NCCL the provider's topology file (NCCL_TOPO_FILE, /var/run/nvidia-topologyd/virtualTopology.xml).

Silent when: on bare metal; distances differ, or devices have NUMA nodes. A platform that needs the file is a warning
without it, where the environment or /etc/nccl.conf was read; so is one whose GPUs have other addresses than this
machine's (where the platform does not need it: info).
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.finding import Answer, Finding, NotApplicable
from topocheck.graph import Device, Topology
from topocheck.nearness import flat_tree, row_of
from topocheck.patches import SetField

ID = "VIRT001"
NAME = "tree-hidden"


def check(node: Topology) -> Iterator[Answer]:
    """A platform that needs a topology file without one; a flat tree without NUMA nodes."""
    if len(node.gpus) < 2:
        yield NotApplicable("fewer than two GPUs")
        return
    if node.machine.virtual is False:
        yield NotApplicable("bare metal")
        return
    if _file_is_missing(node):
        yield _file_finding(node)
    elif strangers := _not_in_file(node):
        yield _other_file(node, strangers)
    elif flat_tree(node) and all(g.numa_node is None for g in node.gpus):
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


def _file_is_missing(node: Topology) -> bool:
    """Only where the input could show it: the environment or nccl.conf was read."""
    environ = node.machine.nccl_environ
    needed = node.platform is not None and node.platform.topology_file
    return bool(needed and environ is not None and "NCCL_TOPO_FILE" not in environ and not node.machine.topology_file)


def _not_in_file(node: Topology) -> list[Device]:
    """The GPUs whose address the topology file that NCCL takes does not have."""
    listed = node.machine.topology_gpus or frozenset()
    named, line = (node.machine.nccl_environ or {}).get("NCCL_TOPO_FILE"), node.machine.lines.get("topology_gpus")
    if named and line and line.input != named:
        return []
    return [gpu for gpu in node.gpus if listed and gpu.bdf and gpu.bdf not in listed]


def _other_file(node: Topology, strangers: list[Device]) -> Finding:
    line = node.machine.lines.get("topology_gpus")
    needed = node.platform is not None and node.platform.topology_file
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning" if needed else "info",
        subjects=tuple(g.id for g in strangers),
        message=f"{', '.join(g.id for g in strangers)} not in NCCL's topology file by address ({strangers[0].bdf}): "
        "NCCL places GPUs by it",
        repair="Give NCCL the topology file of this kind of machine (NCCL_TOPO_FILE)",
        evidence=(line,) if line else (),
        expected_from="platform" if needed else None,
        patches=(SetField("", "topology_gpus", frozenset(g.bdf for g in node.gpus if g.bdf)),),
    )


def _file_finding(node: Topology) -> Finding:
    name = node.platform.name if node.platform else ""
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning",
        subjects=tuple(g.id for g in node.gpus),
        message=f"{name} hides the PCIe tree from NCCL, and no topology file tells it: neither NCCL_TOPO_FILE nor "
        f"virtualTopology.xml",
        repair="Set NCCL_TOPO_FILE to the provider's file (in /etc/nccl.conf for all jobs)",
        evidence=tuple(x for key in ("product", "asset_tag") if (x := node.machine.lines.get(key))),
        expected_from="platform",
        patches=(SetField("", "topology_file", "NCCL_TOPO_FILE"),),
    )
