"""Environment texts of bug reports (vLLM's and PyTorch's collect_env, sglang's check_env), whole and cut.

Machines and identifiers are made up; the shapes are those of the real tools.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_posted import looked, loud, own_switch_each, seen


@pytest.mark.parametrize("cut", ["mlx", "mlx5", "mlx5_", "mlx5_b", "mlx5_bond_"])
def test_a_name_cut_in_the_legend_is_no_name(tmp_path: Path, cut: str) -> None:
    def cell(a: str, b: str) -> str:
        return own_switch_each(a, b) if a[0] == b[0] or int(b[3:]) < 8 else "NODE"

    legend = "\nNIC Legend:\n\n  NIC0: mlx5_bond_0\n  NIC1: mlx5_bond_1\n  NIC2: mlx5_bond_2\n  NIC3: "
    report = looked(tmp_path, nvidia_smi_topo__m=seen(8, 10, cell) + legend + cut)
    assert loud(report) == []
    assert [d.id for d in report.devices if d.role == "storage"] == ["NIC8", "NIC9"]


def test_a_list_of_cpus_run_on_to_several_nodes(tmp_path: Path) -> None:
    # Grace: the node of the CPUs and those of the GPUs' memory; the margin ran both lists together.
    rows = [
        "        GPU0    GPU1    CPU AffinityNUMA Affinity   GPU NUMA ID",
        "GPU0     X      NV18    0-710,3-9,11-17         2",
        "GPU1    NV18     X      72-1431,19-25,27-33     18",
    ]
    report = looked(tmp_path, nvidia_smi_topo__m="\n".join(rows) + "\n")
    assert [d.numa_node for d in report.devices] == [0, 1]


def of_pairs(*nics: int) -> str:
    """Eight GPUs, a switch for each two; so many NICs behind one bridge on each switch, then two beside the CPU."""
    switches = [*(switch for switch, count in enumerate(nics) for _ in range(count)), -1, -2]

    def cell(a: str, b: str) -> str:
        if b[0] == "G":
            return "NV8"
        switch = int(a[3:]) // 2 if a[0] == "G" else switches[int(a[3:])]
        return "NODE" if switch != switches[int(b[3:])] else "PXB" if a[0] == "G" else "PIX"

    return seen(8, len(switches), cell)


def test_more_ports_on_some_switches_are_no_unlike_share(tmp_path: Path) -> None:
    # A card a pair, three functions of it or one: by design each two GPUs share one.
    report = looked(tmp_path, nvidia_smi_topo__m=of_pairs(3, 1, 3, 1))
    assert loud(report) == []
    assert [f.rule for f in report.findings] == ["AFF003"]


def test_a_pair_with_one_nic_where_the_others_have_two(tmp_path: Path) -> None:
    report = looked(tmp_path, nvidia_smi_topo__m=of_pairs(2, 2, 1, 2))
    assert [(f.rule, f.severity) for f in report.findings if f.severity != "info"] == [("AFF003", "warning")]
    assert {"gpu4", "gpu5"} == {s for f in report.findings if f.severity == "warning" for s in f.subjects}


def test_a_matrix_whose_line_ends_were_lost(tmp_path: Path) -> None:
    # Copied from a page that shows a post without its line ends.
    legend = "\nNIC Legend:\n\n" + "".join(f"  NIC{i}: mlx5_{i}\n" for i in range(8))
    text = "GPU Topology:\n" + seen(8, 8, own_switch_each) + "\nLegend:\n\n  X    = Self\n" + legend
    report = looked(tmp_path, posted=" ".join(text.split()))
    assert loud(report) == []
    assert {(p.a, p.b): p.cls for p in report.pairs if p.a == "gpu5"} == {
        ("gpu5", "gpu6"): "NV18",
        ("gpu5", "gpu7"): "NV18",
        **{("gpu5", f"mlx5_{i}"): "PIX" if i == 5 else "NODE" if i > 3 else "SYS" for i in range(8)},
    }
    assert [d.numa_node for d in report.devices if d.kind == "gpu"] == [0] * 8


@pytest.mark.parametrize("broken", ["\n", ",\n", "\n                       "])
def test_a_list_of_cpus_that_the_margin_broke(tmp_path: Path, broken: str) -> None:
    lists = [",".join(map(str, range(node, 64, 2))) for node in (0, 1)]
    text = "Socket(s):               2\nNUMA node(s):            2\n" + "".join(
        f"NUMA node{node} CPU(s):       {cpus[:57]}{broken}{cpus[57:].removeprefix(broken[0])}\n"
        for node, cpus in enumerate(lists)
    )
    report = looked(tmp_path, lscpu=text + "Flags:                   fpu vme\n")
    assert [node.cpus for node in report.numa_nodes] == lists
    assert report.gaps == ()


def test_an_issue_as_githubs_api_gives_it(tmp_path: Path) -> None:
    body = "### Your environment\r\n\r\n```text\r\n" + seen(8, 8, own_switch_each).replace("\n", "\r\n") + "```\r\n"
    issue = {"number": 12, "title": "Hang", "body": body, "comments": [{"body": "Same here.\nAny news?"}]}
    report = looked(tmp_path, issue=json.dumps(issue))
    assert loud(report) == []
    assert len([d for d in report.devices if d.kind == "gpu"]) == 8
    assert {p.cls for p in report.pairs if p.a == "gpu3" and p.b == "NIC3"} == {"PIX"}


def test_a_json_document_with_some_text_of_several_lines_stays_one(tmp_path: Path) -> None:
    # LLDP's neighbours describe themselves in several lines; the rest of the document counts.
    interface = {
        "rid": "1",
        "chassis": {"leaf01": {"id": {"type": "mac", "value": "02:00:00:00:00:01"}, "descr": "Switch OS\nA\nB\nC"}},
        "port": {"id": {"type": "ifname", "value": "Ethernet12"}, "descr": "Ethernet12", "ttl": "120"},
    }
    document = {"lldp": {"interface": [{f"enp{i}s0": interface} for i in range(4)]}}
    report = looked(tmp_path, lldpctl__f_json=json.dumps(document))
    assert report.recognised
    assert report.gaps == ()


def test_cudas_name_of_a_mig_device_says_that_its_gpu_is_in_mig_mode(tmp_path: Path) -> None:
    head = "GPU 0,1: NVIDIA H100 80GB HBM3 MIG 7g.80gb\nGPU 0,1 Compute Capability: 9.0\nNVIDIA Topology:\n"
    report = looked(tmp_path, posted=head + seen(2, 0, lambda a, b: "SYS"))
    assert [(d.model, d.mig) for d in report.devices] == [("NVIDIA H100 80GB HBM3", True)] * 2
    assert loud(report) == []
