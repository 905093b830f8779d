"""The table of known machines: its figures, which machine is taken for which, and what the counts may not accuse."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import nodes
import pytest

from topocheck.as_built import built_so, nics_short
from topocheck.check import Checked, check
from topocheck.hardware.platforms import Seen, platform_of, platforms
from topocheck.rules import pcie_slot_capped

ROWS = {platform.name: platform for platform in platforms()}
H100, A100, H200 = "10de:2330", "10de:20b2", "10de:2335"


def seen(dmi: str | None, gpu: str, gpus: int = 8, **nics: int) -> Seen:
    return Seen(dmi, Counter({gpu: gpus}), Counter({id_.replace("_", ":"): count for id_, count in nics.items()}))


def changed(folder: Path, node: str, *changes: nodes.Change, drop: tuple[str, ...] = ()) -> Checked:
    edit = nodes.Edit(node, "test", "", changes, drop, nodes.Expect("", "info"))
    return check(str(nodes.apply(node, edit, folder)))


@pytest.mark.parametrize("name", ROWS)
def test_a_row_says_where_it_is_from(name: str) -> None:
    row = ROWS[name]
    assert len(row.source) > 10
    assert row.nvlinks_per_gpu in (12, 18)
    assert row.match.dmi or row.match.gpus, "a GPU alone names no machine"


def test_the_figures_the_interface_names() -> None:
    counts = {name: (row.gpus, row.compute_nics, row.nic_rate_gbit_per_s) for name, row in ROWS.items()}
    assert counts["AWS p4d.24xlarge"] == (8, 4, 100)
    assert counts["AWS p5.48xlarge"] == (8, 32, 100)
    assert counts["AWS p5en.48xlarge"] == (8, 16, 200)
    assert counts["Azure ND A100 v4"] == (8, 8, 200)
    assert counts["Azure ND H100 v5"] == (8, 8, 400)
    assert counts["OCI BM.GPU.H100.8"] == (8, 16, 200)  # 8 cards of 2 x 200
    assert counts["DGX A100"] == (8, 8, 200)
    assert counts["DGX H100"] == (8, 8, 400)
    assert (ROWS["GB200 NVL72 compute tray"].gpus, ROWS["GB200 NVL72 compute tray"].gpu_nic_class) == (4, "NODE")
    assert not ROWS["Google Cloud a3-high or a3-mega"].verbs
    assert [name for name, row in ROWS.items() if row.topology_file] == ["Azure ND A100 v4", "Azure ND H100 v5"]
    assert {name for name, row in ROWS.items() if name.startswith("HGX") and row.compute_nics is None} == {
        f"HGX {gpu} 8-GPU" for gpu in ("A100", "H100", "H200", "B200")
    }


@pytest.mark.parametrize(
    ("machine", "name"),
    [
        (seen("NVIDIA DGXH100", H100), "DGX H100"),
        (seen("Amazon EC2 p5e.48xlarge", H200), "AWS p5.48xlarge"),
        (seen("Microsoft Corporation Virtual Machine", H100, **{"15b3_101e": 8}), "Azure ND H100 v5"),
        (seen("Microsoft Corporation Virtual Machine", A100, **{"15b3_101c": 7}), "Azure ND A100 v4"),
        (seen("Google Google Compute Engine", H100), "Google Cloud a3-high or a3-mega"),
        (seen("Vendor Board OracleCloud.com", H100, **{"15b3_1021": 18}), "OCI BM.GPU.H100.8"),
        (seen("Some Vendor Server", H100), "HGX H100 8-GPU"),
        (seen(None, H100), "HGX H100 8-GPU"),
        (seen("Microsoft Corporation Virtual Machine", H100), "HGX H100 8-GPU"),
        (seen("Some Vendor Server", H100, 4), None),
        (seen("Some Vendor Server", "10de:26b9"), None),
    ],
)
def test_which_machine_it_is(machine: Seen, name: str | None) -> None:
    platform = platform_of(machine)
    assert (platform.name if platform else None) == name


def test_a_container_with_a_part_of_the_nics_is_not_accused(tmp_path: Path) -> None:
    fault = nodes.edit("dgx-a100", "nic-47-gone")
    assert nics_short(check(str(nodes.apply("dgx-a100", fault, tmp_path / "host"))).topology)
    given = nodes.Change("run/.containerenv", text="engine=podman\n")
    edit = replace(fault, changes=(*fault.changes, given))
    report = check(str(nodes.apply("dgx-a100", edit, tmp_path / "container"))).report
    assert [f.severity for f in report.findings if f.rule == "NET005" and f.expected_from == "platform"] == []


def test_fewer_efa_alike_for_all_were_attached_so(tmp_path: Path) -> None:
    """A p5 launched with two EFA a root: every GPU has two of its four."""
    text = (nodes.healthy("p5-vm") / "lspci_-D_-nn_-vv").read_text()
    functions = text.split("\n\n")
    efa = [f for f in functions if "[1d0f:efa" in f.partition("\n")[0]]
    assert len(efa) == 32
    kept = [f for f in functions if f not in efa or efa.index(f) % 4 < 2]
    lspci = nodes.Change("lspci_-D_-nn_-vv", text="\n\n".join(kept))
    checked = changed(tmp_path, "p5-vm", lspci, drop=("ib*", "rdma_link", "fi_info*", "dmesg"))
    assert len(checked.topology.compute_nics) == 16
    assert [f.rule for f in checked.report.findings if f.severity != "info"] == []


def without_functions(node: str, pattern: str) -> nodes.Change:
    """The node's lspci without the functions whose first line holds the pattern."""
    functions = (nodes.healthy(node) / "lspci_-D_-nn_-vv").read_text().split("\n\n")
    kept = [f for f in functions if not re.search(pattern, f.lstrip().partition("\n")[0])]
    assert len(kept) < len(functions)
    return nodes.Change("lspci_-D_-nn_-vv", text="\n\n".join(kept))


