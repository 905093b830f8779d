"""NCCL's log: two GPUs and two NICs, in the words of NCCL 2.21 and of 2.18."""

from __future__ import annotations

import re

import pytest

from topocheck.check import check
from topocheck.facts import Gap
from topocheck.probes import nccl_log

HEAD = "node-a:100:200 [0] NCCL INFO "
# 0000:1b:00.0 and 0000:1c:00.0 below the switch 0000:17:00.0 of node 0; 0000:9b:00.0 and 0000:9c:00.0 on node 1.
GRAPH = """\
NCCL version 2.21.5+cuda12.4
NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:192.0.2.1<0>
comm 0x5581 rank 0 nranks 2 cudaDev 0 nvmlDev 4 busId 1b000 commId 0x1 - Init START
=== System : maxBw 48.0 totalBw 370.8 ===
CPU/0-0 (1/1/2)
+ PCI[48.0] - PCI/0-17000 (1000c0301000100b)
              + PCI[48.0] - GPU/0-1b000 (0)
                            + NVL[370.8] - NVS/0-0
                            + NVL[370.8] - GPU/0-9b000
              + PCI[48.0] - NIC/0-1c000
                            + NET[50.0] - NET/0-0 (0/d2cb190003c28800/1/50.000000)
+ SYS[22.0] - CPU/0-1
CPU/0-1 (1/1/2)
+ PCI[48.0] - GPU/0-9b000 (1)
              + NVL[370.8] - NVS/0-0
+ PCI[48.0] - NIC/0-9c000
              + NET[25.0] - NET/0-1 (1/d2cb190003c28801/1/25.000000)
+ SYS[22.0] - CPU/0-0
==========================================
GPU/0-1b000 :GPU/0-1b000 (0/5000.0/LOC) GPU/0-9b000 (2/370.8/NVL) NET/0-0 (4/48.0/PIX) NET/0-1 (6/22.0/SYS)
GPU/0-9b000 :GPU/0-1b000 (2/370.8/NVL) GPU/0-9b000 (0/5000.0/LOC) NET/0-0 (5/22.0/PXN) NET/0-1 (3/48.0/PHB)
NET/0-0 :GPU/0-1b000 (4/48.0/PIX) GPU/0-9b000 (6/22.0/SYS)
"""
OTHER = "node-a:101:201 [1] NCCL INFO comm 0x5582 rank 1 nranks 2 cudaDev 1 nvmlDev 5 busId 9b000 - Init START\n"


def log(text: str = GRAPH) -> str:
    return "".join(f"{HEAD}{line}\n" for line in text.splitlines()) + OTHER


def old(text: str) -> str:
    """The same as NCCL up to 2.20 prints it: no system before an id, upper case."""
    return re.sub(r"((?:GPU|PCI|NIC|NET|CPU|NVS)/)0-([0-9a-f]+)", lambda m: m[1] + m[2].upper(), text)


@pytest.mark.parametrize("text", [log(), old(log()), log().replace(HEAD, "[1,3]<stdout>:2025-01-02 03:04:05 " + HEAD)])
def test_the_tree_and_the_distances_are_read(tmp_path, text):
    (tmp_path / "job.log").write_text(text)
    report, node = check(str(tmp_path / "job.log"))
    assert report.host == "node-a"
    assert [(g.id, g.bdf, g.numa_node) for g in node.gpus] == [("gpu4", "0000:1b:00.0", 0), ("gpu5", "0000:9b:00.0", 1)]
    assert [(n.id, n.bdf, n.rate_gbit_per_s, n.ports[0].link_layer) for n in node.nics] == [
        ("mlx5_0", "0000:1c:00.0", 400, "infiniband"),
        ("mlx5_1", "0000:9c:00.0", 200, "ethernet"),
    ]
    pairs = [("gpu4", "mlx5_0"), ("gpu4", "mlx5_1"), ("gpu5", "mlx5_0"), ("gpu5", "mlx5_1")]
    assert [node.pcie_class(*pair) for pair in pairs] == ["PIX", "SYS", "SYS", "PHB"]
    assert list(node.climb("0000:1c:00.0")) == ["0000:1c:00.0", "0000:17:00.0", "root:cpu0"]
    assert not report.gaps


def test_without_its_blanks_the_tree_is_a_gap_and_the_distances_stay(tmp_path):
    (tmp_path / "job.log").write_text(re.sub(r" +", " ", log()))
    report, node = check(str(tmp_path / "job.log"))
    assert any("indentation was lost" in gap.reason for gap in report.gaps)
    assert node.pcie_class("gpu4", "mlx5_0") == "PIX"


def test_without_graph_only_the_nics_are_known(tmp_path):
    facts = list(nccl_log.parse(log("\n".join(GRAPH.splitlines()[:3]))))
    assert any("GRAPH" in fact.reason for fact in facts if isinstance(fact, Gap))
    assert [fact.name for fact in facts if hasattr(fact, "efa")] == ["mlx5_0", "mlx5_1"]


def test_of_two_hosts_only_the_first_is_read():
    facts = list(nccl_log.parse(log() + log().replace("node-a", "node-b")))
    assert any("2 hosts" in fact.reason for fact in facts if isinstance(fact, Gap))


