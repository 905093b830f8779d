"""Captures as people post them, cut, wrapped and damaged: what must not be said of a machine that is as built.

Machines and identifiers are made up; the shapes are those of the real tools.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from topocheck.check import check
from topocheck.report import Report


def matrix(gpus: int, nics: int, cell: Callable[[str, str], str]) -> str:
    """`nvidia-smi topo -m` of a driver of 2018: a CPU column, NICs by their RDMA names."""
    names = [f"GPU{i}" for i in range(gpus)] + [f"mlx5_{i}" for i in range(nics)]
    rows = [[a] + [" X " if a == b else cell(a, b) for b in names] + ["0-9"] * a.startswith("GPU") for a in names]
    return "\n".join("\t".join(row) for row in [["", *names, "CPU Affinity"], *rows])


def looked(tmp_path: Path, **files: str) -> Report:
    """The report on a folder of these files; `_` in a keyword stands for itself, `__` for a blank of the command."""
    for name, text in files.items():
        (tmp_path / name.replace("__", "_-")).write_text(text)
    return check(str(tmp_path)).report


def loud(report: Report) -> list[str]:
    return [f"{f.rule} {f.severity} {f.message}" for f in report.findings if f.severity != "info"]


def test_a_cube_mesh_of_one_link_each_is_no_broken_full_mesh(tmp_path: Path) -> None:
    # Four GPUs joined to each other, and each to its counterpart: 16 of 28 pairs, all NV1 (P100 has four links).
    def cell(a: str, b: str) -> str:
        i, j = int(a[3:]), int(b[3:])
        return "NV1" if i // 4 == j // 4 or i % 4 == j % 4 else "SYS"

    assert loud(looked(tmp_path, nvidia_smi_topo__m=matrix(8, 0, cell))) == []


def test_a_cut_matrix_does_not_say_which_gpu_lacks_a_nic(tmp_path: Path) -> None:
    # Two GPUs share each NIC's switch; the paste ends in GPU5's row, and no NIC's row is left.
    def cell(a: str, b: str) -> str:
        if a[:3] == b[:3]:
            return "PIX" if a[:3] == "GPU" else "SYS"
        gpu, nic = sorted((a, b))
        return "PIX" if int(gpu[3:]) // 2 == int(nic[5:]) else "SYS"

    whole = matrix(8, 5, cell).splitlines()
    assert loud(looked(tmp_path, nvidia_smi_topo__m="\n".join([*whole[:6], whole[6][:40]]))) == []


def own_switch_each(a: str, b: str) -> str:
    """Eight GPUs and eight NICs, a switch for each two of them, four of them a socket."""
    i, j = int(a[3:]), int(b[3:])
    return "NV18" if a[:3] == b[:3] == "GPU" else "PIX" if i == j else "NODE" if i // 4 == j // 4 else "SYS"


def today(named: int) -> str:
    """The matrix of `own_switch_each` as nvidia-smi prints it today, the legend's first lines."""
    text = matrix(8, 8, lambda a, b: own_switch_each(a.replace("mlx5_", "NIC"), b.replace("mlx5_", "NIC")))
    legend = "".join(f"  NIC{i}: mlx5_{i}\n" for i in range(named))
    return f"{text.replace('mlx5_', 'NIC')}\n\nNIC Legend:\n\n{legend}"


@pytest.mark.parametrize("columns", [120, 104, 80])
def test_a_margin_that_cuts_columns_off_takes_no_nic_from_a_gpu(tmp_path: Path, columns: int) -> None:
    cut = "".join(f"{line.expandtabs(8)[:columns]}\n" for line in today(8).splitlines())
    report = looked(tmp_path, nvidia_smi_topo__m=cut)
    assert loud(report) == []
    assert [d.id for d in report.devices if d.kind == "nic"] == [f"mlx5_{i}" for i in range(8)]
    # The NICs' own rows still have the GPUs' columns: 8 × 8 characters behind the name.
    classes = {(p.a, p.b): p.cls for p in report.pairs}
    assert [classes[f"gpu{i}", f"mlx5_{i}"] for i in range(8)] == ["PIX"] * 8
    assert any("cut short" in gap.reason for gap in report.gaps)


