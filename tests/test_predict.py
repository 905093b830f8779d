"""`topocheck predict` on our own nodes: what it prints, what it refuses, and that repairs and bytes go one way."""

import csv
import io
import json
import time
from xml.etree import ElementTree

import nodes
import pytest

from topocheck.check import check
from topocheck.cli import run
from topocheck.hardware import gpus
from topocheck.predict.collectives import OPS
from topocheck.predict.job import Job
from topocheck.predict.machine import machine_of
from topocheck.predict.prediction import predict
from topocheck.predict.sizes import sizes
from topocheck.predict.step import group_of, memory_gb

HEALTHY = str(nodes.healthy("hgx-h100"))
JOB = """
[model]
parameters = 70.6e9
layers = 80
hidden = 8192
sequence = 8192
[batch]
accumulation = 4
[parallel]
tp = 8
pp = 4
zero = 1
[assume]
bucket_mb = 200
"""


@pytest.fixture
def asked(capsys):
    """The JSON of a run, or the line it failed with."""

    def answer(*words):
        code = run(["predict", "--from", HEALTHY, "--format", "json", *map(str, words)])
        out, err = capsys.readouterr()
        assert code == (0 if out else 2), err
        return json.loads(out) if out else err

    return answer


@pytest.fixture
def job(tmp_path):
    """A job file of this text."""

    def written(text=JOB):
        file = tmp_path / "job.toml"
        file.write_text(text)
        return str(file)

    return written


def rung(document, level):
    return next(r for r in document["ladder"] if r["level"] == level)


def test_the_ladder_is_this_nodes(asked):
    document = asked()
    assert (document["schema"], document["nodes"], document["gpus_per_node"]) == ("topocheck.predict/1", 1, 8)
    assert [r["level"] for r in document["ladder"]] == ["shared memory", "L2", "HBM", "NVLink", "PCIe", "network"]
    # 18 × 25; 32 × 16 × 128/130 / 8; 400 / 8
    assert [rung(document, x)["gb_per_s"] for x in ("NVLink", "PCIe", "network")] == [
        450,
        pytest.approx(63.0, 1e-3),
        50,
    ]
    assert rung(document, "HBM")["break_even_flop_per_byte"] == pytest.approx(295, abs=1)
    assert rung(document, "network")["n_half_bytes"] == pytest.approx(2.5 * 49_000)
    assert rung(document, "network")["bdp_bytes"] == pytest.approx(2 * 2.5 * 50_000)


def test_a_fault_moves_its_rung(faulty, asked):
    # x8 of Gen5 x16 under a 400 Gb/s NIC: 63.0 / 2 = 31.5 by data sheet, 26.9 achievable
    bad = faulty("mlx5_3-x8")
    document = asked("--from", bad)
    assert rung(document, "network")["gb_per_s"] == pytest.approx(31.5, abs=0.01)
    assert rung(document, "network")["achievable_gb_per_s"] == pytest.approx(26.9, abs=0.01)
    assert document["healthy_ladder"][-1]["gb_per_s"] == 50
    assert rung(asked("--from", bad, "--repaired"), "network")["gb_per_s"] == 50


def test_a_large_allreduce(asked, faulty):
    # NVLS 480 GB/s of busbw: 2 · 7/8 · 16 GiB / 480.15 = 62.6 ms and 40 µs
    (row,) = asked("--op", "all_reduce", "--bytes", "16G")["rows"]
    assert (row["algorithm"], row["protocol"], row["bottleneck"]) == ("NVLS", "Simple", "NVLink")
    assert row["found_us"] == pytest.approx(1.75 * 2**34 / 480_150 + 40, rel=1e-4)
    assert row["busbw_gb_per_s"] == pytest.approx(row["algbw_gb_per_s"] * 1.75, rel=1e-4)
    # four nodes: 8 NICs in step with the one at 26.9: 8 · 26.9 · 0.916 / 0.98 = 201 of 366 GB/s, less the protocol's α
    (row,) = asked("--from", faulty("mlx5_3-x8"), "--op", "allreduce", "--bytes", "16G", "--nodes", "4")["rows"]
    assert row["busbw_gb_per_s"] == pytest.approx(201, rel=0.01)
    assert row["healthy_busbw_gb_per_s"] == pytest.approx(363, rel=0.01)
    assert row["bottleneck"] == "network"


