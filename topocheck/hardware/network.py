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
# design.md section 3, AFF004: what was lost without GPUDirect RDMA, from large messages with fast hosts to the worst.
NO_GPUDIRECT_LOSS = (0.12, 0.84)


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


# The most one port of a card carries, by PCI device id and by the type ibstat prints; NVIDIA's product briefs of the
# adapters. Only used where no port was read, and then listed among the assumptions.
_MOST_GBIT_PER_S = {
    "15b3:1013": 100.0, "15b3:1017": 100.0, "15b3:1019": 100.0, "15b3:101b": 200.0, "15b3:101d": 100.0,
    "15b3:1021": 400.0, "15b3:1023": 800.0, "15b3:a2d6": 200.0, "15b3:a2dc": 400.0,
    "1d0f:efa0": 100.0, "1d0f:efa1": 100.0, "1d0f:efa2": 200.0, "1d0f:efa3": 400.0,
    "MT4115": 100.0, "MT4119": 100.0, "MT4121": 100.0, "MT4123": 200.0, "MT4125": 100.0, "MT4129": 400.0,
    "MT4131": 800.0, "MT41686": 200.0, "MT41692": 400.0,
}  # fmt: skip


def most_gbit_per_s(pci_id: str | None, device_type: str | None) -> float | None:
    """The rate of one port of a card's model; None for a model not in the table."""
    return _MOST_GBIT_PER_S.get(pci_id or "") or _MOST_GBIT_PER_S.get(device_type or "")


# Nominal rate of one lane by the name that InfiniBand tools print, Gb/s: what sysfs's `rate` counts with
# ("200 Gb/sec (4X HDR)"), encoding taken off; iblinkinfo prints the signalling rate of some instead (53.125 for HDR).
_LANE_GBIT_PER_S = {
    "SDR": 2.5, "DDR": 5.0, "QDR": 10.0, "FDR10": 10.0, "FDR": 14.0, "EDR": 25.0, "HDR": 50.0, "NDR": 100.0,
    "XDR": 200.0,
}  # fmt: skip


def ib_rate_gbit_per_s(width: int | None, speed: str | None) -> float | None:
    """The rate of an InfiniBand link by its lanes and the name of its speed.

    >>> ib_rate_gbit_per_s(4, "NDR"), ib_rate_gbit_per_s(4, "???")
    (400.0, None)
    """
    lane = _LANE_GBIT_PER_S.get(speed or "")
    return width * lane if width and lane else None
