"""`topocheck bind` and `topocheck path`: the mapping, the script that binds each rank, and what neither may do."""

import json
import os
import subprocess

import nodes
import pytest

from topocheck.cli import run

HGX = str(nodes.healthy("hgx-h100"))
FLAT_VM = """\
\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tPHB\tPHB\tPHB\t\tN/A\t\tN/A
GPU1\tPHB\t X \tPHB\tPHB\t\tN/A\t\tN/A
NIC0\tPHB\tPHB\t X \tPHB
NIC1\tPHB\tPHB\tPHB\t X
"""


def bound(capsys, *arguments):
    assert run(["bind", "--format", "json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def ran(script, rank, tmp_path, **environ):
    """What a rank started with the script sees: its environment, and the command it becomes."""
    tools = tmp_path / "bin"
    tools.mkdir(exist_ok=True)
    numactl = tools / "numactl"
    numactl.write_text('#!/bin/sh\necho "numactl $1 $2"; shift 2; exec "$@"\n')
    numactl.chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    command = ["sh", str(script), "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $NCCL_IB_HCA $UCX_NET_DEVICES"]
    environ = {"PATH": path, **({} if rank is None else {"SLURM_LOCALID": rank}), **environ}
    return subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False)


def test_each_gpu_gets_the_nic_of_its_own_switch_and_the_cpus_of_its_socket(capsys):
    ranks = bound(capsys, "--from", HGX)["ranks"]
    # fixtures/nodes/hgx-h100/about.toml: mlx5_0-3 and mlx5_6-9 are PIX to GPUs 0 to 7; four GPUs a socket
    assert [rank["nics"] for rank in ranks] == [[f"mlx5_{i}"] for i in (0, 1, 2, 3, 6, 7, 8, 9)]
    assert [rank["numa_node"] for rank in ranks] == [0] * 4 + [1] * 4
    assert {rank["class"] for rank in ranks} == {"PIX"}
    assert ranks[5]["environment"] == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "5",
        "NCCL_IB_HCA": "=mlx5_7",
        "UCX_NET_DEVICES": "mlx5_7:1",
    }


def test_gpus_that_share_nics_share_them_evenly(capsys, tmp_path):
    """pcie-box has two NICs for eight GPUs: four each, and each on its own socket; with both NICs on one socket they
    are shared evenly still."""
    healthy = bound(capsys, "--from", str(nodes.healthy("pcie-box")))["ranks"]
    assert [rank["nics"] for rank in healthy] == [["mlx5_0"]] * 4 + [["mlx5_1"]] * 4
    fault = nodes.edit("pcie-box", "nic0-on-the-other-socket")
    moved = bound(capsys, "--from", str(nodes.apply("pcie-box", fault, tmp_path)))["ranks"]
    used = [nic for rank in moved for nic in rank["nics"]]
    assert (used.count("mlx5_0"), used.count("mlx5_1")) == (4, 4)


def test_launchers_are_told_the_numa_nodes(capsys):
    launch = bound(capsys, "--from", HGX)
    assert launch["srun"][1:] == ["--cpu-bind=map_ldom:0,0,0,0,1,1,1,1", "--mem-bind=map_mem:0,0,0,0,1,1,1,1"]
    assert launch["mpirun"] == ["--map-by", "ppr:4:numa", "--bind-to", "numa"]


def test_the_script_binds_each_rank(tmp_path):
    script = tmp_path / "bind.sh"
    assert run(["bind", "--from", HGX, "--format", "shell", "--output", str(script)]) == 0
    seen = ran(script, "6", tmp_path)
    assert (seen.returncode, seen.stderr) == (0, "")
    assert seen.stdout == "numactl --cpunodebind=1 --membind=1\n6 =mlx5_8 mlx5_8:1\n"
    assert ran(script, None, tmp_path, OMPI_COMM_WORLD_LOCAL_RANK="0").stdout.endswith("0 =mlx5_0 mlx5_0:1\n")
    for rank in (None, "8", "nine"):
        assert ran(script, rank, tmp_path).returncode == 2


