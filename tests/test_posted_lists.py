"""Lists of RDMA devices that end in the middle of one."""

from __future__ import annotations

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
