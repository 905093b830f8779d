"""What people post of GPUs and their NICs: parts of a matrix, and notes written into it."""

from __future__ import annotations

from topocheck.check import check

# Four GPUs, two on each socket, and one NIC with two functions a socket.
ROWS = {
    "GPU0": "X PXB SYS SYS PXB PXB SYS SYS",
    "GPU1": "PXB X SYS SYS PXB PXB SYS SYS",
    "GPU2": "SYS SYS X PXB SYS SYS PXB PXB",
    "GPU3": "SYS SYS PXB X SYS SYS PXB PXB",
    "NIC0": "PXB PXB SYS SYS X PIX SYS SYS",
    "NIC1": "PXB PXB SYS SYS PIX X SYS SYS",
    "NIC2": "SYS SYS PXB PXB SYS SYS X PIX",
    "NIC3": "SYS SYS PXB PXB SYS SYS PIX X",
}
NAMES = ("rocep4s0f0", "rocep4s0f1", "rocep137s0f0", "rocep137s0f1")


def posted(tmp_path, text):
    (tmp_path / "post.txt").write_text(text)
    return check(str(tmp_path / "post.txt"))


def matrix(rows):
    """As `nvidia-smi topo -m` prints it, without the affinity."""
    head = "\t" + "\t".join(rows)
    return "\n".join([head, *("\t".join([name, *cells.split()]) for name, cells in rows.items())]) + "\n"


def test_a_legend_with_notes_names_the_nics(tmp_path):
    notes = ("-> ens1np0  192.0.2.0/24   (rail 0)", "(rail 1)", "# the other card", "")
    legend = "".join(f"NIC{i}: {name}   {note}\n" for i, (name, note) in enumerate(zip(NAMES, notes, strict=True)))
    report, node = posted(tmp_path, f"{matrix(ROWS)}\n{legend}OOB : rocep167s0f0 -> ens80f0np0\n")
    assert sorted(nic.id for nic in node.nics) == sorted(NAMES)
    assert not any("legend" in gap.reason for gap in report.gaps)


def test_a_legend_on_one_line_names_the_nics(tmp_path):
    legend = "    ".join(f"NIC{i}: {name}" for i, name in enumerate(NAMES))
    _, node = posted(tmp_path, f"{matrix(ROWS)}\n{legend}\n")
    assert sorted(nic.id for nic in node.nics) == sorted(NAMES)
    assert len({nic.card for nic in node.nics}) == 2


def test_which_gpus_share_a_nic_is_not_told_of_a_part_of_a_matrix(tmp_path):
    """Eight GPUs, two on the switch of each of four NICs, and six NICs elsewhere; the post ends in GPU3's row."""
    near = {i: i // 2 for i in range(8)}
    names = [f"GPU{i}" for i in range(8)] + [f"NIC{i}" for i in range(10)]

    def cell(gpu, other):
        if other.startswith("GPU"):
            return "X" if other == f"GPU{gpu}" else "NV12"
        return "PXB" if int(other[3:]) == near[gpu] else "SYS"

    rows = {name: " ".join(cell(i, other) for other in names) for i, name in enumerate(names[:8])}
    head, *lines = matrix(rows).splitlines()
    head = "\t" + "\t".join(names)
    whole, _ = posted(tmp_path, "\n".join([head, *lines]))
    assert "AFF003" in {f.rule for f in whole.findings}, "six NICs are idle, four GPUs share"
    cut, _ = posted(tmp_path, "\n".join([head, *lines[:3], lines[3][:40]]))
    assert [f.message for f in cut.findings if f.severity != "info"] == []
    assert any(s.rule == "AFF003" and "not known of all GPUs" in s.reason for s in cut.skipped)


def test_a_count_cut_in_its_middle_is_no_other_count(tmp_path):
    """Wherever the last row ends: "NV1" was the beginning of "NV18"."""
    names = [f"GPU{i}" for i in range(4)]
    rows = {name: " ".join("X" if name == other else "NV18" for other in names) for name in names}
    *whole, last = matrix(rows).splitlines()
    for end in range(4, len(last)):
        report, _ = posted(tmp_path, "\n".join([*whole, last[:end]]))
        assert [f.message for f in report.findings if f.severity != "info"] == [], last[:end]


TREE = """\
-[0000:00]-+-00.0  Intel Corporation 82G33/G31/P35/P31 Express DRAM Controller
           +-01.0-[01]----00.0  NVIDIA Corporation Device 2335
           \\-01.1-[02]----00.0  Mellanox Technologies MT2910 Family [ConnectX-7]
"""
OTHER_TREE = """\
-+-[0000:64]-+-00.0-[65-68]----00.0-[66-68]--+-00.0-[67]----00.0  Mellanox Technologies MT2910 Family [ConnectX-7]
 |                                           \\-01.0-[68]----00.0  NVIDIA Corporation Device 2335
 \\-[0000:00]-+-00.0  Intel Corporation 82G33/G31/P35/P31 Express DRAM Controller
             \\-01.0  Device 1234:1111
"""


def test_the_trees_of_two_machines_in_one_post_are_not_joined(tmp_path):
    """The second has no bridge where the first has one."""
    report, node = posted(tmp_path, f"{TREE}\nAnd on the other:\n\n{OTHER_TREE}")
    assert [d.bdf for d in node.devices] == ["0000:01:00.0", "0000:02:00.0"]
    assert any("two nodes" in gap.reason for gap in report.gaps)


def test_one_machines_tree_in_two_forms_is_one(tmp_path):
    bare = "\n".join(line.split("  ")[0] if "-[" in line else line for line in TREE.splitlines())
    report, node = posted(tmp_path, f"$ lspci -t\n{bare}\n\n$ lspci -tv\n{TREE}")
    assert [d.bdf for d in node.devices] == ["0000:01:00.0", "0000:02:00.0"]
    assert not any("two nodes" in gap.reason for gap in report.gaps)


IBSTAT = """CA 'mlx5_5'
\tCA type: MT4129
\tNumber of ports: 1
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tLink layer: InfiniBand
"""


def test_one_nics_ibstat_beside_columns_without_a_legend_parts_them_not(tmp_path):
    """Which column the one NIC is cannot be told, so nothing is known of its distance."""
    rows = {
        "GPU0": "X NV18 NV18 NV18 PIX NODE NODE",
        "GPU1": "NV18 X NV18 NV18 NODE NODE NODE",
        "GPU2": "NV18 NV18 X NV18 NODE PIX NODE",
        "GPU3": "NV18 NV18 NV18 X NODE NODE NODE",
    }
    head = "\t" + "\t".join([*rows, "NIC0", "NIC1", "NIC2"]) + "\n"
    report, node = posted(
        tmp_path, f"$ ibstat\n{IBSTAT}\n$ nvidia-smi topo -m\n{head}" + matrix(rows).split("\n", 1)[1]
    )
    assert node.pcie_class("gpu0", "NIC0") == "PIX"
    assert node.assignment["gpu0"][0] == "NIC0"
    assert node.assignment["gpu2"][0] == "NIC1"
    assert [f.message for f in report.findings if f.severity != "info"] == []
