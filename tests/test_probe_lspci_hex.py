"""Config space in hex: offsets and codes from the PCI Express Base Specification, chapter 7."""

from __future__ import annotations

import struct

import pytest

from topocheck.check import check
from topocheck.facts import PciFunction, PciListing
from topocheck.probes import lspci_hex

GEN4, GEN3 = 4, 3  # link speed codes


def config(
    device: int, class_: int, port_type: int, can: tuple[int, int], now: tuple[int, int], buses=(0, 0, 0)
) -> bytes:
    space = bytearray(256)
    struct.pack_into("<HHHH", space, 0, 0x10DE if class_ == 0x0302 else 0x10B5, device, 0x0406, 0x0010)
    struct.pack_into("<BBHBBB", space, 8, 0xA1, 0, class_, 0, 0, 1 if class_ == 0x0604 else 0)
    space[0x18:0x1B] = bytes(buses)
    space[0x34] = 0x60
    struct.pack_into("<BBH", space, 0x60, 0x10, 0, 2 | port_type << 4)
    struct.pack_into("<I", space, 0x60 + 0x0C, can[0] | can[1] << 4)
    struct.pack_into("<H", space, 0x60 + 0x12, now[0] | now[1] << 4)
    return bytes(space)


def dump(space: bytes) -> str:
    rows = (space[i : i + 16].hex(" ") for i in range(0, len(space), 16))
    return "".join(f"{i * 16:02x}: {row}\n" for i, row in enumerate(rows)) + "\n"


GPU = config(0x20B0, 0x0302, 0, (GEN4, 16), (GEN4, 8))
PORT = config(0x9765, 0x0604, 6, (GEN4, 16), (GEN4, 8), (0x1A, 0x1B, 0x1B))
VERBOSE = "\tFlags: bus master, fast devsel, latency 0\n\tCapabilities: [60] Express Endpoint, MSI 00\n"
BRIDGE = VERBOSE.replace("Endpoint", "Downstream Port (Slot+)")
OLD = (
    f"1b:00.0 3D controller: NVIDIA Corporation GA100 [A100 SXM4 80GB] (rev a1)\n{VERBOSE}{dump(GPU)}"
    f"1a:04.0 PCI bridge: PLX Technology, Inc. Device 9765 (rev a1)\n{BRIDGE}{dump(PORT)}"
)
OF_SYSFS = (
    f"0000:1b:00.0 030200: Vendor 10de Device 20b0 (rev a1)\n{dump(GPU)}"
    f"0000:1a:04.0 060400: Vendor 10b5 Device 9765 (rev a1)\n{dump(PORT)}"
)


@pytest.mark.parametrize("text", [OLD, OF_SYSFS])
def test_the_link_of_a_gpu_and_of_the_port_above_are_in_the_bytes(text):
    facts = {fact.bdf: fact for fact in lspci_hex.parse(text) if isinstance(fact, PciFunction)}
    gpu, port = facts["0000:1b:00.0"], facts["0000:1a:04.0"]
    assert (gpu.vendor_id, gpu.device_id, gpu.class_id, gpu.port_type) == ("10de", "20b0", "0302", "endpoint")
    assert (gpu.max_speed_gts, gpu.max_width, gpu.speed_gts, gpu.width) == (16.0, 16, 16.0, 8)
    assert (port.port_type, port.secondary_bus, port.width) == ("downstream", 0x1B, 8)
    assert (gpu.lines["header"].line, gpu.lines["LnkSta"].line) == (1, None)
    assert gpu.lines["LnkSta"].text == "config space of 0000:1b:00.0: speed_gts 16.0, width 8"


def test_a_bug_report_of_old_shows_a_narrow_link_by_its_bytes(tmp_path):
    rule = "_" * 44
    text = f'{rule}\n\nStart of NVIDIA bug report log file.\n\n{rule}\n\n/sbin/lspci -d "10de:*" -v -xxx\n\n{OLD}\n'
    (tmp_path / "nvidia-bug-report.log").write_text(f"{text}{rule}\n\nEnd of NVIDIA bug report log file.\n")
    report = check(str(tmp_path / "nvidia-bug-report.log")).report
    (finding,) = report.findings
    assert (finding.rule, finding.subjects) == ("PCI001", ("gpu0",))
    assert not report.gaps


def test_a_space_that_is_cut_counts_to_its_last_whole_size():
    cut = OLD[: OLD.index("90: ")]
    facts = [fact for fact in lspci_hex.parse(cut) if isinstance(fact, PciFunction)]
    assert [(fact.vendor_id, fact.max_width) for fact in facts] == [("10de", None)]
    assert list(lspci_hex.parse("00: de 10\nnothing\n")) == []


def test_a_gpu_that_fell_off_the_bus_reads_ones():
    lost = f"1b:00.0 3D controller: NVIDIA Corporation Device 20b0 (rev ff)\n{dump(bytes([255]) * 256)}"
    (gpu, listing) = lspci_hex.parse(lost)
    assert isinstance(gpu, PciFunction) and gpu.dead
    assert isinstance(listing, PciListing) and not listing.whole
