"""What the gate makes of a machine, a site or itself in trouble: never a drain by us, never a pass if it is closed."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import nodes
import pytest
from gates import HANGS, REPOSITORY, machine, slurm
from livenode import write_tool

BUDGET_S = 8.0
SLACK_S = 1.0  # for starting Python on a machine that is busy


@pytest.fixture
def node(tmp_path):
    return machine(tmp_path / "machine")


@pytest.fixture
def policy(tmp_path):
    def written(text):
        file = tmp_path / "policy.toml"
        file.write_text(text)
        return ("--policy", str(file))

    return written


def timed(node, *more, job):
    started_s = time.monotonic()
    ran = node.gate(*more, job=job)
    return ran, time.monotonic() - started_s


def test_a_driver_that_hangs_lets_the_job_start_within_the_budget(node):
    node.hangs("nvidia-smi")
    ran, took_s = timed(node, job=slurm())
    assert ran.code == 0 and ran.out == ""
    assert ran.err.startswith("topocheck: no verdict: nvidia-smi ")
    assert ": no answer within" in ran.out + ran.err
    assert "unknown, exit 0" in node.log()[-1]
    assert took_s < BUDGET_S + SLACK_S


def test_a_driver_that_hangs_fails_it_where_the_gate_is_closed(node):
    ran = node.hangs("nvidia-smi").gate("--fail-closed", "--budget", "4", job=slurm())
    assert ran.code == 1
    assert ran.out.startswith("topocheck: no verdict: nvidia-smi ")
    assert ": no answer within" in ran.out + ran.err
    assert len(ran.out.encode()) <= 81


def test_a_hang_fails_the_job_if_the_policy_says_so(node, policy):
    node.hangs("nvidia-smi")
    ran = node.gate("--budget", "4", *policy('on_hang = "fail"\n'), job=slurm("3"))
    assert (ran.code, ran.out) == (1, "topocheck: GPU003 the driver does not answer\n")


def test_a_fault_of_the_files_is_found_though_the_driver_hangs(tmp_path):
    node = machine(tmp_path / "machine", "gpu5-x8").hangs("nvidia-smi")
    ran, took_s = timed(node, job=slurm("5"))
    assert (ran.code, ran.out) == (1, "topocheck: PCI001 gpu5 x8 of x16 -45%\n"), node.log()
    assert took_s < BUDGET_S + SLACK_S


def test_a_report_with_a_hang_in_it_is_never_kept(node):
    node.hangs("nvidia-smi").gate("--cache", "60", "--budget", "3", job=slurm())
    assert json.loads((node.state / "last.json").read_text())["reusable"] is False


def test_everything_hangs(node):
    for tool in node.tools.iterdir():
        write_tool(node.tools, tool.name, HANGS)
    ran, took_s = timed(node, "--budget", "3", job=slurm())
    assert (ran.code, ran.out) == (0, "")
    assert took_s < 3 + SLACK_S


def test_a_budget_too_small_for_anything(node):
    ran, took_s = timed(node, "--budget", "0.3", job=slurm())
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "topocheck: no verdict: no answer within 0.3 s\n"
    assert took_s < 0.3 + SLACK_S
    assert node.gate("--budget", "0.3", "--fail-closed", job=slurm()).code == 1
    assert [line for line in node.log() if "no answer within 0.3 s" in line]


def test_a_fault_seen_once_passes_and_is_told(tmp_path):
    """lspci shows the narrow link once, then the healthy one."""
    node, well = machine(tmp_path / "machine", "gpu5-x8"), machine(tmp_path / "well")
    ill = (node.tools / "lspci").read_text().replace("#!/bin/sh\n", "", 1)
    healed = (well.tools / "lspci").read_text().replace("#!/bin/sh\n", "", 1)
    seen = tmp_path / "seen"
    write_tool(node.tools, "lspci", f"#!/bin/sh\nif [ ! -e {seen} ]; then : > {seen}\n{ill}\nelse\n{healed}\nfi\n")
    ran = node.gate(job=slurm("5"))
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert "seen once of two readings, passes: PCI001 gpu5 x8 of x16 -45%" in node.log()[-1]


def test_a_second_reading_that_hangs_is_no_word_against_the_first(tmp_path):
    """nvidia-smi refuses to start the driver once, and then does not answer."""
    node = machine(tmp_path / "machine", "driver-library-mismatch")
    ill, seen = (node.tools / "nvidia-smi").read_text(), tmp_path / "seen"
    again = f"#!/bin/sh\necho >> {seen}\n[ $(wc -l < {seen}) -gt 2 ] && exec /bin/sleep 60\n"  # asked twice a reading
    write_tool(node.tools, "nvidia-smi", again + ill.replace("#!/bin/sh\n", "", 1))
    for options, code in (((), 0), (("--fail-closed",), 1)):
        seen.unlink(missing_ok=True)
        ran = node.gate(*options, job=slurm("5"))
        assert ran.code == code, node.log()
        assert "GPU003" in node.log()[-1]


def test_no_time_to_read_again_is_no_proof(tmp_path):
    """A port is read again after 3 s."""
    node = machine(tmp_path / "machine", "mlx5_8-polling")
    ran = node.gate("--budget", "3", job=slurm("6", nodes=2))
    assert (ran.code, ran.out) == (0, "")
    assert "no verdict" in ran.err
    assert node.gate("--budget", "3", "--fail-closed", job=slurm("6", nodes=2)).code == 1


def test_a_fault_of_all_of_a_kind_is_held_back(tmp_path):
    """A baseline says that every GPU ran wider before."""
    from topocheck.check import check
    from topocheck.formats import json as as_json

    node = machine(tmp_path / "machine")
    baseline = tmp_path / "baseline.json"
    baseline.write_text(as_json.render(check(str(node.root)).report))
    listing = node.root / "lspci_-D_-nn_-vv"
    functions = listing.read_text().split("\n\n")
    narrow = [
        re.sub(r"(LnkSta:\s+Speed 32GT/s, Width )x16", r"\1x8", f) if "3D controller" in f else f for f in functions
    ]
    listing.write_text("\n\n".join(narrow))
    (tmp_path / "policy.toml").write_text(f'baseline = "{baseline}"\n')
    ran = node.gate("--policy", str(tmp_path / "policy.toml"), job=slurm("5", nodes=2))
    assert (ran.code, ran.out) == (0, ""), node.log()
    assert "held to a warning, it is so on all of its kind: PCI001" in node.log()[-1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('job_without_grse = "pass"\n', "no such key"),
        ("[[[", "policy.toml"),
        ("\x00\x01", "policy.toml"),
        (None, "no such file"),
    ],
)
def test_a_policy_that_cannot_be_read(node, policy, tmp_path, text, said):
    call = ("--policy", str(tmp_path / "no.toml")) if text is None else policy(text)
    ran = node.gate(*call, job=slurm())
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("topocheck: no verdict: ")
    assert said in node.log()[-1]
    assert node.gate("--fail-closed", *call, job=slurm()).code == 1


def test_jobs_without_gpus(tmp_path, policy):
    node = machine(tmp_path / "machine", "gpu5-x8")
    ran = node.gate("--fail-closed", job=slurm(""))
    assert (ran.code, ran.out) == (0, "")
    assert node.log()[-1] == "job 4711: pass, exit 0: it has no GPUs"
    whole = policy('job_without_gres = "whole-node"\n')
    assert node.gate(*whole, job=slurm("")).code == 1
    assert node.gate().code == 1, "no job: the whole node"


def test_a_job_may_opt_out_where_the_policy_allows_it(tmp_path, policy):
    node = machine(tmp_path / "machine", "gpu5-x8")
    job = slurm("5", SLURM_JOB_COMMENT="please topocheck=skip")
    assert node.gate(job=job).code == 1
    allowed = policy('job_opt_out = "topocheck=skip"\n')
    assert node.gate(*allowed, job=job).code == 0
    assert node.log()[-1].endswith("its comment has topocheck=skip")
    assert node.gate(*allowed, job=slurm("5")).code == 1


def test_fewer_gpus_than_the_job_was_given(node):
    ran = node.gate(job=slurm("0-8"))
    assert (ran.code, ran.out) == (1, "topocheck: GPU001 8 GPUs on the bus, the job has 9\n")


def test_no_map_fails_a_job_for_errors_of_the_node_only(tmp_path):
    node = machine(tmp_path / "machine", "gpu5-x8", minors="")
    listing = node.root / "nvidia-smi_-q_-x"
    listing.write_text(listing.read_text().replace("minor_number", "x_number"))
    ran = node.gate(job=slurm("5"))
    assert (ran.code, ran.out) == (0, "")
    assert "no map from 5 to PCI addresses" in node.log()[-1]
    assert node.gate(job=slurm()).code == 1, "all of them need no map"
    other = machine(tmp_path / "other", "driver-library-mismatch", minors="")
    assert other.gate(job=slurm("5")).out.startswith("topocheck: GPU003 ")


@pytest.mark.parametrize(
    ("style", "fault", "code", "out"),
    [
        ("npd", "gpu5-x8", 1, "topocheck: PCI001 gpu5 x8 of x16 -45%\n"),
        ("npd", None, 0, ""),
        ("nhc", "gpu5-x8", 1, "topocheck: PCI001 gpu5 x8 of x16 -45%\n"),
        ("plain", "gpu5-x8", 1, "topocheck: PCI001 gpu5 x8 of x16 -45%\n"),
        (
            "nagios", "gpu5-x8", 2,
            "TOPOCHECK CRITICAL - PCI001 gpu5 x8 of x16 -45% | errors=1;;1 warnings=0;1 worst_loss=45%\n",
        ),
        (
            "nagios", None, 0,
            "TOPOCHECK OK - healthy, nothing that fails a job | errors=0;;1 warnings=0;1 worst_loss=0%\n",
        ),
    ],
)  # fmt: skip
def test_exit_styles(tmp_path, style, fault, code, out):
    ran = machine(tmp_path / "machine", fault).gate("--exit-style", style)
    assert (ran.code, ran.out, ran.err) == (code, out, "")


@pytest.mark.parametrize(("style", "code"), [("npd", 2), ("nagios", 3), ("plain", 2), ("nhc", 0)])
def test_what_cannot_be_told_in_every_style(node, style, code):
    assert node.hangs("nvidia-smi").gate("--exit-style", style, "--budget", "3").code == code


@pytest.mark.parametrize(
    ("drill", "gpus", "code", "out"),
    [
        ("PCI001", "3", 1, "topocheck: PCI001 gpu3 DRILL\n"),
        ("PCI001:gpu5", "4", 0, "topocheck: passes: not this job's: PCI001 gpu5 DRILL\n"),
        ("gpu004:gpu5", "5", 1, "topocheck: GPU004 gpu5 DRILL\n"),
        ("NET001:mlx5_3", "3", 0, "topocheck: passes: not this job's: NET001 mlx5_3 DRILL\n"),
        ("AFF001", "3", 0, "topocheck: passes: this fault fails no job\n"),
    ],
)
def test_a_drill(node, drill, gpus, code, out):
    ran = node.gate("--drill", drill, job=slurm(gpus))
    assert (ran.code, ran.out) == (code, out)
    (report,) = node.reports()
    assert report["drill"] == drill
    assert any("DRILL" in f["message"] for f in report["report"]["findings"])
    assert not (node.state / "last.json").exists(), "a drill is never kept for other jobs"


def test_what_stops_a_job_is_named_before_what_slows_it(tmp_path):
    node = machine(tmp_path / "machine", "gpu5-x8")
    for change in nodes.edit("hgx-h100", "gpu6-fabric-in-progress").changes:
        file = node.root / change.file
        file.write_text(change.of(file.read_text()))
    ran = node.gate(job=slurm("4,5,6"))
    assert ran.code == 1 and ran.out.startswith("topocheck: NVL005 gpu6")
    assert "PCI001 gpu5" in node.log()[-1]


@pytest.mark.parametrize("drill", ["PCI999", "PCI*", ":gpu3", ""])
def test_a_drill_of_no_rule_is_a_usage_error(node, drill):
    ran = node.gate("--drill", drill)
    assert (ran.code, ran.out) == (2, "")


def test_a_wrong_call_in_a_prolog_drains_nothing(node):
    assert node.gate("--no-such-option", job=slurm()).code == 0
    assert node.gate("--no-such-option", "--fail-closed", job=slurm()).code == 1
    assert node.gate("--cache", "-1", job=slurm()).code == 0


def test_closed_standard_streams(tmp_path):
    node = machine(tmp_path / "machine", "gpu5-x8")
    words = [sys.executable, "-m", "topocheck", "gate", *node.arguments()]
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        done = subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *words],
            env={"PYTHONPATH": str(REPOSITORY), **slurm("5")}, check=False, cwd="/", stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert done.returncode == 1, closed
        assert done.stdout == ("" if ">&-" in closed.replace("2>&-", "") else "topocheck: PCI001 gpu5 x8 of x16 -45%\n")


@pytest.mark.parametrize("after_s", [0.05, 0.2, 0.5, 0.9])
def test_a_child_that_is_killed_is_no_verdict(tmp_path, after_s):
    node = machine(tmp_path / "machine", "gpu5-x8")
    words = [sys.executable, "-m", "topocheck", "gate", *node.arguments()]
    environ = {"PYTHONPATH": str(REPOSITORY), **slurm("5")}
    gate = subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/")
    deadline_s = time.monotonic() + 5
    children = Path(f"/proc/{gate.pid}/task/{gate.pid}/children")
    while not (children_now := children.read_text().split()) and time.monotonic() < deadline_s:
        time.sleep(0.005)
    time.sleep(after_s)
    os.kill(int(children_now[0]), signal.SIGKILL)
    out, err = gate.communicate(timeout=20)
    assert (gate.returncode, out) == (0, "")
    assert err == "topocheck: no verdict: it was ended by signal 9\n"
    assert node.log()[-1] == "job 4711: no verdict, exit 0: it was ended by signal 9"


def test_a_gate_that_is_ended_ends_what_it_started(node, tmp_path):
    pid_file = tmp_path / "pid"
    write_tool(node.tools, "nvidia-smi", f"#!/bin/sh\necho $$ > {pid_file}\nexec /bin/sleep 60\n")
    words = [sys.executable, "-m", "topocheck", "gate", *node.arguments()]
    gate = subprocess.Popen(words, env={"PYTHONPATH": str(REPOSITORY), **slurm()}, cwd="/")
    deadline_s = time.monotonic() + 6
    while not (pid_file.exists() and pid_file.read_text().strip()) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    gate.terminate()
    assert gate.wait(5) == 0
    pid = int(pid_file.read_text())
    deadline_s = time.monotonic() + 3
    while runs(pid) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert not runs(pid)


def runs(pid):
    """Whether a process is there, and not only its entry, until some init asks for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_gate_that_is_killed_leaves_whole_files_and_the_next_one_works(tmp_path):
    """At drawn moments; what the child still writes is whole, too."""
    node = machine(tmp_path / "machine", "gpu5-x8")
    words = [sys.executable, "-m", "topocheck", "gate", "--cache", "60", *node.arguments()]
    drawn = random.Random(7)
    for _ in range(6):
        gate = subprocess.Popen(words, env={"PYTHONPATH": str(REPOSITORY), **slurm("5")}, cwd="/")
        time.sleep(drawn.uniform(0.1, 2.5))
        gate.kill()
        gate.wait()
    time.sleep(0.5)
    for file in node.state.glob("*.json"):
        assert json.loads(file.read_text())
    ran = node.gate("--cache", "60", job=slurm("5"))
    assert (ran.code, ran.out) == (1, "topocheck: PCI001 gpu5 x8 of x16 -45%\n")
