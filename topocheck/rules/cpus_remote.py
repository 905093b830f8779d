"""
This process may run on no CPU of a GPU's NUMA node.

Why it matters: what feeds the GPU (data loading, staging copies, launches) crosses the sockets. How much it costs is
not known.

Usual cause: a CPU mask cut without looking at the GPUs (cgroup, taskset, --cpus-per-task without binding).

Repair: ask for CPUs beside the GPUs (Slurm --gpu-bind, --cpu-bind; `topocheck bind` prints the map).

Silent when: the mask is a prolog's, not the job's; GPU-memory nodes, which have no CPUs; the mask was not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.finding import Answer, Finding, NotApplicable, Skip
from topocheck.graph import Topology
from topocheck.patches import SetField

ID = "AFF005"
NAME = "cpus-remote"


def check(node: Topology) -> Iterator[Answer]:
    """The NUMA nodes of this process's CPUs against those of the GPUs."""
    with_cpus = {n.id for n in node.numa_nodes if n.cpus}
    placed = [g for g in node.gpus if g.numa_node in with_cpus]
    if not placed or len(with_cpus) < 2:
        yield NotApplicable("no GPU on one of several NUMA nodes with CPUs")
        return
    allowed = node.machine.allowed_numa
    if allowed is None:
        yield Skip("no CPU mask in the input")
        return
    remote = [g for g in placed if g.numa_node not in allowed]
    if not remote:
        return
    line = node.machine.lines.get("allowed_cpus")
    ids = ", ".join(g.id for g in remote)
    nodes = ", ".join(map(str, sorted(with_cpus & {g.numa_node for g in remote})))
    yield Finding(
        rule=ID,
        name=NAME,
        severity="info",
        subjects=tuple(g.id for g in remote),
        message=f"{ids}: this process may run on no CPU of NUMA node {nodes} (its CPUs: {node.machine.allowed_cpus})",
        repair="Ask for CPUs on the GPUs' NUMA nodes (Slurm --cpu-bind, taskset)",
        evidence=(line,) if line else (),
        patches=(SetField("", "allowed_numa", frozenset(with_cpus)),),
    )
