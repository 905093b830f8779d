"""What people post of GPUs and their NICs: parts of a matrix, and notes written into it."""

from __future__ import annotations

import pytest

from topocheck.check import check
from topocheck.errors import SourceError

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
    known = {s.rule: s.partial for s in cut.skipped if "NICs are near is known of" in s.reason}
    assert known == {"AFF001": True, "AFF002": True, "AFF003": False, "RAIL003": True}


@pytest.mark.parametrize("affinity", ["", " 0-31 0"])
def test_a_count_cut_in_its_middle_is_no_other_count(tmp_path, affinity):
    """Wherever the last row ends: "NV1" was the beginning of "NV18"."""
    names = [f"GPU{i}" for i in range(4)]
    rows = {name: " ".join("X" if name == other else "NV18" for other in names) + affinity for name in names}
    del rows["GPU3"]
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


IBSTATUS = """Infiniband device 'mlx5_0' port 1 status:
\tdefault gid:\t fe80:0000:0000:0000:0001:0002:0003:0004
\tbase lid:\t 0x0
\tsm lid:\t\t 0x0
\tstate:\t\t 4: ACTIVE
\tphys state:\t 5: LinkUp
\trate:\t\t 400 Gb/sec (4X NDR)
\tlink_layer:\t InfiniBand
"""
RDMA_LINK = "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1np0\n"


