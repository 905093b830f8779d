"""The gate on a simulated 8×H100 node by sysfs and NVML alone, as on a real one: no lspci, no nvidia-smi. Slurm's GPU
numbers are minors, in another order than NVML's indices."""

from __future__ import annotations

import shutil

import pytest
from gates import Machine, slurm
from livenode import livenode
from nodesim import place
from nodesim.capture import capture
from nodesim.sysfs import sysfs
from test_live_sysfs import FAULTS, NODE

pytestmark = pytest.mark.real("gcc")

MINORS = (3, 2, 1, 0, 7, 6, 5, 4)
FATAL = {  # fault → index of the GPU, fewest nodes, fewest GPUs of a job that it fails
    "GPU x8": (2, 1, 1),
    "GPU at 16 GT/s": (3, 1, 1),
    "NIC x8": (5, 2, 1),
    "port polling": (4, 2, 1),
    "port at 200": (4, 2, 1),
    "NVLinks down": (1, 1, 2),
    "fabric not ready": (5, 1, 2),
    "remapping failed": (6, 1, 1),
    "wants a reset": (7, 1, 1),
}
HARMLESS = sorted(set(FAULTS) - set(FATAL) - {"on nouveau"})


def machine(tmp_path, fault=None):
    layout = place(FAULTS[fault][0](NODE) if fault else NODE)
    root = sysfs(layout, capture(layout, tmp_path / "capture"))
    node = livenode(root, tmp_path, also="\n".join(f"minor {index} * {minor}" for index, minor in enumerate(MINORS)))
    shutil.rmtree(tmp_path / "tools")
    (tmp_path / "tools").mkdir()
    return Machine(tmp_path, node.environ)


def job(*indices, nodes):
    return slurm(",".join(str(MINORS[index]) for index in indices), nodes)


def test_a_healthy_node_is_silent_for_any_job(tmp_path):
    node = machine(tmp_path)
    for asked in (job(0, nodes=1), job(*range(8), nodes=2), {}):
        ran = node.gate(job=asked)
        assert (ran.code, ran.out, ran.err) == (0, "", ""), node.log()


@pytest.mark.parametrize("fault", FATAL)
def test_a_fault_fails_the_job_it_hurts_and_no_other(tmp_path, fault):
    index, nodes, gpus = FATAL[fault]
    beside = (index + 1) % 8
    mine = (index, beside)[:gpus]
    node = machine(tmp_path, fault)
    ran = node.gate(job=job(*mine, nodes=nodes))
    assert ran.code == 1 and ran.out.startswith(f"topocheck: {FAULTS[fault][1]} "), node.log()
    others = [i for i in range(8) if i != index]
    assert node.gate(job=job(*others, nodes=2)).code == 0, node.log()
    if nodes == 2:
        assert node.gate(job=job(*mine, nodes=1)).code == 0, node.log()
    if gpus == 2:
        assert node.gate(job=job(index, nodes=2)).code == 0, node.log()


@pytest.mark.parametrize("fault", HARMLESS)
def test_what_is_no_error_fails_no_job(tmp_path, fault):
    node = machine(tmp_path, fault)
    ran = node.gate(job=job(*range(8), nodes=4))
    assert (ran.code, ran.out) == (0, ""), node.log()
    rules = {finding["rule"] for finding in node.reports()[-1]["report"]["findings"]}
    assert FAULTS[fault][1] in rules, "it is in the report"
