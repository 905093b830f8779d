"""The gate in the prolog of a real Slurm: who is drained, with which reason, and what becomes of the job."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from gates import slurm
from slurm_cluster import NODES, running

pytestmark = pytest.mark.real("slurmctld")

LINE = "topocheck: PCI001 gpu5 x8 of x16 -45%"


started = pytest.fixture(running, scope="module")


@pytest.fixture
def cluster(started):
    """The cluster with healthy, idle nodes and the usual prolog."""
    yield started
    started.at_rest()


def test_healthy_nodes_run_a_job_of_three(cluster):
    out = cluster.run("srun", "-N3", "--gres=gpu:8", "sh", "-c", "echo $SLURMD_NODENAME")
    assert sorted(out.split()) == list(NODES), cluster.told()
    assert {cluster.nodes[node].log()[-1].partition(": ")[2] for node in NODES} == {"pass, exit 0"}


def test_a_bad_node_is_drained_with_our_reason_and_the_job_runs_elsewhere(cluster):
    """A batch script starts on its first node as soon as that one's prolog is over, so the bad node is the first."""
    cluster.break_node("n1", "gpu5-x8")
    job = cluster.submit("-N2", script="srun -N2 sh -c 'echo $SLURMD_NODENAME'")
    cluster.wait(lambda: cluster.reason("n1") is not None)
    assert cluster.reason("n1") == LINE
    cluster.wait(lambda: "held" in cluster.queue(job))
    assert cluster.output(job) == [], "it ran nowhere"
    cluster.release(job)
    cluster.wait(lambda: sorted(cluster.output(job)) == ["n2", "n3"])
    assert {node for node, state in cluster.states().items() if state.startswith("drain")} == {"n1"}


def test_a_fault_outside_the_jobs_share_drains_nothing(cluster):
    """The first two GPUs of the node; the fault is on another."""
    cluster.break_node("n1", "gpu5-x8")
    job = cluster.submit("-N1", "-w", "n1", "--gres=gpu:2")
    cluster.wait(lambda: cluster.output(job) == ["n1"])
    assert cluster.reason("n1") is None
    assert "not this job's: PCI001 gpu5" in cluster.nodes["n1"].log()[-1]


def test_a_warning_drains_nothing(cluster):
    cluster.break_node("n1", "mlx5_7-relaxed-ordering-off")
    job = cluster.submit("-N1", "-w", "n1")
    cluster.wait(lambda: cluster.output(job) == ["n1"])
    assert cluster.reason("n1") is None
    assert [f["rule"] for f in cluster.nodes["n1"].reports()[-1]["report"]["findings"]] == ["PCI009"]


def test_a_driver_that_hangs_drains_only_where_the_gate_is_closed(cluster):
    cluster.hang("n3")
    job = cluster.submit("-N1", "-w", "n3")
    cluster.wait(lambda: cluster.output(job) == ["n3"])
    assert cluster.reason("n3") is None
    assert "no answer within" in cluster.nodes["n3"].log()[-1]
    cluster.write_prolog(FAIL_CLOSED="yes")
    job = cluster.submit("-N1", "-w", "n3")
    cluster.wait(lambda: cluster.reason("n3") is not None)
    assert cluster.reason("n3").startswith("topocheck: no verdict: nvidia-smi")
    cluster.wait(lambda: "held" in cluster.queue(job))


def test_the_health_check_drains_and_takes_back_only_its_own(cluster):
    cluster.write_healthcheck()
    cluster.break_node("n3", "gpu5-x8")
    cluster.healthcheck("n3")
    assert cluster.reason("n3") == LINE
    cluster.break_node("n3", None)
    cluster.healthcheck("n3")
    cluster.wait(lambda: cluster.states()["n3"] == "idle")
    cluster.run("scontrol", "update", "nodename=n3", "state=drain", "reason=somebody else's")
    cluster.healthcheck("n3")
    assert cluster.reason("n3") == "somebody else's"


def test_fifty_jobs_in_a_row_with_the_cache(cluster):
    cluster.write_prolog(OPTIONS='"--cache 600 --budget 6"')
    for node in NODES:
        cluster.nodes[node].gate("--cache", "600", job=slurm())
    before = {node: len(cluster.nodes[node].log()) for node in NODES}
    cluster.submit("-N1", "-n1", "--gres=gpu:1", "--array=1-50", script=f"echo done >> {cluster.folder}/log/fifty")
    done = cluster.folder / "log/fifty"
    cluster.wait(lambda: done.exists() and len(done.read_text().splitlines()) == 50, 90)
    assert {node: cluster.reason(node) for node in NODES} == dict.fromkeys(NODES)
    lines = [line for node in NODES for line in cluster.nodes[node].log()[before[node] :]]
    assert len(lines) == 50
    assert all(" pass, exit 0: by a reading" in line for line in lines)


def test_a_prolog_killed_in_the_middle_leaves_no_broken_state(cluster):
    """Slurm drains for it; what is kept is whole, and the next job is looked at as any."""
    cluster.hang("n1")
    job = cluster.submit("-N1", "-w", "n1")
    cluster.wait(lambda: prolog_of(cluster.folder) is not None)
    time.sleep(1)
    os.killpg(os.getpgid(prolog_of(cluster.folder)), signal.SIGKILL)
    cluster.wait(lambda: cluster.reason("n1") == "Prolog error")
    cluster.run("scancel", job)
    cluster.break_node("n1", None)
    cluster.resume("n1")
    state = cluster.nodes["n1"].state
    assert all(json.loads(file.read_text()) for file in state.glob("*.json"))
    job = cluster.submit("-N1", "-w", "n1")
    cluster.wait(lambda: cluster.output(job) == ["n1"])
    assert cluster.nodes["n1"].log()[-1].endswith("pass, exit 0")


def prolog_of(folder):
    """The process id of a prolog that runs, by its command line."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(folder / "prolog.sh").encode() in words:
            return int(place.name)
    return None