@pytest.mark.parametrize("text", [IBSTATUS, IBSTATUS * 2, IBSTAT, RDMA_LINK * 2])
def test_a_word_cut_in_its_middle_is_no_state_and_no_layer(tmp_path, text):
    """The second device goes on where the text ends."""
    text = text[: len(text) // 2] + text[len(text) // 2 :].replace("mlx5_0", "mlx5_1")
    for end in range(len(text) // 2, len(text)):
        (tmp_path / "post.txt").write_text(text[:end])
        try:
            report, _ = check(str(tmp_path / "post.txt"))
        except SourceError:  # too little to tell which tool it was
            continue
        said = [f.message for f in report.findings if f.severity != "info" and f.rule in ("NET001", "NET006")]
        assert said == [], text[:end]


def test_a_list_of_nvlinks_cut_in_a_line_says_nothing_of_the_others(tmp_path):
    lines = "".join(f"\t Link {i}: 25 GB/s\n" for i in range(12))
    text = f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-11111111-2222-3333-4444-555555555555)\n{lines}"
    for end in range(100, len(text), 5):
        report, _ = posted(tmp_path, text[:end])
        assert report.findings == (), text[:end]


def test_nics_in_one_place_are_so_before_their_own_rows(tmp_path):
    """Both NICs are beside the first CPU; the post ends before it says that they are one card."""
    rows = {
        "GPU0": "X NV18 NV18 NV18 NODE NODE 0-31 0",
        "GPU1": "NV18 X NV18 NV18 NODE NODE 0-31 0",
        "GPU2": "NV18 NV18 X NV18 SYS SYS 32-63 1",
        "GPU3": "NV18 NV18 NV18 X SYS SYS 32-63 1",
    }
    head = "\t".join(["", *rows, "NIC0", "NIC1", "CPU Affinity", "NUMA Affinity"])
    text = "\n".join([head, *("\t".join([name, *cells.split()]) for name, cells in rows.items())])
    report, _ = posted(tmp_path, text + "\n")
    assert {f.rule: f.severity for f in report.findings}["AFF001"] == "info"


def test_a_pair_of_which_one_row_is_left_is_no_error(tmp_path):
    rows = {"GPU0": "X NV18 NV18 NV18", "GPU1": "NV18 X NV18 NV6"}
    head = "\tGPU0\tGPU1\tGPU2\tGPU3\n"
    report, _ = posted(tmp_path, head + matrix(rows).split("\n", 1)[1])
    assert [f.severity for f in report.findings if f.rule == "NVL002"] == ["warning"]


SWITCHES = (1, 2, 3)  # the bus of each root port's switch: its GPU is on 0x12, its NIC on 0x13, and so on


def as_tree():
    last = SWITCHES[-1]
    return "-[0000:00]-+-00.0  Intel Corporation 82G33/G31/P35/P31 Express DRAM Controller\n" + "".join(
        f"           {'+' if i < last else chr(92)}-0{i}.0-[{i}0-{i}3]----00.0-[{i}1-{i}3]--"
        f"+-00.0-[{i}2]----00.0  NVIDIA Corporation Device 2335\n"
        f"           {'|' if i < last else ' '}                               "
        f"\\-01.0-[{i}3]----00.0  Mellanox Technologies MT2910 Family [ConnectX-7]\n"
        for i in SWITCHES
    )


def as_listing():
    def bridge(bdf, kind, secondary, last):
        buses = f"primary={bdf[:2]}, secondary={secondary}, subordinate={last}, sec-latency=0"
        name = "PCI bridge [0604]: Broadcom / LSI Device [1000:c030]"
        return f"{bdf} {name}\n\tBus: {buses}\n\tCapabilities: [68] Express (v2) {kind} Port, MSI 00\n\n"

    def card(bdf, name):
        return f"{bdf} {name}\n\tCapabilities: [68] Express (v2) Endpoint, MSI 00\n\n"

    text = "".join(bridge(f"00:0{i}.0", "Root", f"{i}0", f"{i}3") for i in SWITCHES)
    for i in SWITCHES:
        text += bridge(f"{i}0:00.0", "Upstream", f"{i}1", f"{i}3")
        text += bridge(f"{i}1:00.0", "Downstream", f"{i}2", f"{i}2")
        text += bridge(f"{i}1:01.0", "Downstream", f"{i}3", f"{i}3")
        text += card(f"{i}2:00.0", "3D controller [0302]: NVIDIA Corporation GH100 [H200] [10de:2335] (rev a1)")
        text += card(f"{i}3:00.0", "Infiniband controller [0207]: Mellanox Technologies MT2910 [15b3:1021]")
    return text


@pytest.mark.parametrize("whole", [as_tree(), as_listing()])
def test_a_listing_of_the_bus_that_is_cut_takes_no_nic_from_a_gpu(tmp_path, whole):
    lacking = {"NET005", "RAIL003", "AFF002"}
    for end in range(len(whole) // 3, len(whole), 17):
        report, _ = posted(tmp_path, whole[:end])
        assert not lacking & {f.rule for f in report.findings if f.severity != "info"}, whole[:end]
    report, node = posted(tmp_path, whole)
    assert (len(node.gpus), len(node.nics)) == (3, 3)
    without = whole.replace("Mellanox Technologies MT2910", "Intel Corporation Nothing", 1)
    report, _ = posted(tmp_path, without.replace("15b3:1021", "8086:0001", 1))
    assert lacking & {f.rule for f in report.findings}, "of a whole listing it is said"


def test_a_name_of_the_legend_cut_in_its_middle_is_no_name(tmp_path):
    """ "mlx5_1" was the beginning of "mlx5_10"."""
    names = [f"GPU{i}" for i in range(2)] + [f"NIC{i}" for i in range(3)]
    rows = {name: " ".join("X" if name == other else "NODE" for other in names) for name in names}
    legend = "NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n  NIC2: mlx5_10"
    for cut in (0, 1, 2, 3):
        text = f"{matrix(rows)}\n{legend}"
        _, node = posted(tmp_path, text[: len(text) - cut])
        assert [nic.id for nic in node.nics] == (["NIC2"] * (cut > 0) + ["mlx5_0", "mlx5_1"] + ["mlx5_10"] * (cut == 0))


def test_a_rate_cut_in_its_middle_is_no_slow_port(tmp_path):
    ports = "".join(IBSTAT.replace("mlx5_5", f"mlx5_{i}") for i in range(4))
    cut = ports.rindex("Rate: 400") + len("Rate: 4")
    report, node = posted(tmp_path, ports[:cut])
    assert [nic.rate_gbit_per_s for nic in node.nics] == [400, 400, 400, None]
    assert report.findings == ()


GIDS = "mlx5_{i}\t1\t{n}\tfe80:0000:0000:0000:a288:c2ff:feab:120{i}\t\t\t{v}\tens{i}np0\n"


def test_a_table_of_gids_that_is_cut_lacks_none(tmp_path):
    table = "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4\t\tVER\tDEV\n---\t----\t-----\t---\n" + "".join(
        GIDS.format(i=i, n=n, v=v) for i in range(3) for n, v in enumerate(("v1", "v2"))
    )
    (tmp_path / "ibstat").write_text(
        "".join(IBSTAT.replace("mlx5_5", f"mlx5_{i}").replace("InfiniBand", "Ethernet") for i in range(3))
    )
    cut = table[: table.rindex("mlx5_2")]  # its v2 entry is behind the cut
    (tmp_path / "show_gids").write_text(cut)
    assert "NET007" not in {f.rule for f in check(str(tmp_path)).report.findings}
    (tmp_path / "show_gids").write_text(f"{cut}n_gids_found=5\n")
    assert "NET007" in {f.rule for f in check(str(tmp_path)).report.findings}


def test_a_drivers_name_cut_in_its_middle_is_no_driver(tmp_path):
    cards = "".join(
        f"{i}1:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H200] [10de:2335] (rev a1)\n"
        "\tCapabilities: [68] Express (v2) Endpoint, MSI 00\n\tKernel driver in use: nvidia\n\n"
        for i in (1, 2)
    ).rstrip()
    for cut in range(8):
        report, _ = posted(tmp_path, cards[: len(cards) - cut])
        assert "GPU003" not in {f.rule for f in report.findings}, cut


def of_two_models(names, gpu_of, model_of):
    """Eight GPUs, each with a NIC on its switch, one of them with more of another model; and the NICs as ibstat lists
    them."""
    gpus = [f"GPU{i}" for i in range(8)]
    at = {gpu: i for i, gpu in enumerate(gpus)} | {f"NIC{i}": gpu_of[i] for i in range(len(names))}

    def cell(a, b):
        gpu_pair = a.startswith("GPU") and b.startswith("GPU")
        near = "PIX" if at[a] == at[b] else "NODE" if at[a] // 4 == at[b] // 4 else "SYS"
        return "X" if a == b else "NV18" if gpu_pair else near

    rows = matrix({a: " ".join(cell(a, b) for b in at) for a in at})
    legend = "".join(f"  NIC{i}: {name}\n" for i, name in enumerate(names))
    nics = "".join(
        IBSTAT.replace("mlx5_5", name).replace("MT4129", model).replace("400", "400" if model == "MT4129" else "100")
        for name, model in sorted(zip(names, model_of, strict=True))
    )
    return f"{rows}\nNIC Legend:\n\n{legend}", f"\n$ ibstat\n{nics}"


BONDED = (
    [f"mlx5_{i}" for i in range(11)],
    (0, 0, 0, 1, 2, 3, 4, 4, 5, 6, 7),
    ["MT4125" if i in (1, 2, 7) else "MT4129" for i in range(11)],
)
PLACED = [f"rdmap{85 + i}s0" for i in range(16)], [i // 2 for i in range(16)], ["MT4129"] * 16


@pytest.mark.parametrize("machine", [BONDED, PLACED])
def test_nics_behind_the_end_of_a_list_are_of_the_model_of_most_gpus(tmp_path, machine):
    """What the matrix names alone was a kind of its own, and GPUs lacked NICs of the other."""
    rows, listed = of_two_models(*machine)
    for end in range(0, len(listed) + 1, 23):
        report, node = posted(tmp_path, rows + listed[:end])
        assert [f.rule for f in report.findings if f.severity != "info"] == [], listed[:end]
        assert [len(node.assignment[gpu.id]) for gpu in node.gpus] == [len(machine[0]) // 8] * 8


def test_a_row_cut_before_the_gpus_own_nic_says_nothing_of_its_nearest(tmp_path):
    """Its own had gone to the spare ones of its model."""
    rows, _ = of_two_models(*BONDED)
    for end in range(rows.index("\nGPU7"), rows.index("\nNIC0")):
        report, node = posted(tmp_path, rows[:end])
        assert len(node.gpus) == 8
        assert [f.rule for f in report.findings if f.severity != "info"] == [], rows[:end]


def test_nics_behind_the_end_of_a_list_of_a_node_without_switches_are_of_the_faster_model(tmp_path):
    """Two sockets, each with NICs of both models beside the CPU; the list ends on the first socket."""
    socket = {
        "GPU0": 0,
        "GPU1": 0,
        "GPU2": 1,
        "GPU3": 1,
        "NIC0": 0,
        "NIC1": 0,
        "NIC2": 0,
        "NIC3": 1,
        "NIC4": 1,
        "NIC5": 0,
    }
    far = ("NODE", "SYS")
    rows = {a: " ".join("X" if a == b else far[socket[a] != socket[b]] for b in socket) for a in socket}
    legend = "".join(f"  NIC{i}: mlx5_{i}\n" for i in range(6))
    listed = "".join(
        IBSTAT.replace("mlx5_5", f"mlx5_{i}")
        if i not in (2, 5)
        else IBSTAT.replace("mlx5_5", f"mlx5_{i}").replace("MT4129", "MT41692").replace("400", "200")
        for i in range(6)
    )
    for end in range(0, len(listed) + 1, 11):
        report, node = posted(tmp_path, f"{matrix(rows)}\nNIC Legend:\n\n{legend}\n$ ibstat\n{listed[:end]}")
        assert len(node.gpus) == 4
        assert [f.rule for f in report.findings if f.severity != "info"] == [], listed[:end]


DEVINFO = """hca_id:\tmlx5_{i}
\tvendor_id:\t\t\t0x02c9
\tvendor_part_id:\t\t\t4129
\tphys_port_cnt:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tactive_mtu:\t\t4096 (5)
\t\t\tlink_layer:\t\tInfiniBand
\t\t\tactive_width:\t\t4X (2)
\t\t\tactive_speed:\t\t100.0 Gbps (128)
"""


def test_a_number_of_ibv_devinfo_cut_in_its_middle_is_none(tmp_path):
    text = "".join(DEVINFO.format(i=i) for i in range(4))
    for end in range(len(text) * 3 // 4, len(text)):
        report, _ = posted(tmp_path, text[:end])
        assert report.findings == (), text[:end]


def test_a_word_of_a_gpus_state_cut_in_its_middle_is_none(tmp_path):
    gpus = "".join(
        f"GPU 00000000:{i}8:00.0\n    Product Name : NVIDIA H100 80GB HBM3\n    Fabric\n"
        "        State : Completed\n        Status : Success\n"
        for i in (1, 2, 3)
    )
    text = f"Attached GPUs : 3\n{gpus}".rstrip()
    for end in range(text.rindex("State"), len(text) + 1):
        report, _ = posted(tmp_path, text[:end])
        assert report.findings == (), text[:end]
    report, _ = posted(tmp_path, text.replace("Completed\n        Status : Success", "In Progress", 1))
    assert [f.rule for f in report.findings] == ["NVL005"]
