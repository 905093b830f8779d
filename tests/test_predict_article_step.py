"""The figures of the article's second source, a list of worked questions on what a training step sends.

Each under that source's convention (NVLink counted both ways, rated) and under ours (one direction, achievable).
"""

import pytest
from collective_rows import healthy

from topocheck.hardware import gpus, pcie
from topocheck.predict.algorithms import least_bytes
from topocheck.predict.collectives import best, ways
from topocheck.predict.decode import decode_of
from topocheck.predict.job import Job
from topocheck.predict.step import bandwidth_to_hide_gb_per_s, hidden_behind, step_of

NODE = healthy("H100-SXM5")
SEVENTY_B = Job(70.6e9, 80, 8192, 8192, tp=8, zero=3)


def test_tensor_parallel_70b():
    # 4 allreduces * 80 blocks * 8192 * 2 bytes * 2 * 7/8 = 9.18 MB a rank and token
    sent = 4 * 80 * least_bytes("allreduce", 8, 8192 * 2)
    assert sent == pytest.approx(9.18e6, rel=0.001)
    # 6 * 70.6e9 / 8 FLOP at 0.4 * 989 TFLOP/s = 133.8 µs; 9.18 MB at 900, 450, 50 GB/s = 10.2, 20.4, 183.5 µs
    compute_us = 6 * 70.6e9 / 8 / (0.4 * 989e6)
    shares = [sent / 1000 / gb_per_s / compute_us for gb_per_s in (900, 450, 50)]
    assert [round(100 * share) for share in shares] == [8, 15, 137]


def test_gradients_of_8b():
    # 8e9 * 2 bytes = 16 GB; * 2 * 7/8 = 28.0; * 2 * 63/64 = 31.5
    assert least_bytes("allreduce", 8, 16e9) == 28.0e9
    assert least_bytes("allreduce", 64, 16e9) == 31.5e9


def test_141_gb_of_gradients():
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


def test_nvlink_against_the_slot():
    # 450 / 63 = 7 one way against one way, 900 / 63 = 14 both against one
    nvlink = gpus.nvlink_line_rate_gb_per_s(18, gpus.part_of("NVIDIA H100 80GB HBM3"))
    slot = pcie.line_rate_gb_per_s(32.0, 16)
    assert (round(nvlink / slot), round(2 * nvlink / slot)) == (7, 14)


def test_half_of_that_gap_is_a_convention():
    # "a PCIe card moves about 64 GB/s per direction": 63.0; "900 GB/s over NVLink" is both directions
    assert pcie.line_rate_gb_per_s(32.0, 16) == pytest.approx(64, rel=0.02)
    assert 2 * gpus.nvlink_line_rate_gb_per_s(18, gpus.part_of("NVIDIA H100 80GB HBM3")) == 900


def test_tensor_parallel_70b_by_our_model():
    # ours on NVLink: 9.18 MB at NVLS' 480 busbw are 19.1 µs of 133.8 and α: 14-15 % of compute, where the source has 8
    step = step_of(NODE, SEVENTY_B, 8)
    tensor = next(t for t in step.traffic if t.kind == "tensor")
    assert (tensor.op, tensor.messages, tensor.rung) == ("allreduce", 4 * 80, "NVLink")
    assert tensor.sent_bytes / 8192 == pytest.approx(9.18e6, rel=0.001)
    assert tensor.total_us / step.compute_us == pytest.approx(0.15, abs=0.01)
    # across the NIC "more than the step itself": a GPU a node, eight nodes
    apart = step_of(healthy("H100-SXM5", 1, 1), SEVENTY_B, 64)
    tensor = next(t for t in apart.traffic if t.kind == "tensor")
    assert tensor.rung == "network"
    assert 1.37 < tensor.total_us / apart.compute_us < 1.6  # 1.37 at line rate, NCCL reaches 0.916 of it


def test_gradients_go_once_a_step_and_nearly_twice_the_model():
    step = step_of(NODE, Job(4e9, 32, 4096, 8192), 8)
    (gradients,) = step.traffic
    assert gradients.sent_bytes == pytest.approx(4e9 * 2 * 2 * 63 / 64)