@pytest.mark.parametrize(
    "name",
    ["$(touch owned)", "`touch owned`", "';touch owned;'", '"; touch owned; "', "mlx5_0\n touch owned", "a b", "--x"],
)
def test_a_hostile_name_is_never_executed(tmp_path, name, capsys):
    """A device name of a capture may hold anything: it is left out of the script, or at least nothing is run."""
    capture = nodes.apply("hgx-h100", nodes.edit("hgx-h100", "mlx5_3-x8"), tmp_path)
    for file in capture.rglob("*"):
        if file.is_file() and "mlx5_0" in (text := file.read_text(errors="replace")):
            file.write_text(text.replace("mlx5_0", name))
    script = tmp_path / "bind.sh"
    code = run(["bind", "--from", str(capture), "--format", "shell", "--output", str(script)])
    capsys.readouterr()
    if code == 0:
        for rank in range(9):
            assert "owned" not in ran(script, str(rank), tmp_path).stdout
        assert subprocess.run(["sh", "-n", str(script)], check=False).returncode == 0
    assert not (tmp_path / "owned").exists()


@pytest.mark.real("shellcheck")
@pytest.mark.parametrize("node", nodes.names())
def test_shellcheck_has_nothing_to_say_of_the_script(tmp_path, node):
    script = tmp_path / "bind.sh"
    assert run(["bind", "--from", str(nodes.healthy(node)), "--format", "shell", "--output", str(script)]) == 0
    seen = subprocess.run(["shellcheck", str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert (seen.returncode, seen.stdout) == (0, "")


def test_a_nic_that_is_down_is_not_used(capsys, tmp_path):
    launch = bound(capsys, "--from", str(nodes.apply("p5-vm", nodes.edit("p5-vm", "rdmap96s0-down"), tmp_path)))
    assert launch["ranks"][1]["nics"] == ["rdmap97s0", "rdmap98s0", "rdmap99s0"]
    assert "NCCL_IB_HCA" not in launch["ranks"][1]["environment"]  # EFA has no such list
    assert any("rdmap96s0" in note for note in launch["notes"])


@pytest.mark.parametrize("command", [["bind"], ["bind", "--format", "shell"]])
def test_where_the_tree_is_hidden_bind_refuses(tmp_path, capsys, command):
    (tmp_path / "nvidia-smi_topo_-m").write_text(FLAT_VM)
    assert run([*command, "--from", str(tmp_path)]) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "hidden" in seen.err
    assert seen.err.count("\n") == 1


def test_a_path_names_every_hop_and_the_slowest(tmp_path, capsys):
    capture = str(nodes.apply("hgx-h100", nodes.edit("hgx-h100", "mlx5_3-x8"), tmp_path))
    assert run(["path", "GPU3", "mlx5_3", "--from", capture]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("gpu3 -> mlx5_3  PIX  26.9 GB/s achievable")  # design.md: Gen5 x8 is 26.9
    slow = [line for line in lines if "<- slowest" in line]
    assert len(slow) == 1
    assert "5.0x8" in slow[0]
    assert "26.9 of 31.5" in slow[0]
    assert any(line.startswith(" x PCI001") for line in lines)
    assert run(["path", "0000:5d:00.0", "gpu4", "--from", capture]) == 0
    said = capsys.readouterr().out
    assert "NV18" in said
    assert "NUMA node 0\n" in said
    assert "NUMA node 1\n" in said


@pytest.mark.parametrize("ends", [["gpu0", "gpu0"], ["gpu0", "gpu99"], ["nobody", "gpu0"], ["gpu0", "$(ls)\n"]])
def test_ends_that_are_not_there_are_one_line(ends, capsys):
    assert run(["path", *ends, "--from", HGX]) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err.count("\n") == 1
