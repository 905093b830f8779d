"""What to start each rank with: its GPU, its NICs, its CPUs and memory, and the options of the usual launchers.

The NICs are those of the best assignment (build.assignment: least distance in sum, no NIC twice), taken without the
ports that are down. A tree that is hidden gives no answer: any mapping would be a guess.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from topocheck.errors import TopocheckError
from topocheck.graph import Device, Topology
from topocheck.model import nics_in_use
from topocheck.nearness import flat_tree

# A capture is hostile input: what a shell or a launcher is to read must look like a device's name.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)
_CPUS = re.compile(r"\d{1,6}(?:-\d{1,6})?(?:,\d{1,6}(?:-\d{1,6})?)*", re.ASCII)
_OF_A_MATRIX = re.compile(r"NIC\d+", re.ASCII)
_GPU_ID = re.compile(r"gpu(\d{1,4})", re.ASCII)


class Rank(NamedTuple):
    """One process of a node: `cuda_index` is the number CUDA knows its GPU by in PCI order; None where not known."""

    rank: int
    gpu: str
    cuda_index: int | None
    nics: tuple[str, ...]
    cls: str | None
    numa_node: int | None
    cpus: str | None
    environment: tuple[tuple[str, str], ...]

    @property
    def numactl(self) -> tuple[str, ...]:
        """The command before the program; empty where the NUMA node is not known."""
        if self.numa_node is None:
            return ()
        return ("numactl", f"--cpunodebind={self.numa_node}", f"--membind={self.numa_node}")

    @property
    def taskset(self) -> tuple[str, ...]:
        """The same without numactl: CPUs only."""
        return ("taskset", "--cpu-list", self.cpus) if self.cpus else ()


class Launch(NamedTuple):
    """All ranks, what to give srun and mpirun, and what could not be done."""

    ranks: tuple[Rank, ...]
    srun: tuple[str, ...]
    mpirun: tuple[str, ...]
    notes: tuple[str, ...]


def launch_of(node: Topology) -> Launch:
    """One rank a GPU in nvidia-smi's order. Raises TopocheckError where nothing can be told."""
    reason = refusal(node)
    if reason:
        raise TopocheckError(f"bind: {reason}")
    nics = shared_out(node)
    ranks = tuple(_rank(node, number, gpu, nics[gpu.id]) for number, gpu in enumerate(node.gpus))
    return Launch(ranks, _srun(ranks), _mpirun(ranks), tuple(dict.fromkeys(_notes(node, ranks))))


def refusal(node: Topology) -> str | None:
    """Why there is no mapping to be had, and what to do about it; None if there is."""
    if not node.gpus:
        return "no GPU in the input"
    if flat_tree(node):
        return "the PCIe tree is hidden (every pair of devices at one distance): read it on the host"
    known = any(node.pcie_class(gpu.id, nic.id) for gpu in node.gpus for nic in node.nics)
    if node.nics and not known:
        return "no input says which NIC is near which GPU: add lspci -vv or nvidia-smi topo -m"
    if not known and all(gpu.numa_node is None for gpu in node.gpus):
        return "neither NICs nor NUMA nodes in the input: add lspci -vv, nvidia-smi topo -m or /sys"
    return None


def shared_out(node: Topology) -> dict[str, list[Device]]:
    """Each GPU's own NICs that are up; a GPU without one takes the least used of those nearest to it."""
    own = {g.id: [n for n in nics_in_use(node, g) if n.id in node.assignment.get(g.id, ())] for g in node.gpus}
    users = Counter(nic.id for nics in own.values() for nic in nics)
    up = [nic for nic in node.compute_nics if nic.state != "down"]
    for gpu in (g for g in node.gpus if not own[g.id]):
        _, near = node.nearest(gpu, up)
        own[gpu.id] = sorted(near, key=lambda nic: users[nic.id])[:1]
        users.update(nic.id for nic in own[gpu.id])
    return own


def _rank(node: Topology, number: int, gpu: Device, nics: list[Device]) -> Rank:
    numa = next((n for n in node.numa_nodes if n.id == gpu.numa_node), None)
    cpus = numa.cpus if numa and numa.cpus and _CPUS.fullmatch(numa.cpus) else None
    has_cpus = numa is None or numa.cpus != ""  # a GPU's own memory is a NUMA node without CPUs (GB200)
    return Rank(
        number,
        gpu.id,
        index_of(gpu),
        tuple(nic.id for nic in nics),
        node.pcie_class(gpu.id, nics[0].id) if nics else None,
        gpu.numa_node if has_cpus else None,
        cpus,
        tuple(_environment(gpu, nics)),
    )


