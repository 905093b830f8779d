"""What the PCIe, GPU, peer-to-peer and NVLink rules must not say, and what takes more than one edit to show.

Everything goes through `check` on a copy of one of our nodes with text changed in it.
"""

from __future__ import annotations

import re
from pathlib import Path

import nodes
import pytest
from asked import changed, everywhere, levels, of, skips

from topocheck.check import Checked, check

LSPCI, SMI, DMESG, MATRIX = "lspci_-D_-nn_-vv", "nvidia-smi_-q_-x", "dmesg", "nvidia-smi_topo_-m"
LAST_LINE = "[   13.500000]"


def of_gpu(bus: str, replace: str, by: str) -> nodes.Change:
    """A value of one GPU of hgx-h100 in `nvidia-smi -q -x`."""
    return nodes.Change(SMI, at=f'<gpu id="00000000:{bus}:00.0">', replace=replace, by=by)


def logged(line: str) -> nodes.Change:
    return nodes.Change(DMESG, replace=LAST_LINE, by=f"[   13.490000] {line}\n{LAST_LINE}")


# --- PCIe


def test_uplinks_shared_alike_are_one_info_with_the_figure() -> None:
    (finding,) = of(check(str(nodes.healthy("hgx-h100-pairs"))), "PCI005")
    assert finding.severity == "info"
    assert len(finding.subjects) == 8
    assert finding.price is not None
    # Two GPUs of 53.8 GB/s on an uplink of 53.8: 26.9 each.
    assert (finding.price.found_gb_per_s, finding.price.repaired_gb_per_s) == (26.9, 53.8)
    assert "at least" in finding.message


def test_an_uplink_that_carries_all_its_gpus_is_none() -> None:
    # Two Gen4 cards (26.0 each) on a Gen5 uplink (53.8).
    assert of(check(str(nodes.healthy("pcie-box"))), "PCI005") == []


def test_no_tree_no_word_of_uplinks(tmp_path: Path) -> None:
    checked = changed(tmp_path, "hgx-h100-pairs", drop=(LSPCI,))
    assert of(checked, "PCI005") == []
    assert skips(checked, "PCI005")


def test_payload_needs_the_whole_path(tmp_path: Path) -> None:
    low = nodes.Change(
        LSPCI, at="^0000:5d:00.0 ", replace="MaxPayload 256 bytes, MaxR", by="MaxPayload 128 bytes, MaxR"
    )
    root = nodes.Change(LSPCI, at="^0000:59:01.0 ", replace="DevCap:\tMaxPayload 256 bytes, PhantFunc 0", by="DevCap:")
    checked = changed(tmp_path, "hgx-h100", low, root)
    assert of(checked, "PCI006") == []
    assert skips(checked, "PCI006")


def test_payload_small_on_all_alike_is_one_info(tmp_path: Path) -> None:
    small = everywhere("hgx-h100", LSPCI, "MaxPayload 256 bytes, M", "MaxPayload 128 bytes, M")
    (finding,) = of(changed(tmp_path, "hgx-h100", small), "PCI006")
    assert finding.severity == "info"
    assert {"gpu0", "gpu7", "mlx5_0", "mlx5_9"} <= set(finding.subjects)


def test_errors_of_other_devices_are_not_ours(tmp_path: Path) -> None:
    line = "nvme 0000:18:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)"
    assert of(changed(tmp_path, "hgx-h100", logged(line)), "PCI007") == []


def test_one_corrected_error_is_info(tmp_path: Path) -> None:
    line = "mlx5_core 0000:3c:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"
    assert levels(changed(tmp_path, "hgx-h100", logged(line)), "PCI007") == ["info"]


def test_totals_without_a_time_are_info(tmp_path: Path) -> None:
    total = nodes.Change("sys/bus/pci/devices/0000:19:00.0/aer_dev_nonfatal", text="TOTAL_ERR_NONFATAL 3\n")
    files = [
        nodes.Change(f"sys/bus/pci/devices/0000:19:00.0/{name}", text=f"{value}\n")
        for name, value in (("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x2330"))
    ]
    (finding,) = of(changed(tmp_path, "hgx-h100", total, *files), "PCI007")
    assert finding.severity == "info"
    assert "3 non-fatal" in finding.message