@pytest.mark.parametrize("named", [7, 6, 4, 1])
def test_a_legend_that_was_cut_takes_no_nic_from_a_gpu(tmp_path: Path, named: int) -> None:
    report = looked(tmp_path, nvidia_smi_topo__m=today(named))
    assert report.findings == ()
    assert {d.role for d in report.devices if d.kind == "nic"} == {"compute"}
    assert any("not in the NIC legend: NIC" in gap.reason for gap in report.gaps)


def test_a_matrix_without_its_header_and_its_last_rows_has_no_nic_with_nvlink(tmp_path: Path) -> None:
    rows = today(0).split("\n\nNIC Legend")[0].splitlines()[1:6]
    report = looked(tmp_path, nvidia_smi_topo__m="\n".join(rows))
    assert loud(report) == []
    assert [d.id for d in report.devices] == [f"gpu{i}" for i in range(8)] + [f"NIC{i}" for i in range(8)]


IBSTAT = "CA 'mlx5_{i}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n\t\tRate: 400\n"


@pytest.mark.parametrize("known", [1, 5, 8])
@pytest.mark.parametrize("named", [0, 3, 8])
def test_nics_that_only_the_matrix_names_are_of_the_kind_of_the_others(tmp_path: Path, known: int, named: int) -> None:
    ports = "".join(IBSTAT.format(i=i) for i in range(8 - known, 8))
    report = looked(tmp_path, nvidia_smi_topo__m=today(named), ibstat=ports)
    assert loud(report) == []
    assert {d.id for d in report.devices} >= {f"mlx5_{i}" for i in range(8 - known, 8)}


PORT = "{bdf} PCI bridge: PLX Technology, Inc. Device 8747 (rev ca)\n\tBus: primary={bus[0]}, secondary={bus[1]}, \
subordinate={bus[2]}, sec-latency=0\n\tCapabilities: [68] Express (v2) {kind} Port, MSI 00\n\n"
GPU = "{bdf} VGA compatible controller: NVIDIA Corporation GP104 [GeForce GTX 1080] (rev a1)\n\n"


def test_a_driver_below_a_cut_is_not_the_gpus(tmp_path: Path) -> None:
    line = "\tRegion 0: Memory at b4000000 (32-bit, non-prefetchable) [size=16M]\n"
    gpus = [GPU.format(bdf=f"0{b}:00.0").rstrip() + f"\n{line}" for b in (4, 5)]
    cut = f"{gpus[0]}...\n\tKernel driver in use: mlx5_core\n\n"
    whole = f"{gpus[1]}\tKernel driver in use: nvidia\n\n"
    assert loud(looked(tmp_path, lspci__vv=cut + whole)) == []
    found = loud(looked(tmp_path, lspci__vv=cut.replace("...\n", "") + whole))
    assert [line.split()[0] for line in found] == ["GPU003"]


def test_devices_that_meet_in_a_switch_are_near_though_no_root_port_is_listed(tmp_path: Path) -> None:
    switch = PORT.format(bdf="02:00.0", bus=("02", "03", "05"), kind="Upstream")
    ports = [PORT.format(bdf=f"03:{d}.0", bus=("03", b, b), kind="Downstream") for d, b in (("08", "04"), ("10", "05"))]
    gpus = [GPU.format(bdf=f"0{b}:00.0") for b in (4, 5)]
    (tmp_path / "lspci_-vv").write_text("".join([switch, *ports, *gpus]))
    assert check(str(tmp_path)).topology.pair_class("gpu0", "gpu1") == "PIX"


@pytest.mark.parametrize(
    ("words", "severity"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch\n", "error"),  # of a module that is loaded
        ("No devices were found\n", "info"),  # a machine without GPUs says it too
    ],
)
def test_a_driver_that_refuses_is_an_error_where_a_gpu_is_proven(tmp_path: Path, words: str, severity: str) -> None:
    found = looked(tmp_path, nvidia_smi=words).findings
    assert [(f.rule, f.severity) for f in found] == [("GPU003", severity)]


