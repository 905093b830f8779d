"""The gate through its command line, in a prolog's environment: what fails which job, and what it says."""

import json
from dataclasses import replace
from pathlib import Path

import nodes
import pytest
from gates import called, machine, slurm, write_minors
from livenode import livenode

ELSEWHERE = "not this job's: "


@pytest.fixture
def at(tmp_path):
    def made(fault=None, **more):
        return machine(tmp_path / "machine", fault, **more)

    return made


def test_a_healthy_node_is_silent(at):
    node = at()
    ran = node.gate(job=slurm(nodes=4))
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert node.log() == ["job 4711 gpus 0,1,2,3,4,5,6,7: pass, exit 0"]


def test_a_fault_of_the_job_fails_it_in_one_line(at):
    """x8 of x16: 26.9 of 49.0 GB/s, 45 % lost (design.md)."""
    node = at("gpu5-x8")
    ran = node.gate("--output", str(node.folder / "out.json"), job=slurm("4,5"))
    assert (ran.code, ran.out, ran.err) == (1, "topocheck: PCI001 gpu5 x8 of x16 -45%\n", "")
    (report,) = node.reports()
    assert json.loads((node.folder / "out.json").read_text()) == report
    assert report["schema"] == "topocheck.gate/1"
    assert report["report"]["schema"] == "topocheck.node/1"
    (finding,) = [f for f in report["report"]["findings"] if f["severity"] == "error"]
    assert finding["readings"] == 2
    assert node.log() == ["job 4711 gpus 4,5: fail, exit 1: PCI001 gpu5 x8 of x16 -45%"]


@pytest.mark.parametrize(
    ("fault", "gpus", "nodes", "line"),
    [
        ("gpu5-x8", "5", 1, "PCI001 gpu5 x8 of x16 -45%"),
        ("gpu5-x8", "0,1,2,3,4,6,7", 4, None),
        ("mlx5_3-x8", "3", 4, "PCI001 mlx5_3 x8 of x16 -45%"),
        ("mlx5_3-x8", "3", 1, None),
        ("mlx5_3-x8", "2", 4, None),
        # 7 of 8 rails: 1/8 lost
        ("mlx5_8-polling", "6", 2, "NET001 mlx5_8 Down/Polling -12%"),
        ("mlx5_8-polling", "6", 1, None),
        ("mlx5_8-polling", "5", 2, None),
        ("mlx5_1-200", "1", 2, "NET002 mlx5_1 200 of 400 Gb/s -50%"),
        ("gpu2-one-nvlink", "2,3", 1, "NVL001 gpu2 17 of 18 NVLinks"),
        ("gpu2-one-nvlink", "2", 1, None),
        ("gpu2-one-nvlink", "3,4", 1, None),
        ("gpu6-fabric-in-progress", "6,7", 1, "NVL005 gpu6"),
        ("gpu4-lost", "4", 1, "GPU001 gpu4 gone"),
        ("driver-library-mismatch", "3", 1, "GPU003"),
        ("gpu5-xid-119", "5", 1, None),
        ("gpu2-uncorrectable-memory-errors", "2", 1, None),
        ("gpu0-gpu1-no-peer-read", "0,1", 4, None),
        ("no-peermem-closed-driver", "0,1", 4, None),
    ],
)
def test_who_is_failed_by_what(at, fault, gpus, nodes, line):
    node = at(fault)
    ran = node.gate(job=slurm(gpus, nodes))
    if line is None:
        assert (ran.code, ran.out, ran.err) == (0, "", ""), node.log()
    else:
        assert ran.code == 1, node.log()
        assert ran.out.startswith(f"topocheck: {line}")
        assert ran.out.count("\n") == 1 and len(ran.out.encode()) <= 81


def test_what_is_not_seen_of_the_job_passes_and_is_told(at):
    """nvidia-smi refuses to say anything of the others when one is lost."""
    node = at("gpu4-lost")
    said = "no verdict: required evidence missing: NVLink of gpu3"
    ran = node.gate(job=slurm("3"))
    assert (ran.code, ran.out, ran.err) == (0, "", f"topocheck: {said}\n")
    assert ELSEWHERE + "GPU001 gpu4 gone" in node.log()[0]
    ran = node.gate("--fail-closed", job=slurm("3"))
    assert (ran.code, ran.out, ran.err) == (1, f"topocheck: {said}\n", "")


def test_a_fault_elsewhere_is_in_the_log(at):
    node = at("gpu5-x8")
    assert node.gate(job=slurm("4")).code == 0
    assert node.log() == [f"job 4711 gpus 4: pass, exit 0: {ELSEWHERE}PCI001 gpu5 x8 of x16 -45%"]


