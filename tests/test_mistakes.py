"""The mistakes of other tools (peers.md section 9), each as a test of ours; test_traps.py has 04, 10, 11, 12 and 14."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nodes
import pytest
from nodesim import place, sysfs
from nodesim.faults import changing
from nodesim.shapes import Shape, build
from test_traps import LSPCI, MATRIX, changed, loud, without

from topocheck.check import Checked, check
from topocheck.cli import run
from topocheck.probes import asked

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def faulty(folder: Path, node: str, name: str) -> Checked:
    """The node's capture with a fault of its edits.toml."""
    return check(str(nodes.apply(node, nodes.edit(node, name), folder)))


def pcie(checked: Checked) -> list[tuple[str, tuple[str, ...]]]:
    """Who is said to have a PCIe link too narrow (PCI001), too slow (PCI002), or a slot that is (PCI003)."""
    rules = ("PCI001", "PCI002", "PCI003")
    return [(f.rule, f.subjects) for f in checked.report.findings if f.rule in rules and f.severity != "info"]


def test_mistake_01_a_rule_that_could_not_look_is_not_shown_as_passed(capsys: pytest.CaptureFixture[str]) -> None:
    """DCGM leaves a GPU out that is not in P0, and passes."""
    report = check(str(nodes.healthy("pcie-box"))).report
    assert [s.reason for s in report.skipped if s.rule == "PCI002" and "asleep" in s.reason]
    ran, skipped, not_applicable = report.coverage
    assert ran + skipped + not_applicable == len(report.rules)
    assert skipped == len({s.rule for s in report.skipped if not s.partial}) > 0
    assert run(["node", "--from", str(nodes.healthy("pcie-box")), "-v"]) == 0
    shown = capsys.readouterr().out
    assert f"{skipped} skipped" in shown and "asleep" in shown, "the reader is told"


def test_mistake_02_what_the_ends_can_is_expected_not_a_floor(tmp_path: Path) -> None:
    """DCGM asks for Gen3: a Gen5 NIC at 16 GT/s, or a Gen4 one at 8, would pass."""
    assert pcie(faulty(tmp_path / "gen4", "hgx-h100", "mlx5_6-gen4")) == [("PCI002", ("mlx5_6",))]
    assert pcie(faulty(tmp_path / "gen3", "dgx-a100", "mlx5_7-gen3")) == [("PCI002", ("mlx5_7",))]
    below = check(str(nodes.healthy("dgx-a100")))  # its Gen4 is no less than it can
    assert {below.topology.links[g.bdf].speed_gts for g in below.topology.gpus if g.bdf} == {16.0}
    assert pcie(below) == []


def test_mistake_03_words_beside_the_numbers_prove_nothing(tmp_path: Path) -> None:
    """oci-dr-hpc looks for "(ok)", cvs for "downgrade"."""
    sound = (nodes.healthy("hgx-h100") / LSPCI).read_text()
    alarming = re.sub(r"(LnkSta:\tSpeed [\d.]+GT/s)(, Width x\d+)", r"\1 (downgraded)\2 (downgraded)", sound)
    assert alarming.count("(downgraded)") > sound.count("(downgraded)") + 50
    assert loud(changed(tmp_path / "sound", "hgx-h100", nodes.Change(LSPCI, text=alarming))) == []
    folder = nodes.apply("hgx-h100", nodes.edit("hgx-h100", "gpu5-x8"), tmp_path)
    text = (folder / LSPCI).read_text()
    (folder / LSPCI).write_text(text.replace("Width x8 (downgraded)", "Width x8 (ok)"))
    assert pcie(check(str(folder))) == [("PCI001", ("gpu5",))]


CARDS = Shape(gpu="l40s", groups=4, per_group=1, switched=False, nested="", nics="cpu", nic="cx6-hdr", each=1,
              second_port="down", storage=None, storage_count=0, sockets=2, numa_per_socket=1, cpu="amd",
              slot_gen=4, nic_slot_gen=4, asleep=False, bridged=False, pooled=False, mig=False)  # fmt: skip


def test_mistake_05_the_kernels_minus_one_is_no_number_of_a_numa_node(tmp_path: Path) -> None:
    """Read as unsigned it is node 65535, or 4294967295."""
    sound = build(CARDS)
    gpu = sound.gpus[0].uid
    root = sysfs(place(changing(gpu, numa=-1)(sound)), tmp_path / "root")
    said = [file for file in root.glob("sys/bus/pci/devices/*/numa_node") if file.read_text().strip() == "-1"]
    assert len(said) == 1, "the file says -1"
    checked = check(str(root))
    (unknown,) = [f for f in checked.topology.functions.values() if f.bdf == said[0].parent.name]
    assert unknown.numa_node is None and unknown.numa_unknown
    nodes_said = {f.numa_node for f in checked.topology.functions.values()}
    assert nodes_said == {None, 0, 1}
    others = {f.bdf: f.numa_node for f in check(str(sysfs(place(sound), tmp_path / "s"))).topology.functions.values()}
    assert others[unknown.bdf] in (0, 1), "without the fault it is a real node"


def test_mistake_06_width_is_compared_with_width_and_speed_with_speed(tmp_path: Path) -> None:
    """16 is a width and a speed: x16 at 16 GT/s is whole, x8 at 16 GT/s is narrow, x16 at 8 GT/s is slow."""
    whole = check(str(nodes.healthy("dgx-a100")))
    links = [whole.topology.links[g.bdf] for g in whole.topology.gpus if g.bdf]
    assert {(link.width, link.speed_gts) for link in links} == {(16, 16.0)} and pcie(whole) == []
    assert pcie(faulty(tmp_path / "x8", "dgx-a100", "mlx5_2-x8")) == [("PCI001", ("mlx5_2",))]
    assert pcie(faulty(tmp_path / "gen3", "dgx-a100", "mlx5_7-gen3")) == [("PCI002", ("mlx5_7",))]


