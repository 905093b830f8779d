"""The traps other tools fell into (peers.md sections 6 and 9), each as a test of ours; the number is the row's."""

from __future__ import annotations

import re
from pathlib import Path

import nodes
import pytest

from topocheck.check import Checked, check

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
    assert "P2P004" in skipped(checked)


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
