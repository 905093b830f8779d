"""Lists and listings that end in the middle, below others that are whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from topocheck.check import check

DEVICE = """hca_id:\tmlx5_{i}
\tvendor_id:\t\t\t0x02c9
\tvendor_part_id:\t\t\t4129
\tboard_id:\t\t\tMT_000000083{board}
\tphys_port_cnt:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tlink_layer:\t\tEthernet
"""


def test_a_device_whose_board_is_behind_the_end_is_of_the_main_board(tmp_path):
    """Four GPUs with a NIC each, and two more NICs of the same model on another board."""
    at = {f"GPU{i}": i for i in range(4)} | {f"NIC{i}": gpu for i, gpu in enumerate((0, 1, 9, 9, 2, 3))}
    rows = {a: "\t".join("X" if a == b else "PIX" if at[a] == at[b] else "NODE" for b in at) for a in at}
    matrix = "\t" + "\t".join(rows) + "".join(f"\n{name}\t{cells}" for name, cells in rows.items())
    legend = "".join(f"  NIC{i}: mlx5_{i}\n" for i in range(6))
    listed = "".join(DEVICE.format(i=i, board=4 if i in (2, 3) else 8) for i in range(6))
    for end in range(0, len(listed) + 1, 3):
        (tmp_path / "post.txt").write_text(f"{matrix}\n\nNIC Legend:\n\n{legend}\n$ ibv_devinfo\n{listed[:end]}")
        report, node = check(str(tmp_path / "post.txt"))
        assert len(node.gpus) == 4
        assert [f.rule for f in report.findings if f.severity != "info"] == [], listed[:end]
        assert {nic.id for nic in node.compute_nics} == {"mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5"}


def pasted(node, *outputs):
    """What these commands printed on a node of the fixtures, one below the other."""
    capture = Path(__file__).parent.parent / "fixtures" / "nodes" / node / "capture"
    return "".join(f"$ {name.replace('_', ' ')}\n{(capture / name).read_text()}\n" for name in outputs)


def faults(tmp_path, text):
    (tmp_path / "post.txt").write_text(text)
    return {f.rule for f in check(str(tmp_path / "post.txt")).report.findings if f.severity != "info"}


@pytest.mark.parametrize("node", ["hgx-h100", "dgx-a100"])
def test_the_cards_behind_the_end_of_a_list_of_rdma_devices_are_there(tmp_path, node):
    """They were cards that no RDMA device stands for, and their GPUs had a NIC of the other socket."""
    bus, listed = pasted(node, "lspci_-D_-nn_-vv"), pasted(node, "ibstat")
    assert faults(tmp_path, bus + listed) == set()
    for end in (len(listed) // 7, len(listed) // 3, len(listed) // 2, len(listed) * 3 // 4):
        middle = listed.index("Number of ports", end) + 9
        assert faults(tmp_path, bus + listed[:middle]) == set(), listed[:middle]
    with_ports = pasted(node, "ibv_devinfo_-v")
    for word in ("state:", "port_cap_flags", "active_speed", "phys_state"):
        end = with_ports.index(word, len(with_ports) // 2)
        assert faults(tmp_path, bus + with_ports[:end]) == set(), with_ports[end - 200 : end]
    a_whole_list = listed[: listed.index("CA 'mlx5_3'")]
    assert "NET005" in faults(tmp_path, bus + a_whole_list)


@pytest.mark.parametrize(("node", "first"), [("hgx-h100", "nvidia-smi_-q_-x"), ("hgx-h100-roce", "ibstat")])
def test_what_is_behind_the_end_of_a_listing_of_the_bus_is_there(tmp_path, node, first):
    """nvidia-smi had named the GPUs, ibstat the NICs."""
    said, bus = pasted(node, first), pasted(node, "lspci_-D_-nn_-vv")
    whole = faults(tmp_path, said + bus)
    for end in (len(bus) * 2 // 5, len(bus) // 2, bus.index("Status:", bus.index("cc:00.0 Infiniband"))):
        assert faults(tmp_path, said + bus[:end]) <= whole, bus[end - 200 : end]


def test_a_pair_whose_rows_are_behind_the_end_of_a_matrix_may_have_nvlink(tmp_path):
    """The tree of the bus gave it a PCIe class."""
    bus, matrix = pasted("dgx-a100", "lspci_-D_-nn_-vv"), pasted("dgx-a100", "nvidia-smi_topo_-m")
    for row in ("GPU2", "GPU3", "GPU5"):
        assert faults(tmp_path, bus + matrix[: matrix.index(f"\n{row}") + 40]) == set(), row


@pytest.mark.parametrize("other", ["nvidia-smi_nvlink_-R", "nvidia-smi_nvlink_-e"])
def test_the_links_behind_the_end_of_a_list_are_not_down_where_another_list_names_them(tmp_path, other):
    said, links = pasted("hgx-h100", other), pasted("hgx-h100", "nvidia-smi_nvlink_-s")
    for end in range(150, 700, 90):
        assert faults(tmp_path, said + links[:end]) == set(), links[:end]
    down = links.replace("Link 3: 26.562 GB/s", "Link 3: <inactive>", 1)
    assert faults(tmp_path, said + down) == {"NVL001"}


def test_gpus_behind_the_end_of_a_listing_of_the_bus_are_no_equals_with_an_uplink_of_their_own(tmp_path):
    said, bus = pasted("dgx-a100", "nvidia-smi_-q_-x"), pasted("dgx-a100", "lspci_-D_-nn_-vv")
    for end in (46841, 52256, 67119):
        assert faults(tmp_path, said + bus[:end]) == set()