def test_mistake_07_the_legend_of_the_matrix_is_not_the_matrix(tmp_path: Path) -> None:
    """Every matrix ends with a legend that has SYS, PHB and NV# in it."""
    text = (nodes.healthy("hgx-h100") / MATRIX).read_text()
    rows, legend, _ = text.partition("Legend:")
    assert legend and "PHB" not in rows and "PHB" in text
    (tmp_path / "whole").mkdir()
    (tmp_path / "legend").mkdir()
    (tmp_path / "whole" / MATRIX).write_text(text)
    checked = check(str(tmp_path / "whole"))
    assert set(checked.topology.classes.values()) == set(re.findall(r"\b(?:NV18|PIX|PXB|NODE|SYS)\b", rows))
    assert len(checked.topology.gpus) == 8 and loud(checked) == []
    (tmp_path / "legend" / MATRIX).write_text(text[len(rows) :])
    alone = check(str(tmp_path / "legend"))
    assert not alone.topology.gpus and not alone.topology.classes and alone.report.verdict == "unknown"


def test_mistake_08_the_exit_code_says_the_verdict_and_never_a_value(tmp_path: Path) -> None:
    """gpud scan exits 0 whatever it finds; deepops' check exits with the width, 8 or 4."""
    healthy = nodes.healthy("hgx-h100")
    narrow = nodes.apply("hgx-h100", nodes.edit("hgx-h100", "gpu5-x8"), tmp_path)
    (tmp_path / "empty").mkdir()
    codes = [run(["node", "--from", str(path)]) for path in (healthy, narrow, tmp_path / "empty")]
    assert codes == [0, 1, 2], "sound, a fault, nothing known"


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file: what is in it, and when it was last written, in ns."""
    return {str(p): (p.read_bytes(), p.stat().st_mtime_ns) for p in sorted(folder.rglob("*")) if p.is_file()}


def test_mistake_09_a_check_repairs_nothing(tmp_path: Path) -> None:
    """test_read_only.py looks at every system call; here: what is asked, and that a fault stands after it was told."""
    changing_words = (
        r"setpci|modprobe|rmmod|ip link set|mlxconfig|--?gpu-reset|systemctl|sysctl -w|nvidia-smi -(?:r|pm)\b"
    )
    assert not [command for command in asked()[0] if re.search(changing_words, command)]
    folder = nodes.apply("hgx-h100-pairs", nodes.edit("hgx-h100-pairs", "acs-redirect-gpu4"), tmp_path)
    before = contents(folder)
    first, second = check(str(folder)), check(str(folder))
    assert loud(first, "P2P002") and loud(first) == loud(second)
    assert contents(folder) == before
    repairs = [f.repair for f in first.report.findings if f.rule == "P2P002"]
    assert repairs and all(repairs), "the repair is told"


def declared(name: str) -> dict[str, object]:
    """The machine as its about.toml declares it."""
    with (nodes.NODES / name / "about.toml").open("rb") as file:
        platform: dict[str, object] = tomllib.load(file)["platform"]
    return platform


@pytest.mark.parametrize("name", nodes.names())
def test_mistake_13_each_tool_of_a_fixture_tells_of_the_declared_machine_by_itself(name: str, tmp_path: Path) -> None:
    """An invented fixture agrees with the code and with nothing else: ours is read tool by tool, and all agree."""
    machine = declared(name)
    whole = check(str(nodes.healthy(name)))
    node = whole.topology
    assert not whole.report.disagreements
    assert (len(node.gpus), len(node.numa_nodes)) == (machine["gpus"], machine["numa_nodes"])
    assert whole.report.sockets == machine["sockets"]
    roles = [nic.role for nic in node.nics]
    assert (len(node.compute_nics), roles.count("storage")) == (machine["compute_nics"], machine["storage_nics"])
    nearest = {node.nearest(gpu, node.compute_nics)[0] for gpu in node.gpus}
    assert nearest == {machine["gpu_nic_class"]}
    assert {gpu.nvlinks_active or 0 for gpu in node.gpus} == {machine["nvlinks_per_gpu"]}
    for tool in (LSPCI, MATRIX, "nvidia-smi_-L", next(nodes.healthy(name).glob("nvidia-smi_-q*")).name):
        alone = tmp_path / tool
        alone.write_text((nodes.healthy(name) / tool).read_text())
        assert len(check(str(alone)).topology.gpus) == machine["gpus"], tool


@pytest.mark.parametrize("name", [name for name in nodes.names() if name != "p5-vm"])  # its matrix lists no EFA
def test_mistake_13_matrix_and_tree_of_a_fixture_give_the_same_distances(name: str, tmp_path: Path) -> None:
    """The matrix is one witness of where a NIC is, lspci with the RDMA names another."""
    (tmp_path / MATRIX).write_text((nodes.healthy(name) / MATRIX).read_text())
    by_matrix = check(str(tmp_path / MATRIX)).topology
    by_tree = without(tmp_path / "tree", name, (MATRIX,)).topology
    assert not by_matrix.functions and by_tree.functions
    pairs = [(gpu.id, nic.id) for gpu in by_tree.gpus for nic in by_tree.compute_nics]
    assert pairs and all(by_tree.pcie_class(*pair) for pair in pairs)
    assert [by_tree.pcie_class(*pair) for pair in pairs] == [by_matrix.pcie_class(*pair) for pair in pairs]
