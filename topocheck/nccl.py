"""What NCCL would make of this node: peer-to-peer of each GPU pair, GPUDirect RDMA, and the NICs each GPU takes.

By the rules of NCCL 2.27 (its public source; facts/nccl_model.md sections 4 to 6), without a topology file. Other
versions differ: P2P over PCIe ended at SYS before 2.26, PCIe values are maxima before 2.30.
"""

from __future__ import annotations

import re
from itertools import combinations

from topocheck.graph import RANK, SWITCH_LOCAL, Device, Machine, Topology
from topocheck.hardware.pcie import line_rate_gb_per_s

VERSION = "2.27"
_DMA_BUF_KERNEL = (5, 12)
_PCIE_SHARE = 0.76  # NCCL counts 12, 24 and 48 GB/s for Gen3, 4 and 5 x16: 76 % of the line rate
_BETWEEN_NODES_GB_PER_S = 10.0  # what it counts between two NUMA nodes, at the least for servers of today


def dma_buf(machine: Machine) -> bool | None:
    """Whether NICs can reach GPU memory by dma-buf: kernel 5.12 and the open kernel modules; None not known."""
    if machine.open_driver is False:
        return False
    number = re.match(r"(\d{1,3})\.(\d{1,3})", machine.kernel or "")
    if number and (int(number[1]), int(number[2])) < _DMA_BUF_KERNEL:
        return False
    return True if number and machine.open_driver else None


def gpudirect(machine: Machine) -> str | None:
    """By what NICs reach GPU memory, "none", or None where it was not read."""
    if dma_buf(machine):
        return "dma-buf"
    if machine.peermem:
        return "nvidia_peermem"
    return "none" if machine.peermem is False and dma_buf(machine) is False else None


def p2p_class(node: Topology, a: Device, b: Device) -> str:
    """NVL, PCIe, or SHM (through host memory): P2P over PCIe goes no farther than PXB, on AMD pairs of two GPUs too."""
    cls = node.pair_class(a.id, b.id)
    if cls and cls.startswith("NV"):
        return "NVL"
    if cls is None:
        return "unknown"
    return "PCIe" if RANK[cls] <= SWITCH_LOCAL else "SHM"


def rdma_is_direct(node: Topology, gpu: Device, nic: Device) -> bool | None:
    """Whether GPUDirect RDMA is on for a pair: up to PXB, by C2C also on the same CPU; None where not known."""
    mechanism = gpudirect(node.machine)
    cls = node.pcie_class(gpu.id, nic.id)
    if mechanism == "none":
        return False
    if mechanism is None or cls is None:
        return None
    return RANK[cls] <= (RANK["NODE"] if gpu.part and gpu.part.c2c else SWITCH_LOCAL)


def usable_nics(node: Topology) -> list[Device]:
    """The NICs NCCL would open: verbs devices with an active port that NCCL_IB_HCA lets through, in PCI order."""
    wanted = (node.machine.nccl_environ or {}).get("NCCL_IB_HCA", "")
    up = [n for n in node.nics if n.state == "active" and not n.efa and not n.iwarp]
    return sorted((n for n in up if matches(wanted, n)), key=lambda n: (n.bdf or "", n.id))


def matches(wanted: str, nic: Device) -> bool:
    """Whether NCCL_IB_HCA lets a NIC through: a list of prefixes; "=" exact names, "^" all but these; ports by ":1".

    >>> [matches(w, Device("mlx5_1", "nic")) for w in ("", "mlx5", "=mlx5_10,mlx5_1:1", "^mlx5_1", "mlx5_2")]
    [True, True, True, False, False]
    """
    flags = re.match(r"[\^=]*", wanted)
    mode = flags[0] if flags else ""
    names = [part.split(":")[0].strip() for part in wanted[len(mode) :].split(",") if part.strip()]
    if not names:
        return True
    hit = any(nic.id == n if "=" in mode else nic.id.startswith(n) for n in names)
    return hit != ("^" in mode)