def test_gpus_below_their_own_devices_are_read(tmp_path):
    """As newer versions print them: the PCI device with its ids, and the GPU at no distance from it."""
    newer = re.sub(
        r"^( *)\+ PCI\[48.0\] - GPU/0-(\w+) \(\d\)$",
        r"\1+ PCI[48.0] - DEV/0-\2 (10de233010de16c1)\n\1              + LOC[5000.0] - GPU/0-\2",
        GRAPH,
        flags=re.MULTILINE,
    )
    assert newer.count("DEV/") == 2
    (tmp_path / "job.log").write_text(log(newer[: newer.index("GPU/0-1b000 :")]))
    report, node = check(str(tmp_path / "job.log"))
    assert [(g.bdf, g.pci_id) for g in node.gpus] == [("0000:1b:00.0", "10de:2330"), ("0000:9b:00.0", "10de:2330")]
    assert node.pcie_class("gpu4", "mlx5_0") == "PIX"
    assert not report.gaps


def test_a_tree_without_the_line_that_names_its_ports_has_them_by_address(tmp_path):
    (tmp_path / "job.log").write_text(log("\n".join(line for line in GRAPH.splitlines() if "Using" not in line)))
    _, node = check(str(tmp_path / "job.log"))
    assert [(n.id, n.bdf, n.rate_gbit_per_s) for n in node.nics] == [
        ("0000:1c:00.0", "0000:1c:00.0", 400),
        ("0000:9c:00.0", "0000:9c:00.0", 200),
    ]
    assert node.pcie_class("gpu4", "0000:1c:00.0") == "PIX"


def test_interfaces_of_sockets_are_no_nics(tmp_path):
    sockets = re.sub(r"\(\d/d2cb190003c2880(\d)/1/", r"(\1/\1/1/", GRAPH).replace(
        "NET/IB : Using", "NET/Socket : Using"
    )
    (tmp_path / "job.log").write_text(log(sockets))
    assert check(str(tmp_path / "job.log"))[1].nics == []


def test_ports_used_as_one_are_nics_of_their_own(tmp_path):
    line = (
        "NET/IB : Using [0]={[0] mlx5_2:1/RoCE, [1] mlx5_3:1/RoCE} [1]={[2] mlx5_0:1/RoCE} [RO]; OOB eth0:192.0.2.1<0>"
    )
    (tmp_path / "job.log").write_text(log(line))
    _, node = check(str(tmp_path / "job.log"))
    assert [n.id for n in node.nics] == ["mlx5_0", "mlx5_2", "mlx5_3"]


@pytest.mark.parametrize("head", ["node-a:100 [0] NCCL INFO ", "[0] NCCL INFO ", "NCCL INFO "])
def test_a_shortened_prefix_is_no_hindrance(tmp_path, head):
    (tmp_path / "job.log").write_text(log().replace(OTHER, "").replace(HEAD, head))
    report, node = check(str(tmp_path / "job.log"))
    assert report.host == ("node-a" if head.startswith("node-a") else None)
    assert node.pcie_class(node.gpus[0].id, "mlx5_0") == "PIX"


@pytest.mark.parametrize(
    ("nvidia", "amd", "lost"),
    [
        ("NVL[370.8]", "XGMI[48.0]", 2),
        ("NCCL version 2.21.5+cuda12.4", "RCCL version : 2.22", 2),
        ("PCI/0-17000 (1000c0301000100b)", "PCI/0-17000 (1002147800000000)", 1),
    ],
)
def test_gpus_of_amd_are_not_taken_for_nvidias(tmp_path, nvidia, amd, lost):
    (tmp_path / "job.log").write_text(log(GRAPH.replace(nvidia, amd)))
    report, node = check(str(tmp_path / "job.log"))
    assert len(node.gpus) == 2 - lost
    assert any(f"{lost} GPUs that are not NVIDIA's" in gap.reason for gap in report.gaps)


def test_a_tree_that_is_cut_accuses_nobody(tmp_path):
    """Four GPUs, each with its NIC on its switch: wherever the log ends, no GPU is without."""
    tree = ["=== System : maxBw 48.0 totalBw 370.8 ===", "CPU/0-0 (1/1/2)"]
    for i in range(4):
        tree += [
            f"+ PCI[48.0] - PCI/0-{i + 1}7000 (1000c0301000100b)",
            f"              + PCI[48.0] - GPU/0-{i + 1}b000 ({i})",
            "                            + NVL[370.8] - NVS/0-0",
            f"              + PCI[48.0] - NIC/0-{i + 1}c000",
            f"                            + NET[50.0] - NET/0-{i} (0/d2cb190003c2880{i}/1/50.000000)",
        ]
    tree.append("==========================================")
    for end in range(3, len(tree) + 1):
        (tmp_path / "job.log").write_text("".join(f"{HEAD}{line}\n" for line in tree[:end]))
        report, node = check(str(tmp_path / "job.log"))
        assert [f.message for f in report.findings if f.severity != "info"] == [], tree[end - 1]
        assert len(node.gpus) == (4 if end == len(tree) else (end - 3) // 5)
        assert any("cut" in gap.reason for gap in report.gaps) == (end < len(tree))
