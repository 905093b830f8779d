"""What NCCL gets of the links: achievable bandwidth of collectives, GB/s one direction (busbw), large messages.

Constants: prediction.md section 2, medians of published rows, each over a line rate; rings over NVLink and PCIe stand
beside their links in `gpus` and `pcie`. tests/measured holds the rows, docs/measured.md how far off each figure is.
"""

from __future__ import annotations

from topocheck.hardware import gpus, network
from topocheck.hardware.gpus import Part

# all_reduce in the NVSwitches (NVLS) on 8 GPUs and more, by NVLink generation: 1.067 (1.067-1.082, 3 rows of H100 and
# H200), 0.931 (0.927-1.036, 3 rows of B200 and GB200). Above 1: half of the bytes of a ring cross each link.
_NVLS = {4: 1.067, 5: 0.931}
_NICS = 0.916  # `net_nccl`: ring over the node's NICs; 0.555-1.020 over 24 rows of 17 sources
# Default all_reduce on exactly two nodes: a tree, each node sends the message once. Over 2(n-1)/n times the NICs, n
# ranks: median of 4 rows, 0.610-0.907 (prediction.md's `tree2`, 0.698 over twice the NICs, counted for n ranks).
_TWO_NODES = 0.768
FAR_NIC = 0.500  # `far_nic`: a NIC beyond the switch, GPUDirect RDMA lost; 0.440-0.638 over 5 rows
TCP_GB_PER_S = 4.0  # a node's sockets, whatever its NICs: 3.15, 4 and 5.43 in rows FAULT-50, 52 and 53


def nvls_gb_per_s(links: int, part: Part | None) -> float | None:
    """all_reduce through NVSwitches that add; None for NVLink before generation 4, which has no NVLS.

    >>> round(nvls_gb_per_s(18, gpus.part_of("NVIDIA H100 80GB HBM3")))
    480
    """
    share = _NVLS.get(part.nvlink_gen) if part else None
    return None if share is None else gpus.nvlink_line_rate_gb_per_s(links, part) * share


def nics_gb_per_s(rate_gbit_per_s: float) -> float:
    """What a ring between nodes gets of one node's NICs, by the sum of their rates.

    >>> round(nics_gb_per_s(8 * 400))
    366
    """
    return network.line_rate_gb_per_s(rate_gbit_per_s) * _NICS


def tree_of_two_gb_per_s(rate_gbit_per_s: float, gpus_per_node: int) -> float:
    """What the network between exactly two nodes allows a tree, which sends half of a ring's bytes, by the sum of a
    node's NIC rates.

    >>> round(tree_of_two_gb_per_s(8 * 200, 8))
    288
    """
    ranks = 2 * gpus_per_node
    return network.line_rate_gb_per_s(rate_gbit_per_s) * 2 * (ranks - 1) / ranks * _TWO_NODES
