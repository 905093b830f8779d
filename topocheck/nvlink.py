"""What the matrix and lists of links say of NVLink: is every pair joined, which GPUs or pairs fall short of others."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import NamedTuple

from topocheck.facts import Evidence
from topocheck.graph import Device, Topology
from topocheck.hardware import gpus as gpu_figures
from topocheck.hardware import pcie


class Short(NamedTuple):
    """A GPU that has fewer links than is normal here with every other GPU."""

    gpu: Device
    links: int
    full: int
    evidence: Evidence | None


class Uneven(NamedTuple):
    """A pair whose number of links is not that of its equals, or differs by direction."""

    a: Device
    b: Device
    links: int
    full: int
    by_direction: bool


def links_of(node: Topology, a: Device, b: Device) -> int | None:
    """The number of NVLinks the matrix prints for a pair, 0 for a PCIe class, None unknown: a row that is cut."""
    printed = not node.has_matrix or {(a.id, b.id), (b.id, a.id)} & node.directed.keys()
    return _count(node.pair_class(a.id, b.id)) if printed else None


def _count(token: str | None) -> int | None:
    if token is None:
        return None
    return int(token[2:]) if token.startswith("NV") and token[2:].isdigit() else 0


def on_nvlink(node: Topology, a: Device, b: Device) -> bool:
    """Whether a pair's best way is NVLink."""
    return (node.pair_class(a.id, b.id) or "").startswith("NV")


def in_mig_mode(node: Topology) -> str | None:
    """Why some GPUs are left out: in MIG mode a GPU shows no NVLink whatever is wired."""
    mig = [g.id for g in node.gpus if g.mig]
    return f"{', '.join(mig)} in MIG mode: NVLinks not shown" if mig else None


def full_mesh(node: Topology) -> int | None:
    """The common number of links when the GPUs form a full mesh (through NVSwitches, or directly on a board of four):
    at least three GPUs, most pairs with one and the same number, and of the GPUs that have links at all nearly every
    pair joined. None for cube meshes, bridged pairs, PCIe."""
    there = [g for g in node.gpus if not _lost(g)]
    counts = {(a.id, b.id): c for a, b in combinations(there, 2) if (c := links_of(node, a, b)) is not None}
    linked = {gpu for pair, count in counts.items() if count for gpu in pair}
    among = [c for pair, c in counts.items() if linked.issuperset(pair)]
    if len(among) < 3 or 4 * among.count(0) > len(among):  # a cube mesh leaves 12 of 28 pairs unjoined
        return None
    if most := _most_on_switch(there, counts):
        return most
    (common, times), *_ = Counter(counts.values()).most_common(1)
    return common if common > 0 and 2 * times > len(counts) else None


def _most_on_switch(gpus: list[Device], counts: dict[tuple[str, str], int]) -> int | None:
    """The links of most GPUs where each pair has as many as the one of it with fewer: all links go to switches."""
    own = {g.id: max((c for pair, c in counts.items() if g.id in pair), default=0) for g in gpus}
    if any(count != min(own[a], own[b]) for (a, b), count in counts.items()):
        return None
    (common, times), *_ = Counter(own.values()).most_common(1)
    return common if common == max(own.values()) and 2 * times > len(gpus) else None


def _plain(node: Topology) -> list[Device]:
    """GPUs that are not in MIG mode, and are there: a lost one is in no matrix, its place says nothing of NVLink."""
    return [g for g in node.gpus if not g.mig and not _lost(g)]


def _lost(gpu: Device) -> bool:
    return bool((gpu.gpu and gpu.gpu.lost) or (gpu.pci and gpu.pci.dead))


def short_gpus(node: Topology) -> list[Short]:
    """GPUs that are short in every pair of a full mesh; at most half of the GPUs can be."""
    full = full_mesh(node)
    if full is None:
        return []
    plain = _plain(node)
    low: list[Short] = []
    for gpu in plain:
        counts = [c for other in plain if other.id != gpu.id and (c := links_of(node, gpu, other)) is not None]
        if len(counts) >= 3 and all(c < full for c in counts):
            low.append(Short(gpu, max(counts), full, node.matrix_lines.get(gpu.id)))
    return low if 2 * len(low) <= len(plain) else []


def uneven_pairs(node: Topology) -> list[Uneven]:
    """Pairs that differ by direction, from the mesh, or from other bridged pairs; pairs of a GPU that is short in all
    of them are that GPU's."""
    plain = _plain(node)
    short = {s.gpu.id for s in short_gpus(node)}
    mesh = full_mesh(node)
    counts = {(a.id, b.id): links_of(node, a, b) for a, b in combinations(plain, 2)}
    bridged = None if mesh or not _all_in_pairs(counts) else max((c for c in counts.values() if c), default=None)
    found = []
    for a, b in combinations(plain, 2):
        count = counts[a.id, b.id]
        ways = {_count(node.directed.get(key)) for key in ((a.id, b.id), (b.id, a.id))} - {None}
        expected = mesh or (bridged if count else None)
        if len(ways) == 2:
            low, high = sorted(w for w in ways if w is not None)
            found.append(Uneven(a, b, low, max(high, expected or 0), True))
        elif expected and count is not None and count < expected and not {a.id, b.id} & short:
            found.append(Uneven(a, b, count, expected, False))
    return found


def _all_in_pairs(counts: dict[tuple[str, str], int | None]) -> bool:
    """Each GPU is joined to at most one other, and at least two pairs are: bridges."""
    partners = Counter(x for pair, count in counts.items() if count for x in pair)
    return len(partners) >= 4 and max(partners.values()) == 1


def loss_range(gpu: Device, links: int, full: int) -> tuple[float, float]:
    """What fewer NVLinks cost: at least the missing share, at most all but the staged PCIe path; with none left the
    traffic falls to PCIe, by peer-to-peer at best. PCIe x16 of the generation that came with the part."""
    speed = {5: 32.0, 4: 32.0, 3: 16.0}.get(gpu.part.nvlink_gen if gpu.part else 4, 8.0)
    whole = gpu_figures.nvlink_achievable_gb_per_s(full, gpu.part)
    at_least = (full - links) / full if links else max(0.0, 1 - pcie.achievable_gb_per_s(speed, 16) / whole)
    return round(at_least, 4), round(max(at_least, 1 - pcie.staged_gb_per_s(speed, 16) / whole), 4)


def ends_early(gpu: Device) -> bool:
    """Whether nvidia-smi's list has the first links alone, all of them up: it prints the inactive ones too."""
    ports = [p for p in gpu.nvlinks or () if p.active is not None]  # nvlink -R and -e name the others too
    by_smi = all(p.line is not None and p.line.input.startswith("nvidia-smi") for p in ports)
    return bool(ports) and by_smi and all(p.active for p in ports) and [p.link for p in ports] == [*range(len(ports))]


def unlisted_links(gpu: Device, full: int) -> int:
    """How many links a list with inactive ones leaves out, a cut in a posting: up for all it says."""
    ports = gpu.nvlinks or ()
    known = [p for p in ports if p.active is not None]
    return max(0, full - len(known)) if any(p.active is False for p in known) else 0