def test_the_text_says_what_was_assumed(capsys, faulty, job):
    small = JOB.replace("70.6e9", "7e9").replace("pp = 4", "pp = 1")
    assert (
        run(["predict", "--from", faulty("mlx5_3-x8"), "--op", "allreduce", "--nodes", "2", "--job", job(small)]) == 0
    )
    out = capsys.readouterr().out
    assert "assumed:" in out
    assert "the other nodes are like this one" in out
    assert " of 50.0\n" in out
    assert "fastest: tree LL, " in out
    assert max(map(len, out.splitlines())) <= 80


def test_csv_and_svg_hold_every_row(capsys):
    words = ["predict", "--from", HEALTHY, "--op", "allreduce,alltoall", "--bytes", "1M:16M", "--nodes", "2"]
    assert run([*words, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(r["op"], r["bytes"]) for r in rows][::5] == [("allreduce", "1048576"), ("alltoall", "1048576")]
    assert run([*words, "--format", "svg"]) == 0
    svg = ElementTree.fromstring(capsys.readouterr().out)
    lines = svg.findall(".//{*}polyline")
    assert [len(line.get("points").split()) for line in lines] == [5, 5, 5, 5]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nodes", 0), "--nodes 0: give 1 to 100,000"),
        (("--op", "shuffle"), "--op shuffle: no such operation"),
        (("--bytes", "16G:1K"), "--bytes 16G:1K: 1K is less than 16G"),
        (("--bytes", "0"), "--bytes 0: give sizes"),
        (("--bytes", "9999999T"), "up to 1024T"),
        (("--job", "/nowhere.toml"), "/nowhere.toml: no such file"),
    ],
)
def test_mistakes_are_told(asked, words, said):
    assert said in asked(*words)


@pytest.mark.parametrize(
    ("before", "after", "nodes_", "said"),
    [
        ("tp = 8", "tp = 3", 3, "tp 3 does not divide the 8 GPUs"),
        ("tp = 8", "dp = 3\ntp = 8", 4, "dp 3 × tp 8 × pp 4 × cp 1 = 96, but there are 32 GPUs"),
        ("pp = 4", "pp = 3", 3, "pp 3 does not divide the 80 layers"),
        ("pp = 4", "pp = 1", 1, "141 GB of a GPU's 80 before any activation: raise tp, pp or zero"),
        ("tp = 8", "tp = 8\nep = 3", 8, "ep 3 does not divide dp × cp"),
        ("layers = 80", "layers = 80.5", 4, "job.toml:4: layers: 80.5: give a whole number"),
        ("tp = 8", "tensor = 8", 4, "job.toml:10: tensor: no such key"),
        ("[assume]", "[assumed]", 4, "assumed: no such table"),
        ("hidden = 8192\n", "", 4, "[model] hidden missing"),
        ("tp = 8", f"tp = {10**400}", 4, "above 0 and up to 100000"),
        ("hidden = 8192", "hidden = true", 4, "hidden: True: give a whole number"),
        ("hidden = 8192", "hidden = inf", 4, "give a whole number"),
        ("parameters = 70.6e9", "parameters = nan", 4, "above 0"),
        ("accumulation = 4", "dtype = []", 4, "one of bf16"),
        ("[model]", "model = 3", 4, "model"),
        ("zero = 1", "zero = 4", 4, "zero: 4: above 0 and up to 3"),
        ("accumulation = 4", "dtype = 'int4'", 4, "one of bf16, fp16, fp32, fp8"),
    ],
)
def test_a_job_that_cannot_be_is_told(asked, job, before, after, nodes_, said):
    assert said in asked("--job", job(JOB.replace(before, after)), "--nodes", nodes_)


def test_memory_by_hand():
    # 70e9 · 16 bytes / (8 · 4) = 35 GB; ZeRO 1 over 4: 70e9 / 32 · (4 + 12/4) = 15.3; ZeRO 3: 35 / 4
    of = {zero: Job(70e9, 80, 8192, 8192, tp=8, pp=4, zero=zero) for zero in (0, 1, 3)}
    assert [round(memory_gb(of[zero], 4), 2) for zero in (0, 1, 3)] == [35.0, 15.31, 8.75]


