"""
The IOMMU translates the DMA of GPUs that copy to each other over PCIe.

Why it matters: NVIDIA's driver hands out physical bus addresses for peer-to-peer; translated, a copy reads or writes
the wrong memory, hangs, or is blocked (NCCL's troubleshooting guide, "PCI Access Control Services"; CUDA's guide on
IOMMU on Linux).

Usual cause: the IOMMU on with the distribution's default, without `iommu=pt`.

Repair: boot with `iommu=pt` (identity for host drivers), or switch the IOMMU off in the BIOS.

Silent when: the type is identity, or there is no group; on Grace; in a VM; the type was not read: a kernel command line
alone does not say what came of it. All pairs on NVLink: info, GPUDirect RDMA then is correct but goes by the root.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from topocheck.facts import Evidence
from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip
from topocheck.graph import Device, Topology
from topocheck.nvlink import on_nvlink
from topocheck.patches import SetPci

ID = "P2P003"
NAME = "iommu-translates"
_TRANSLATES = ("DMA", "DMA-FQ")  # Linux Documentation/ABI/testing/sysfs-kernel-iommu_groups


def check(node: Topology) -> Iterator[Answer]:
    """The type of each GPU's IOMMU group against the pairs that use PCIe peer-to-peer."""
    if len(node.gpus) < 2 or node.machine.virtual or any(g.part and g.part.c2c for g in node.gpus):
        yield NotApplicable("fewer than two GPUs, a VM, or Grace")
        return
    types = {g.id: g.pci.iommu_type for g in node.gpus if g.pci and g.pci.iommu_type}
    if not types:
        yield Skip("no IOMMU group type in the input (/sys/bus/pci/devices/*/iommu_group/type)")
        return
    translated = [g for g in node.gpus if types.get(g.id) in _TRANSLATES]
    if not translated:
        return
    ids = {g.id for g in translated}
    pairs = [(a, b) for a, b in combinations(node.gpus, 2) if a.id in ids or b.id in ids]
    by_pcie = [pair for pair in pairs if not on_nvlink(node, *pair)]
    if not by_pcie:
        yield _finding(translated, "info", "all pairs copy over NVLink, GPUDirect RDMA goes by the root")
        return
    ok = [pair for pair in by_pcie if _p2p_ok(node, *pair)]
    if not ok and not node.p2p_read_write:
        yield Skip("no nvidia-smi topo -p2p r or w: not known whether GPUs copy over PCIe", partial=True)
    if ok:
        faults = _faults(node)
        said = f"{len(ok)} pairs copy to each other over PCIe" + (
            ", and it has refused one of their accesses" * bool(faults)
        )
        using = [g for g in translated if any(g.id in (a.id, b.id) for a, b in ok)]
        yield _finding(using, "error" if faults else "warning", said, faults)


def _p2p_ok(node: Topology, a: Device, b: Device) -> bool:
    keys = ((a.id.upper(), b.id.upper()), (b.id.upper(), a.id.upper()))
    cells = [m.cells.get(key) for m in node.p2p_read_write for key in keys]
    return "OK" in cells and not set(cells) - {"OK", None}


def _faults(node: Topology) -> tuple[Evidence, ...]:
    """DMAR and IO_PAGE_FAULT lines of this boot that name a GPU."""
    gpus = {g.bdf for g in node.gpus}
    return tuple(e.line for e in node.events if e.kind == "iommu-fault" and e.bdf in gpus)


def _finding(gpus: list[Device], severity: Severity, said: str, faults: tuple[Evidence, ...] = ()) -> Finding:
    kind = ", ".join(sorted({g.pci.iommu_type or "" for g in gpus if g.pci}))
    types = tuple(line for g in gpus[:1] if (line := g.lines.get("iommu_group/type")))
    return Finding(
        rule=ID,
        name=NAME,
        severity=severity,
        subjects=tuple(g.id for g in gpus),
        message=f"{', '.join(g.id for g in gpus)} have their DMA translated by the IOMMU ({kind}): {said}",
        repair="Boot with iommu=pt, or switch the IOMMU off in the BIOS",
        evidence=(*types, *faults[-1:]),
        effect="none" if severity == "info" else "corrupts",
        patches=tuple(SetPci(g.bdf or "", "iommu_type", "identity") for g in gpus),
        covers=frozenset() if severity == "info" else frozenset(g.id for g in gpus),  # an info explains no warning
    )
