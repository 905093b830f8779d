"""`predict -v` and the JSON of it: algorithms by the book, what hides, one token, figures beside this node's."""

import json
import re
import shutil

import nodes
import pytest

from topocheck.check import check
from topocheck.cli import run
from topocheck.hardware.compute import chip_of
from topocheck.predict.collectives import OPS
from topocheck.predict.machine import machine_of

HGX = str(nodes.healthy("hgx-h100"))
JOB = """
[model]
parameters = 70.5e9
layers = 80
hidden = 8192
sequence = 8192
[parallel]
tp = 8
zero = 2
[assume]
mfu = 0.4
"""


@pytest.fixture
def asked(capsys):
    """The JSON of a run."""

    def answer(*words):
        assert run(["predict", "--from", HGX, "--format", "json", *map(str, words)]) == 0
        return json.loads(capsys.readouterr().out)

    return answer


@pytest.fixture
def screen(capsys):
    """The text of a run."""

    def answer(*words):
        assert run(["predict", "--from", HGX, *map(str, words)]) == 0
        return capsys.readouterr().out

    return answer


@pytest.fixture
def job(tmp_path):
    """A job file of this text."""

    def written(text=JOB):
        file = tmp_path / "job.toml"
        file.write_text(text)
        return str(file)

    return written


def entry(book, algorithm, size):
    (found,) = [r for r in book["rows"] if (r["algorithm"], r["bytes"]) == (algorithm, size)]
    return found


def test_the_book_between_nodes(asked):
    book = asked("--op", "allreduce", "--bytes", "1K:16G", "--nodes", 8)["textbook"]
    assert (book["ranks"], book["level"], book["alpha_us"], book["gb_per_s"]) == (64, "network", 2.5, 49)
    assert sorted({r["bytes"] for r in book["rows"]}) == [1 << 10, 4 << 20, 16 << 30]  # first, middle, last of 25
    # a ring of 64: 126 messages of n/64; the least; 126 · (2.5 + 4 MiB / 64 / 49,000) µs
    ring = entry(book, "ring", 4 << 20)
    assert (ring["messages"], ring["over_least"]) == (126, pytest.approx(1))
    assert ring["time_us"] == pytest.approx(126 * (2.5 + 2**22 / 64 / 49_000), rel=1e-5)
    # a tree: 12 messages of n, its root sends 6n of the 126/64 n that must be: 3.05
    tree = entry(book, "tree", 4 << 20)
    assert (tree["messages"], tree["over_least"]) == (12, pytest.approx(6 * 64 / 126, rel=1e-5))
    # (126 − 12) · 2.5 µs / ((12 − 1.96875) / 49,000) = 1.39 MB
    assert book["tree_ring_crossover_bytes"] == pytest.approx(114 * 2.5 * 49_000 / 10.03125, rel=1e-5)
    # in the switches two messages of n, and half of what a ring must send
    switches = entry(book, "in the switches", 16 << 30)
    assert (switches["messages"], switches["over_least"]) == (2, pytest.approx(64 / 126, rel=1e-5))
    # by level: 14 messages over NVLink, 14 between; 2 · 7/8 · n/8 over the network, 9 times less than 126/64 n
    level = entry(book, "by level", 16 << 30)
    assert level["messages"] == 28
    assert level["sent_bytes"] == pytest.approx(2 * 7 / 8 * 2**34 / 8, rel=1e-5)
    assert book["network_saving"] == pytest.approx(9)


def test_chunks_in_the_book(asked):
    book = asked("--op", "broadcast,allreduce", "--bytes", "1K:16G", "--nodes", 8)["textbook"]
    # k* = √(62 · 4 MiB / 49,000 / 2.5) = 46; a double tree √(4.5 · 2 MiB / 49,000 / 2.5) = 9
    assert entry(book, "chain in chunks", 4 << 20)["chunks"] == 46
    assert entry(book, "double tree", 4 << 20)["chunks"] == 9
    assert entry(book, "chain in chunks", 1 << 10)["chunks"] == 1


def test_the_book_inside_a_node_and_of_odd_numbers(asked):
    book = asked("--op", "all", "--bytes", "1M")["textbook"]
    assert (book["ranks"], book["level"], book["network_saving"]) == (8, "NVLink", None)
    assert {r["op"] for r in book["rows"]} == set(OPS) - {"sendrecv"}  # one message is no algorithm
    assert {r["over_least"] for r in book["rows"] if r["op"] == "barrier"} == {None}
    odd = asked("--op", "allgather,allreduce", "--bytes", "1M", "--nodes", 3)["textbook"]
    # 24 ranks are no power of two: no doubling
    assert {r["algorithm"] for r in odd["rows"] if r["op"] == "allgather"} == {"ring"}
    assert "double tree" in {r["algorithm"] for r in odd["rows"]}


def test_nobody_in_the_book_beats_the_least_but_switches(asked):
    book = asked("--op", "all", "--nodes", 16)["textbook"]
    below = {r["algorithm"] for r in book["rows"] if r["over_least"] is not None and r["over_least"] < 1 - 1e-5}
    assert below == {"in the switches"}