def missing_nics(checked: Checked) -> list[tuple[str, str | None]]:
    return [(f.severity, f.expected_from) for f in checked.report.findings if f.rule == "NET005"]


NO_RDMA = ("ib*", "rdma_link", "dmesg", "nvidia-smi_topo_-m")


def test_no_nic_at_all_on_a_machine_that_has_some(tmp_path: Path) -> None:
    bare = without_functions("dgx-a100", r"\[15b3:")
    checked = changed(tmp_path / "host", "dgx-a100", bare, drop=NO_RDMA)
    assert missing_nics(checked) == [("error", "platform")] and checked.report.verdict == "failed"
    given = nodes.Change("run/.containerenv", text="engine=podman\n")
    assert missing_nics(changed(tmp_path / "container", "dgx-a100", bare, given, drop=NO_RDMA)) == []


def test_without_a_list_of_the_bus_no_nic_is_missing(tmp_path: Path) -> None:
    checked = changed(tmp_path, "dgx-a100", drop=(*NO_RDMA, "lspci*"))
    assert missing_nics(checked) == []
    assert "the 8 of DGX A100" in next(s.reason for s in checked.report.skipped if s.rule == "NET005")


def test_a_p5_without_any_efa_was_launched_so(tmp_path: Path) -> None:
    bare = without_functions("p5-vm", r"\[1d0f:efa")
    checked = changed(tmp_path, "p5-vm", bare, drop=("ib*", "rdma_link", "fi_info*", "dmesg"))
    assert missing_nics(checked) == [("info", "platform")] and checked.report.verdict == "healthy"


def test_lan_cards_without_rdma_devices_are_no_fault(tmp_path: Path) -> None:
    """Who runs no RDMA on an Ethernet card needs no device for it; a card of EFA or InfiniBand is for nothing else."""
    none = nodes.Change("ibv_devinfo_-v", text="No IB devices found\n")
    drop = ("ibstat", "ibdev2netdev", "nvidia-smi_topo_-m")
    lspci = (nodes.healthy("hgx-h100-roce") / "lspci_-D_-nn_-vv").read_text()
    lan = nodes.Change(
        "lspci_-D_-nn_-vv", text=lspci.replace("Infiniband controller [0207]", "Ethernet controller [0200]")
    )
    ethernet = changed(tmp_path / "ethernet", "hgx-h100-roce", none, lan, drop=(*drop, "show_gids", "lldpctl*"))
    assert all(n.id == n.bdf for n in ethernet.topology.nics) and missing_nics(ethernet) == []
    drop = (*drop, "ibstatus", "rdma_link")
    infiniband = changed(tmp_path / "infiniband", "hgx-h100", none, drop=drop)
    assert missing_nics(infiniband) == [("warning", "equals")]
    inside = nodes.Change("run/.containerenv", text="engine=podman\n")
    assert missing_nics(changed(tmp_path / "inside", "hgx-h100", none, inside, drop=drop)) == []


