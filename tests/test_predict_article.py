"""Each figure of the article that topocheck.predict can state, with its arithmetic (GB/s one direction).

Where the article rounds, so does the test. Figures of its second source are under that source's convention and ours.
"""

from itertools import product
from math import sqrt

import pytest
from collective_rows import healthy

from topocheck.hardware import gpus, latency, network, pcie, tuning
from topocheck.hardware.compute import chip_of
from topocheck.predict.algorithms import (
    ALGORITHMS,
    best_buckets,
    best_chunks,
    in_network,
    least_bytes,
    network_saving,
    tree_ring_crossover_bytes,
)
from topocheck.predict.alpha_beta import AlphaBeta, parts_of, pcie_crossings
from topocheck.predict.collectives import best, bus_factor, ways
from topocheck.predict.fabric import (
    bisection_gb_per_s,
    busiest_expected,
    busiest_leading,
    drain_us,
    fat_tree_endpoints,
    full_mesh_links,
    imbalance,
    incast_fills_us,
)
from topocheck.predict.step import OVERLAP_COST, bandwidth_to_hide_gb_per_s, decode_step_us, hidden_behind

H100 = chip_of("NVIDIA H100 80GB HBM3")
EFA, IB = AlphaBeta(12.0, 45.0), AlphaBeta(2.0, 45.0)
ALLREDUCE = ALGORITHMS["allreduce"]
MB = 1e6


def intensity(gb_per_s):
    return H100.tensor_tflop_per_s * 1000 / gb_per_s


class TestLadder:
    def test_break_even_belongs_to_a_level(self):
        # 989e12 / 3350e9 = 295; / 450e9 = 2198; / 63e9 = 15,700; / 50e9 = 19,780; / 30,000e9 = 33
        assert round(intensity(H100.shared_gb_per_s)) == 33
        assert round(intensity(H100.hbm_gb_per_s)) == 295
        assert intensity(18 * 25) == pytest.approx(2200, rel=0.01)
        assert intensity(pcie.line_rate_gb_per_s(32.0, 16)) == pytest.approx(15_700, rel=0.01)
        assert intensity(50) == pytest.approx(19_800, rel=0.01)

    def test_the_first_three_rungs_span_nine(self):
        assert H100.shared_gb_per_s / H100.hbm_gb_per_s == pytest.approx(9, rel=0.02)
        assert H100.hbm_gb_per_s < H100.l2_gb_per_s < H100.shared_gb_per_s

    def test_cliffs(self):
        nvlink = gpus.nvlink_line_rate_gb_per_s(18, gpus.part_of("NVIDIA H100 80GB HBM3"))
        nic, slot = network.line_rate_gb_per_s(400), pcie.line_rate_gb_per_s(32.0, 16)
        assert H100.hbm_gb_per_s / nvlink == pytest.approx(7, rel=0.07)
        assert nvlink / nic == 9
        assert 2 * nvlink / nic == 18  # both directions against one: not a cliff, a convention
        assert slot / H100.hbm_gb_per_s == pytest.approx(0.019, abs=0.0005)
        assert slot / nic == pytest.approx(1.26, abs=0.005)


class TestLinks:
    def test_pcie_lanes(self):
        # 32 * 128/130 / 8 = 3.938; * 16 = 63.0; Gen4 31.5; Gen6: 64 * 242/256 / 8 * 16 = 121
        assert pcie.line_rate_gb_per_s(32.0, 1) == pytest.approx(3.938, abs=0.001)
        assert round(pcie.line_rate_gb_per_s(32.0, 16), 1) == 63.0
        assert round(pcie.line_rate_gb_per_s(16.0, 16), 1) == 31.5
        assert round(pcie.line_rate_gb_per_s(64.0, 16)) == 121

    def test_a_nic_behind_gen4_is_capped(self):
        assert pcie.line_rate_gb_per_s(16.0, 16) / 50 == pytest.approx(0.63, abs=0.001)

    def test_a_full_mesh(self):
        assert [full_mesh_links(n) for n in (4, 8, 16)] == [(6, 3), (28, 7), (120, 15)]

    def test_staged_twice_as_many_crossings(self):
        assert pcie_crossings(gpudirect=False) == 4
        assert pcie_crossings(gpudirect=True) == 2