def links(gpu: int, count: int) -> str:
    return f"GPU {gpu}: NVIDIA H200\n" + "".join(f"\t Link {n}: 26.562 GB/s\n" for n in range(count))


@pytest.mark.parametrize(
    "text", [links(0, 18) + links(1, 2) + "...\n", links(0, 18) + links(1, 7), links(0, 2) + "…\n"]
)
def test_a_list_of_links_that_ends_early_is_not_a_gpu_with_fewer_links(tmp_path: Path, text: str) -> None:
    report = looked(tmp_path, nvidia_smi_nvlink__s=text)
    assert loud(report) == []
    assert "ends early" in " ".join(gap.reason for gap in report.gaps)


@pytest.mark.parametrize(("lines", "found"), [("0 1 2 3 4 5 6", False), ("0 1 2 4 5 6 7 8 9 10 11", True)])
def test_the_only_list_of_links_ends_early(tmp_path: Path, lines: str, found: bool) -> None:
    # An A100-SXM4 has 12: those up to link 6 were cut off; without link 3 it is no cut.
    text = "GPU 0: NVIDIA A100-SXM4-80GB\n" + "".join(f"\t Link {n}: 25 GB/s\n" for n in lines.split())
    report = looked(tmp_path, nvidia_smi_nvlink__s=text)
    assert [line.split()[0] for line in loud(report)] == ["NVL001"] * found
    assert any("ends early: read were 7 of " in skip.reason for skip in report.skipped) is not found


def test_a_peer_matrix_alone_names_the_gpus(tmp_path: Path) -> None:
    report = looked(tmp_path, nvidia_smi_topo__p2p_n=" \tGPU0\tGPU1\t\n GPU0\tX\tNS\t\n GPU1\tNS\tX\t\n")
    assert [device.id for device in report.devices] == ["gpu0", "gpu1"]


def test_the_unused_second_port_of_a_card_known_by_its_address(tmp_path: Path) -> None:
    about = "ConnectX-6 adapter card  fw 20.31.1014"
    rows = [("3b:00.0 mlx5_0", "ACTIVE", "ib0 (Up)"), ("3b:00.1 mlx5_1", "DOWN  ", "ib1 (Down)")]
    text = "".join(f"0000:{dev} (MT4123 - NA) {about} port 1 ({state}) ==> {net}\n" for dev, state, net in rows)
    assert loud(looked(tmp_path, ibdev2netdev_v=text)) == []


def test_a_lan_port_of_another_driver_is_no_compute_nic_that_is_down(tmp_path: Path) -> None:
    up = "".join(f"link mlx5_{i}/1 state ACTIVE physical_state LINK_UP netdev rail{i}\n" for i in range(4))
    text = up + "link irdma0/1 state DOWN physical_state DISABLED netdev eno1\n"
    assert loud(looked(tmp_path, rdma_link=text)) == []


def test_interfaces_padded_to_columns(tmp_path: Path) -> None:
    rows = [("mlx5_0", "ibp26s0", "(Down)"), ("mlx5_10", "enp27s0f0np0", "(Up)")]
    text = "".join(f"{name:9}port  1  ==>  {net:15}{up}  # rail\n" for name, net, up in rows)
    report = looked(tmp_path, listing=text)
    assert [(d.id, d.state) for d in report.devices] == [("mlx5_0", "unknown"), ("mlx5_10", "active")]


def test_a_host_of_thousands_of_functions_is_looked_at_in_part_and_says_so(tmp_path: Path) -> None:
    line = "{:04x}:{:02x}:00.0 Infiniband controller [0207]: Mellanox Technologies [ConnectX-7] [15b3:1021]\n"
    text = "".join(line.format(domain, bus) for domain in range(20) for bus in range(1, 201))
    report = looked(tmp_path, lspci__D_nn=text)
    assert len(report.devices) == 256
    assert "4000 NICs" in " ".join(gap.reason for gap in report.gaps)


