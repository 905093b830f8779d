"""What two nodes say is never joined: where one input contradicts itself about who is who, its first answer stays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TypeVar

from topocheck.build.said import Said
from topocheck.facts import Gap, GpuState, Matrix, NvlinkGpu, RdmaDevice
from topocheck.probes.lines import TWO_NODES

_Fact = TypeVar("_Fact", GpuState, NvlinkGpu, RdmaDevice)
_Names = Iterator[tuple[Hashable, Hashable]]


def keep_first_node(said: Said) -> None:
    """Drops what a second node said, with a gap: GPUs and NICs of one number or name and another identity, and whole
    matrices of other GPUs."""
    said.gpus = _of_first(said.gpus, _gpu_names, said.gaps)
    said.nvlinks = _of_first(said.nvlinks, _nvlink_names, said.gaps)
    said.rdma = _of_first(said.rdma, _rdma_names, said.gaps)
    alike = [matrix for matrix in said.matrices if _may_be_one(said.matrices[0], matrix)]
    if len(alike) < len(said.matrices):
        said.gaps.append(_gap(said.matrices[0].witness))
    said.matrices = alike


def _gpu_names(gpu: GpuState) -> _Names:
    if gpu.index is not None and gpu.bdf:
        yield ("index", gpu.index), gpu.bdf
    if gpu.bdf and gpu.uuid:
        yield gpu.bdf, gpu.uuid
    elif gpu.index is not None and gpu.uuid:
        yield gpu.index, gpu.uuid


def _nvlink_names(gpu: NvlinkGpu) -> _Names:
    if gpu.index is not None and gpu.uuid:
        yield gpu.index, gpu.uuid


def _rdma_names(device: RdmaDevice) -> _Names:
    guids = ((0, device.node_guid), *((port.port, port.guid) for port in device.ports))
    for port, guid in guids:
        if guid and guid.strip("0x:"):
            yield (device.name, port), guid


def _of_first(facts: list[_Fact], names: Callable[[_Fact], _Names], gaps: list[Gap]) -> list[_Fact]:
    """The facts of each witness up to the first that gives a name to somebody who was not there before: a second
    reading, after a GPU was lost, only numbers those anew."""
    said: dict[tuple[str, Hashable], Hashable] = {}
    known: set[tuple[str, Hashable]] = set()
    over: set[str] = set()
    kept = []
    for fact in facts:
        if fact.witness in over:
            continue
        told = [((fact.witness, name), (fact.witness, who)) for name, who in names(fact)]
        if any(name in said and said[name] != who and who not in known for name, who in told):
            over.add(fact.witness)
            gaps.append(_gap(fact.witness))
            continue
        kept.append(fact)
        said.update(told)
        known.update(who for _, who in told)
    return kept


def _may_be_one(first: Matrix, other: Matrix) -> bool:
    """Whole matrices of one node list the same GPUs."""
    return first.cut or other.cut or _gpus_of(first) == _gpus_of(other)


def _gpus_of(matrix: Matrix) -> set[str]:
    return {name for name in matrix.names if name.startswith("GPU")}


def _gap(witness: str) -> Gap:
    return Gap(witness, TWO_NODES)
