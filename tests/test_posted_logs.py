"""Kernel logs as lists and forums print them: a few lines, wrapped, without their times.

Machines and identifiers are made up; the shapes are those of the posts.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from posts import CARD, found, posted

from topocheck.check import check

RECEIVED = "pcieport 0000:00:01.1: AER: Corrected error received: 0000:2a:00.0"
REPORTED = "nvidia 0000:2a:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)"


@pytest.mark.parametrize(
    "log",
    [
        f"[  173.223920] {RECEIVED}\n[  173.223933] {REPORTED}\n",
        f"[Thu Aug 12 14:10:22 2027] {RECEIVED}\n[Thu Aug 12 14:10:22 2027] {REPORTED}\n",
        f"[Aug12 14:10] usb 1-1: reset\n[  +0,000014] {RECEIVED}\n[  +0,000003] {REPORTED}\n",
        f"> [  173.223920] {RECEIVED}\n> [  173.223933] {REPORTED}\n".replace("received: ", "received:\n> ").replace(
            "Error: ", "Error:\n> "
        ),
        f"Jan  5 06:18:52 a kernel: {RECEIVED}\nJan  5 06:18:52 a kernel: {REPORTED}\n".replace(": AER", ":\nAER"),
    ],
    ids=["plain", "-T", "-H", "mail", "wrapped"],
)
def test_errors_of_a_card_in_every_clothing_of_the_log(tmp_path: Path, log: str) -> None:
    for text, subject in ((log, "0000:2a:00.0"), (f"{log}$ lspci\n{CARD}", "gpu0")):
        findings = [f for f in posted(tmp_path, text).findings if f.rule == "PCI007"]
        assert [(f.severity, f.subjects) for f in findings] == [("info", (subject,))]
        assert "2 corrected" in findings[0].message


@pytest.mark.parametrize("device", ["2a:00.0", "0x2a:0x00.0"])
def test_both_spellings_of_a_fault_of_the_iommu(tmp_path: Path, device: str) -> None:
    text = (
        f"[  20.100000] DMAR: [DMA Read NO_PASID] Request device [{device}] fault addr 0xfff01000 [fault reason 0x05]"
    )
    path = tmp_path / "dmesg"
    path.write_text(text)
    assert [event.bdf for event in check(str(path)).topology.events] == ["0000:2a:00.0"]


INIT = "[  20.100000] NVRM: GPU 0000:2a:00.0: RmInitAdapter failed! (0x26:0x56:1474)\n"
NO_BAR = (
    "[   9.200000] NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\n"
    "               NVRM: BAR1 is 0M @ 0x0 (PCI:0000:2a:00.0)\n"
)
OFF_BUS = (
    "[   9.300000] NVRM: The NVIDIA GPU 0000:2a:00.0\n               NVRM: (PCI ID: 10de:2204) installed in this system"
    " has\n               NVRM: fallen off the bus and is not responding to commands.\n"
)
LOST = "[  80.000000] NVRM: GPU 0000:2a:00.0: GPU has fallen off the bus.\n"
FOUND = "[    1.100000] pci 0000:2a:00.0: [10de:2204] type 00 class 0x030000 PCIe Legacy Endpoint\n"
FULL = "[    1.200000] pci 0000:2a:00.0: BAR 1 [mem size 0x10000000 64bit pref]: failed to assign\n"
OLD_FULL = "[    1.200000] pci 0000:2a:00.0: BAR 1: failed to assign [mem size 0x10000000 64bit pref]\n"
GIVEN = "[    1.300000] pci 0000:2a:00.0: BAR 1 [mem 0x6000000000-0x600fffffff 64bit pref]: assigned\n"
UNSUPPORTED = OFF_BUS.replace("fallen off the bus and is not responding to commands.", "is not supported by it.")
LOAD = "[  19.000000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\n"
RELOAD = LOAD.replace("19.0", "90.0")


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (LOAD + INIT, "RmInitAdapter failed"),
        (LOAD + INIT + RELOAD, None),
        (NO_BAR + LOAD, "a memory BAR has no address"),
        (OFF_BUS + LOAD, "fallen off the bus"),
        (OFF_BUS.replace("\n               NVRM:", ""), "fallen off the bus"),
        (UNSUPPORTED, None),
        ("[   9.400000] nvidia: probe of 0000:2a:00.0 failed with error -1\n", "its probe failed"),
        ("[   9.400000] nvidia 0000:2a:00.0: probe with driver nvidia failed with error -1\n", "its probe failed"),
        (NO_BAR + "[   9.400000] nvidia: probe of 0000:2a:00.0 failed with error -1\n", "a memory BAR has no address"),
        ("[   9.400000] nvme: probe of 0000:2a:00.0 failed with error -1\n", None),
        (LOAD + "[  19.500000] nvidia 0000:2a:00.0: vgaarb: VGA decodes changed\n", None),
        (LOAD + LOST, "fallen off the bus"),
        (LOST.replace("0000:2a:00.0: GPU", "at 0000:2a:00.0"), "fallen off the bus"),
        (LOST.replace("0000:2a:00.0: GPU", "at PCI:0000:2a:00.0"), "fallen off the bus"),
        (LOAD + LOST + RELOAD, None),
        (INIT[14:], "RmInitAdapter failed"),
        (f"3,1042,8462102,-;{INIT[14:]}", "RmInitAdapter failed"),
        (FOUND + FULL, "a memory BAR has no address"),
        (FOUND + OLD_FULL, "a memory BAR has no address"),
        (FOUND + FULL + GIVEN, None),
        (FOUND + FULL.replace("BAR 1", "VF BAR 1"), None),
        (FOUND + FULL.replace("[mem", "[io "), None),
        (FOUND + FULL.replace("pci ", "nvidia "), None),
        (FULL.replace("2a:00.0", "2a:00.1"), None),
        (FOUND + FULL + "[    0.000000] Linux version 6.8.0 (a@b) (gcc) #1 SMP\n" + FOUND, None),
    ],
)
def test_a_gpu_that_the_driver_could_not_initialise(tmp_path: Path, log: str, words: str | None) -> None:
    for text, subject in ((CARD + log, "gpu0"), (log, "0000:2a:00.0")):
        findings = [f for f in posted(tmp_path, text).findings if f.rule == "GPU003"]
        assert [(f.severity, f.subjects) for f in findings] == ([("warning", (subject,))] if words else [])
        assert all(f"({words})" in f.message and f.evidence[0].text in log for f in findings)


def test_what_nvidia_smi_shows_counts_more_than_an_old_line_of_the_log(tmp_path: Path) -> None:
    text = f"{CARD}{LOAD}{INIT}\nGPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-0a1b2c3d-0000-1111-2222-333344445555)\n"
    assert found(posted(tmp_path, text), "GPU003") == set()


def test_an_xid_says_why_a_gpu_could_not_be_initialised(tmp_path: Path) -> None:
    xid = "[  19.900000] NVRM: Xid (PCI:0000:2a:00): 79, pid=0, GPU has fallen off the bus.\n"
    report = posted(tmp_path, CARD + LOAD + xid + INIT)
    assert found(report, "GPU003") == set() and found(report, "GPU004") == {"gpu0"}


def test_a_bar_without_room_is_of_a_gpu_where_something_says_so(tmp_path: Path) -> None:
    assert found(posted(tmp_path, FULL), "GPU003") == set()
    assert found(posted(tmp_path, CARD + "\n" + FULL), "GPU003") == {"gpu0"}
    bound = CARD + "\tKernel driver in use: nvidia\n\n"
    assert found(posted(tmp_path, bound + FULL), "GPU003") == set()
    nic = CARD.replace("VGA compatible controller: NVIDIA", "Ethernet controller: Intel")
    assert found(posted(tmp_path, nic + "\n" + FULL), "GPU003") == set()


MISMATCH = "[  30.000000] NVRM: API mismatch: the client has the version 535.104.05, but\n"
TAKEN = "[  30.000000] NVRM: The NVIDIA probe routine was not called for 1 device(s).\n"
PASSED = "[  29.900000] NVRM: GPU 0000:2a:00.0 is already bound to vfio-pci.\n"
SEEN = "\nGPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-0a1b2c3d-0000-1111-2222-333344445555)\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LOAD + MISMATCH, "its libraries are of another version"),
        (LOAD + MISMATCH + RELOAD, None),
        (LOAD + MISMATCH + SEEN, None),
        (TAKEN, "another driver has it"),
        (PASSED + TAKEN, None),
        (TAKEN + SEEN, None),
    ],
)
def test_a_driver_that_cannot_use_some_gpu_the_log_names_not(tmp_path: Path, text: str, words: str | None) -> None:
    findings = [f for f in posted(tmp_path, text).findings if f.rule == "GPU003"]
    assert [(f.severity, f.subjects) for f in findings] == ([("warning", ())] if words else [])
    assert all(f"({words})" in f.message for f in findings)


def test_which_driver_has_a_gpu_is_told_once(tmp_path: Path) -> None:
    text = f"{CARD}\tKernel driver in use: nouveau\n\n2b:00.0 USB controller: AMD USB\n\n{TAKEN}"
    [finding] = [f for f in posted(tmp_path, text).findings if f.rule == "GPU003"]
    assert "bound to nouveau" in finding.message


def test_the_log_names_the_gpu_that_nvidia_smi_does_not_find(tmp_path: Path) -> None:
    [finding] = [
        f for f in posted(tmp_path, f'nvidia-smi says "No devices were found"\n\n{INIT}').findings if f.rule == "GPU003"
    ]
    assert (finding.severity, finding.subjects) == ("error", ("0000:2a:00.0",))
    assert "(No devices were found)" in finding.message


def test_a_lost_gpu_is_told_of_once(tmp_path: Path) -> None:
    xid = "[  79.900000] NVRM: Xid (PCI:0000:2a:00): 79, pid=0, GPU has fallen off the bus.\n"
    report = posted(tmp_path, LOAD + xid + LOST)
    assert found(report, "GPU003") == set() and found(report, "GPU004") == {"0000:2a:00.0"}


@pytest.mark.parametrize(
    ("log", "rule"),
    [
        (LOAD + INIT.replace("RmInitAdapter ", "RmInitAdapter\n> "), "GPU003"),
        (LOAD + INIT.replace("GPU 0000:2a:00.0: ", "GPU 0000:2a:00.0:\n"), "GPU003"),
        (LOAD + LOST.replace("has fallen", "has\nfallen"), "GPU003"),
        (FOUND + FULL.replace("failed to ", "failed to\n"), "GPU003"),
        (FOUND + OLD_FULL.replace("failed ", "\nfailed "), "GPU003"),
        ("[  79.900000] NVRM: Xid (PCI:0000:2a:00):\n79, pid=0, GPU has fallen off the bus.\n", "GPU004"),
        ("[  79.900000] NVRM: Xid\n(PCI:0000:2a:00): 79, pid=0, GPU has fallen off the bus.\n", "GPU004"),
    ],
)
def test_lines_about_a_gpu_that_a_margin_broke(tmp_path: Path, log: str, rule: str) -> None:
    assert found(posted(tmp_path, log), rule) == {"0000:2a:00.0"}


def test_a_mail_whose_encoding_shows_in_its_soft_breaks_alone(tmp_path: Path) -> None:
    line = "[    1.081209] kernel: pci 0000:2a:00.0: 126.024 Gb/s available PCIe bandwi=\ndth, limited by 32.0 GT/s"
    rest = " PCIe x4 link at 0000:20:03.1 (capable of 504.112 =\nGb/s with 32.0 GT/s PCIe x16 link)\n"
    text = f"Subject: [Bug 1] New: slow card\nContent-Transfer-Encoding: quoted-printable\n\n{line}{rest}"
    assert found(posted(tmp_path, text), "PCI003") == {"0000:2a:00.0"}
