"""The traps other tools fell into (peers.md sections 6 and 9), each as a test of ours; the number is the row's."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import nodes
import pytest

from topocheck.build import build
from topocheck.check import Checked, check
from topocheck.facts import RdmaDevice, RdmaPort, full_bdf
from topocheck.hardware.platforms import Seen, platform_of

LSPCI, MATRIX = "lspci_-D_-nn_-vv", "nvidia-smi_topo_-m"


def changed(folder: Path, node: str, *changes: nodes.Change) -> Checked:
    """The node's capture with some changes, checked."""
    return check(str(nodes.apply(node, nodes.Edit(node, "trap", "", changes, (), nodes.Expect("", "info")), folder)))


def loud(checked: Checked, *rules: str) -> list[str]:
    """What is said above info, by these rules or by all."""
    found = [f for f in checked.report.findings if f.severity != "info" and (not rules or f.rule in rules)]
    return [f"{f.rule} {f.subjects}" for f in found]


def skipped(checked: Checked) -> set[str]:
    return {s.rule for s in checked.report.skipped}


def test_trap_08_capabilities_not_shown_to_a_plain_user_are_unread_not_off(tmp_path: Path) -> None:
    text = (nodes.healthy("hgx-h100-pairs") / LSPCI).read_text()
    hidden = re.sub(r"(?m)^\tCapabilities: .*\n(?:\t\t.*\n)*", "\tCapabilities: <access denied>\n", text)
    checked = changed(tmp_path, "hgx-h100-pairs", nodes.Change(LSPCI, text=hidden))
    assert loud(checked) == []
    assert {"PCI006", "PCI009", "P2P002"} <= skipped(checked)


def test_trap_13_half_of_the_pairs_of_a_two_socket_node_must_cross() -> None:
    checked = check(str(nodes.healthy("pcie-box")))
    assert [c for c in checked.topology.classes.values() if c == "SYS"], "some pairs do cross"
    assert loud(checked, "P2P004", "AFF001", "AFF002") == []


def test_trap_19_in_mig_mode_nvlink_says_nothing(tmp_path: Path) -> None:
    row = (nodes.healthy("hgx-h100") / MATRIX).read_text().splitlines()
    cut = [re.sub(r"NV18", "SYS", line) if line.startswith("GPU2\t") else line for line in row]
    cut = [
        "\t".join("SYS" if i == 3 and cell == "NV18" else cell for i, cell in enumerate(line.split("\t")))
        for line in cut
    ]
    mig = nodes.Change(
        "nvidia-smi_-q_-x",
        at='<gpu id="00000000:4C:00.0">',
        replace="<current_mig>Disabled",
        by="<current_mig>Enabled",
    )
    checked = changed(tmp_path, "hgx-h100", mig, nodes.Change(MATRIX, text="\n".join(cut) + "\n"))
    assert loud(checked, "NVL001", "NVL002", "NVL003", "NVL004", "P2P004") == []
    assert {"NVL001", "NVL003", "NVL004", "P2P004"} <= skipped(checked), "and it says so"


@pytest.mark.parametrize("where", ["vm", "vfio"])
def test_trap_21_acs_in_a_vm_or_on_a_host_that_passes_gpus_through_is_needed(where: str, tmp_path: Path) -> None:
    text = (nodes.healthy("hgx-h100-pairs") / LSPCI).read_text()
    text = text.replace(
        "ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-",
        "ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-",
    )
    changes = [nodes.Change(LSPCI, text=text)]
    assert loud(changed(tmp_path / "bare", "hgx-h100-pairs", *changes), "P2P002")
    if where == "vm":
        log = "[    0.000100] Linux version"
        changes.append(nodes.Change("dmesg", replace=log, by=f"[    0.000050] Hypervisor detected: KVM\n{log}"))
    else:
        changes = [
            nodes.Change(LSPCI, text=text.replace("Kernel driver in use: nvidia", "Kernel driver in use: vfio-pci"))
        ]
    assert loud(changed(tmp_path / where, "hgx-h100-pairs", *changes), "P2P002") == []


def test_mistake_12_all_broken_is_not_taken_for_not_supported(tmp_path: Path) -> None:
    text = (nodes.healthy("hgx-h100") / MATRIX).read_text().replace("NV18", "SYS")
    checked = changed(tmp_path, "hgx-h100", nodes.Change(MATRIX, text=text))
    assert loud(checked, "P2P004"), "an NVSwitch board without one NVLink in its matrix"