class TestMessage:
    def test_half_power_size(self):
        assert EFA.n_half_bytes == pytest.approx(540_000)  # 12 µs * 45 GB/s
        assert EFA.time_us(540_000) == pytest.approx(2 * EFA.alpha_us)

    def test_in_flight(self):
        assert AlphaBeta(5.0, 50.0).in_flight_bytes(10.0) == pytest.approx(500_000)  # 400 Gb/s * 10 µs

    def test_flight_time(self):
        assert pytest.approx(0.150) == 30 * latency.PROPAGATION_US_PER_M
        assert parts_of(2.5, metres=30).propagation == pytest.approx(0.150)
        assert parts_of(2.5).total_us == pytest.approx(2.5)

    def test_alphas(self):
        assert latency.NVLINK_US == 2
        assert 2 <= latency.network_us("infiniband") <= 3
        assert 10 <= latency.network_us("efa") <= 15
        assert all(
            2 <= latency.network_us(fabric) <= 12 for fabric in ("infiniband", "ethernet", "efa")
        )  # between domains
        assert latency.network_us("efa") / latency.network_us("infiniband") == pytest.approx(4, rel=0.25)


class TestCollectives:
    def test_naive(self):
        naive = ALLREDUCE["root"](64, 100 * MB)
        assert naive.rounds == 126
        assert 2 * naive.busiest_bytes == pytest.approx(12.6e9)  # in and out: 2 * 63 * 100 MB; the others 2 * 100 MB

    def test_tree_rounds(self):
        assert ALLREDUCE["tree"](64, 1).rounds == 12

    def test_ring(self):
        ring = ALLREDUCE["ring"](64, 1.0)
        assert ring.rounds == 126
        assert ring.busiest_bytes == pytest.approx(1.97, abs=0.002)  # 2 * 63/64
        assert ALLREDUCE["ring"](10_000, 1.0).busiest_bytes == pytest.approx(2, abs=0.001)

    def test_rabenseifner_wins_both_terms(self):
        # 2 log2 64 = 12 rounds, the ring's bytes
        cost = ALLREDUCE["halving-doubling"](64, 1.0)
        assert (cost.rounds, cost.serial_bytes) == (12, pytest.approx(2 * 63 / 64))

    def test_alltoall_moves_half_of_allreduce(self):
        assert least_bytes("allreduce", 64, 1.0) == 2 * least_bytes("alltoall", 64, 1.0)
        assert ALGORITHMS["alltoall"]["pairwise"](64, 1.0).rounds == 63

    def test_latency_before_a_byte_moves(self):
        # 2 * 63 * 12 = 1512 µs; a thousand tensors 1.5 s; p = 1024: 2 * 1023 * 12 = 24.6 ms
        assert ALLREDUCE["ring"](64, 0).time_us(EFA) == pytest.approx(1512)
        assert 1000 * ALLREDUCE["ring"](64, 0).time_us(EFA) == pytest.approx(1.5e6, rel=0.01)
        assert ALLREDUCE["ring"](1024, 0).time_us(EFA) == pytest.approx(24_552)

    def test_tree_and_ring_cross_at_chunks_of_100_kib(self):
        # (126 − 12) * 12 / ((12 − 1.96875) / 45,000) = 1368 * 45,000 / 10.03125 = 6.14 MB; /64 = 94 KiB
        size = tree_ring_crossover_bytes(64, EFA)
        assert size == pytest.approx(6.14e6, rel=0.001)
        assert size / 64 / 1024 == pytest.approx(94, abs=0.5)
        assert size / 1024 > 5000  # "roughly 100 KiB" holds of the chunk, not of the message
        assert tree_ring_crossover_bytes(64, IB) == pytest.approx(1.02e6, rel=0.01)
        for other, wins in ((0.9, "tree"), (1.1, "ring")):
            assert min(("tree", "ring"), key=lambda a: ALLREDUCE[a](64, other * size).time_us(EFA)) == wins

    def test_optimum_of_the_pipelined_chain(self):
        # √((p−2)nβ/α): √(62 * 100 MB / (45,000 * 12)) = 107
        assert best_chunks(64, 100 * MB, EFA) == pytest.approx(sqrt(62 * 1e8 / 45_000 / 12))
        half = AlphaBeta(12.0, 22.5)
        assert best_chunks(64, 100 * MB, half) / best_chunks(64, 100 * MB, EFA) == pytest.approx(sqrt(2))

    def test_hierarchy_saves_about_g(self):
        assert [round(network_saving(8, n), 1) for n in (2, 8, 10_000)] == [15.0, 9.0, 8.0]

    def test_a_flat_ring_leaves_nvlink_idle(self):
        # 16 GPUs on 4 nodes: 4 hops cross a boundary, 12 do not, and run at 50/450 = 11 %
        hops = [(i, (i + 1) % 16) for i in range(16)]
        assert sum(a // 4 != b // 4 for a, b in hops) == 4
        nvlink = gpus.nvlink_line_rate_gb_per_s(18, gpus.part_of("NVIDIA H100 80GB HBM3"))
        assert network.line_rate_gb_per_s(400) / nvlink == pytest.approx(0.11, abs=0.002)

    def test_in_the_network(self):
        # up n and down n a rank: 2n against 1.97n; latency 2α against 2 * 511 * 3 = 3.07 ms
        assert in_network(1.0).serial_bytes == 2 > ALLREDUCE["ring"](64, 1.0).serial_bytes
        ib = AlphaBeta(3.0, 50.0)
        saved = ALLREDUCE["ring"](512, 0).time_us(ib) - in_network(0).time_us(ib)
        assert saved == pytest.approx(3000, rel=0.03)

    def test_collectives_reach_70_to_85_percent(self):
        for model in ("V100-SXM2", "A100-SXM4", "H100-SXM5", "B200"):
            part = gpus.part_of(f"NVIDIA {model}")
            reached = gpus.nvlink_ring_gb_per_s(part.nvlinks, part)
            assert 0.70 <= reached / gpus.nvlink_line_rate_gb_per_s(part.nvlinks, part) <= 0.85

    def test_hidden_communication_costs_a_few_percent(self):
        assert pytest.approx(0.03) == 0.30 * OVERLAP_COST

    def test_the_tail_stays(self):
        # however long the pass: the last of the buckets has nothing to hide behind
        assert hidden_behind(10, 5.0, 1e9) == 5.0
        # pieces of 30 in a pass of 100 that makes one every 25: 25 + 4 · 30 − 100 = 45
        assert hidden_behind(4, 30.0, 100.0) == 45.0

    def test_ll_is_half(self):
        assert tuning.RING_SHARE["LL"] == 0.5

    def test_factors_of_two_that_are_no_fault(self):
        assert bus_factor("allreduce", 2) == 1.0
        assert bus_factor("allgather", 2) == 0.5
        assert bus_factor("allreduce", 64) / bus_factor("alltoall", 64) == 2

    def test_buckets(self):
        # √(t/(2(p−1)α)): t = 100 ms, p = 64: √(100,000/1512) = 8.1; at p = 1024 √(100,000/24,552) = 2.0
        assert best_buckets(100_000, 64, EFA) == pytest.approx(8.13, abs=0.01)
        assert best_buckets(100_000, 1024, EFA) == pytest.approx(2.02, abs=0.01)
        # of 16 GB of gradients a bucket is then 2 and 8 GB: 25 MB is far too small where communication binds
        assert best_buckets(100_000, 64, AlphaBeta(12.0, 22.5)) == best_buckets(100_000, 64, EFA)


class TestFabric:
    def test_fat_tree(self):
        assert fat_tree_endpoints(64) == 65_536

    def test_bisection(self):
        assert bisection_gb_per_s(1024, 50.0) == 1024 * 50 / 2
        assert bisection_gb_per_s(1024, 50.0, 4) == 1024 * 50 / 8

    def test_the_busiest_link(self):
        assert round(busiest_leading(64), 1) == 2.9
        assert busiest_expected(64) == pytest.approx(3.95, abs=0.02)

    @pytest.mark.parametrize("links", [2, 3, 4, 5])
    def test_the_busiest_link_counted_out(self, links):
        throws = list(product(range(links), repeat=links))
        mean = sum(max(throw.count(link) for link in range(links)) for throw in throws) / len(throws)
        assert busiest_expected(links) == pytest.approx(mean)

    def test_incast(self):
        assert drain_us(1 * MB, 50.0) == pytest.approx(20)  # 400 Gb/s
        assert incast_fills_us(32, 50.0) == pytest.approx(20 / 31)

    def test_the_worst_expert_sets_the_pace(self):
        assert imbalance(1.5, 100.0) == 150
        assert imbalance(0.9, 100.0) == 100


class TestSecondSource:
    def test_tensor_parallel_70b(self):
        # 4 allreduces * 80 blocks * 8192 * 2 bytes * 2 * 7/8 = 9.18 MB a rank and token
        sent = 4 * 80 * least_bytes("allreduce", 8, 8192 * 2)
        assert sent == pytest.approx(9.18e6, rel=0.001)
        # 6 * 70.6e9 / 8 FLOP at 0.4 * 989 TFLOP/s = 133.8 µs; 9.18 MB at 900, 450, 50 GB/s = 10.2, 20.4, 183.5 µs
        compute_us = 6 * 70.6e9 / 8 / (0.4 * 989e6)
        shares = [sent / 1000 / gb_per_s / compute_us for gb_per_s in (900, 450, 50)]
        assert [round(100 * share) for share in shares] == [8, 15, 137]

    def test_gradients_of_8b(self):
        # 8e9 * 2 bytes = 16 GB; * 2 * 7/8 = 28.0; * 2 * 63/64 = 31.5
        assert least_bytes("allreduce", 8, 16e9) == 28.0e9
        assert least_bytes("allreduce", 64, 16e9) == 31.5e9

    def test_141_gb_of_gradients(self):
        sent = least_bytes("allreduce", 8, 141e9)
        assert sent == 246.75e9
        assert sent / 900e9 == pytest.approx(0.274, abs=0.0005)
        assert sent / 450e9 == pytest.approx(0.548, abs=0.0005)
        # ours: 246.75 / 363 (0.807 of 450, ring) = 0.68 s; / 480 (NVLS) = 0.51 s
        found = ways(healthy("H100-SXM5"), "allreduce")
        fastest = {name: best([w for w in found if w.algorithm == name], 141e9) for name in ("ring", "NVLS")}
        assert fastest["ring"].time_us(141e9) / 1e6 == pytest.approx(0.68, abs=0.005)
        assert fastest["NVLS"].time_us(141e9) / 1e6 == pytest.approx(0.51, abs=0.005)
        assert best(found, 141e9).algorithm == "NVLS"

    def test_nvlink_against_the_slot(self):
        # 450 / 63 = 7 one way against one way, 900 / 63 = 14 both against one
        nvlink = gpus.nvlink_line_rate_gb_per_s(18, gpus.part_of("NVIDIA H100 80GB HBM3"))
        slot = pcie.line_rate_gb_per_s(32.0, 16)
        assert (round(nvlink / slot), round(2 * nvlink / slot)) == (7, 14)

    def test_decode_at_batch_one(self):
        assert decode_step_us(141, 1, 3350, 0, 0) == pytest.approx(42_100, rel=0.001)
        assert decode_step_us(141, 8, 3350, 0, 0) == pytest.approx(5260, rel=0.001)
        fast, slow = (decode_step_us(141, 8, 3350, 160, us) for us in (23, 42))
        assert (fast, slow) == (pytest.approx(9000, rel=0.01), pytest.approx(12_000, rel=0.01))
        assert (round(42_090 / slow, 1), round(42_090 / fast, 1)) == (3.5, 4.7)
        # ours for the 16 KB of one token: inside the 23-42 µs
        size = 8192 * 2
        assert 23 <= best(ways(healthy("H200"), "allreduce"), size).time_us(size) <= 42

    def test_what_hides_the_reduction(self):
        # 396 TFLOP/s / 8192 tokens = 48.3 GB/s = 387 Gb/s for many ranks
        assert bandwidth_to_hide_gb_per_s(1 << 30, 396.0, 8192) == pytest.approx(48.3, abs=0.05)
        # from its parts: 2 * 2 bytes * P * (n−1)/n in the time of 4 * P * T FLOP
        parameters, ranks, tokens = 7e9, 64, 8192
        backward_s = 4 * parameters * tokens / 396e12
        assert least_bytes("allreduce", ranks, 2 * parameters) / backward_s / 1e9 == pytest.approx(
            bandwidth_to_hide_gb_per_s(ranks, 396.0, tokens)
        )
