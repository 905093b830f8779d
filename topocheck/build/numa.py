"""NUMA nodes, and which one each device is on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from topocheck.build.merge import merged
from topocheck.build.pci import chain_of
from topocheck.facts import Matrix, MatrixRow, NumaNode, PciFunction
from topocheck.graph import Device, Disagreement, Numa


def numa_nodes_of(facts: Iterable[NumaNode]) -> tuple[Numa, ...]:
    """The nodes by number, all inputs joined."""
    by_id: dict[int, list[NumaNode]] = {}
    for fact in facts:
        by_id.setdefault(fact.id, []).append(fact)
    joined = (merged(group) for _, group in sorted(by_id.items()))
    return tuple(
        Numa(n.id, n.cpus, n.socket, round(n.memory_mib / 1024, 1) if n.memory_mib is not None else None, n.witness)
        for n in joined
    )


def with_matrix_numa(
    gpus: list[Device], matrix: Matrix | None, nodes: tuple[Numa, ...]
) -> tuple[list[Device], list[Disagreement]]:
    """GPUs with the matrix's NUMA Affinity where PCI says nothing; where both speak and differ, a disagreement."""
    if matrix is None:
        return gpus, []
    known, differ = [], []
    for gpu in gpus:
        row = matrix.rows.get(gpu.id.upper())
        said = _one_node(row, nodes)
        if said is None:
            known.append(gpu)
        elif gpu.numa_node is None:
            known.append(replace(gpu, numa_node=said, numa_from=matrix.witness))
        else:
            known.append(gpu)
            if said != gpu.numa_node:
                values = ((gpu.numa_node, gpu.numa_from or "lspci -vv"), (said, matrix.witness))
                differ.append(Disagreement(gpu.id, "numa_node", values, gpu.numa_node))
    return known, differ


def _one_node(row: MatrixRow | None, nodes: tuple[Numa, ...]) -> int | None:
    """The CPU node of a row. On Grace the cell lists GPU memory nodes too ("0,3-9,11-17"): the one that has CPUs."""
    if row is None or row.numa is None or not re.fullmatch(r"[\d,-]+", row.numa):
        return None
    listed = expand(row.numa)
    if len(listed) == 1:
        return listed[0]
    with_cpus = [n.id for n in nodes if n.id in listed and n.cpus]
    if len(with_cpus) == 1:
        return with_cpus[0]
    return min(listed) if row.gpu_numa not in (None, "N/A") else None


def expand(text: str, most: int = 4096) -> list[int]:
    """The numbers of a list in the kernel's form, "0-3,8" → 0 1 2 3 8.

    >>> expand("0-3,8")
    [0, 1, 2, 3, 8]
    """
    numbers: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        if low.isdigit() and (not high or high.isdigit()):
            numbers.extend(range(int(low), min(int(high or low), int(low) + most) + 1))
    return numbers


def numa_of_roots(functions: Mapping[str, PciFunction], parents: Mapping[str, str]) -> dict[str, int]:
    """Host bridge → the NUMA node that most functions below it state."""
    votes: dict[str, list[int]] = {}
    for bdf, function in functions.items():
        if function.numa_node is not None:
            top = chain_of(bdf, parents)[-1]
            if top.startswith("root:"):
                votes.setdefault(top, []).append(function.numa_node)
    return {root: max(sorted(set(seen)), key=seen.count) for root, seen in votes.items()}