def test_what_is_said_of_many_devices_stays_in_sight(tmp_path: Path) -> None:
    acs = "\tCapabilities: [f24 v1] Access Control Services\n\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+\n\n"
    switch = PORT.format(bdf="02:00.0", bus=("02", "03", "09"), kind="Upstream")
    buses = [f"{n:02x}" for n in range(4, 10)]
    ports = [PORT.format(bdf=f"03:{b}.0", bus=("03", b, b), kind="Downstream").rstrip() + "\n" + acs for b in buses]
    gpus = [GPU.format(bdf=f"{b}:00.0").replace("GP104 [GeForce GTX 1080]", "GA100 [A100 PCIe 40GB]") for b in buses]
    (tmp_path / "lspci_-vv").write_text("".join([switch, *ports, *gpus]))
    (found,) = [f for f in check(str(tmp_path)).report.findings if f.rule == "P2P002"]
    assert len(found.subjects) == 6
    assert found.message.startswith("gpu0, gpu1, gpu2 and 3 more each ")


def seen(gpus: int, nics: int, cell: Callable[[str, str], str]) -> str:
    """`nvidia-smi topo -m` of a driver of today, all of it on one socket."""
    names = [f"GPU{i}" for i in range(gpus)] + [f"NIC{i}" for i in range(nics)]
    rows = [[a] + [" X " if a == b else cell(*sorted((a, b))) for b in names] for a in names]
    rows = [[*row, "0-31", "0", "", "N/A"] if row[0][0] == "G" else row for row in rows]
    head = ["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
    return "\n".join("\t".join(row) for row in [head, *rows]) + "\n"


@pytest.mark.parametrize("near", [("NIC6", "NIC7"), ("NIC2",)])
def test_a_container_with_two_of_eight_gpus_sees_the_nics_of_the_others(tmp_path: Path, near: tuple[str, ...]) -> None:
    # Both GPUs are on one switch with `near`; the other NICs are on the switches of GPUs that are not here.
    def cell(a: str, b: str) -> str:
        return "NV12" if b[0] == "G" else "PXB" if a[0] == "G" and b in near else "SYS"

    report = looked(tmp_path, nvidia_smi_topo__m=seen(2, 8, cell))
    assert loud(report) == []
    assert {row.nics[0].id for row in report.rows} >= set(near)


@pytest.mark.parametrize("gpus", [(0, 1, 2, 3), (0, 1, 4, 5), (1, 2, 3)])
def test_a_part_of_a_node_whose_pairs_share_a_nic_sees_the_nics_of_the_others(tmp_path: Path, gpus: list[int]) -> None:
    # Eight GPUs, four a socket, a switch with a NIC for each two; only these are in the container.
    def cell(a: str, b: str) -> str:
        if b[0] == "G":
            return "NV12"
        switches = gpus[int(a[3:])] // 2 if a[0] == "G" else int(a[3:]), int(b[3:])
        return "PXB" if a[0] == "G" and switches[0] == switches[1] else "NODE" if max(switches) < 2 else "SYS"

    assert loud(looked(tmp_path, nvidia_smi_topo__m=seen(len(gpus), 4, cell))) == []


def test_a_gpus_nic_is_the_one_on_its_switch_whatever_others_are_there(tmp_path: Path) -> None:
    # NIC4-NIC7 are on the switches of the four GPUs, NIC0-NIC3 on the CPU: in order, and two a GPU by number.
    def cell(a: str, b: str) -> str:
        return "NV18" if b[0] == "G" else "PXB" if a[0] == "G" and int(b[3:]) == int(a[3:]) + 4 else "NODE"

    report = looked(tmp_path, nvidia_smi_topo__m=seen(4, 8, cell))
    assert [row.nics[0].id for row in report.rows] == ["NIC4", "NIC5", "NIC6", "NIC7"]
    assert [f.rule for f in report.findings] == []


def test_the_one_nic_of_a_node_is_on_one_socket(tmp_path: Path) -> None:
    # Two sockets, a pair of GPUs each; the only NIC is on the switch of the second pair.
    text = "\n".join(
        [
            "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID",
            "GPU0\t X \tNV4\tSYS\tSYS\tSYS\t0-15\t0\t\tN/A",
            "GPU1\tNV4\t X \tSYS\tSYS\tSYS\t0-15\t0\t\tN/A",
            "GPU2\tSYS\tSYS\t X \tNV4\tPXB\t16-31\t1\t\tN/A",
            "GPU3\tSYS\tSYS\tNV4\t X \tPIX\t16-31\t1\t\tN/A",
            "NIC0\tSYS\tSYS\tPXB\tPIX\t X \t\t\t\t",
        ]
    )
    assert loud(looked(tmp_path, nvidia_smi_topo__m=text)) == []
    # With a second NIC for the first pair's socket the GPUs of that socket have one: no SYS left to speak of.
    assert [f.rule for f in looked(tmp_path, nvidia_smi_topo__m=text.replace("SYS\t0-15", "NODE\t0-15")).findings][
        :1
    ] == ["AFF002"]


@pytest.mark.parametrize(("gpus", "short"), [(4, 1), (8, 3)])
def test_gpus_with_fewer_links_to_the_switches_than_the_others(tmp_path: Path, gpus: int, short: int) -> None:
    # Through NVSwitches a pair has as many links as the one of it with fewer: the lower number may be the more common.
    def cell(a: str, b: str) -> str:
        return "NV16" if min(int(a[3:]), int(b[3:])) < short else "NV18"

    given = looked(tmp_path, nvidia_smi_topo__m=seen(gpus, 0, cell)).findings
    assert [(f.rule, f.subjects) for f in given if f.severity == "error"] == [
        ("NVL001", (f"gpu{i}",)) for i in range(short)
    ]


def test_the_models_of_sglangs_check_env(tmp_path: Path) -> None:
    # One line a model with all its numbers; a board with NVSwitches whose GPUs reach each other by PCIe alone.
    ids = "GPU 0,1,2,3,4,5,6,7"
    head = f"CUDA available: True\n{ids}: NVIDIA H20\n{ids} Compute Capability: 9.0\nNVIDIA Topology:\n"
    report = looked(tmp_path, posted=head + seen(8, 0, lambda a, b: "SYS") + "\nulimit soft: 1048576\n")
    assert [d.model for d in report.devices if d.kind == "gpu"] == ["NVIDIA H20"] * 8
    assert [f.rule for f in report.findings if f.severity == "warning"] == ["P2P004"]


def test_a_front_end_card_with_two_ports_is_one_place(tmp_path: Path) -> None:
    # Both ports on the first socket of two: the other socket's GPUs are farther, by design.
    def cell(a: str, b: str) -> str:
        if a[:3] == b[:3]:
            return "NV18" if a[0] == "G" else "PIX"
        return "NODE" if int(a[3:]) < 4 else "SYS"

    rows = seen(8, 2, cell).splitlines()
    far = ("GPU4", "GPU5", "GPU6", "GPU7")
    text = "\n".join(row.replace("0-31\t0", "32-63\t1") if row.startswith(far) else row for row in rows)
    report = looked(tmp_path, nvidia_smi_topo__m=text)
    assert loud(report) == []
    assert {g for f in report.findings if f.rule == "AFF001" for g in f.subjects} == {"gpu4", "gpu5", "gpu6", "gpu7"}


def test_the_state_of_one_nic_of_each_sort_makes_no_kind_of_its_own(tmp_path: Path) -> None:
    # Eight NICs on GPUs' switches and four beside the CPU, of one driver; the state of the first and the last is known.
    def cell(a: str, b: str) -> str:
        return "NV18" if b[0] == "G" else "PIX" if a[0] == "G" and a[3:] == b[3:] else "NODE"

    names = [f"mlx5_ib{i}" for i in range(8)] + [f"mlx5_eth{i}" for i in range(4)]
    legend = "\nNIC Legend:\n\n" + "".join(f"  NIC{i}: {name}\n" for i, name in enumerate(names))
    states = "".join(
        f"Infiniband device '{name}' port 1 status:\n\tstate: 4: ACTIVE\n\trate: {rate}\n\tlink_layer: {layer}\n\n"
        for name, rate, layer in (
            ("mlx5_ib0", "400 Gb/sec (4X NDR)", "InfiniBand"),
            ("mlx5_eth3", "25 Gb/sec (1X EDR)", "Ethernet"),
        )
    )
    report = looked(tmp_path, nvidia_smi_topo__m=seen(8, 12, cell) + legend, ibstatus=states)
    assert loud(report) == []
    assert [d.id for d in report.devices if d.role == "compute"] == names[:8]


def test_a_machine_of_one_socket_has_no_other(tmp_path: Path) -> None:
    lscpu = "CPU(s):              72\nOn-line CPU(s) list: 0-71\nSocket(s):           1\nNUMA node(s):        9\n"
    report = looked(tmp_path, nvidia_smi_topo__m=seen(1, 2, lambda a, b: "SYS"), lscpu=lscpu)
    assert [f.rule for f in report.findings] == ["AFF002"]


def test_a_count_torn_by_the_margin_in_every_row_is_whole(tmp_path: Path) -> None:
    # The terminal ends behind "NV1": its "8" begins the next line.
    text = "\n".join(
        line[:67] + "\n" + line[67:] if len(line) > 67 else line
        for line in seen(8, 2, lambda a, b: "NV18" if b[0] == "G" else "NODE").expandtabs(8).splitlines()
    )
    report = looked(tmp_path, nvidia_smi_topo__m=text)
    assert {p.cls for p in report.pairs if p.a == "gpu0" and p.b.startswith("gpu")} == {"NV18"}
    assert [f.rule for f in report.findings] == ["AFF002"]
    assert [gap.reason for gap in report.gaps] == ["the NIC legend is missing, RDMA names unknown"]


@pytest.mark.parametrize("before", ["+", "-", '"', "'", "* "])
def test_a_matrix_behind_the_marks_of_a_patch_or_a_list(tmp_path: Path, before: str) -> None:
    text = seen(2, 1, lambda a, b: "NV4" if b[0] == "G" else "PIX")
    report = looked(tmp_path, post="".join(before + line + "\n" for line in text.splitlines()))
    assert {(p.a, p.b): p.cls for p in report.pairs} == {
        ("gpu0", "gpu1"): "NV4",
        ("gpu0", "NIC0"): "PIX",
        ("gpu1", "NIC0"): "PIX",
    }
    assert [d.numa_node for d in report.devices if d.kind == "gpu"] == [0, 0]


def test_a_matrix_as_a_markdown_table(tmp_path: Path) -> None:
    report = looked(
        tmp_path,
        post="| | GPU0 | GPU1 | NIC0 | CPU Affinity | NUMA Affinity |\n|---|---|---|---|---|---|\n"
        "| **GPU0** | X | NV4 | PIX | 0-15 | 0 |\n| **GPU1** | NV4 | X | SYS | 16-31 | 1 |\n"
        "| `NIC0` | PIX | SYS | X | | |\n",
    )
    assert {(p.a, p.b): p.cls for p in report.pairs} == {
        ("gpu0", "gpu1"): "NV4",
        ("gpu0", "NIC0"): "PIX",
        ("gpu1", "NIC0"): "SYS",
    }
    assert [d.numa_node for d in report.devices if d.kind == "gpu"] == [0, 1]


def test_the_only_gpu_of_collect_env_stands_behind_its_words(tmp_path: Path) -> None:
    words = "GPU models and configuration : GPU 0: NVIDIA RTX PRO 6000 Blackwell Workstation Edition\n"
    report = looked(tmp_path, posted=f"CUDA_MODULE_LOADING set to   : LAZY\n{words}Nvidia driver version: 575.51.03\n")
    assert [d.model for d in report.devices] == ["NVIDIA RTX PRO 6000 Blackwell Workstation Edition"]


@pytest.mark.parametrize("colons", [":", "::"])
def test_sglangs_line_of_the_hypervisor(tmp_path: Path, colons: str) -> None:
    head = "GPU 0,1,2,3,4,5,6,7: NVIDIA H100 80GB HBM3\nNVIDIA Topology:\n"
    text = head + seen(8, 0, lambda a, b: "PHB") + f"\n\nHypervisor vendor{colons} KVM\nulimit soft: 1048576\n"
    report = looked(tmp_path, posted=text)
    assert loud(report) == []
    assert [f.rule for f in report.findings] == ["P2P004"]
