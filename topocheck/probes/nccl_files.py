"""What of the machine's files NCCL looks at: peer-memory modules, its own configuration, a topology file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from topocheck.facts import Evidence, Fact, Host, full_bdf
from topocheck.probes import environ
from topocheck.sources.base import Source

INPUT = "/sys/module/nvidia_peermem"

# Where NCCL asks whether a NIC can reach GPU memory by a peer-memory module (facts/nccl_model.md section 5).
_PEERMEM = ("/sys/module/nvidia_peermem/version", "/sys/kernel/mm/memory_peers/nv_mem*/version")
_PCI = re.compile(r"<pci\s([^<>]{1,1000})")
_BUS_ID = re.compile(r'\bbusid="([0-9a-fA-F:.]{7,16})"')
_DISPLAY = re.compile(r'\bclass="0x03')
_CONFIGURATION = "/etc/nccl.conf"
_TOPOLOGY = "/var/run/nvidia-topologyd/virtualTopology.xml"


def read(source: Source) -> Iterable[Fact]:
    """One fact a file that is there."""
    for pattern in _PEERMEM:
        for path in source.glob(pattern):
            yield Host(path, peermem=True, line=Evidence(path, None, source.read(path) or ""))
    if text := source.read(_CONFIGURATION):
        for fact in environ.parse(text):
            if isinstance(fact, Host) and fact.nccl_environ and fact.line:
                line = fact.line._replace(input=_CONFIGURATION)
                yield Host(_CONFIGURATION, nccl_environ=fact.nccl_environ, line=line)


def topology(source: Source, facts: Iterable[Fact]) -> Iterator[Fact]:
    """NCCL's topology file: the one that its environment or else its configuration names, else the machine's."""
    named = [(f.witness, dict(f.nccl_environ or ()).get("NCCL_TOPO_FILE")) for f in facts if isinstance(f, Host)]
    named.sort(key=lambda pair: pair[0] == _CONFIGURATION)
    for path in dict.fromkeys((*(file for _, file in named if file and file.startswith("/")), _TOPOLOGY)):
        if path == _TOPOLOGY and source.glob(path):
            yield Host(path, topology_file=path)
        if gpus := _gpus_in(source.read(path) or ""):
            line = Evidence(path, None, f"GPUs at {' '.join(sorted(gpus))}")
            yield Host(path, topology_gpus=gpus, line=line)


def _gpus_in(text: str) -> frozenset[str]:
    """The addresses of the display functions in NCCL's topology XML."""
    elements = (match[1] for match in _PCI.finditer(text))
    found = (_BUS_ID.search(element) for element in elements if _DISPLAY.search(element))
    return frozenset(bdf for match in found if match and (bdf := full_bdf(match[1])))