def test_a_step(asked, job):
    step = asked("--job", job(), "--nodes", 16)["step"]
    assert step["costs"] == []
    found = step["found"]
    # 6 · 70.6e9 · 8192 / 32 / (0.4 · 989.4e12) = 274 ms a micro-step, four of them, and 3 as bubble
    assert found["compute_us"] == pytest.approx(4 * 274_000, rel=0.001)
    assert found["bubble_us"] == pytest.approx(3 * 274_000, rel=0.001)
    tensor, pipeline, gradients, weights = found["traffic"]
    # 4 · 80 / 4 layers · 4 micro-steps = 320 messages of 8192 · 8192 · 2 bytes; · 2 · 7/8 a rank
    assert (tensor["messages"], tensor["rung"]) == (320, "NVLink")
    assert tensor["message_bytes"] == pytest.approx(2**27, rel=1e-5)
    assert tensor["sent_bytes"] == pytest.approx(320 * 2**27 * 1.75, rel=1e-5)
    assert tensor["exposed_us"] == tensor["total_us"]
    assert (pipeline["op"], pipeline["messages"], pipeline["rung"]) == ("sendrecv", 8, "network")
    # 70.6e9 / 32 · 2 bytes = 4.41 GB over 4 ranks: 3/4 of it each way
    assert gradients["sent_bytes"] == weights["sent_bytes"] == pytest.approx(0.75 * 4.4125e9, rel=1e-5)
    assert gradients["exposed_us"] < gradients["total_us"]
    # 3.31 GB at a GPU's 400 Gb/s under NCCL, 50 · 0.916 = 45.8 GB/s: 72 ms and α, behind 2/3 of 274 ms
    assert gradients["total_us"] == pytest.approx(72_260, rel=0.05)
    assert found["cover_us"] == pytest.approx(274_000 * 2 / 3, rel=0.001)
    assert found["total_us"] == pytest.approx(
        sum(found[key] for key in ("compute_us", "bubble_us", "exposed_us", "overlap_us")), abs=1
    )


def test_the_best_bucket_grows_with_the_ranks(asked, job):
    small = JOB.replace("70.6e9", "7e9").replace("pp = 4", "pp = 1")
    best = [asked("--job", job(small), "--nodes", n)["step"]["found"]["best_bucket_mb"] for n in (4, 64, 1024)]
    assert best[0] < best[2]
    assert best[2] > 25  # DDP's default is too small there
    assert best == sorted(best)


def test_a_fault_costs_the_job_less_than_the_link(asked, job, faulty):
    bad = faulty("mlx5_3-x8")
    step = asked("--from", bad, "--job", job(), "--nodes", 16)["step"]
    (cost,) = step["costs"]
    assert (cost["rule"], cost["subjects"]) == ("PCI001", ["mlx5_3"])
    slower = step["found"]["total_us"] - step["healthy"]["total_us"]
    assert cost["milliseconds"] == pytest.approx(slower / 1000, rel=0.01)
    assert 0 < slower / step["found"]["total_us"] < 0.45  # 45 % of the link is lost
    assert asked("--from", bad, "--job", job(), "--nodes", 16, "--repaired")["step"]["costs"] == []


def test_a_job_inside_the_node_does_not_wait_for_a_nic(asked, job, faulty):
    small = JOB.replace("70.6e9", "7e9").replace("pp = 4", "pp = 1")
    step = asked("--from", faulty("mlx5_3-x8"), "--job", job(small))["step"]
    assert step["costs"] == []
    assert step["found"] == step["healthy"]


