"""Each figure of the article, with its arithmetic (GB/s one direction), and what topocheck says beside it.

Where the article rounds, so does the test. `TestWhereWeDisagree` holds the figures that the article states and no row
of ours reaches, with ours beside them. The figures of its second source are in test_predict_article_step.py.
"""

from itertools import product
from math import sqrt

import measurements
import nodes
import playing
import pytest
from collective_rows import healthy

from topocheck.check import check
from topocheck.hardware import collectives, gpus, latency, network, pcie, tuning
from topocheck.hardware.compute import chip_of
from topocheck.model import Scenario, bandwidth
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
    alltoall_per_gpu,
    bisection_gb_per_s,
    busiest_expected,
    busiest_leading,
    drain_us,
    fabric_of,
    fat_tree_endpoints,
    full_mesh_links,
    incast_fills_us,
)
from topocheck.predict.job import Job
from topocheck.predict.ladder import ladder
from topocheck.predict.step import OVERLAP_COST, hidden_behind, step_of

H100 = chip_of("NVIDIA H100 80GB HBM3")
NODE = healthy("H100-SXM5")
EFA, IB = AlphaBeta(12.0, 45.0), AlphaBeta(2.0, 45.0)
ALLREDUCE = ALGORITHMS["allreduce"]
MB = 1e6


def intensity(gb_per_s):
    return H100.tensor_tflop_per_s * 1000 / gb_per_s


class TestLadder:
    def test_what_an_h100_computes_and_reads(self):
        # "roughly 990 trillion operations per second, 3.35 trillion bytes per second"
        assert H100.tensor_tflop_per_s == pytest.approx(990, rel=0.001)
        assert H100.hbm_gb_per_s == 3350

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
        # the article has no figure of L2: ours, and marked so
        assert {rung.level: rung.kind for rung in ladder(NODE)}["L2"] == "ours"

    def test_cliffs(self):
        nvlink = gpus.nvlink_line_rate_gb_per_s(18, gpus.part_of("NVIDIA H100 80GB HBM3"))
        nic, slot = network.line_rate_gb_per_s(400), pcie.line_rate_gb_per_s(32.0, 16)
        assert H100.hbm_gb_per_s / nvlink == pytest.approx(7, rel=0.07)
        assert nvlink / slot == pytest.approx(7, rel=0.03)
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
        assert pcie.GTS_OF_GEN[6] == 2 * 32  # PAM4: two bits of 32 GBd

    def test_a_nic_behind_gen4_is_capped(self):
        assert pcie.line_rate_gb_per_s(16.0, 16) / 50 == pytest.approx(0.63, abs=0.001)

    def test_a_full_mesh(self):
        assert [full_mesh_links(n) for n in (4, 8, 16)] == [(6, 3), (28, 7), (120, 15)]
        assert gpus.part_of("NVIDIA H100 80GB HBM3").nvlinks == 18 < full_mesh_links(72)[1]  # not beyond 19 GPUs

    def test_staged_twice_as_many_crossings(self):
        assert pcie_crossings(gpudirect=False) == 4
        assert pcie_crossings(gpudirect=True) == 2


class TestMessage:
    def test_half_power_size(self):
        assert EFA.n_half_bytes == pytest.approx(540_000)  # 12 µs * 45 GB/s
        assert EFA.time_us(540_000) == pytest.approx(2 * EFA.alpha_us)

    def test_only_serialisation_grows_with_the_message(self):
        # n/B and nothing else: what 1 MB more takes is 1 MB over the link, at any size
        assert EFA.time_us(2 * MB) - EFA.time_us(1 * MB) == pytest.approx(MB / 45_000) == EFA.time_us(MB) - 12.0
        # the other five are paid once: software and injection, propagation, switching, queueing
        assert sum(parts_of(12.0)) == pytest.approx(EFA.time_us(0))

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
        # "roughly four times": 12 over 2.5 is 4.8, over the article's 3 it is 4
        assert latency.network_us("efa") / 3 == 4
        assert latency.network_us("efa") / latency.network_us("infiniband") == pytest.approx(4, rel=0.25)

    def test_n_half_on_efa_is_half_a_megabyte(self):
        assert EFA.n_half_bytes == pytest.approx(500_000, rel=0.1)

    def test_adding_up_is_nothing_beside_a_nic(self):
        # n bytes at 3350 GB/s against n bytes at 50 GB/s: 1.5 %
        ring, ib = ALLREDUCE["ring"](8, 1e9), AlphaBeta(2.5, 50.0)
        gamma = 1e-3 / H100.hbm_gb_per_s
        assert gamma / ib.beta_us_per_byte == pytest.approx(0.015, abs=0.0005)
        assert ring.time_us(ib, gamma) / ring.time_us(ib) < 1.01


