"""The bandwidth model against arithmetic done by hand, and against the article's line rates.

GB/s, one direction. U(256) = 4·256 / (4·(256 + 26) + 16) = 0.895; k of design.md section 3: Gen4 0.922, Gen5 0.954.
"""

import pytest

from topocheck.check import check
from topocheck.hardware import gpus, network, pcie
from topocheck.model import Flow, fair_share

U = 4 * 256 / (4 * (256 + 26) + 16)
HEADER = "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tNIC2\tNIC3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"
LEGEND = "\nNIC Legend:\n\n" + "".join(f"  NIC{i}: mlx5_{i}\n" for i in range(4))
IBSTAT = "".join(
    f"CA 'mlx5_{i}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n"
    f"\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tLink layer: InfiniBand\n"
    for i in range(4)
)


@pytest.mark.parametrize(
    ("speed_gts", "width", "line_rate"),
    [(5, 16, 8.0), (8, 16, 15.75), (16, 16, 31.5), (32, 16, 63.0), (32, 8, 31.5), (64, 16, 121.0)],
)
def test_line_rates_are_those_of_the_datasheets(speed_gts, width, line_rate):
    assert pcie.line_rate_gb_per_s(speed_gts, width) == pytest.approx(line_rate, abs=0.05)


def test_achievable_rates_are_line_rate_times_payload_times_k():
    assert pcie.achievable_gb_per_s(16, 16) == pytest.approx(31.508 * U * 0.922, rel=1e-3)  # 26.0
    assert pcie.achievable_gb_per_s(32, 8) == pytest.approx(31.508 * U * 0.954, rel=1e-3)  # 26.9
    assert pcie.staged_gb_per_s(32, 16) == pytest.approx(63.015 * U * 0.64, rel=1e-3)  # 36.1
    assert network.achievable_gb_per_s(400) == pytest.approx(50 * 0.98)
    h100 = gpus.part_of("NVIDIA H100 80GB HBM3")
    assert gpus.nvlink_line_rate_gb_per_s(18, h100) == 450
    assert gpus.nvlink_achievable_gb_per_s(18, h100) == pytest.approx(18 * 25 * 0.87)


def test_small_payloads_cost_what_their_headers_take():
    # design.md section 3: U(128) = 0.810, U(256) = 0.895, U(512) = 0.945: −9.5 % for 128 against 256 bytes
    ratio = pcie.achievable_gb_per_s(32, 16, 128) / pcie.achievable_gb_per_s(32, 16, 256)
    assert ratio == pytest.approx(0.810 / 0.895, abs=0.001)


def test_flows_share_a_link_alike_and_a_short_one_leaves_its_part_to_others():
    x, y = ("x", "up"), ("y", "up")
    inf = float("inf")
    assert fair_share([Flow("a", (x,), inf), Flow("b", (x,), inf)], {x: 10.0}) == [5.0, 5.0]
    # c is held to 2 by its own link y, so a and b have (10 − 2) / 2 each
    rates = fair_share([Flow("a", (x,), inf), Flow("b", (x,), inf), Flow("c", (x, y), inf)], {x: 10.0, y: 2.0})
    assert rates == [4.0, 4.0, 2.0]
    assert fair_share([Flow("a", (x,), 3.0), Flow("b", (x,), inf)], {x: 10.0}) == [3.0, 7.0]


def matrix(rows):
    """A capture of four GPUs on two sockets from the GPU–NIC part of their rows."""
    lines = [HEADER]
    for i, row in enumerate(rows):
        gpu_cells = ["NODE" if (i < 2) == (j < 2) else "SYS" for j in range(4)]
        gpu_cells[i] = " X "
        cpus, numa = ("0-31", 0) if i < 2 else ("32-63", 1)
        lines.append("\t".join([f"GPU{i}", *gpu_cells, *row.split(), cpus, str(numa), "", "N/A"]))
    for j in range(4):
        cells = [row.split()[j] for row in rows]
        nics = [" X " if k == j else "SYS" if (k < 2) != (j < 2) else "NODE" for k in range(4)]
        lines.append("\t".join([f"NIC{j}", *cells, *nics, "", "", "", ""]))
    return "\n".join(lines) + "\n" + LEGEND


def findings(tmp_path, rows):
    (tmp_path / "nvidia-smi_topo_-m").write_text(matrix(rows))
    (tmp_path / "ibstat").write_text(IBSTAT)
    return [f for f in check(str(tmp_path)).report.findings if f.severity != "info"]


OWN = ["PIX NODE SYS SYS", "NODE PIX SYS SYS", "SYS SYS PIX NODE", "SYS SYS NODE PIX"]


def test_four_gpus_with_a_nic_each_have_no_fault(tmp_path):
    assert findings(tmp_path, OWN) == []


def test_two_gpus_on_one_nic_lose_a_nic_of_the_node(tmp_path):
    # GPU1 reaches only GPU0's NIC on its switch; its own sits alone elsewhere: 3 of 4 NICs, 24.5 of 49.0 for each
    rows = ["PIX NODE SYS SYS", "PIX NODE SYS SYS", "SYS SYS PIX NODE", "SYS SYS NODE PIX"]
    (found,) = findings(tmp_path, rows)
    assert found.rule == "AFF003"
    assert set(found.subjects) == {"gpu0", "gpu1"}
    assert found.price.scenario == "node NICs"
    assert found.price.repaired_gb_per_s == pytest.approx(4 * 49.0, abs=0.05)


def test_a_nic_on_the_other_socket_has_a_range_and_no_single_figure(tmp_path):
    rows = ["SYS NODE SYS SYS", "SYS PIX SYS SYS", "NODE SYS PIX NODE", "NODE SYS NODE PIX"]
    found = [f for f in findings(tmp_path, rows) if "gpu0" in f.subjects]
    assert [f.rule for f in found] == ["AFF002"]  # a neighbour's NIC is at NODE
    assert found[0].price.loss is None
    assert found[0].price.range == (0.30, 0.55)  # design.md section 3
    assert found[0].price.repaired_gb_per_s == 49.0
