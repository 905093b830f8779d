"""Every formula of topocheck.predict.algorithms against a simulation that plays the algorithm message by message."""

from math import isclose, sqrt

import playing
import playing_trees
import pytest

from topocheck.predict.algorithms import (
    ALGORITHMS,
    POWERS_OF_TWO,
    best_chunks,
    by_level,
    chain,
    double_tree,
    double_tree_stages,
    in_network,
    least_bytes,
    network_saving,
)
from topocheck.predict.alpha_beta import AlphaBeta
from topocheck.predict.step import hidden_behind

PATH = AlphaBeta(3.0, 40.0)
N = 240_000.0
PLAYED = {
    ("broadcast", "root"): playing.broadcast_root,
    ("broadcast", "tree"): playing.broadcast_tree,
    ("reduce", "root"): playing.reduce_root,
    ("reduce", "tree"): playing.reduce_tree,
    ("gather", "root"): playing.gather_root,
    ("gather", "tree"): playing.gather_tree,
    ("scatter", "root"): playing.scatter_root,
    ("scatter", "tree"): playing.scatter_tree,
    ("allgather", "ring"): playing.allgather_ring,
    ("allgather", "doubling"): playing.allgather_doubling,
    ("reducescatter", "ring"): playing.reducescatter_ring,
    ("reducescatter", "halving"): playing.reducescatter_halving,
    ("allreduce", "root"): playing.allreduce_root,
    ("allreduce", "tree"): playing.allreduce_tree,
    ("allreduce", "ring"): playing.allreduce_ring,
    ("allreduce", "halving-doubling"): playing.allreduce_halving_doubling,
    ("alltoall", "pairwise"): playing.alltoall_pairwise,
    ("alltoall", "bruck"): playing.alltoall_bruck,
    ("barrier", "dissemination"): playing.barrier_dissemination,
}
EVERY = [(op, name) for op, algorithms in ALGORITHMS.items() for name in algorithms]


def test_every_algorithm_is_played():
    assert set(EVERY) == set(PLAYED)


@pytest.mark.parametrize(("op", "name"), EVERY)
@pytest.mark.parametrize("p", [2, 3, 4, 5, 6, 7, 8, 16])
def test_the_formula_is_what_the_messages_take(op, name, p):
    if name in POWERS_OF_TWO and p & (p - 1):
        pytest.skip("defined for powers of two")
    ranks, done = PLAYED[op, name](p, N, PATH.alpha_us, PATH.beta_us_per_byte)
    assert done, "a contribution is missing"
    cost = ALGORITHMS[op][name](p, N)
    assert ranks.time == pytest.approx(cost.time_us(PATH))
    assert ranks.busiest == pytest.approx(cost.busiest_bytes)


@pytest.mark.parametrize("chunks", [1, 2, 5, 24])
def test_a_pipelined_chain(chunks):
    ranks, done = playing.broadcast_chain(6, N, PATH.alpha_us, PATH.beta_us_per_byte, chunks)
    assert done
    # p − 2 + k rounds of α + nβ/k
    assert ranks.time == pytest.approx((4 + chunks) * (3.0 + N / chunks / 40_000))
    assert chain(6, N, chunks).time_us(PATH) == pytest.approx(ranks.time)


@pytest.mark.parametrize("p", [4, 6, 8, 12, 16, 32, 40])
@pytest.mark.parametrize("chunks", [1, 2, 4, 16])
def test_the_double_tree(p, chunks):
    took, busiest = playing_trees.double_tree(p, N, PATH.alpha_us, PATH.beta_us_per_byte, chunks)
    cost = double_tree(p, N, chunks)
    assert busiest == pytest.approx(2 * N) == cost.busiest_bytes
    # the port that moves 2n one way is busy for 4k pieces; whatever starts first is no best order: up to a third more
    assert took >= 4 * chunks * PATH.time_us(N / 2 / chunks)
    assert 0.9 <= took / cost.time_us(PATH) <= 1.35
    if chunks == 1 and p & (p - 1) == 0:
        assert took == pytest.approx(cost.time_us(PATH))


