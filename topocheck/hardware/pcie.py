"""PCIe: line rate and achievable bandwidth of a link, one direction, GB/s = 1e9 bytes per second.

Encoding: 8b/10b for Gen1 and Gen2, 128b/130b for Gen3 to Gen5, 242 of 256 bytes of a FLIT for Gen6 (PCIe base
specification). Achievable = line rate × U(MaxPayload) × k, the model of `shared/facts/prediction.md` sections 1 and 2:
U is the payload share of a transaction-layer packet (the formula UCX uses, no ECRC), k the median of published copies.
"""

from __future__ import annotations

GTS_OF_GEN = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}

ASSUMED_PAYLOAD_BYTES = 256  # what GPUs and root ports of servers negotiate; every published row assumes it

# k of prediction.md section 2: medians of 4 (Gen3), 8 (Gen4), 17 (Gen5) published rows. Gen1, Gen2 and Gen6 have no
# row of their own: Gen1 and Gen2 take Gen5's, as the one measured Gen2 uplink does (rows FAULT-30, FAULT-31).
_K_OF_GEN = {1: 0.954, 2: 0.954, 3: 0.824, 4: 0.922, 5: 0.954, 6: 0.954}

_RING = 0.709  # prediction.md section 2, `ring_pcie`: NCCL over the slowest ring edge; 0.667-0.823 over 4 rows
_STAGED = 0.640  # prediction.md section 2, `staged`: peer-to-peer off, through host memory; 0.339-0.741 over 7 rows
STAGED_LOSS = (0.21, 0.66)  # prediction.md section 3, P2P off: 0.34-0.79 of the link remains


def gen_of(speed_gts: float) -> int:
    """The generation of a per-lane rate, the nearest one from below for odd figures."""
    return max((gen for gen, gts in GTS_OF_GEN.items() if gts <= speed_gts + 0.1), default=1)


def gen_word(speed_gts: float) -> str:
    """The generation as the screen prints it.

    >>> gen_word(32.0)
    '5.0'
    """
    return f"{gen_of(speed_gts)}.0"


def line_rate_gb_per_s(speed_gts: float, width: int) -> float:
    """What the datasheet says of a link, one direction.

    >>> round(line_rate_gb_per_s(32.0, 16), 1), round(line_rate_gb_per_s(16.0, 16), 1)
    (63.0, 31.5)
    """
    gen = gen_of(speed_gts)
    encoding = 0.8 if gen <= 2 else 242 / 256 if gen >= 6 else 128 / 130
    return speed_gts * width * encoding / 8


def payload_share(payload_bytes: int, gen: int) -> float:
    """U(MaxPayload): 0.810 for 128 bytes, 0.895 for 256, 0.945 for 512 (Gen3 and later)."""
    header = 24 if gen <= 2 else 26
    return 4 * payload_bytes / (4 * (payload_bytes + header) + 16)


def achievable_gb_per_s(speed_gts: float, width: int, payload_bytes: int = ASSUMED_PAYLOAD_BYTES) -> float:
    """What a large copy reaches over a link, one direction.

    >>> round(achievable_gb_per_s(32.0, 16), 1), round(achievable_gb_per_s(16.0, 16), 1)
    (53.8, 26.0)
    """
    gen = gen_of(speed_gts)
    return line_rate_gb_per_s(speed_gts, width) * payload_share(payload_bytes, gen) * _K_OF_GEN[gen]


def staged_gb_per_s(speed_gts: float, width: int) -> float:
    """What a copy between two GPUs reaches through host memory, where peer-to-peer is off.

    >>> round(staged_gb_per_s(32.0, 16), 1)
    36.1
    """
    gen = gen_of(speed_gts)
    return line_rate_gb_per_s(speed_gts, width) * payload_share(ASSUMED_PAYLOAD_BYTES, gen) * _STAGED


def ring_gb_per_s(speed_gts: float, width: int, payload_bytes: int = ASSUMED_PAYLOAD_BYTES) -> float:
    """What a ring edge over this link carries.

    >>> round(ring_gb_per_s(16.0, 16), 1)
    20.0
    """
    return line_rate_gb_per_s(speed_gts, width) * payload_share(payload_bytes, gen_of(speed_gts)) * _RING