def test_what_is_hidden_is_refused(tmp_path, capsys):
    listing = tmp_path / "nvidia-smi_-L"
    listing.write_text(
        "".join(f"GPU {i}: NVIDIA L40S (UUID: GPU-0000000{i}-0000-0000-0000-000000000000)\n" for i in range(4))
    )
    assert run(["predict", "--from", str(listing), "--op", "allreduce", "--bytes", "1M", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rows"] == []
    assert any("how its GPUs meet is hidden" in text for text in document["refused"])


def test_what_the_model_tells_is_assumed(tmp_path, capsys):
    listing = tmp_path / "nvidia-smi_-L"
    name = "NVIDIA H100 80GB HBM3"
    listing.write_text(
        "".join(f"GPU {i}: {name} (UUID: GPU-0000000{i}-0000-0000-0000-000000000000)\n" for i in range(8))
    )
    assert run(["predict", "--from", str(listing), "--op", "allreduce", "--bytes", "16G", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rows"][0]["busbw_gb_per_s"] == pytest.approx(480, rel=0.01)
    assert any("NVLinks not in the input: 18 a GPU" in text for text in document["assumptions"])
    assert any("NIC rate not in the input: 8 × 400 Gb/s" in text for text in document["assumptions"])


def test_a_tree_that_a_hypervisor_hides_is_refused(tmp_path, capsys):
    names = [f"GPU{i}" for i in range(4)]
    rows = ["\t".join([name, *("X" if name == other else "PHB" for other in names), "N/A"]) for name in names]
    (tmp_path / "nvidia-smi_topo_-m").write_text(
        "\t".join(["", *names, "CPU Affinity"]) + "\n" + "\n".join(rows) + "\n"
    )
    lines = "".join(f"GPU {i}: NVIDIA L4 (UUID: GPU-0000000{i}-0000-0000-0000-000000000000)\n" for i in range(4))
    (tmp_path / "nvidia-smi_-L").write_text(lines)
    assert run(["predict", "--from", str(tmp_path), "--op", "allreduce", "--bytes", "1M"]) == 0
    out = capsys.readouterr().out
    assert "the PCIe tree is hidden" in " ".join(out.split())
    assert "busbw" not in out


def test_a_gpu_whose_name_is_only_its_id_is_known_by_the_id():
    part = gpus.part_of("NVIDIA Corporation Device 2330", "10de:2330")
    assert (part.nvlinks, part.board) == (18, "nvswitch")


@pytest.mark.parametrize(
    ("size", "stride", "near", "over"),
    [(8, 1, 8, 1), (16, 1, 8, 2), (4, 8, 1, 4), (6, 1, 2, 3), (4, 2, 4, 1), (3, 2, 1, 3)],
)
def test_groups_of_ranks_lie_in_nodes(size, stride, near, over):
    # 8 GPUs a node: `stride` apart 8/stride of them fit; 6 in a row straddle nodes and are cut in twos
    group = group_of(machine_of(check(HEALTHY).topology), 4, size, stride)
    assert (group.machine.gpus, group.nodes) == (near, over)
    assert group.machine.nics == pytest.approx(392 * near / 8)


def test_without_a_gpu_there_is_nothing_to_predict(tmp_path, capsys):
    (tmp_path / "ibstat").write_text(
        "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n"
    )
    assert run(["predict", "--from", str(tmp_path)]) == 2
    assert "no GPU in the input" in capsys.readouterr().err


FAULTS = [(node, edit.name) for node in ("hgx-h100", "dgx-a100", "pcie-box") for edit in nodes.edits(node)]


@pytest.mark.parametrize(("node", "fault"), FAULTS[::3], ids=str)
def test_repairs_never_slow_and_bytes_never_speed_up(node, fault, faulty):
    checked = check(faulty(fault, node))
    if not any(gpu.model for gpu in checked.topology.gpus):
        pytest.skip("no GPU whose model is named is left")
    for count in (1, 2, 4):
        answer = predict(checked.topology, checked.report.findings, nodes=count, ops=OPS, sizes=sizes("1K:4G")[::3])
        if (
            count == 4
            and answer.found.nics
            and answer.found.ring
            and answer.found.chip
            and 32 % answer.gpus_per_node == 0
        ):
            job = Job(7e9, 32, 4096, 4096, tp=1, zero=3)
            trained = predict(checked.topology, checked.report.findings, nodes=count, job=job)
            assert trained.healthy_step.total_us <= trained.step.total_us * (1 + 1e-12)
            assert all(cost.milliseconds > 0 for cost in trained.costs)
        for row in answer.rows:
            assert row.healthy_us <= row.found_us * (1 + 1e-12), row
        for op in OPS:
            times = [row.found_us for row in answer.rows if row.op == op]
            assert times == sorted(times), op


def test_a_sweep_takes_a_second_at_most():
    checked = check(HEALTHY)
    started = time.process_time()
    for count in (1, 2, 4, 8, 16, 64):
        answer = predict(checked.topology, checked.report.findings, nodes=count, ops=OPS, sizes=sizes("1K:8G"))
        assert len(answer.rows) == 9 * 24 + 1  # a barrier has no size
    assert time.process_time() - started <= 1.0


def test_a_rack_is_one_nvlink_domain(capsys):
    words = [
        "predict",
        "--from",
        str(nodes.healthy("gb200-tray")),
        "--op",
        "allreduce",
        "--bytes",
        "8G",
        "--format",
        "json",
    ]
    for trays, algorithm, bottleneck in ((18, "NVLS", "NVLink"), (36, "NVLSTree", "NVLink")):
        assert run([*words, "--nodes", str(trays)]) == 0
        document = json.loads(capsys.readouterr().out)
        row = document["rows"][0]
        assert (row["algorithm"], row["bottleneck"]) == (algorithm, bottleneck), trays
        assert (document["fabric"] is None) is (trays == 18)
        assert any("racks joined by a network" in text for text in document["assumptions"]) is (trays == 36)
        assert row["busbw_gb_per_s"] == pytest.approx(835, rel=0.05)  # measured: 835 on one rack, 810 on two
