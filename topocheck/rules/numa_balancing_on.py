"""
The kernel moves memory between NUMA nodes by itself (kernel.numa_balancing = 1).

Why it costs: it unmaps pages to see who uses them, so pinned buffers and CPU threads of a job stall; on Grace, where
the GPU's memory is a NUMA node, it also moves pages between CPU and GPU. How much depends on the job.

Usual cause: the distribution's default.

Repair: `sysctl kernel.numa_balancing=0`, and the same in /etc/sysctl.d.

Silent when: it is off, or 2 (memory tiering only); the node has no GPU. On Grace it is a warning, else info.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.finding import Answer, Finding, NotApplicable, Skip
from topocheck.graph import Topology
from topocheck.patches import SetField

ID = "NUM003"
NAME = "numa-balancing-on"
_BALANCING = 1  # bit 0 of the sysctl; bit 1 is memory tiering (Linux Documentation/admin-guide/sysctl/kernel.rst)


def check(node: Topology) -> Iterator[Answer]:
    """The sysctl's value."""
    if not node.gpus:
        yield NotApplicable("no GPU in the input")
        return
    value = node.machine.numa_balancing
    if value is None:
        yield Skip("kernel.numa_balancing was not read")
        return
    if value & _BALANCING:
        line = node.machine.lines.get("numa_balancing")
        grace = any(g.part and g.part.c2c for g in node.gpus)
        also = ", and the GPUs' memory takes part" if grace else ""
        yield Finding(
            rule=ID,
            name=NAME,
            severity="warning" if grace else "info",
            subjects=(),
            message=f"kernel.numa_balancing is {value}: the kernel moves memory of jobs between NUMA nodes{also}",
            repair="sysctl kernel.numa_balancing=0, and the same in /etc/sysctl.d",
            evidence=(line,) if line else (),
            patches=(SetField("", "numa_balancing", value & ~_BALANCING),),
        )