def test_mistake_14_what_cannot_be_read_is_neither_a_fault_nor_a_pass(tmp_path: Path) -> None:
    path = tmp_path / MATRIX
    path.write_text((nodes.healthy("pcie-box") / MATRIX).read_text())
    checked = check(str(path))
    assert loud(checked) == []
    asked = {"PCI006", "PCI007", "PCI008", "PCI009", "GPU002", "GPU004", "GPU005", "GPU006", "P2P003", "NUM003"}
    ran = {f.rule for f in checked.report.findings}
    assert asked <= skipped(checked) | {rule for rule, _ in checked.report.not_applicable}
    assert not asked & ran


def without(folder: Path, node: str, drop: tuple[str, ...], *changes: nodes.Change) -> Checked:
    """The node's capture with files taken away and some changes, checked."""
    edit = nodes.Edit(node, "trap", "", changes, drop, nodes.Expect("", "info"))
    return check(str(nodes.apply(node, edit, folder)))


def test_trap_05_bridges_a_hypervisor_made_up_are_not_measured() -> None:
    checked = check(str(nodes.healthy("p5-vm")))
    made_up = [f for f in checked.topology.bridges.values() if f.vendor_id == "1d0f"]
    assert made_up and loud(checked) == []


def test_trap_09_without_numa_nodes_the_tree_tells_what_is_near(tmp_path: Path) -> None:
    text = (nodes.healthy("hgx-h100") / LSPCI).read_text()
    lspci = nodes.Change(LSPCI, text=re.sub(r"(?m)^\tNUMA node: \d+\n", "", text))
    checked = without(tmp_path, "hgx-h100", (MATRIX,), lspci)
    assert {d.numa_node for d in checked.topology.nics} == {None}
    assert loud(checked) == []
    assert checked.topology.pcie_class("gpu0", "mlx5_0") == "PIX"


def test_trap_10_another_numa_node_of_the_same_socket_is_not_another_socket() -> None:
    checked = check(str(nodes.healthy("dgx-a100")))
    node = checked.topology
    assert len(node.numa_nodes) == 8 and len({n.socket for n in node.numa_nodes}) == 2
    assert loud(checked, "AFF001", "AFF002", "NUM002") == []


def test_trap_11_no_nic_nearer_than_node_is_the_design_of_grace() -> None:
    checked = check(str(nodes.healthy("gb200-tray")))
    assert {checked.topology.nearest(g, checked.topology.compute_nics)[0] for g in checked.topology.gpus} == {"NODE"}
    assert checked.report.platform == "GB200 NVL72 compute tray"
    assert [f.rule for f in checked.report.findings if f.rule in ("AFF001", "AFF002", "AFF003", "PCI001")] == []


def port_down(name: str, file: str = "ibstat") -> nodes.Change:
    return nodes.Change(
        file,
        at=f"^CA '{name}'",
        replace="State: Active\n\t\tPhysical state: LinkUp",
        by="State: Down\n\t\tPhysical state: Polling",
    )


def test_trap_14_a_storage_nic_may_be_far_and_its_port_unused(tmp_path: Path) -> None:
    others = ("ibstatus", "ibv_devinfo_-v", "rdma_link", "ibdev2netdev")
    checked = without(tmp_path, "hgx-h100", others, port_down("mlx5_4"))
    assert checked.topology.by_id["mlx5_4"].role == "storage"
    assert checked.topology.by_id["mlx5_4"].state == "down"
    assert loud(checked) == []


def test_trap_15_the_second_port_of_a_card_may_be_down_by_design(tmp_path: Path) -> None:
    def card(number: int) -> str:
        guid = f"0xa088c203000d{number:04x}"
        port = "\tPort {0}:\n\t\tState: {1}\n\t\tPhysical state: {2}\n\t\tRate: {3}\n\t\tLink layer: InfiniBand\n"
        ports = port.format(1, "Active", "LinkUp", 200) + port.format(2, "Down", "Polling", 10)
        head = f"CA 'mlx5_{number}'\n\tCA type: MT4123\n\tNumber of ports: 2\n\tSystem image GUID: {guid}\n"
        return head + ports

    (tmp_path / "ibstat").write_text("".join(card(i) for i in range(4)))
    checked = check(str(tmp_path))
    assert len(checked.topology.nics) == 4 and loud(checked) == []


def test_trap_16_software_rdma_devices_are_no_nics(tmp_path: Path) -> None:
    soft = "link rxe0/1 state DOWN physical_state DISABLED netdev eth0\nlink siw0/1 state DOWN\n"
    text = (nodes.healthy("hgx-h100") / "rdma_link").read_text()
    checked = changed(tmp_path, "hgx-h100", nodes.Change("rdma_link", text=text + soft))
    assert len(checked.topology.nics) == 10 and loud(checked) == []


