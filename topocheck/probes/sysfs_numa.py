"""`/sys/devices/system/node`: NUMA nodes with CPUs, memory, distances, and the socket of their first CPU."""

from __future__ import annotations

import re
from collections.abc import Iterable

from topocheck.facts import Fact, NumaNode
from topocheck.probes.cpu_list import parse_cpus, spell_cpus
from topocheck.sources.base import Source

INPUT = "/sys/devices/system/node"

_KIB_PER_MIB = 1024
_TOTAL = re.compile(r"MemTotal:\s*(\d{1,15}) kB")


def read(source: Source) -> Iterable[Fact]:
    """One fact a node."""
    found = source.glob(f"{INPUT}/node*")
    paths = {int(path[len(INPUT) + 5 :]): path for path in found if path[len(INPUT) + 5 :].isdecimal()}
    cpus = {number: parse_cpus(source.read(f"{path}/cpulist") or "") for number, path in paths.items()}
    packages = {number: _package(source, members) for number, members in cpus.items()}
    # Packages may have any number (ARM firmware tables): sockets are counted in their order.
    sockets = {package: i for i, package in enumerate(sorted({p for p in packages.values() if p is not None}))}
    for number, path in sorted(paths.items()):
        members = cpus[number] if source.read(f"{path}/cpulist") is not None else None
        package = packages[number]
        yield NumaNode(
            INPUT,
            number,
            cpus=None if members is None else spell_cpus(members),
            memory_mib=_memory_mib(source.read(f"{path}/meminfo") or ""),
            socket=None if package is None else sockets[package],
            distances=_distances(source.read(f"{path}/distance") or "", sorted(paths)),
        )


def _package(source: Source, cpus: frozenset[int] | None) -> int | None:
    """The package of a node's first CPU; the kernel writes -1 where it does not know."""
    if not cpus:
        return None
    text = source.read(f"/sys/devices/system/cpu/cpu{min(cpus)}/topology/physical_package_id") or ""
    return int(text[:9]) if text.isdecimal() else None


def _memory_mib(text: str) -> float | None:
    match = _TOTAL.search(text)
    return int(match[1]) / _KIB_PER_MIB if match else None


def _distances(text: str, numbers: list[int]) -> tuple[tuple[int, int], ...]:
    values = [int(value[:5]) for value in text.split() if value.isdecimal()]
    return tuple(zip(numbers, values, strict=True)) if len(values) == len(numbers) else ()