def test_a_small_bar1_is_a_fault_only_of_parts_that_cover_their_memory(tmp_path: Path) -> None:
    total = r"(<bar1_memory_usage>\s*<total>)\d+ MiB"
    sxm = changed(tmp_path / "a", "hgx-h100", everywhere("hgx-h100", SMI, total, r"\g<1>256 MiB"))
    assert levels(sxm, "PCI008") == ["warning"] * 8
    l40s = changed(tmp_path / "b", "pcie-box", everywhere("pcie-box", SMI, total, r"\g<1>256 MiB"))
    assert of(l40s, "PCI008") == []


def test_relaxed_ordering_off_on_all_alike_is_one_info(tmp_path: Path) -> None:
    checked = changed(tmp_path, "hgx-h100", everywhere("hgx-h100", LSPCI, r"RlxdOrd\+", "RlxdOrd-"))
    assert {f.severity for f in of(checked, "PCI009")} == {"info"}
    assert checked.report.verdict == "healthy"


# --- GPUs


def test_one_power_limit_for_all_is_a_choice(tmp_path: Path) -> None:
    checked = changed(
        tmp_path, "hgx-h100", everywhere("hgx-h100", SMI, "<current_power_limit>700", "<current_power_limit>500")
    )
    assert of(checked, "GPU002") == []


def test_mig_on_some_is_a_warning_and_silences_nvlink(tmp_path: Path) -> None:
    mig = nodes.Change(
        SMI, at='<gpu id="00000000:4C:00.0">', replace="<current_mig>Disabled", by="<current_mig>Enabled"
    )
    checked = changed(tmp_path, "hgx-h100", mig)
    (finding,) = of(checked, "GPU002")
    assert (finding.severity, finding.subjects) == ("warning", ("gpu2",))
    assert any("MIG" in reason for reason in skips(checked, "P2P004"))


def test_an_xid_with_its_sign_still_there_is_an_error(tmp_path: Path) -> None:
    sign = nodes.Change(
        SMI, at='<gpu id="00000000:BB:00.0">', replace="<dram_uncorrectable>0<", by="<dram_uncorrectable>1<"
    )
    line = logged("NVRM: Xid (PCI:0000:bb:00): 95, pid=4711, name=python, Uncontained ECC error")
    assert levels(changed(tmp_path, "hgx-h100", sign, line), "GPU004") == ["error"]


