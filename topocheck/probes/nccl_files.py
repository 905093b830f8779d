"""What of the machine's files NCCL looks at: peer-memory modules, its own configuration, a topology file."""

from __future__ import annotations

from collections.abc import Iterable

from topocheck.facts import Evidence, Fact, Host
from topocheck.probes import environ
from topocheck.sources.base import Source

INPUT = "/sys/module/nvidia_peermem"

# Where NCCL asks whether a NIC can reach GPU memory by a peer-memory module (facts/nccl_model.md section 5).
_PEERMEM = ("/sys/module/nvidia_peermem/version", "/sys/kernel/mm/memory_peers/nv_mem*/version")
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
    if source.glob(_TOPOLOGY):
        yield Host(_TOPOLOGY, topology_file=_TOPOLOGY)
