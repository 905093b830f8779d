"""
A GPU's BAR1, the window through which others reach its memory, is smaller than the memory.

Why it costs: peer-to-peer and GPUDirect RDMA need the memory mapped; with a 256 MiB window they fail or are staged
through the host. How much is lost depends on the program.

Usual cause: "Above 4G decoding" or resizable BAR off in the BIOS, or too little address space below the host bridge.

Repair: enable Above 4G Decoding (and resizable BAR) in the BIOS; raise MMIO high size; then power-cycle.

Silent when: the part has a 256 MiB window by design (GeForce, T4, Quadro, cards in display mode) and so have its
equals; a vGPU. Without a peer and without a NIC it is an info. A region without any address is GPU003's.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.facts import Evidence
from topocheck.finding import Answer, Finding, NotApplicable, Skip, enough, equals_of
from topocheck.graph import Device, Topology
from topocheck.hardware.gpus import bar1_covers_memory

ID = "PCI008"
NAME = "bar1-small"
_MIB = 1 << 20


def check(node: Topology) -> Iterator[Answer]:
    """BAR1 against the memory size of parts that cover it, and against the equals' BAR1."""
    gpus = [g for g in node.gpus if not (g.gpu and g.gpu.vgpu) and not (g.part and g.part.c2c)]
    read = [g for g in gpus if _bar1(g)]
    if not gpus:
        yield NotApplicable("no GPU with a BAR1 of its own")
    elif len(read) < len(gpus):
        yield Skip(f"BAR1 read of {len(read)} of {len(gpus)} GPUs", partial=bool(read))
    for gpu in read:
        if (size := _bar1(gpu)) and (finding := _finding(node, gpu, size)):
            yield finding


def _bar1(gpu: Device) -> int | None:
    return (gpu.gpu.bar1_bytes if gpu.gpu else None) or (gpu.pci.bar1_bytes if gpu.pci else None)


def _finding(node: Topology, gpu: Device, size: int) -> Finding | None:
    memory = gpu.gpu.memory_bytes if gpu.gpu else None
    equals = equals_of(node, gpu)
    larger = [b for e in equals if (b := _bar1(e)) and b > size]
    odd = enough(len(larger), len(equals))
    short = memory and size < memory and bar1_covers_memory(gpu.part)
    if not short and not odd:
        return None
    than = f"its memory of {memory // _MIB} MiB" if memory and short else f"the {max(larger) // _MIB} MiB of its equals"
    alone = len(node.gpus) < 2 and not node.nics
    return Finding(
        rule=ID,
        name=NAME,
        severity="info" if alone else "warning",
        subjects=(gpu.id,),
        message=f"{gpu.id} has a BAR1 of {size // _MIB} MiB, less than {than}: others reach only part of its memory",
        repair="Enable Above 4G Decoding and resizable BAR in the BIOS, then power-cycle",
        evidence=_evidence(gpu),
        expected_from="equals" if odd else "the part",
    )


def _evidence(gpu: Device) -> tuple[Evidence, ...]:
    return tuple(line for key in ("bar1_bytes", "Region 1", "memory_bytes") if (line := gpu.lines.get(key)))