def test_the_best_number_of_chunks_is_the_best_played():
    # √((p−2)nβ/α) = √(6 · 240000/40000 / 3) = √12 = 3.46
    assert best_chunks(8 - 2, N, PATH) == pytest.approx(sqrt(12))
    times = {k: playing.broadcast_chain(8, N, PATH.alpha_us, PATH.beta_us_per_byte, k)[0].time for k in range(1, 9)}
    assert min(times, key=times.get) in (3, 4)


def test_the_best_number_of_chunks_of_a_double_tree():
    # (k + L − 3/2)(α + nβ/2k) is least at √((L − 3/2) · nβ/2α) = √(2.5 · 60 / 3) = √50 = 7.07 for n = 4.8 MB / 40 GB/s
    assert best_chunks(double_tree_stages(16), 4.8e6 / 2, PATH) == pytest.approx(sqrt(50))
    times = {k: double_tree(16, 4.8e6, k).time_us(PATH) for k in range(1, 20)}
    assert min(times, key=times.get) == 7


@pytest.mark.parametrize(("gpus", "nodes"), [(2, 2), (4, 2), (4, 3), (2, 5)])
def test_hierarchical(gpus, nodes):
    inside, between = AlphaBeta(2.0, 360.0), AlphaBeta(5.0, 45.0)
    ranks, done = playing.hierarchical(N, gpus, nodes, (2.0, inside.beta_us_per_byte), (5.0, between.beta_us_per_byte))
    assert done
    within, over = by_level(N, gpus, nodes)
    assert within.time_us(inside) + over.time_us(between) == pytest.approx(ranks.time)


@pytest.mark.parametrize(("gpus", "nodes"), [(2, 2), (8, 2), (8, 64)])
def test_hierarchical_saves_what_it_should_on_the_network(gpus, nodes):
    flat = ALGORITHMS["allreduce"]["ring"](gpus * nodes, N).busiest_bytes
    _, over = by_level(N, gpus, nodes)
    ranks = gpus * nodes
    assert flat / over.busiest_bytes == pytest.approx(gpus * (ranks - 1) / ranks * nodes / (nodes - 1))
    assert network_saving(gpus, nodes) == pytest.approx(flat / over.busiest_bytes)


@pytest.mark.parametrize("p", range(2, 65))
def test_nobody_moves_less_than_must_be_moved(p):
    assert chain(p, N, 5).busiest_bytes >= least_bytes("broadcast", p, N)
    assert double_tree(p, N, 5).busiest_bytes >= least_bytes("allreduce", p, N)
    for op, name in EVERY:
        if name in POWERS_OF_TWO and p & (p - 1):
            continue
        assert ALGORITHMS[op][name](p, N).busiest_bytes >= least_bytes(op, p, N) * (1 - 1e-12), (op, name)


def test_the_ring_meets_both_bounds():
    assert isclose(ALGORITHMS["allreduce"]["ring"](64, N).busiest_bytes, least_bytes("allreduce", 64, N))
    assert isclose(ALGORITHMS["allgather"]["ring"](64, N).busiest_bytes, least_bytes("allgather", 64, N))


@pytest.mark.parametrize("p", [2, 5, 16])
def test_in_the_network_two_messages_whatever_p(p):
    ranks, done = playing.allreduce_in_the_switch(p, N, PATH.alpha_us, PATH.beta_us_per_byte)
    assert done
    assert in_network(N).time_us(PATH) == pytest.approx(ranks.time) == pytest.approx(2 * 3.0 + 2 * N / 40_000)
    assert in_network(N).busiest_bytes == ranks.busiest == N


@pytest.mark.parametrize(
    ("pieces", "piece_us", "cover_us"), [(1, 5, 9), (4, 1, 100), (4, 30, 100), (7, 9, 50), (40, 2, 80)]
)
def test_what_a_pass_leaves_exposed(pieces, piece_us, cover_us):
    assert hidden_behind(pieces, piece_us, cover_us) == pytest.approx(playing.buckets(pieces, piece_us, cover_us))


def test_gamma_counts_what_is_added_on_the_way():
    # a ring adds (p−1)/p·n: 7/8 · 240000 · 0.001 = 210 µs more
    ring = ALGORITHMS["allreduce"]["ring"](8, N)
    assert ring.time_us(PATH, gamma_us_per_byte=0.001) - ring.time_us(PATH) == pytest.approx(210)