def test_trap_20_either_way_into_gpu_memory_will_do_and_unseen_is_unknown(tmp_path: Path) -> None:
    modules = nodes.Change("proc/modules", replace="nvidia_peermem 16384 0 - Live 0x0000000000000000 (OE)\n", by="")
    by_dma_buf = changed(tmp_path / "dma-buf", "hgx-h100-roce", modules)
    assert by_dma_buf.topology.machine.peermem is False and loud(by_dma_buf) == []
    unseen = without(tmp_path / "unseen", "hgx-h100-roce", ("proc/modules", "proc/driver/nvidia/version"))
    assert loud(unseen) == [] and "AFF004" in skipped(unseen)


def test_trap_22_a_rate_below_what_the_card_can_is_no_fault_if_alike(tmp_path: Path) -> None:
    def slower(file: str, *pairs: tuple[str, str]) -> nodes.Change:
        text = (nodes.healthy("hgx-h100-roce") / file).read_text()
        for old, new in pairs:
            text = text.replace(old, new)
        return nodes.Change(file, text=text)

    ibstat = slower("ibstat", ("Rate: 400", "Rate: 100"))
    devinfo = slower("ibv_devinfo_-v", ("100.0 Gbps (128)", "25.0 Gbps (32)"))
    checked = changed(tmp_path, "hgx-h100-roce", ibstat, devinfo)
    assert {n.rate_gbit_per_s for n in checked.topology.compute_nics} == {100.0}
    assert loud(checked) == []


def test_trap_24_efa_are_counted_by_their_driver_not_by_the_folder() -> None:
    """P6-B200: /sys/class/infiniband shows ten devices, eight of them EFA."""
    efa = [
        RdmaDevice(
            "ibv_devinfo -v", f"rdmap{85 + 17 * i}s0", efa=True, ports=(RdmaPort(1, "active", None, 400.0, "efa"),)
        )
        for i in range(8)
    ]
    other = [
        RdmaDevice(
            "ibv_devinfo -v", f"ibp{i}s0", model="MT4129", ports=(RdmaPort(1, "active", None, 100.0, "infiniband"),)
        )
        for i in (3, 4)
    ]
    node = build([*efa, *other])
    assert {n.id for n in node.compute_nics} == {d.name for d in efa}


def test_trap_26_counters_that_stand_still_are_no_dead_nic(tmp_path: Path) -> None:
    block = "# Port extended counters: Lid 101 port 1 (CapMask: 0x5300)\nPortXmitData:.....0\nPortXmitWait:.....0\n"
    checked = changed(tmp_path, "hgx-h100", nodes.Change("perfquery_-x", text=block * 2))
    assert len(checked.topology.by_id["mlx5_0"].ports[0].readings) == 2
    assert loud(checked) == []


def test_trap_28_an_unknown_machine_is_judged_by_its_equals(tmp_path: Path) -> None:
    checked = check(str(nodes.healthy("pcie-box")))
    assert checked.report.platform is None and loud(checked) == []
    fault = nodes.edit("pcie-box", "mlx5_1-polling")
    assert loud(check(str(nodes.apply("pcie-box", fault, tmp_path))), "NET001")


def test_mistake_04_a_domain_has_four_five_or_eight_digits() -> None:
    assert full_bdf("00000018:01:00.0") == full_bdf("0018:01:00.0") == "0018:01:00.0"
    assert full_bdf("10000:01:00.0") == "10000:01:00.0"
    checked = check(str(nodes.healthy("gb200-tray")))  # eight digits in nvidia-smi -q -x, four in lspci
    assert len(checked.topology.gpus) == 4 and all(g.pci and g.gpu for g in checked.topology.gpus)


def test_mistake_10_a_gpu_and_a_nic_are_paired_by_distance_not_by_number(tmp_path: Path) -> None:
    text = (nodes.healthy("hgx-h100") / MATRIX).read_text()
    crossed = text.replace("NIC0: mlx5_0\n", "NIC0: mlx5_9\n").replace("NIC9: mlx5_9\n", "NIC9: mlx5_0\n")
    (tmp_path / MATRIX).write_text(crossed)
    node = check(str(tmp_path)).topology
    assert (node.assignment["gpu0"], node.assignment["gpu7"]) == (("mlx5_9",), ("mlx5_0",))


def test_mistake_11_one_gpu_model_is_in_many_machines() -> None:
    machines = ("NVIDIA DGXH100", "Google Compute Engine", "Some Vendor Server")
    found = [platform_of(Seen(dmi, Counter({"10de:2330": 8}), Counter())) for dmi in machines]
    assert [p.compute_nics if p else None for p in found] == [8, None, None]
