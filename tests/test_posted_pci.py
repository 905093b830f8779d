"""lspci as lists, forums and scripts print it: cut to a few lines, wrapped, behind other words.

Machines and identifiers are made up; the shapes are those of the posts.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from posts import CARD, found, posted

from topocheck.facts import NumaNode
from topocheck.probes import numactl

GPU = "VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)"
NARROW = (
    "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1\n\t\tLnkSta:\tSpeed 16GT/s (ok), Width x8 (downgraded)\n"
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Card: ", ""),
        ("# ", ""),
        ("IOMMU Group 29 ", ""),
        ("- **Device:** `", "`"),
        ("and this is the other card: ", ""),
    ],
)
def test_a_device_line_behind_other_words(tmp_path: Path, before: str, after: str) -> None:
    text = "".join(f"{before}{bus}:00.0 {GPU}{after}\n{NARROW}\n" for bus in ("2a", "2b"))
    report = posted(tmp_path, text)
    assert [d.bdf for d in report.devices if d.kind == "gpu"] == ["0000:2a:00.0", "0000:2b:00.0"]
    assert found(report, "PCI003") == {"gpu0", "gpu1"}


def test_an_address_by_itself_above_its_fields(tmp_path: Path) -> None:
    # for x in 2a:00.0 2b:00.0; do echo $x; lspci -vv -s $x | grep Lnk; done
    listing = "".join(f"{bus}:00.0 {GPU}\n" for bus in ("2a", "2b"))
    report = posted(tmp_path, f"{listing}\n2a:00.0\n{NARROW}2b:00.0\n{NARROW.replace('x8 (downgraded)', 'x16 (ok)')}")
    assert found(report, "PCI003") == {"gpu0"}
    assert not report.gaps


def test_an_address_before_each_field(tmp_path: Path) -> None:
    # for x in …; do lspci -vv -s $x | grep Lnk | sed "s/^/$x /"; done
    listing = "".join(f"{bus}:00.0 {GPU}\n" for bus in ("2a", "2b"))
    fields = "".join(f"2a:00.0 {line.strip()}\n0000:2b:00.0: {line.strip()}\n" for line in NARROW.splitlines())
    report = posted(tmp_path, listing + fields)
    assert [d.model for d in report.devices] == ["NVIDIA Corporation GA102 [GeForce RTX 3090]"] * 2
    assert found(report, "PCI003") == {"gpu0", "gpu1"}


@pytest.mark.parametrize(
    ("places", "gpus"),
    [
        (("2a:00.0", "2a:00.4", "2a:00.5", "2a:01.0"), ["0000:2a:00.0"]),
        (("2a:00.0", "2a:01.0"), ["0000:2a:00.0", "0000:2a:01.0"]),  # a guest's bus of conventional PCI
        (("00:04.0", "00:05.0"), ["0000:00:04.0", "0000:00:05.0"]),
    ],
)
def test_virtual_functions_of_a_gpu_are_no_gpus(tmp_path: Path, places: tuple[str, ...], gpus: list[str]) -> None:
    text = "".join(f"{place} 3D controller: NVIDIA Corporation GA102GL [RTX A5000] (rev a1)\n" for place in places)
    assert [d.bdf for d in posted(tmp_path, text).devices] == gpus


@pytest.mark.parametrize(
    ("address", "width", "subjects"),
    [
        ("2a:00.0", "x16", {"0000:2a:00.0"}),
        ("2a:00.0", "x4", set()),  # cannot more
        ("2a:00.0", "x8", set()),  # no card that GPUs and NICs are: a disk, a RAID
        ("00:01.0", "x16", set()),  # a root port above a card of four lanes
    ],
)
def test_a_card_that_only_its_address_names(tmp_path: Path, address: str, width: str, subjects: set[str]) -> None:
    fields = f"\tLnkCap: Speed 16GT/s, Width {width}\n\tLnkSta: Speed 16GT/s, Width x4\n"
    report = posted(tmp_path, f"# lspci -s {address} -vv | grep Lnk\n{fields}")
    assert found(report, "PCI003") == subjects
    assert all(f.severity == "warning" and f.confidence == "low" for f in report.findings)


@pytest.mark.parametrize(
    ("kind", "subjects"),
    [
        ("[10de:2204] type 00 class 0x030000", {"0000:2a:00.0"}),
        ("[15b3:1021] type 00 class 0x020700", {"0000:2a:00.0"}),
        ("[1002:73bf] type 00 class 0x030000", set()),
        ("[1002:1478] type 01 class 0x060400", set()),
        ("[10de:1aef] type 00 class 0x040300", set()),
    ],
)
def test_what_the_kernel_found_where_its_line_says_limited(tmp_path: Path, kind: str, subjects: set[str]) -> None:
    text = (
        f"[    0.5] pci 0000:2a:00.0: {kind} PCIe Endpoint\n".replace("0.5", "0.500000")
        + "[    0.600000] pci 0000:2a:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at "
        "0000:00:01.0 (capable of 126.016 Gb/s with 8.0 GT/s PCIe x16 link)\n"
    )
    assert found(posted(tmp_path, text), "PCI003") == subjects


def test_the_lanes_of_a_card_whose_speed_its_lspci_did_not_know(tmp_path: Path) -> None:
    text = (
        "00:02.0 PCI bridge: Intel Corporation Xeon E5/Core i7 IIO PCI Express Root Port 2a (rev 07)\n"
        "\tBus: primary=00, secondary=08, subordinate=08, sec-latency=0\n"
        "\tCapabilities: [90] Express (v2) Root Port (Slot+), MSI 00\n"
        "\t\tLnkCap: Port #2, Speed unknown, Width x16, ASPM L0s L1\n\t\tLnkSta: Speed 5GT/s, Width x4, TrErr- Train-\n"
        "08:00.0 Network controller: Mellanox Technologies MT27500 Family [ConnectX-3]\n"
        "\t\tLnkCap: Port #8, Speed unknown, Width x8, ASPM L0s\n\t\tLnkSta: Speed 5GT/s, Width x4, TrErr- Train-\n"
    )
    report = posted(tmp_path, text)
    assert found(report, "PCI001") == {"0000:08:00.0"} and not found(report, "PCI002")


def test_a_memory_bar_without_an_address_behind_one_that_has(tmp_path: Path) -> None:
    # lspci -v has no "Region 1:"; as in a guest whose firmware has no room for the third of its GPUs.
    bars = "\tMemory at db000000 (32-bit, non-prefetchable) [size=16M]\n\tMemory at {} (64-bit, prefetchable)\n"
    cards = {"01": "2000000000", "02": "4000000000", "0c": "<ignored>"}
    text = "".join(
        f"{bus}:00.0 3D controller: NVIDIA Corporation Device 20b2 (rev a1)\n{bars.format(at)}"
        for bus, at in cards.items()
    )
    findings = [f for f in posted(tmp_path, text).findings if f.rule == "GPU003"]
    assert [(f.severity, f.subjects) for f in findings] == [("error", ("gpu2",))]
    assert "<ignored>" in findings[0].evidence[0].text


def test_a_name_that_a_quoted_mail_wrapped(tmp_path: Path) -> None:
    quote = "> > > > "
    text = f"{quote}01:00.0 VGA compatible controller: NVIDIA Corporation GA104\n{quote}[GeForce RTX 3070] (rev a1)\n"
    (gpu,) = posted(tmp_path, text).devices
    assert gpu.model == "NVIDIA Corporation GA104 [GeForce RTX 3070]"


def test_an_infiniband_card_of_the_class_of_its_time(tmp_path: Path) -> None:
    text = (
        "05:00.0 InfiniBand [0c06]: Mellanox Technologies MT26428 [ConnectX VPI PCIe 2.0 5GT/s] [15b3:673c] (rev b0)\n"
    )
    assert [d.kind for d in posted(tmp_path, text).devices] == ["nic"]


def test_a_mail_in_its_transfer_encoding(tmp_path: Path) -> None:
    text = (
        "Content-Transfer-Encoding: quoted-printable\n\nSee=20this:\n\n"
        f"2a:00.0 {GPU[:44]}=\n{GPU[44:]}\n\tLnkCap:=C2=A0Port #0, Speed 16GT/s, Wid=\nth x16\n"
        "\tLnkSta: Speed 16GT/s, Width x8\n\tPBA: BAR=3D3\n"
    )
    report = posted(tmp_path, text)
    assert found(report, "PCI003") == {"gpu0"}
    assert [line.line for f in report.findings for line in f.evidence] == [9]


DEAD = "{} Unassigned class [ffff]: {} (rev ff) (prog-if ff)\n\t!!! Unknown header type 7f\n\n"


def test_cards_that_are_gone_are_known_by_name_where_their_class_reads_as_ones_too(tmp_path: Path) -> None:
    names = ("Mellanox Technologies MT27800 Family [ConnectX-5] [15b3:1017]", "NVIDIA Corporation GP102 [TITAN X]")
    text = "".join(DEAD.format(f"{bus}:00.0", name) for bus, name in zip(("3b", "af"), names, strict=True))
    report = posted(tmp_path, CARD + "\n" + text)
    gone = {(f.rule, f.severity, f.subjects) for f in report.findings if f.rule in ("NET005", "GPU001")}
    assert gone == {("NET005", "warning", ("0000:3b:00.0",)), ("GPU001", "error", ("gpu1",))}
    assert "reads all ones" in next(f.message for f in report.findings if f.rule == "NET005")


@pytest.mark.parametrize("between", ["    ", " | ", ", "])
@pytest.mark.parametrize("header", ["0000:2a:00.0  ", CARD + "\t"])
def test_both_fields_of_a_link_on_one_line(tmp_path: Path, header: str, between: str) -> None:
    fields = f"LnkCap: Speed 16GT/s, Width x16{between}LnkSta: Speed 16GT/s, Width x4 (downgraded)\n"
    [finding] = [f for f in posted(tmp_path, header + fields).findings if f.rule == "PCI003"]
    assert "4.0 x4" in finding.message and "4.0 x16" in finding.message


def test_a_tree_with_the_domain_before_each_bus_and_names_without_brackets(tmp_path: Path) -> None:
    tree = (
        "-[0000:00]-+-00.0  Intel Corporation Mobile 945GM Express Memory Controller Hub\n"
        "           +-01.0-[0000:01]----00.0  nVidia Corporation GeForce Go 7700\n"
        "           +-1c.3-[0000:04-05]--\n"
        "           \\-1e.0-[0000:06]--+-00.0  Ricoh Co Ltd R5C832 IEEE 1394 Controller\n"
        "                             \\-00.2  Ricoh Co Ltd R5C592 Memory Stick Bus Host Adapter\n"
    )
    report = posted(tmp_path, tree)
    assert [device.bdf for device in report.devices] == ["0000:01:00.0"] and report.gaps == ()


def test_a_tree_of_several_host_bridges_is_not_hidden(tmp_path: Path) -> None:
    root = "+-[0000:{}]-+-00.0-[{}]----00.0  NVIDIA Corporation Device 2330\n"
    nic = " |           \\-01.0-[{}]----00.0  Mellanox Technologies MT2910 ConnectX-7\n"
    text = "".join(
        " -"[bus == "ae"] + root.format(bus, f"{int(bus, 16) + 1:02x}") + nic.format(f"{int(bus, 16) + 2:02x}")
        for bus in ("ae", "64", "19")
    )
    last = " \\-[0000:00]-+-1d.0-[03]----00.0  Samsung Electronics NVMe SSD Controller PM1733\n"
    report = posted(tmp_path, text + last)
    assert len(report.devices) == 6 and found(report, "VIRT001") == set()


def test_the_distances_of_numactl_without_its_nodes_and_of_the_larger_of_two_tables(tmp_path: Path) -> None:
    small = "node distances:\nnode   0   1\n  0:  10  21\n  1:  21  10\n"
    large = "node distances:\nnode     0    1    2\n0:   \t10   15   17\n1:   \t15   10   15\n2:   \t17   15   10\n"
    for text in (large, small + "\nAfter the memory was added:\n\n" + large):
        facts = [fact for fact in numactl.parse(text) if isinstance(fact, NumaNode)]
        assert next(fact.distances for fact in facts) == ((0, 10), (1, 15), (2, 17)) and len(facts) == 3
    assert posted(tmp_path, "".join(f"> {line}\n" for line in large.splitlines())).recognised


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("GM108M [GeForce 940MX]", "warning"),
        ("AD107M [GeForce RTX 4060 Max-Q / Mobile]", "warning"),
        ("GM204", "error"),
    ],
)
def test_a_laptop_powers_its_gpu_off(tmp_path: Path, name: str, severity: str) -> None:
    report = posted(tmp_path, f"01:00.0 3D controller: NVIDIA Corporation {name} (rev ff)\n")
    assert [(f.severity, f.subjects) for f in report.findings if f.rule == "GPU001"] == [(severity, ("gpu0",))]


def test_a_tree_in_a_comment(tmp_path: Path) -> None:
    tree = (
        "# -[0000:00]-+-00.0  Advanced Micro Devices, Inc. [AMD] Family 16h Processor Root Complex\n"
        "#            +-01.0-[01]----00.0  NVIDIA Corporation GA102 [GeForce RTX 3090]\n"
        "#            \\-02.0-[02]----00.0  NVIDIA Corporation GA102 [GeForce RTX 3090]\n# lspci -k\n"
    )
    for text in (tree, "    " + tree.replace("\n", "\n    ")):
        assert [device.bdf for device in posted(tmp_path, text).devices] == ["0000:01:00.0", "0000:02:00.0"]


@pytest.mark.parametrize("cited", ["| ", ">| "])
def test_lines_that_are_cited_with_a_bar(tmp_path: Path, cited: str) -> None:
    text = f"3b:00.0 {GPU}\n\tKernel driver in use: nvidia\n{NARROW}"
    report = posted(tmp_path, "".join(f"{cited}{line}\n" for line in text.splitlines()))
    assert found(report, "PCI003") == {"gpu0"}