@pytest.mark.parametrize(
    ("name", "count", "adds"),
    [
        ("hgx-h100", 2, True),
        ("hgx-h100", 1, True),
        ("p5-vm", 2, False),
        ("hgx-h100-roce", 2, False),
        ("dgx-a100", 1, False),
    ],
)
def test_who_can_add_in_the_switch(asked, name, count, adds):
    # InfiniBand between nodes (SHARP), NVLink of Hopper and later inside (NVLS); not Ethernet, EFA, A100
    book = asked("--from", nodes.healthy(name), "--op", "allreduce", "--bytes", "1M", "--nodes", count)["textbook"]
    assert ("in the switches" in {r["algorithm"] for r in book["rows"]}) is adds


def test_verbose_prints_the_book(screen):
    short, long = (screen("--op", "allreduce,broadcast", "--nodes", 8, *more) for more in ((), ("-v",)))
    assert "by the book" not in short
    assert set(short.splitlines()) <= set(long.splitlines())
    assert "allreduce by the book: 64 ranks on network, 2.5 µs and 49.0 GB/s" in long
    assert re.search(r"^ring +126 +1\.00 ", long, re.MULTILINE)
    assert "a tree beats a ring below 1.39 MB, chunks n/p of 21 KiB" in long
    assert "by level a GPU sends 9.0 times less over the network" in long
    assert "chain in chunks: k* = 1, 46, 2,949 at these sizes" in long
    # 18 NVLinks over 7 others: 2 each; 64 · 242/256 · 16 / 8 = 121
    assert "without switches 8 GPUs are 28 pairs, 7 of a GPU: 2 of its 18 NVLinks for each" in long
    assert "Gen6 121.0" in long
    assert "NCCL over TCP instead of RDMA: about 4 GB/s a node" in long
    assert max(map(len, long.splitlines())) <= 80


def test_a_rack_has_more_pairs_than_links(capsys):
    tray = str(nodes.healthy("gb200-tray"))
    assert run(["predict", "--from", tray, "--nodes", "18", "-v"]) == 0
    assert "72 GPUs are 2,556 pairs, 71 of a GPU: more than its 18 NVLinks" in capsys.readouterr().out


def test_alpha_between_gpus_under_one_switch(tmp_path):
    def alpha(folder):
        return machine_of(check(str(folder)).topology).alpha_pcie_us

    def matrix(word):
        (tmp_path / "nvidia-smi_topo_-m").write_text(
            f"\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t{word}\t0-31\t0\nGPU1\t{word}\t X \t0-31\t0\n"
        )

    # prediction.md section 6: a remote read by a kernel, PIX 0.72 µs, through a root 1.40
    assert alpha(nodes.healthy("pcie-box")) == 1.40
    uuid = "GPU-0000000{}-0000-0000-0000-000000000000"
    listing = "".join(f"GPU {i}: NVIDIA L40S (UUID: {uuid.format(i)})\n" for i in range(2))
    (tmp_path / "nvidia-smi_-L").write_text(listing)
    matrix("PIX")
    assert alpha(tmp_path) == 0.72
    matrix("NODE")
    assert alpha(tmp_path) == 1.40


def test_what_hides_the_gradients(asked, screen, job):
    # (n−1)/n · F / T: 15/16 · 0.4 · 989.4 TFLOP/s / 8192 tokens = 45.3 GB/s, whatever the model's size
    document = asked("--job", job(), "--nodes", 16)
    assert document["step"]["found"]["hide_gb_per_s"] == pytest.approx(15 / 16 * 0.4 * 989_400 / 8192, abs=0.05)
    smaller = asked("--job", job(JOB.replace("70.5e9", "7e9")), "--nodes", 16)
    assert smaller["step"]["found"]["hide_gb_per_s"] == document["step"]["found"]["hide_gb_per_s"]
    # √(t / (2(p−1)α)): t two thirds of 6 · 70.5e9 · 8192 / 8 / (0.4 · 989.4e12) = 729.7 ms; 2 · 15 · 2.5 µs
    assert document["step"]["found"]["bound_buckets"] == pytest.approx((729_700 / 75) ** 0.5, rel=0.001)
    text = screen("--job", job(), "--nodes", 16)
    assert "data-parallel traffic hides from 45.3 GB/s a GPU on; it reaches " in text
    assert "if all of them were waited for: 99 buckets" in text


def test_a_token_at_batch_one(asked, screen, job):
    decode = asked("--job", job(), "--nodes", 16)["decode"]
    # 141 GB / 8 / 3350 GB/s and 160 allreduces of 16 KB
    assert (decode["tp"], decode["allreduces"]) == (8, 160)
    assert decode["weights_us"] == pytest.approx(5261, abs=1)
    assert decode["one_gpu_us"] == pytest.approx(42_090, abs=5)
    assert decode["total_us"] == pytest.approx(decode["weights_us"] + 160 * decode["allreduce_us"], abs=0.1)
    assert "a token at batch one, tp 8: 9.1" in screen("--job", job(), "--nodes", 16)
    small = JOB.replace("70.5e9", "7e9").replace("tp = 8", "tp = 1")
    assert asked("--job", job(small))["decode"] is None


