"""NCCL's own expectations: the latency and bandwidth tables of its tuner (graph/tuning.cc, v2.30.7; nccl_model.md
section 8). They are planning values, not measurements; LATENCY_FOUND is what small messages take over them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Protocol = Literal["LL", "LL128", "Simple"]
PROTOCOLS: tuple[Protocol, ...] = ("LL", "LL128", "Simple")


class Latency(NamedTuple):
    """µs: once, per step over NVLink, over PCIe, over the network."""

    base: float
    nvlink: float
    pcie: float
    net: float


RING: dict[Protocol, Latency] = {
    "LL": Latency(6.6, 0.6, 1.0, 2.7),
    "LL128": Latency(14.0, 1.9, 2.5, 4.0),
    "Simple": Latency(8.4, 3.4, 5.7, 14.0),
}
TREE: dict[Protocol, Latency] = {
    "LL": Latency(6.8, 0.6, 1.0, 5.0),
    "LL128": Latency(14.0, 1.25, 1.9, 8.5),
    "Simple": Latency(8.4, 4.0, 4.0, 14.0),
}
NVLS_US = 25.0
NVLSTREE_NET_US = 20.9

# Share of the ring's bandwidth a protocol carries: LL sends a flag with every four bytes, LL128 one in 16 words of a
# line of 128 bytes. Trees: 1/3.8 for LL, 7/9 in a node and 120/128 between nodes for LL128.
RING_SHARE: dict[Protocol, float] = {"LL": 0.5, "LL128": 0.92, "Simple": 1.0}
TREE_SHARE: dict[Protocol, float] = {"LL": 1 / 3.8, "LL128": 7 / 9, "Simple": 1.0}
TREE_LL128_BETWEEN = 120 / 128
TREE_ALLREDUCE = 0.92
# The most LL carries in all, GB/s, on 1, 2 and more nodes, by NVLink generation of the GPU (Volta and before: 2).
_LL_MOST = {2: (39.0, 39.0, 20.4), 3: (87.7, 22.5, 19.0), 4: (141.0, 45.0, 35.0), 5: (282.0, 90.0, 70.0)}

# Small messages measured over these tables: median of 11 rows, 0.83-3.06 (ONE-02, 15, 26, 27, MULTI-20, 22, ALPHA-17,
# 18, 20, 34, 35). A kernel launch and the start of all ranks are in what nccl-tests measures.
LATENCY_FOUND = 1.6
# A tree forced on more than two nodes over the ring: MULTI-07 0.76, MULTI-29 0.79, MULTI-09 0.85.
TREE_OVER_RING = 0.79


def ll_most_gb_per_s(nvlink_gen: int, nodes: int) -> float:
    """The most the LL protocol carries.

    >>> ll_most_gb_per_s(4, 1), ll_most_gb_per_s(3, 8)
    (141.0, 19.0)
    """
    return _LL_MOST[max(2, nvlink_gen)][0 if nodes == 1 else 1 if nodes == 2 else 2]
