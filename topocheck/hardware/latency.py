"""Fixed costs of a message, µs, and what they are made of.

α by path: prediction.md section 6. The article gives NVLink about 2, InfiniBand 2-3, EFA 10-15; measured were NVLink
1.85 (P2P-67), InfiniBand between GPUs 1.98-2.80 (ALPHA-01 to 03), peer reads over PCIe 0.72 under one switch and 1.40
through a root (P2P-39, 40), EFA 24-36 a transfer (ALPHA-09, 10: weak, instance type not stated).
"""

from __future__ import annotations

NVLINK_US = 2.0
PCIE_SWITCH_US = 0.72
PCIE_ROOT_US = 1.40
INFINIBAND_US = 2.5
EFA_US = 12.0
EFA_MEASURED_US = 30.0  # the middle of ALPHA-09 and 10: what NCCL's small messages over EFA pay (MULTI-03, MULTI-05)
TCP_US = 83.0  # ALPHA-08, one row
PROPAGATION_US_PER_M = 0.005  # two thirds of the speed of light
SWITCH_US = 0.2  # ours: between what is stated of InfiniBand (Quantum-2 below 0.15) and Ethernet (Spectrum 0.3)
CABLE_M = 30.0  # the article's example


def network_us(fabric: str) -> float:
    """α between two nodes; Ethernet carrying RDMA is taken as InfiniBand (no row of its own).

    >>> network_us("efa")
    12.0
    """
    return EFA_US if fabric == "efa" else INFINIBAND_US