def test_fewer_gpus_in_a_vm_are_a_note(tmp_path: Path) -> None:
    text = (nodes.healthy("p5-vm") / "lspci_-D_-nn_-vv").read_text()
    kept = [f for f in text.split("\n\n") if not f.startswith("0000:ca:00.0")]
    lspci = nodes.Change("lspci_-D_-nn_-vv", text="\n\n".join(kept))
    checked = changed(tmp_path, "p5-vm", lspci, drop=("nvidia-smi*", "dmesg"))
    assert [(f.severity, f.expected_from) for f in checked.report.findings if f.rule == "GPU001"] == [
        ("info", "platform")
    ]


def azure(folder: Path, *changes: nodes.Change) -> Checked:
    """hgx-h100 as Azure's ND H100 v5 looks from inside: virtual functions, Hyper-V."""
    lspci = (nodes.healthy("hgx-h100") / "lspci_-D_-nn_-vv").read_text().replace("[15b3:1021]", "[15b3:101e]")
    dmi = "sys/class/dmi/id"
    return changed(
        folder,
        "hgx-h100",
        nodes.Change("lspci_-D_-nn_-vv", text=lspci),
        nodes.Change(f"{dmi}/sys_vendor", text="Microsoft Corporation\n"),
        nodes.Change(f"{dmi}/product_name", text="Virtual Machine\n"),
        nodes.Change("lscpu", replace="Architecture:", by="Hypervisor vendor: Microsoft\nArchitecture:"),
        *changes,
        drop=("ib*", "rdma_link", "dmesg", "nvidia-smi_topo_-m"),
    )


def test_a_platform_that_needs_a_topology_file_without_one(tmp_path: Path) -> None:
    def said(checked: Checked) -> list[str]:
        assert checked.report.platform == "Azure ND H100 v5"
        return [f.severity for f in checked.report.findings if f.rule == "VIRT001"]

    empty = nodes.Change("environ.json", text="{}\n")
    named = nodes.Change("environ.json", text='{"NCCL_TOPO_FILE": "/opt/ndv5-topo.xml"}\n')
    in_conf = nodes.Change("etc/nccl.conf", text="NCCL_TOPO_FILE=/opt/ndv5-topo.xml\n")
    assert said(azure(tmp_path / "a", empty)) == ["warning"]
    assert said(azure(tmp_path / "b", named)) == []
    assert said(azure(tmp_path / "c", empty, in_conf)) == []
    assert said(azure(tmp_path / "d")) == [], "no environment in the input: it could not show the file"


def topology(path: str, *addresses: str) -> nodes.Change:
    """A topology file as providers make them: a GPU and a NIC below a switch each."""
    switch = """<pci busid="ffff:ff:{0:02x}.0" class="0x060400" link_speed="32 GT/s" link_width="16">
<pci busid="{1}" class="0x030200" link_speed="32 GT/s" link_width="16"/>
<pci busid="0101:00:{0:02x}.0" class="0x020700" link_speed="32 GT/s" link_width="16"/></pci>"""
    below = "\n".join(switch.format(i, address) for i, address in enumerate(addresses))
    cpu = '<cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">'
    return nodes.Change(path, text=f'<system version="1">\n{cpu}\n{below}\n</cpu>\n</system>\n')


def test_a_topology_file_of_another_machine(tmp_path: Path) -> None:
    file = "var/run/nvidia-topologyd/virtualTopology.xml"
    ours = [gpu.bdf or "" for gpu in check(str(nodes.healthy("hgx-h100"))).topology.gpus]
    theirs = [*ours[:6], "0009:00:00.0", "000a:00:00.0"]
    elsewhere = nodes.Change("environ.json", text='{"NCCL_TOPO_FILE": "/opt/ndv5-topo.xml"}\n')
    conf = nodes.Change("etc/nccl.conf", text=f"NCCL_TOPO_FILE=/{file}\n")

    def said(folder: str, *changes: nodes.Change) -> list[tuple[str, tuple[str, ...]]]:
        found = azure(tmp_path / folder, *changes).report.findings
        return [(f.severity, f.subjects) for f in found if f.rule == "VIRT001"]

    assert said("ours", topology(file, *ours)) == []
    assert said("theirs", topology(file, *theirs)) == [("warning", ("gpu6", "gpu7"))]
    assert said("conf", topology(file, *theirs), conf) == [("warning", ("gpu6", "gpu7"))]
    assert said("set aside", topology(file, *theirs), elsewhere) == [], "NCCL takes the other file"
    other = topology("etc/ndv5-topo.xml", *theirs)
    named = nodes.Change("environ.json", text='{"NCCL_TOPO_FILE": "/etc/ndv5-topo.xml"}\n')
    assert said("named", topology(file, *ours), other, named) == [("warning", ("gpu6", "gpu7"))]
    assert said("named before conf", other, named, topology(file, *ours), conf) == [("warning", ("gpu6", "gpu7"))]
    assert said("named and ours", topology(file, *theirs), topology("etc/ndv5-topo.xml", *ours), named) == []
    assert said("no GPU in it", nodes.Change(file, text='<system version="1"></system>\n')) == []
    metal = nodes.Change("proc/cpuinfo", text="processor\t: 0\nflags\t\t: fpu vme de\n")
    bare = changed(tmp_path / "metal", "hgx-h100", topology(file, *theirs), metal)
    assert [f for f in bare.report.findings if f.rule == "VIRT001"] == []