def chosen_nics(node: Topology) -> dict[str, tuple[Device, ...]]:
    """Each GPU's NICs: those with the most bandwidth in NCCL's count, ties by distance, shared out by GPU number."""
    nics = usable_nics(node)
    local = {gpu.id: _local(node, gpu, nics) for gpu in node.gpus}
    chosen = {}
    for number, gpu in enumerate(node.gpus):
        own = local[gpu.id]
        if not own:
            chosen[gpu.id] = own
            continue
        sharing = sum(own[0] in others for others in local.values())
        first = _mirrored(number % len(own), len(own)) if len(own) & (len(own) - 1) == 0 else number
        each = -(-len(own) // max(1, sharing))
        chosen[gpu.id] = tuple(own[(first + c) % len(own)] for c in range(each))
    return chosen


def _local(node: Topology, gpu: Device, nics: list[Device]) -> tuple[Device, ...]:
    known = [(n, node.pcie_class(gpu.id, n.id)) for n in nics]
    scored = [((_counted_gb_per_s(node, gpu, n, cls), -RANK[cls]), n) for n, cls in known if cls]
    best = max((score for score, _ in scored), default=None)
    return tuple(n for score, n in scored if score == best)


def _counted_gb_per_s(node: Topology, gpu: Device, nic: Device, cls: str) -> float:
    """What NCCL counts for the path: the port, the maxima of both PCIe links, and what lies between NUMA nodes."""
    parts = [(nic.rate_gbit_per_s or 0.0) / 8]
    for device in (gpu, nic):
        link = node.links.get(device.bdf or device.id)
        if link and link.can_speed_gts and link.can_width and not (device.part and device.part.c2c):
            parts.append(line_rate_gb_per_s(link.can_speed_gts, link.can_width) * _PCIE_SHARE)
    if cls == "SYS":
        parts.append(_BETWEEN_NODES_GB_PER_S)
    return round(min(parts), 1)


def _mirrored(number: int, count: int) -> int:
    """The bits of a number in reverse: of four NICs at one distance GPUs 0 to 3 take 0, 2, 1, 3.

    >>> [_mirrored(i, 4) for i in range(4)]
    [0, 2, 1, 3]
    """
    bits = count.bit_length() - 1
    return int(f"{number:0{bits}b}"[::-1], 2) if bits else 0


def summary(node: Topology) -> tuple[str, ...]:
    """What `-v` shows: pairs, GPUDirect RDMA, and each GPU's NICs."""
    if not node.gpus:
        return ()
    said = []
    pairs = [p2p_class(node, a, b) for a, b in combinations(node.gpus, 2)]
    if pairs:
        said.append(f"GPU pairs: {', '.join(f'{pairs.count(c)} {c}' for c in dict.fromkeys(pairs))}")
    if node.nics and not all(n.efa for n in node.nics):
        said.append(f"GPUDirect RDMA: {gpudirect(node.machine) or 'modules, kernel or driver not in the input'}")
        said.append("NICs: " + ", ".join(_nics_in_words(node, gpu, nics) for gpu, nics in chosen_nics(node).items()))
    return (f"by the rules of NCCL {VERSION}, without a topology file", *said) if said else ()


def _nics_in_words(node: Topology, gpu: str, nics: tuple[Device, ...]) -> str:
    direct = {rdma_is_direct(node, node.by_id[gpu], n) for n in nics}
    way = "" if direct <= {True, None} else " through host memory"
    return f"{gpu} {'+'.join(n.id for n in nics) or 'none it could use'}{way}"


def pair_in_words(node: Topology, a: Device, b: Device) -> str:
    """How NCCL would move data between two devices."""
    gpus = [d for d in (a, b) if d.kind == "gpu"]
    if len(gpus) == 2:
        way = {"NVL": "peer-to-peer over NVLink", "PCIe": "peer-to-peer over PCIe", "SHM": "through host memory (SHM)"}
        return way.get(p2p_class(node, a, b), "class of the pair not in the input")
    if not gpus:
        return "no traffic between two NICs"
    direct = rdma_is_direct(node, gpus[0], b if a.kind == "gpu" else a)
    ways = {True: "GPUDirect RDMA", False: "through host memory: no GPUDirect RDMA for this pair"}
    return "GPUDirect RDMA or not: kernel, modules or class not in the input" if direct is None else ways[direct]
