"""Network ports: line rate and achievable bandwidth, one direction, GB/s.

0.98 of the rate is what perftest and DMA engines reach over 11 published rows (prediction.md section 2, `net_perf`,
0.900-0.988).
"""

from __future__ import annotations

_K_NET = 0.98

# prediction.md section 3: GPU-NIC on another root or socket with GPUDirect RDMA lost keeps 0.44-0.64 of the NIC;
# design.md section 3 prints the loss of AFF001 as 35-55 %, of AFF002 as 30-55 %.
FAR_SOCKET_LOSS = (0.35, 0.55)
FAR_BRIDGE_LOSS = (0.30, 0.55)


def line_rate_gb_per_s(rate_gbit_per_s: float) -> float:
    """What the port's data sheet says.

    >>> line_rate_gb_per_s(400)
    50.0
    """
    return rate_gbit_per_s / 8


def achievable_gb_per_s(rate_gbit_per_s: float) -> float:
    """What a large RDMA transfer reaches.

    >>> achievable_gb_per_s(400)
    49.0
    """
    return rate_gbit_per_s / 8 * _K_NET
