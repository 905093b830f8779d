"""Limits, clocks, memory errors and slowdowns in `nvidia-smi -q` and `-q -x`; the kernel's word on NUMA and IOMMU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from topocheck.facts import GpuState, Host, PciFunction
from topocheck.probes import host_files, smi_query, smi_query_xml, sysfs_pci
from topocheck.sources.open import open_source

TEXT = """==============NVSMI LOG==============

Attached GPUs                             : 1
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Persistence Mode                      : Enabled
{middle}
    Processes                             : None
"""
XML = """<?xml version="1.0" ?>
<nvidia_smi_log>
<gpu id="00000000:1B:00.0"><product_name>NVIDIA H100 80GB HBM3</product_name>{middle}</gpu>
</nvidia_smi_log>
"""


def from_text(middle: str) -> GpuState:
    (state,) = (f for f in smi_query.parse(TEXT.format(middle=middle)) if isinstance(f, GpuState))
    return state


def from_xml(middle: str) -> GpuState:
    (state,) = (f for f in smi_query_xml.parse(XML.format(middle=middle)) if isinstance(f, GpuState))
    return state


@pytest.mark.parametrize(
    ("field", "value", "text", "xml"),
    [
        (
            "power_limit_w",
            550.0,
            "    GPU Power Readings\n        Current Power Limit    : 550.00 W\n        Max Power Limit   : 700.00 W",
            "<gpu_power_readings><current_power_limit>550.00 W</current_power_limit></gpu_power_readings>",
        ),
        (
            "power_limit_w",
            300.0,
            "    Power Readings\n        Power Management  : Supported\n        Power Limit       : 300.00 W",
            "<power_readings><power_limit>300.00 W</power_limit></power_readings>",
        ),
        (
            "application_clock_mhz",
            1410,
            "    Applications Clocks\n        Graphics : 1410 MHz\n    Max Clocks\n        Graphics : 1980 MHz",
            "<applications_clocks><graphics_clock>1410 MHz</graphics_clock></applications_clocks>",
        ),
        (
            "ecc",
            False,
            "    ECC Mode\n        Current           : Disabled\n        Pending           : Enabled",
            "<ecc_mode><current_ecc>Disabled</current_ecc></ecc_mode>",
        ),
        (
            "remap_failed",
            True,
            "    Remapped Rows\n        Pending           : No\n        Remapping Failure Occurred : Yes",
            "<remapped_rows><remapped_row_failure>Yes</remapped_row_failure></remapped_rows>",
        ),
        (
            "remap_pending",
            True,
            "    Retired Pages\n        Single Bit ECC    : 0\n        Pending Page Blacklist : Yes",
            "<retired_pages><pending_blacklist>Yes</pending_blacklist></retired_pages>",
        ),
        (
            "recovery_action",
            "GPU Reset",
            "    GPU Reset Status\n        Reset Required    : Yes",
            "<gpu_reset_status><reset_required>Yes</reset_required></gpu_reset_status>",
        ),
    ],
)
def test_both_forms_say_the_same(field: str, value: Any, text: str, xml: str) -> None:
    assert getattr(from_text(text), field) == value
    assert getattr(from_xml(xml), field) == value
    assert field in from_text(text).lines


def test_uncorrectable_errors_since_the_load_are_added_up_and_older_ones_left_out() -> None:
    counts = "SRAM Uncorrectable Parity : 1\n            DRAM Correctable : 40\n            DRAM Uncorrectable : 2"
    middle = f"    ECC Errors\n        Volatile\n            {counts}\n        Aggregate\n            {counts}"
    state = from_text(middle)
    assert state.ecc_uncorrectable == 3
    assert "Uncorrectable" in state.lines["ecc_uncorrectable"].text
    old = "<ecc_errors><aggregate><dram_uncorrectable>9</dram_uncorrectable></aggregate></ecc_errors>"
    assert from_xml(old).ecc_uncorrectable is None


@pytest.mark.parametrize("word", ["Event", "Throttle"])
def test_reasons_to_slow_down_of_old_and_new_drivers(word: str) -> None:
    middle = (
        f"    Clocks {word} Reasons\n        Idle : Active\n        HW Slowdown : Active\n"
        "            HW Thermal Slowdown : Active\n            HW Power Brake Slowdown : Not Active"
    )
    assert from_text(middle).slowdowns == {"HW Slowdown", "HW Thermal Slowdown"}
    reason = f"clocks_{word.lower()}_reason"
    xml = f"<{reason}s><{reason}_hw_power_brake_slowdown>Active</{reason}_hw_power_brake_slowdown></{reason}s>"
    assert from_xml(xml).slowdowns == {"HW Power Brake Slowdown"}


def test_not_available_is_unknown() -> None:
    middle = (
        "    ECC Mode\n        Current : N/A\n    Remapped Rows : N/A\n    GPU Power Readings\n"
        "        Current Power Limit : N/A\n    Clocks Event Reasons : N/A"
    )
    state = from_text(middle)
    assert (state.ecc, state.remap_failed, state.power_limit_w, state.slowdowns) == (None, None, None, None)
    assert state.persistence is True


def test_the_tree_says_what_the_iommu_and_numa_do(tmp_path: Path) -> None:
    device = tmp_path / "sys/bus/pci/devices/0000:1b:00.0"
    files = {
        device / "class": "0x030200",
        device / "vendor": "0x10de",
        device / "iommu_group/type": "DMA-FQ",
        tmp_path / "proc/sys/kernel/numa_balancing": "1",
    }
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    source = open_source(str(tmp_path))
    (gpu,) = (f for f in sysfs_pci.read(source) if isinstance(f, PciFunction))
    assert (gpu.bdf, gpu.iommu_type) == ("0000:1b:00.0", "DMA-FQ")
    (host,) = (f for f in host_files.read(source) if isinstance(f, Host) and f.numa_balancing is not None)
    assert host.numa_balancing == 1
