"""What the gate keeps: the cache and when it speaks, reports and their number, a folder that is not ours."""

import json
import os
import time

import pytest
from gates import machine, slurm

WARM = ("--cache", "600")


@pytest.fixture
def node(tmp_path):
    return machine(tmp_path / "machine")


def by_cache(node):
    return "by a reading" in node.log()[-1]


def test_a_pass_is_kept_and_a_job_of_another_kind_is_read_for(node):
    assert node.gate(*WARM, job=slurm("0")).code == 0
    assert not by_cache(node)
    assert node.gate(*WARM, job=slurm("1,2")).code == 0
    assert by_cache(node)
    assert len(node.reports()) == 1
    node.gate(*WARM, job=slurm("0", nodes=2))
    assert not by_cache(node)
    node.gate(job=slurm("0", nodes=2))
    assert not by_cache(node), "without --cache nothing kept is used"


@pytest.mark.parametrize("what", ["age", "clock set back", "boot", "devices", "policy", "version", "torn", "no object"])
def test_what_is_kept_speaks_of_this_machine_as_it_is(node, what, tmp_path):
    boot = node.root / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("one\n")
    policy = tmp_path / "policy.toml"
    policy.write_text("schema = 1\n")
    call = (*WARM, "--policy", str(policy))
    node.gate(*call, job=slurm())
    node.gate(*call, job=slurm())
    assert by_cache(node)
    last = node.state / "last.json"
    kept = json.loads(last.read_text())
    match what:
        case "age":
            last.write_text(json.dumps(kept | {"time_s": time.time() - 601}))
        case "clock set back":
            last.write_text(json.dumps(kept | {"time_s": time.time() + 60}))
        case "boot":
            boot.write_text("two\n")
        case "devices":
            (node.root / "sys/bus/pci/devices/0000:ff:00.0").mkdir(parents=True)
        case "policy":
            policy.write_text("schema = 1\nmin_loss = 0.1\n")
        case "version":
            kept["key"]["version"] = "0.0.1"
            last.write_text(json.dumps(kept))
        case "torn":
            last.write_bytes(last.read_bytes()[:1000])
        case "no object":
            last.write_text("[]")
    ran = node.gate(*call, job=slurm())
    assert not by_cache(node)
    assert (ran.code, ran.out) == (0, "")


def test_a_fault_is_never_kept_and_is_found_for_the_next_job(tmp_path):
    node = machine(tmp_path / "machine", "gpu5-x8")
    assert node.gate(*WARM, job=slurm("0")).code == 0
    assert node.gate(*WARM, job=slurm("1")).code == 0
    assert by_cache(node)
    assert "PCI001 gpu5" in node.log()[-1], "the share is taken afresh"
    assert node.gate(*WARM, job=slurm("5")).code == 1
    assert node.gate(*WARM, job=slurm("1")).code == 0
    assert not by_cache(node), "the pass before it is not used again"


def test_a_waiver_counts_and_one_that_ran_out_does_not(tmp_path):
    node = machine(tmp_path / "machine", "gpu5-x8")
    policy = tmp_path / "policy.toml"
    text = '[[waiver]]\nrule = "PCI001"\ndevice = "gpu5"\nreason = "ticket 4711"\nexpires = {}\n'
    call = (*WARM, "--policy", str(policy))
    policy.write_text(text.format("2999-12-31"))
    assert node.gate(*call, job=slurm("5")).code == 0
    assert node.gate(*call, job=slurm("5")).code == 0
    assert by_cache(node)
    policy.write_text(text.format("2020-12-31"))
    assert node.gate(*call, job=slurm("5")).code == 1


def test_no_more_than_fifty_reports_are_kept(node):
    node.state.mkdir(mode=0o700)
    for number in range(60):
        old = node.state / f"gate-20200101T000000.{number:06}Z.json"
        old.write_text("{}")
        os.utime(old, (1_577_836_800 + number,) * 2)
    (node.state / "notes.txt").write_text("somebody's")
    node.gate(job=slurm())
    names = sorted(path.name for path in node.state.glob("gate-*.json"))
    assert len(names) == 50
    assert names[0] == "gate-20200101T000000.000011Z.json", "the oldest go first: 49 of 60 stay"
    assert not names[-1].startswith("gate-2020")
    assert (node.state / "notes.txt").exists()


def test_no_more_than_fifty_megabytes_are_kept(node):
    node.state.mkdir(mode=0o700)
    for number in range(8):
        old = node.state / f"gate-20200101T000000.{number:06}Z.json"
        old.touch()
        os.truncate(old, 10_000_000)
        os.utime(old, (1_577_836_800 + number,) * 2)
    node.gate(job=slurm())
    assert len(list(node.state.glob("gate-2020*"))) == 4


def test_the_folder_is_made_for_us_alone(node):
    node.gate(job=slurm())
    assert node.state.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in node.state.iterdir()} == {0o600}


@pytest.mark.parametrize("what", ["another's", "open to all", "a link", "a file"])
def test_a_folder_that_is_not_ours_is_not_used(tmp_path, what):
    node = machine(tmp_path / "machine", "gpu5-x8")
    if what == "a link":
        (tmp_path / "real").mkdir(mode=0o700)
        node.state.symlink_to(tmp_path / "real")
    elif what == "a file":
        node.state.write_text("")
    else:
        node.state.mkdir(mode=0o700)
        if what == "another's":
            if os.geteuid() != 0:
                pytest.skip("only root can give a folder away")
            os.chown(node.state, 12345, 12345)
        else:
            node.state.chmod(0o777)
    ran = node.gate(*WARM, job=slurm("5"))
    assert (ran.code, ran.out) == (1, "topocheck: PCI001 gpu5 x8 of x16 -45% (no report: no state folder)\n")
    assert not node.state.is_dir() or list(node.state.iterdir()) == []


def test_a_last_reading_of_another_user_is_not_used(node):
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    node.gate(*WARM, job=slurm())
    os.chown(node.state / "last.json", 12345, 12345)
    node.gate(*WARM, job=slurm())
    assert not by_cache(node)


def test_two_jobs_at_once(node):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        ran = list(pool.map(lambda gpu: node.gate(*WARM, job=slurm(str(gpu))), range(6)))
    assert {(r.code, r.out, r.err) for r in ran} == {(0, "", "")}
    assert len(node.log()) == 6
    assert json.loads((node.state / "last.json").read_text())["reusable"] is True
    assert list(node.state.glob(".*")) == []