MINORS = "3,2,1,0,7,6,5,4"


@pytest.mark.parametrize(
    ("gpus", "code"),
    [("6", 1), ("5", 0), ("4,6", 1), ("0,1,2,3,4,5,7", 0), ("4-7", 1), ("GPU", 1)],
)
def test_gpus_are_minor_numbers_and_no_indices(at, gpus, code):
    """The fault is on index 5, minor 6; a UUID maps by itself."""
    node = at("gpu5-x8", minors=MINORS)
    if gpus == "GPU":
        informed = next(
            p for p in node.root.glob("proc/driver/nvidia/gpus/*/information") if "Minor: \t 6" in p.read_text()
        )
        gpus = next(line.split()[-1] for line in informed.read_text().splitlines() if "UUID" in line)
        ran = node.gate(job={"SLURM_JOB_ID": "1", "CUDA_VISIBLE_DEVICES": gpus})
    else:
        ran = node.gate(job=slurm(gpus))
    assert ran.code == code, node.log()


def test_a_nic_that_is_gone_fails_jobs_of_its_gpu(at, tmp_path):
    """The baseline had it."""
    from topocheck.check import check
    from topocheck.formats import json as as_json

    node = at("mlx5_9-gone")
    baseline = tmp_path / "baseline.json"
    baseline.write_text(as_json.render(check(str(nodes.healthy("hgx-h100"))).report))
    (tmp_path / "policy.toml").write_text(f'baseline = "{baseline}"\n')
    policy = ("--policy", str(tmp_path / "policy.toml"))
    ran = node.gate(*policy, job=slurm("7", nodes=2))
    assert ran.code == 1 and ran.out.startswith("topocheck: NET005 "), node.log()
    assert node.gate(*policy, job=slurm("6", nodes=2)).code == 0
    assert node.gate(*policy, job=slurm("7", nodes=1)).code == 0


@pytest.mark.real("gcc")
@pytest.mark.parametrize(("also", "gpus", "code"), [
    ("", "2", 0),
    ("remap_failed 1 * 1", "2", 1),
    ("remap_failed 1 * 1", "1", 0),
    ("recovery_action 1 * 2", "2", 1),
    ("!nvmlDeviceGetCurrPcieLinkWidth 1 * 15", "2", 1),
    ("!nvmlInitWithFlags * * 18", "5", 1),
    ("~nvmlDeviceGetNvLinkState 1 * 60000\nremap_failed 1 * 1", "2", 0),
])  # fmt: skip
def test_by_nvml_alone(tmp_path, also, gpus, code):
    """Its index 1 is minor 2. What was read before it hangs counts once: the second reading does not ask it."""
    numbers = MINORS.split(",")
    lines = "\n".join(f"minor {index} * {minor}" for index, minor in enumerate(numbers))
    tmp_path.joinpath("nvml").mkdir()
    made = livenode(nodes.healthy("hgx-h100"), tmp_path / "nvml", also=f"{lines}\n{also}")
    node = machine(tmp_path / "machine", minors="")
    (node.tools / "nvidia-smi").unlink()
    ran = replace(node, environ=made.environ).gate(job=slurm(gpus))
    assert ran.code == code, (ran, node.log())


@pytest.mark.parametrize(("gpus", "code"), [("5", 1), ("4", 0)])
def test_a_capture_instead_of_the_machine(tmp_path, faulty, gpus, code):
    """It is read once; nothing is required of it."""
    capture = faulty("gpu5-x8")
    write_minors(Path(capture), nodes.healthy("hgx-h100"), "0,1,2,3,4,5,6,7")
    ran = called("--from", capture, "--state", str(tmp_path / "state"), job=slurm(gpus))
    assert (ran.code, ran.out) == (code, "topocheck: PCI001 gpu5 x8 of x16 -45%\n" if code else "")
    assert not (tmp_path / "state/last.json").exists()


def test_a_capture_on_standard_input_and_one_that_is_none(tmp_path, faulty):
    text = (Path(faulty("gpu5-x8")) / "lspci_-D_-nn_-vv").read_text()
    ran = called("--from", "-", "--state", str(tmp_path / "state"), stdin=text)
    assert (ran.code, ran.out) == (1, "topocheck: PCI001 gpu5 x8 of x16 -45%\n")
    ran = called("--from", "-", "--state", str(tmp_path / "state"), "--fail-closed", stdin="nothing of ours\n")
    assert ran.code == 1 and ran.out.startswith("topocheck: no verdict: ")
    assert called("--from", "/no/such/file", "--exit-style", "plain").code == 2