def index_of(gpu: Device) -> int | None:
    """The number of a GPU that nvidia-smi numbers."""
    match = _GPU_ID.fullmatch(gpu.id)
    return int(match[1]) if match else None


def _environment(gpu: Device, nics: list[Device]) -> Iterator[tuple[str, str]]:
    if (index := index_of(gpu)) is not None:
        yield "CUDA_DEVICE_ORDER", "PCI_BUS_ID"
        yield "CUDA_VISIBLE_DEVICES", str(index)
    verbs = [nic for nic in nics if is_verbs(nic)]
    if verbs and len(verbs) == len(nics):
        yield "NCCL_IB_HCA", "=" + ",".join(nic.id for nic in verbs)  # "=": mlx5_1 is not mlx5_10
        yield "UCX_NET_DEVICES", ",".join(f"{nic.id}:{port}" for nic in verbs for port in _ports(nic))


def is_verbs(nic: Device) -> bool:
    """Whether a NIC has the name that NCCL and UCX know it by; EFA's providers take no list."""
    return (
        not nic.efa and nic.id != nic.bdf and _NAME.fullmatch(nic.id) is not None and not _OF_A_MATRIX.fullmatch(nic.id)
    )


def _ports(nic: Device) -> list[int]:
    return [p.port for p in nic.ports if p.state == "active"] or [1]


def _srun(ranks: tuple[Rank, ...]) -> tuple[str, ...]:
    """NUMA nodes by rank; srun's own words for one (locality domain, memory)."""
    nodes = [rank.numa_node for rank in ranks]
    if None in nodes:
        return ()
    listed = ",".join(map(str, nodes))
    return (f"--ntasks-per-node={len(ranks)}", f"--cpu-bind=map_ldom:{listed}", f"--mem-bind=map_mem:{listed}")


def _mpirun(ranks: tuple[Rank, ...]) -> tuple[str, ...]:
    """Open MPI can say it where ranks fill one NUMA node after the other, as many each; else each rank binds itself."""
    nodes = [rank.numa_node for rank in ranks]
    counts = set(Counter(nodes).values())
    ascending = None not in nodes and all(a <= b for a, b in pairwise(nodes) if a is not None and b is not None)
    if ascending and len(counts) == 1:
        return ("--map-by", f"ppr:{counts.pop()}:numa", "--bind-to", "numa")
    return ("--bind-to", "none")


def _notes(node: Topology, ranks: tuple[Rank, ...]) -> Iterator[str]:
    """What is missing, and why."""
    if any(rank.cuda_index is None for rank in ranks):
        yield "no nvidia-smi numbering in the input: CUDA_VISIBLE_DEVICES is left out"
    if mig := [gpu.id for gpu in node.gpus if gpu.mig]:
        yield f"{', '.join(mig)} in MIG mode: CUDA_VISIBLE_DEVICES must name an instance"
    used = [node.by_id[nic] for rank in ranks for nic in rank.nics]
    if any(nic.efa for nic in used):
        yield "EFA devices are chosen by aws-ofi-nccl and libfabric: NCCL_IB_HCA and UCX_NET_DEVICES are left out"
    if unnamed := sorted({nic.id for nic in used if not nic.efa and not is_verbs(nic)}):
        yield f"no RDMA name in the input for {', '.join(unnamed)}: NCCL_IB_HCA and UCX_NET_DEVICES are left out"
    for rank in ranks:
        own = node.assignment.get(rank.gpu, ())
        down = [n for n in own if n not in rank.nics]
        if down:
            instead = "left out" if set(rank.nics) & set(own) else f"{', '.join(rank.nics) or 'no other NIC'} instead"
            yield f"{', '.join(down)} of {rank.gpu} is down: {instead}"
    if any(rank.numa_node is None for rank in ranks):
        yield "a GPU's NUMA node with CPUs is not in the input: numactl is left out for it"
    shared = [nic for nic, users in Counter(n for r in ranks for n in r.nics).items() if users > 1]
    if shared:
        yield f"shared by several GPUs: {', '.join(sorted(shared))}"


def quoted(words: tuple[str, ...]) -> str:
    """A command as a shell reads it."""
    return " ".join(shlex.quote(word) for word in words)