class TestCollectives:
    def test_naive(self):
        naive = ALLREDUCE["root"](64, 100 * MB)
        assert naive.rounds == 126
        assert 2 * naive.busiest_bytes == pytest.approx(12.6e9)  # in and out: 2 * 63 * 100 MB; the others 2 * 100 MB
        played, done = playing.allreduce_root(64, 100 * MB, EFA.alpha_us, EFA.beta_us_per_byte)
        assert done
        assert played.sent[5] + played.received[5] == 200 * MB
        # linear in p: twice the cluster takes twice as long
        assert ALLREDUCE["root"](128, 1).rounds / naive.rounds == pytest.approx(2, rel=0.01)

    def test_tree_rounds(self):
        assert ALLREDUCE["tree"](64, 1).rounds == 12
        assert ALLREDUCE["root"](64, 1).rounds / 12 == pytest.approx(10, rel=0.06)  # "tenfold"

    def test_ring(self):
        ring = ALLREDUCE["ring"](64, 1.0)
        assert ring.rounds == 126
        assert ring.busiest_bytes == pytest.approx(1.97, abs=0.002)  # 2 * 63/64
        assert ALLREDUCE["ring"](10_000, 1.0).busiest_bytes == pytest.approx(2, abs=0.001)
        half = ALGORITHMS["allgather"]["ring"](64, 1.0)
        assert (half.rounds, half.busiest_bytes) == (63, least_bytes("allgather", 64, 1.0)) == (63, 63 / 64)

    def test_after_its_first_phase_rank_i_owns_chunk_i_plus_1(self):
        # round s: rank i sends chunk (i − s) mod p; played message by message
        played, done = playing.reducescatter_ring(8, 800.0, EFA.alpha_us, EFA.beta_us_per_byte)
        assert done
        assert all(len(played.held[i][(i + 1) % 8]) == 8 for i in range(8))

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
        assert best_chunks(64 - 2, 100 * MB, EFA) == pytest.approx(sqrt(62 * 1e8 / 45_000 / 12))
        half = AlphaBeta(12.0, 22.5)
        assert best_chunks(64 - 2, 100 * MB, half) / best_chunks(64 - 2, 100 * MB, EFA) == pytest.approx(sqrt(2))

    def test_hierarchy_saves_about_g(self):
        assert [round(network_saving(8, n), 1) for n in (2, 8, 10_000)] == [15.0, 9.0, 8.0]

    def test_a_flat_ring_leaves_nvlink_idle(self):
        # 16 GPUs on 4 nodes: 4 hops cross a boundary, 12 do not, and run at 50/450 = 11 %
        hops = [(i, (i + 1) % 16) for i in range(16)]
        assert sum(a // 4 != b // 4 for a, b in hops) == 4
        nvlink = gpus.nvlink_line_rate_gb_per_s(18, gpus.part_of("NVIDIA H100 80GB HBM3"))
        assert network.line_rate_gb_per_s(400) / nvlink == pytest.approx(0.11, abs=0.002)

    def test_in_the_network(self):
        # up n and down n a rank: 2n against the 1.97n a ring sends; latency 2α against 2 * 511 * 3 = 3.07 ms
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
        assert bus_factor("allreduce", 10_000) == pytest.approx(2, abs=0.001)  # busbw against algbw
        assert AlphaBeta(3.0, 50.0).in_flight_bytes() == 2 * AlphaBeta(3.0, 50.0).n_half_bytes  # there and back

    def test_buckets(self):
        # √(t/(2(p−1)α)): t = 100 ms, p = 64: √(100,000/1512) = 8.1; at p = 1024 √(100,000/24,552) = 2.0
        assert best_buckets(100_000, 64, 12.0) == pytest.approx(8.13, abs=0.01)
        assert best_buckets(100_000, 1024, 12.0) == pytest.approx(2.02, abs=0.01)
        # it is the least of t/k + k·2(p−1)α, and of 16 GB of gradients a bucket is then 2 and 8 GB, not DDP's 25 MB
        waits = {k: 100_000 / k + ALLREDUCE["ring"](64, 0).time_us(EFA) * k for k in range(1, 20)}
        assert min(waits, key=waits.get) == 8
        assert Job(8e9, 32, 4096, 4096).bucket_mb == 25
        # "hardly with bandwidth": not at all here, √2 for twice the β in a pipelined chain (above)

    def test_the_bucket_of_a_job_grows_with_its_ranks(self):
        job = Job(7e9, 32, 4096, 8192, zero=2)
        best_at = {n: step_of(NODE, job, n).best_bucket_mb for n in (8, 128)}
        assert 25 < best_at[128] > best_at[8]


class TestFabric:
    def test_fat_tree(self):
        assert fat_tree_endpoints(64) == 65_536

    def test_bisection(self):
        assert bisection_gb_per_s(1024, 50.0) == 1024 * 50 / 2
        assert bisection_gb_per_s(1024, 50.0, 4) == 1024 * 50 / 8
        # oversubscribed 2:1 and 4:1 at the leaf: of four nodes three quarters of the traffic leave, of many nearly all
        four, many = ([alltoall_per_gpu(n, 48.0, over) for over in (1, 2, 4)] for n in (4, 10_000))
        assert four == [48, 32, 16]
        assert many == pytest.approx([48, 24, 12], rel=0.001)

    def test_a_rail_a_nic(self):
        # GPU j of every node on leaf j: eight NICs, eight rails
        assert fabric_of(NODE, 16, 49.0).rails == 8

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
        # alltoall takes what the most loaded rank takes: 1.5 times the bytes of the mean
        even, worst = (Job(7e9, 32, 4096, 8192, zero=3, ep=8, imbalance=x) for x in (1.0, 1.5))
        mean, most = (step_of(NODE, job, 8).traffic[0] for job in (even, worst))
        assert (mean.kind, mean.op) == ("expert", "alltoall")
        assert most.message_bytes == 1.5 * mean.message_bytes
        assert 1.3 < most.total_us / mean.total_us <= 1.5  # α does not grow


class TestWhereWeDisagree:
    def test_a_sixth_across_sockets(self):
        # stated: two GPUs on opposite sockets "may run at a sixth" of link rate, no arithmetic: 63.0 / 6 = 10.5 GB/s
        stated = pcie.line_rate_gb_per_s(32.0, 16) / 6
        assert stated == pytest.approx(10.5, abs=0.01)
        # ours: the link itself, no constant for the link between sockets (docs/model.md); Gen4 here, 26.0 of 31.5
        node = check(str(nodes.healthy("pcie-box"))).topology
        far = [(a.id, b.id) for a in node.gpus for b in node.gpus if node.pair_class(a.id, b.id) == "SYS"]
        line = pcie.line_rate_gb_per_s(16.0, 16)
        ours = [bandwidth(node, Scenario("gpu-pair", *pair)).gb_per_s / line for pair in far]
        assert ours == pytest.approx([0.826] * 32, abs=0.001)  # 4 × 4 pairs, either way
        # measured: 51.0 (Turin) and 39 (Genoa) of Gen5's 63.0, 39.6 both ways of Gen4's 2 * 31.5 (Rome): 0.62 to 0.81
        rows = {row.id: row.measured for row in measurements.rows()}
        gen5 = pcie.line_rate_gb_per_s(32.0, 16)
        shares = [rows["P2P-17"] / gen5, rows["P2P-20"] / gen5, rows["P2P-11"] / 2 / line]
        assert 0.6 < min(shares) <= max(shares) < 0.85

    def test_nor_a_sixth_where_peer_to_peer_is_refused(self):
        # "or may not support it at all", staged through host memory: 0.27 to 0.39 of the line rate in our rows
        off = {loss.id: loss.before for loss in measurements.losses() if loss.rule == "P2P001"}
        x16, x8 = (pcie.line_rate_gb_per_s(16.0, lanes) for lanes in (16, 8))
        shares = [off["FAULT-37"] / x16, off["FAULT-38"] / 2 / x16, off["FAULT-40"] / x8]
        assert 1 / 6 < 0.26 < min(shares) <= max(shares) < 0.40
        assert pcie.staged_gb_per_s(32.0, 16) / pcie.line_rate_gb_per_s(32.0, 16) > 1 / 6

    def test_a_third_for_a_wrong_numa_node(self):
        # stated: a cluster that takes the link between sockets for a data path "benchmarks at a third"; no arithmetic.
        # ours and measured: NICs of the other socket keep 0.45-0.65 as printed, 0.48-0.71 in rows
        far = [loss.remains for loss in measurements.losses() if loss.rule == "AFF001"]
        assert 1 / 3 < 0.47 < min(far) <= max(far) < 0.71
        low, high = network.FAR_SOCKET_LOSS
        assert (round(1 - high, 2), round(1 - low, 2)) == (0.45, 0.65)
        assert collectives.FAR_NIC > 1 / 3
        # a third is where staged copies end: 0.34 of the link is the least that was measured of them
        assert 1 - pcie.STAGED_LOSS[1] == pytest.approx(1 / 3, abs=0.01)

    def test_collectives_beyond_70_to_85_percent(self):
        # the article's range holds for rings over NVLink (above). Outside of it, and measured: NVLS adds in the switch
        # (1.07 of 450), a ring over NICs 0.92, a ring over PCIe 0.709 * 1024/1144 = 0.63 of the line rate
        part = gpus.part_of("NVIDIA H100 80GB HBM3")
        assert collectives.nvls_gb_per_s(18, part) / 450 == pytest.approx(1.067)
        assert collectives.nics_gb_per_s(400) / 50 == pytest.approx(0.916)
        ring = pcie.ring_gb_per_s(32.0, 16) / pcie.line_rate_gb_per_s(32.0, 16)
        assert ring == pytest.approx(0.709 * 1024 / 1144)
        assert ring < 0.70

    def test_reduction_in_the_switch_does_save_bytes_one_way(self):
        # stated: 2n against 1.97n, "the bandwidth advantage is essentially zero". That counts n up and n down against
        # what a ring sends only; each way a full-duplex port carries n against 1.97n, and NVLS is measured so:
        # 480 busbw against 363 of a ring on the same links
        assert in_network(1.0).busiest_bytes == 1 < ALLREDUCE["ring"](64, 1.0).busiest_bytes
        found = ways(NODE, "allreduce")
        ring, nvls = (best([w for w in found if w.algorithm == name], 1e10) for name in ("ring", "NVLS"))
        assert nvls.algbw_gb_per_s / ring.algbw_gb_per_s == pytest.approx(1.067 / 0.807, rel=0.001)

    def test_infiniband_is_faster_than_3_to_12_us(self):
        # "between domains 3-12 µs", and of InfiniBand itself 2-3: ours is the middle of the latter, measured 1.98-2.80
        assert latency.network_us("infiniband") == (2 + 3) / 2 < 3
        assert 3 <= latency.network_us("efa") <= 12

    def test_ring_against_tree_is_moot(self):
        # the article says so itself: halving-doubling has the tree's rounds and the ring's bytes at every size
        for size in (1e3, 1e6, 1e9):
            times = {name: cost(64, size).time_us(EFA) for name, cost in ALLREDUCE.items()}
            assert min(times, key=times.get) == "halving-doubling"