def test_why_141_gb_take_longer_than_the_formula():
    # 0.27 s by the formula at 900; ours 0.68 by a ring: 900 counts both directions, and 0.807 of 450 is achievable
    formula = least_bytes("allreduce", 8, 141e9) / 900e9
    ring = best([w for w in ways(NODE, "allreduce") if w.algorithm == "ring"], 141e9)
    assert ring.time_us(141e9) / 1e6 / formula == pytest.approx(2 / 0.807, rel=0.001)


def test_decode_at_batch_one():
    # 141 GB of weights, an eighth a card: 141 / 8 / 3350 = 5.26 ms; one card 42.1; 160 allreduces of 23 to 42 µs
    job = Job(70.5e9, 80, 8192, 1, tp=8)
    ours = decode_of(NODE, job, 1)
    assert ours.weights_us == pytest.approx(5260, rel=0.001)
    assert ours.one_gpu_us == pytest.approx(42_100, rel=0.001)
    assert ours.allreduces == 160
    fast, slow = (ours._replace(allreduce_us=us).total_us for us in (23, 42))
    assert (fast, slow) == (pytest.approx(9000, rel=0.01), pytest.approx(12_000, rel=0.01))
    assert (round(ours.one_gpu_us / slow, 1), round(ours.one_gpu_us / fast, 1)) == (3.5, 4.7)
    # ours for the 16 KB of one token is inside, launches of kernels beside it are not counted
    assert 23 <= ours.allreduce_us <= 42
    assert 9000 <= ours.total_us <= 12_000


def test_what_hides_the_reduction():
    # 396 TFLOP/s / 8192 tokens = 48.3 GB/s = 386 Gb/s for many ranks, near the 400 that ships
    small = Job(7e9, 32, 4096, 8192)
    many = bandwidth_to_hide_gb_per_s(small, 1 << 30, 396.0)
    assert many == pytest.approx(48.3, abs=0.05)
    assert many * 8 == pytest.approx(386, abs=1)
    # from its parts: 2 * 2 bytes * P * (n−1)/n in the time of 4 * P * T FLOP, whatever P
    for job in (small, Job(70e9, 80, 8192, 8192, tp=8, pp=4), Job(7e9, 32, 4096, 8192, cp=4)):
        shards = job.tp * job.pp  # of the weights; context ranks share the tokens, and hold all of them
        backward_s = 4 * job.parameters * job.tokens / (shards * job.cp) / 396e12
        sent = least_bytes("allreduce", 64, 2 * job.parameters / shards)
        assert sent / backward_s / 1e9 == pytest.approx(bandwidth_to_hide_gb_per_s(job, 64, 396.0))
    # and as the step says it: 0.4 * 989.4 TFLOP/s over 64 ranks
    step = step_of(NODE, Job(4e9, 32, 4096, 8192), 8)
    assert step.hide_gb_per_s == pytest.approx(63 / 64 * 0.4 * 989_400 / 8192)


def test_the_step_time_below_which_nothing_hides():
    # bytes * 2(n−1)/n / link: 14 GB of a 7B over 64 ranks at 50 GB/s is 0.551 s; a shorter backward pass leaves a rest
    takes_s = least_bytes("allreduce", 64, 14e9) / 50e9
    assert takes_s == pytest.approx(0.551, abs=0.001)
    piece = takes_s / 100
    assert hidden_behind(100, piece, 2 * takes_s) == pytest.approx(piece)
    assert hidden_behind(100, piece, takes_s / 2) == pytest.approx(takes_s / 2, rel=0.02)
    # by our model the pass of 16,384 tokens hides it, one of 1024 does not
    long, short = (step_of(NODE, Job(4e9, 32, 4096, tokens), 8) for tokens in (16_384, 1024))
    assert long.cover_us > long.reduction_us
    assert long.exposed_us < 0.05 * long.reduction_us
    assert short.exposed_us == pytest.approx(short.reduction_us - short.cover_us, rel=0.02)
    assert short.exposed_us > 0.5 * short.reduction_us
