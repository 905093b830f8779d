"""The IOMMU group of each NVIDIA GPU in sysfs: does the IOMMU translate the GPU's DMA ("DMA", "DMA-FQ") or not
("identity"). Several kinds on one node are all named."""

from __future__ import annotations

from collections.abc import Iterable

from topocheck.facts import Evidence, Fact, Host, PciFunction, full_bdf
from topocheck.sources.base import Source

INPUT = "/sys/kernel/iommu_groups"

_DEVICES = "/sys/bus/pci/devices"
_NVIDIA = "0x10de"
_DISPLAY_CLASS = "0x03"


def read(source: Source) -> Iterable[Fact]:
    """A fact a GPU whose group's type can be read, and one for the host."""
    types: dict[str, str] = {}
    for device in source.glob(f"{_DEVICES}/*"):
        is_gpu = (source.read(f"{device}/class") or "").startswith(_DISPLAY_CLASS)
        if is_gpu and source.read(f"{device}/vendor") == _NVIDIA:
            path = f"{device}/iommu_group/type"
            if kind := source.read(path):
                if bdf := full_bdf(device.rpartition("/")[2]):
                    line = {"iommu_group/type": Evidence(path, None, kind)}
                    yield PciFunction(bdf, _DEVICES, iommu_type=kind, lines=line)
                types.setdefault(kind, path)
    if types:
        kinds = sorted(types)
        yield Host(INPUT, iommu_type=",".join(kinds), line=Evidence(types[kinds[0]], None, kinds[0]))