def test_the_recovery_action_says_it_once(tmp_path: Path) -> None:
    asks = nodes.Change(
        SMI, at='<gpu id="00000000:BB:00.0">', replace="<gpu_recovery_action>None<", by="<gpu_recovery_action>Reset<"
    )
    line = logged(
        "NVRM: Xid (PCI:0000:bb:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    )
    assert levels(changed(tmp_path, "hgx-h100", asks, line), "GPU004") == ["error"]


def test_without_a_log_xids_are_not_known(tmp_path: Path) -> None:
    checked = changed(tmp_path, "hgx-h100", drop=(DMESG,))
    assert any("kernel log" in reason for reason in skips(checked, "GPU004"))


@pytest.mark.parametrize("reason", ["sw_power_cap", "gpu_idle", "applications_clocks_setting"])
def test_software_limits_hold_nothing_back(reason: str, tmp_path: Path) -> None:
    active = everywhere("hgx-h100", SMI, f"(clocks_event_reason_{reason}>)[A-Za-z ]*", r"\g<1>Active")
    assert of(changed(tmp_path, "hgx-h100", active), "GPU006") == []


def test_memory_tiering_is_no_balancing(tmp_path: Path) -> None:
    assert of(changed(tmp_path, "hgx-h100", nodes.Change("proc/sys/kernel/numa_balancing", text="2\n")), "NUM003") == []


# --- peer-to-peer and NVLink

OFF = "ACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd-"
REDIRECT = "ACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+"


def test_acs_bits_that_redirect_nothing(tmp_path: Path) -> None:
    bits = "ACSCtl:\tSrcValid+ TransBlk+ ReqRedir- CmpltRedir- UpstreamFwd+"
    checked = changed(tmp_path, "hgx-h100-pairs", everywhere("hgx-h100-pairs", LSPCI, re.escape(OFF), bits))
    assert of(checked, "P2P002") == []


def test_redirect_at_a_root_port_is_where_the_pair_climbs_anyway(tmp_path: Path) -> None:
    at_root = nodes.Change(LSPCI, at="^0000:15:01.0 ", replace=OFF, by=REDIRECT)
    assert of(changed(tmp_path, "hgx-h100-pairs", at_root), "P2P002") == []


def test_redirect_everywhere_is_told_once(tmp_path: Path) -> None:
    checked = changed(tmp_path, "hgx-h100-pairs", everywhere("hgx-h100-pairs", LSPCI, re.escape(OFF), REDIRECT))
    (finding,) = of(checked, "P2P002")
    assert len(finding.subjects) == 16, "eight GPUs and eight NICs below four switches"
    assert finding.severity == "warning"


def test_an_identity_group_is_not_translated(tmp_path: Path) -> None:
    files = [
        nodes.Change(f"sys/bus/pci/devices/0000:03:00.0/{name}", text=f"{value}\n")
        for name, value in (("class", "0x030200"), ("vendor", "0x10de"), ("iommu_group/type", "identity"))
    ]
    checked = changed(tmp_path, "pcie-box", *files)
    assert of(checked, "P2P003") == []
    assert skips(checked, "P2P003") == []


def test_a_command_line_alone_does_not_say_that_the_iommu_translates(tmp_path: Path) -> None:
    checked = changed(
        tmp_path, "pcie-box", everywhere("pcie-box", "proc/cmdline", "iommu=pt amd_iommu=on", "amd_iommu=on")
    )
    assert of(checked, "P2P003") == []
    assert skips(checked, "P2P003")


def test_an_iommu_that_harms_nobody_does_not_hide_a_redirect(tmp_path: Path) -> None:
    text = (nodes.healthy("hgx-h100-pairs") / LSPCI).read_text().replace(OFF, REDIRECT)
    files = [
        nodes.Change(f"sys/bus/pci/devices/0000:18:00.0/{name}", text=f"{value}\n")
        for name, value in (("class", "0x030200"), ("vendor", "0x10de"), ("iommu_group/type", "DMA"))
    ]
    checked = changed(tmp_path, "hgx-h100-pairs", nodes.Change(LSPCI, text=text), *files)
    assert levels(checked, "P2P003") == ["info"]
    assert levels(checked, "P2P002") == ["warning"]


def test_an_iommu_that_corrupts_brings_the_redirect_along(tmp_path: Path) -> None:
    text = (nodes.healthy("pcie-box") / LSPCI).read_text().replace(OFF, REDIRECT)
    files = [
        nodes.Change(f"sys/bus/pci/devices/0000:03:00.0/{name}", text=f"{value}\n")
        for name, value in (("class", "0x030200"), ("vendor", "0x10de"), ("iommu_group/type", "DMA"))
    ]
    checked = changed(tmp_path, "pcie-box", nodes.Change(LSPCI, text=text), *files)
    (finding,) = of(checked, "P2P003")
    assert any(follows.startswith("P2P002") for follows in finding.follows)


def test_rounding_is_no_slow_link(tmp_path: Path) -> None:
    link = nodes.Change("nvidia-smi_nvlink_-s", at="^GPU 5:", replace="Link 3: 26.562 GB/s", by="Link 3: 25.781 GB/s")
    assert of(changed(tmp_path, "hgx-h100", link), "NVL003") == []


def test_a_whole_board_at_half_speed_has_no_equals_and_is_still_slow(tmp_path: Path) -> None:
    checked = changed(
        tmp_path, "hgx-h100", everywhere("hgx-h100", "nvidia-smi_nvlink_-s", "26.562 GB/s", "13.281 GB/s")
    )
    found = of(checked, "NVL003")
    assert len(found) == 8
    assert {f.expected_from for f in found} == {"the part"}


def matrix(folder: Path, cells: list[list[str]]) -> Checked:
    """A pasted matrix alone."""
    header = "\t" + "\t".join(f"GPU{i}" for i in range(len(cells)))
    rows = [f"GPU{i}\t" + "\t".join(row) for i, row in enumerate(cells)]
    path = folder / "nvidia-smi_topo_-m"
    path.write_text("\n".join([header, *rows]) + "\n")
    return check(str(path))


def test_bridged_pairs_ring_over_pcie_by_design(tmp_path: Path) -> None:
    cells = [[" X " if i == j else "NV4" if i // 2 == j // 2 else "SYS" for j in range(4)] for i in range(4)]
    assert levels(matrix(tmp_path, cells), "P2P004") == ["info"]


def test_a_cube_mesh_keeps_its_ring(tmp_path: Path) -> None:
    # DGX-1: two quads, each fully joined, and each GPU joined to its like in the other quad.
    near = [[i // 4 == j // 4 or abs(i - j) == 4 for j in range(8)] for i in range(8)]
    cells = [[" X " if i == j else "NV1" if near[i][j] else "SYS" for j in range(8)] for i in range(8)]
    assert of(matrix(tmp_path, cells), "P2P004") == []


def test_a_gpu_off_nvlink_is_said_once(tmp_path: Path) -> None:
    def cell(i: int, j: int) -> str:
        return " X " if i == j else "SYS" if 2 in (i, j) else "NV18"

    checked = matrix(tmp_path, [[cell(i, j) for j in range(8)] for i in range(8)])
    (finding,) = of(checked, "NVL001")
    assert finding.subjects == ("gpu2",)
    assert of(checked, "P2P004") == [], "every ring has to pass gpu2"
    assert any(follows.startswith("P2P004") for follows in finding.follows)


def test_a_gpu_that_is_passed_through_is_in_a_vm(tmp_path: Path) -> None:
    query = (nodes.healthy("p5-vm") / SMI).read_text()
    (tmp_path / SMI).write_text(query)
    checked = check(str(tmp_path))
    assert checked.report.virtual
    assert ("P2P002", "a VM needs ACS") in checked.report.not_applicable
    (tmp_path / SMI).write_text(query.replace(">Pass-Through<", ">None<"))
    assert not check(str(tmp_path)).report.virtual


def test_acs_needs_root(tmp_path: Path) -> None:
    text = (nodes.healthy("hgx-h100") / LSPCI).read_text()
    hidden = re.sub(r"(?m)^\tCapabilities: .*\n(?:\t\t.*\n)*", "\tCapabilities: <access denied>\n", text)
    checked = changed(tmp_path, "hgx-h100", nodes.Change(LSPCI, text=hidden))
    assert skips(checked, "P2P002") == ["no ACS in the input (lspci was run without root)"]


def test_a_fabric_manager_that_stopped_before_the_gpus_registered(tmp_path: Path) -> None:
    (log,) = nodes.edit("dgx-a100", "fabric-manager-of-another-version").changes
    assert of(changed(tmp_path / "registered", "hgx-h100", log), "NVL005") == []
    same = nodes.Change(log.file, text=(log.text or "").replace("570.86.15", "580.95.05"))
    checked = changed(tmp_path / "same", "dgx-a100", same)
    assert of(checked, "NVL005") == [] and checked.report.fabric_manager == "580.95.05"


def test_boards_that_are_no_cluster_are_in_none() -> None:
    checked = check(str(nodes.healthy("hgx-h100-pairs")))
    assert {g.gpu.fabric_cluster for g in checked.topology.gpus if g.gpu} == {False}
    assert of(checked, "NVL005") == []


def test_a_switch_that_states_less_than_all_around_it_is_not_believed(tmp_path: Path) -> None:
    """Its upstream port says 5 GT/s, root port and devices 32: what it says of its slots is not judged, and that is
    told."""

    def stated(block: str) -> str:
        block = re.sub(r"(?m)(^0000:16(?:.*\n)+?.*LnkCap:\t.*Speed )32GT/s", r"\g<1>5GT/s", block)
        block = re.sub(r"(?m)(^0000:17(?:.*\n)+?.*LnkCap:\t.*Speed )32GT/s", r"\g<1>16GT/s", block)
        below = re.match(r"\n?0000:1[789ab]:", block)
        return re.sub(r"(LnkSta:\tSpeed )32GT/s", r"\g<1>16GT/s", block) if below else block

    text = (nodes.healthy("hgx-h100-pairs") / LSPCI).read_text()
    lspci = nodes.Change(LSPCI, text="\n\n".join(map(stated, text.split("\n\n"))))
    checked = changed(tmp_path, "hgx-h100-pairs", lspci, drop=("dmesg", "nvidia-smi_-q"))
    assert of(checked, "PCI003") == []
    assert any("not believed" in reason for reason in skips(checked, "PCI003"))