def test_the_most_loaded_expert(asked, job):
    text = JOB.replace("70.5e9", "7e9").replace("tp = 8", "tp = 1\nep = 8")
    even, loaded = (
        asked("--job", job(text + f"imbalance = {x}\n"), "--nodes", 4)["step"]["found"]["traffic"][0] for x in (1, 2)
    )
    assert (even["kind"], even["op"]) == ("expert", "alltoall")
    assert loaded["message_bytes"] == pytest.approx(2 * even["message_bytes"], rel=1e-5)
    assert loaded["exposed_us"] > 1.8 * even["exposed_us"]


def test_an_imbalance_below_the_mean_is_told(capsys, job):
    assert run(["predict", "--from", HGX, "--job", job(JOB + "imbalance = 0.5\n")]) == 2
    said = capsys.readouterr().err
    assert "job.toml:12: imbalance: 0.5: the most loaded rank has at least the mean" in said


# Dense bf16 TFLOP/s, GB/s, GB: each as docs/predict.md says where it was found
CHIPS = {
    "NVIDIA GB300": (2500, 8000, 279), "NVIDIA GB200": (2500, 8000, 186), "NVIDIA B300 SXM6 AC": (2250, 8000, 270),
    "NVIDIA B200": (2250, 8000, 180), "NVIDIA GH200 480GB": (989.4, 4000, 96), "NVIDIA H200": (989.4, 4800, 141),
    "NVIDIA H200 NVL": (835.5, 4800, 141), "NVIDIA H100 80GB HBM3": (989.4, 3350, 80),
    "NVIDIA H100 PCIe": (756.5, 2000, 80), "NVIDIA H100 NVL": (835.5, 3900, 94), "NVIDIA H20": (148, 4000, 96),
    "NVIDIA A100-SXM4-80GB": (312, 2039, 80), "NVIDIA A100-SXM4-40GB": (312, 1555, 40),
    "NVIDIA A100 80GB PCIe": (312, 1935, 80), "NVIDIA A100-PCIE-40GB": (312, 1555, 40),
    "Tesla V100-SXM2-32GB": (125, 900, 32), "Tesla V100-PCIE-16GB": (112, 900, 16),
    "Tesla V100S-PCIE-32GB": (130, 1134, 32), "NVIDIA L40S": (362, 864, 48), "NVIDIA A40": (149.7, 696, 48),
    "NVIDIA A30": (165, 933, 24), "NVIDIA A10": (125, 600, 24), "NVIDIA L4": (121, 300, 24),
}  # fmt: skip


@pytest.mark.parametrize("name", CHIPS)
def test_data_sheets(name):
    assert tuple(chip_of(name)[1:4]) == CHIPS[name]


# tensor cores × FLOP a clock and core × boost clock in GHz, where a sheet's rounding can be checked so
@pytest.mark.parametrize(
    ("name", "cores", "flop", "ghz"),
    [
        ("NVIDIA H100 80GB HBM3", 528, 1024, 1.83),
        ("NVIDIA A100-SXM4-80GB", 432, 512, 1.41),
        ("NVIDIA A30", 224, 512, 1.44),
        ("NVIDIA A10", 288, 256, 1.695),
        ("NVIDIA A40", 336, 256, 1.74),
        ("Tesla V100-SXM2-32GB", 640, 128, 1.53),
        ("Tesla V100-PCIE-16GB", 640, 128, 1.38),
        ("Tesla V100S-PCIE-32GB", 640, 128, 1.597),
    ],
)
def test_tensor_rates_from_their_parts(name, cores, flop, ghz):
    assert chip_of(name).tensor_tflop_per_s == pytest.approx(cores * flop * ghz / 1000, rel=0.01)


def test_mig_is_told(screen, tmp_path):
    source = tmp_path / "capture"
    shutil.copytree(HGX, source)
    file = source / "nvidia-smi_-q_-x"
    text = file.read_text()
    assert "<current_mig>Disabled<" in text
    file.write_text(text.replace("<current_mig>Disabled<", "<current_mig>Enabled<", 1))
    assert "gpu0: MIG is on, and these figures are of whole GPUs" in screen("--from", source)


def test_a_rack_is_what_tp_must_divide(capsys, job):
    # 36 trays of 4 are two racks of 72, and 144 / 16 = 9
    tray = str(nodes.healthy("gb200-tray"))
    assert run(["predict", "--from", tray, "--nodes", "36", "--job", job(JOB.replace("tp = 8", "tp = 16"))]) == 2
    assert "tp 16 does not divide the 72 GPUs of an NVLink domain" in capsys.readouterr().err
