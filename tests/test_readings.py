"""What one reading proves and what takes two, or a time: slowdowns, replays, a fabric that comes up, old Xids.

Everything goes through `check` on a copy of one of our nodes with text changed in it.
"""

from __future__ import annotations

import re
from pathlib import Path

import nodes
import pytest
from asked import changed, everywhere, levels, of

SMI, DMESG = "nvidia-smi_-q_-x", "dmesg"
LAST_LINE = "[   13.500000]"


def test_a_slowdown_without_cause_or_on_all_is_info(tmp_path: Path) -> None:
    of_gpu3 = '<gpu id="00000000:5D:00.0">'
    plain = nodes.Change(SMI, at=of_gpu3, replace="hw_slowdown>Not Active<", by="hw_slowdown>Active<")
    assert levels(changed(tmp_path / "a", "hgx-h100", plain), "GPU006") == ["info"]
    brake = everywhere("hgx-h100", SMI, "(power_brake_slowdown>)Not Active", r"\g<1>Active")
    (finding,) = of(changed(tmp_path / "b", "hgx-h100", brake), "GPU006")
    assert (finding.severity, len(finding.subjects)) == ("info", 8)


@pytest.mark.parametrize(("later", "severity"), [("25", "info"), ("26", "warning")])
def test_replays_that_rise_between_two_listings(later: str, severity: str, tmp_path: Path) -> None:
    errors = (nodes.healthy("hgx-h100") / "nvidia-smi_nvlink_-e").read_text()
    at = errors.index("GPU 5:")
    listings = [
        nodes.Change(file, text=errors[:at] + errors[at:].replace("Replay Errors: 0", f"Replay Errors: {count}", 1))
        for file, count in (("nvidia-smi_nvlink_-e", "25"), ("nvidia-smi_nvlink_-e_later", later))
    ]
    (finding,) = of(changed(tmp_path, "hgx-h100", *listings), "NVL004")
    assert finding.severity == severity
    assert f"Replay Errors: {later}" in finding.evidence[0].text


def test_one_reading_of_a_slowdown_is_a_note(tmp_path: Path) -> None:
    fault = nodes.edit("hgx-h100", "gpu3-power-brake")
    once, again = fault.changes
    (finding,) = of(changed(tmp_path / "once", "hgx-h100", once), "GPU006")
    assert finding.severity == "info" and "in 1 of 1 readings" in finding.message
    later = nodes.Change(again.file, text=(again.text or "").replace(": Active", ": Not Active"))
    (finding,) = of(changed(tmp_path / "gone", "hgx-h100", once, later), "GPU006")
    assert finding.severity == "info" and "in 1 of 2 readings" in finding.message


def test_nvml_is_a_second_reading(tmp_path: Path) -> None:
    once = nodes.edit("hgx-h100", "gpu3-power-brake").changes[0]
    records = [f'{{"gpu": {i}, "clocks_event_reasons": {0x80 if i == 3 else 0}}}' for i in range(8)]
    nvml = nodes.Change("nvml.json", text="[\n" + ",\n".join(records) + "\n]\n")
    assert levels(changed(tmp_path, "hgx-h100", once, nvml), "GPU006") == ["warning"]


@pytest.mark.parametrize(
    ("replace", "by", "severities"),
    [
        (": 300", ": 60", ["info"]),  # 6 a minute
        ("03:14:06", "03:04:36", ["info"]),  # half a minute apart says little
        ("03:14:06", "02:54:06", ["info"]),  # of before, and cleared since
        ("Timestamp", "Time", ["info"]),
        (": 300", ": 0", []),
        (r"Reset( +): \d+", r"Reset\1: 300", ["info"] * 8),  # so on all
    ],
)
def test_replays_without_a_rate_are_a_note(replace: str, by: str, severities: list[str], tmp_path: Path) -> None:
    (listing,) = nodes.edit("hgx-h100", "gpu5-replays-rise").changes
    text = re.sub(replace, by, listing.text or "")
    assert text != listing.text
    checked = changed(tmp_path, "hgx-h100", nodes.Change(listing.file, text=text))
    assert levels(checked, "PCI007") == severities


def in_progress(gpus: int) -> nodes.Change:
    """So many GPUs of hgx-h100 that have not registered with the fabric yet."""
    text = (nodes.healthy("hgx-h100") / SMI).read_text()
    state = "<state>Completed</state>\n\t\t\t<status>Success</status>"
    return nodes.Change(SMI, text=text.replace(state, "<state>In Progress</state>\n\t\t\t<status>N/A</status>", gpus))


def test_a_fabric_that_comes_up_after_boot_is_read_again(tmp_path: Path) -> None:
    booting = changed(tmp_path / "boot", "hgx-h100", in_progress(8))
    assert levels(booting, "NVL005") == ["warning"] * 8 and booting.report.verdict == "degraded"
    assert all("read it again" in f.message for f in of(booting, "NVL005"))
    log = nodes.Change(DMESG, replace=LAST_LINE, by=f"[  601.000000] eth0: link up\n{LAST_LINE}")
    assert levels(changed(tmp_path / "early", "hgx-h100", in_progress(8), log), "NVL005") == ["warning"] * 8
    text = (nodes.healthy("hgx-h100") / DMESG).read_text()
    late = nodes.Change(DMESG, text=f"{text.rstrip()}\n[  601.000000] eth0: link up\n")
    assert levels(changed(tmp_path / "late", "hgx-h100", in_progress(8), late), "NVL005") == ["error"] * 8
    assert levels(changed(tmp_path / "two", "hgx-h100", in_progress(2)), "NVL005") == ["error"] * 2


def test_an_xid_of_before_the_drivers_load_is_a_note_with_its_age(tmp_path: Path) -> None:
    line = "NVRM: Xid (PCI:0000:bb:00): 79, pid=4711, name=python, GPU has fallen off the bus."
    reloaded = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build"
    text = (nodes.healthy("hgx-h100") / DMESG).read_text().rstrip()
    log = f"{text}\n[  900.000000] {line}\n[11700.000000] {reloaded}\n"
    (finding,) = of(changed(tmp_path, "hgx-h100", nodes.Change(DMESG, text=log)), "GPU004")
    assert (finding.severity, finding.subjects) == ("info", ("gpu5",))
    assert "the last 3 h before the driver was loaded again" in finding.message