def test_what_a_platform_caps_by_design_is_not_said(tmp_path: Path) -> None:
    fault = nodes.edit("hgx-h100", "mlx5_2-slot-gen4")
    node = check(str(nodes.apply("hgx-h100", fault, tmp_path))).topology
    assert node.platform
    capped = replace(node, platform=replace(node.platform, capped=("PCI003:nic",)))
    assert built_so(capped, "PCI003", node.by_id["mlx5_2"]) and not built_so(capped, "PCI003", node.by_id["gpu2"])
    assert any("mlx5_2" in f.subjects for f in pcie_slot_capped.check(node) if hasattr(f, "subjects"))
    assert not any("mlx5_2" in f.subjects for f in pcie_slot_capped.check(capped) if hasattr(f, "subjects"))


def test_all_gpus_alike_below_what_the_board_has(tmp_path: Path) -> None:
    text = (nodes.healthy("hgx-h100") / "nvidia-smi_nvlink_-s").read_text()
    links = nodes.Change("nvidia-smi_nvlink_-s", text=text.replace("Link 17: 26.562 GB/s", "Link 17: <inactive>"))
    checked = changed(tmp_path, "hgx-h100", links, drop=("nvidia-smi_topo_-m", "nvidia-smi_nvlink_-[eR]"))
    found = [f for f in checked.report.findings if f.rule == "NVL001"]
    assert {f.severity for f in found} == {"error"} and sum(len(f.subjects) for f in found) == 8


@pytest.mark.parametrize(
    ("element", "full", "less", "rule"),
    [("current_link_width", "16x", "8x", "PCI001"), ("current_link_gen", "4", "3", "PCI002")],
)
def test_links_alike_below_what_the_platform_has(element: str, full: str, less: str, rule: str, tmp_path: Path) -> None:
    """No equal is better, but the machine is built with more; of an unknown one it is only suspicious."""
    text = (nodes.healthy("dgx-a100") / "nvidia-smi_-q_-x").read_text()
    query = nodes.Change("nvidia-smi_-q_-x", text=text.replace(f"<{element}>{full}<", f"<{element}>{less}<"))
    unknown = nodes.Change("sys/class/dmi/id/product_name", text="G492-ZD2\n")

    def said(folder: str, *changes: nodes.Change) -> set[tuple[str, str | None]]:
        report = changed(tmp_path / folder, "dgx-a100", query, *changes, drop=("lspci*", "dmesg")).report
        found = [f for f in report.findings if f.rule == rule]
        assert sum(len(f.subjects) for f in found) == 8
        return {(f.severity, f.expected_from) for f in found}

    assert said("dgx") == {("error", "platform")}
    assert said("unknown", unknown) == {("warning", "both ends")}


def test_a_machine_without_rdma_devices_is_asked_for_none(tmp_path: Path) -> None:
    """Google's a3-high: 8 H100, and gVNIC with GPUDirect-TCPX."""
    bare = without_functions("hgx-h100", r"\[15b3:")
    maker = nodes.Change("sys/class/dmi/id/sys_vendor", text="Google\n")
    product = nodes.Change("sys/class/dmi/id/product_name", text="Google Compute Engine\n")
    checked = changed(tmp_path, "hgx-h100", bare, maker, product, drop=NO_RDMA)
    reasons = dict(checked.report.not_applicable)
    for rule in ("NET005", "AFF001", "AFF002", "AFF003", "RAIL001", "RAIL003"):
        assert reasons[rule] == "Google Cloud a3-high or a3-mega has no RDMA device"
