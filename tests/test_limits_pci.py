"""Where the rules of uplinks, payload, PCIe errors and relaxed ordering begin to speak: at the limits of rules.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from boards import Board, gpus, hgx, placed, unsaid
from nodesim.spec import Gpu, HostBridge, Link, Node, Switch

from topocheck.facts import Evidence, GpuState, LogEvent, PciFunction, PciListing
from topocheck.model import Scenario
from topocheck.patches import OwnUplink, SetPayload, SetPci

# --- PCI005: achievable GB/s of x16: Gen4 26.0, Gen5 53.8


def groups(*sizes: int, uplink_gen: int = 4) -> Node:
    """Switches with so many Gen4 cards each."""
    bridges, first = [], 0
    for i, size in enumerate(sizes):
        cards = tuple(Gpu(f"g{first + k}", "l40s", Link(4)) for k in range(size))
        bridges.append(HostBridge(f"b{i}", 0, (Switch(f"s{i}", cards, Link(uplink_gen), 5),)))
        first += size
    return Node(bridges=tuple(bridges), sockets=1)


def shared(node: Node) -> list[tuple[str, tuple[str, ...]]]:
    return [(f.severity, f.subjects) for f in placed(node).said("PCI005")]


def test_pci005_alike_for_all_is_one_note() -> None:
    board = placed(groups(2, 2))
    (found,) = board.said("PCI005")
    assert (found.severity, found.subjects) == ("info", ("gpu0", "gpu1", "gpu2", "gpu3"))
    assert (found.expected_from, found.covers, found.price_kind) == (None, frozenset(), "computed")
    assert found.scenarios == (Scenario("gpu-host", "gpu0"),)
    assert found.patches == tuple(OwnUplink(f"gpu{i}") for i in range(4))
    assert [line.text for line in found.evidence] == ["LnkSta: Speed 16GT/s, Width x16"] * 2
    assert "gpu0, gpu1, gpu2, gpu3, 2 on each PCIe 4.0 x16 uplink as built" in found.message
    (many,) = placed(groups(3, 3)).said("PCI005")
    assert "gpu0 to gpu5 (6 GPUs), 3 on each" in many.message


def test_pci005_an_uplink_that_carries_them_all() -> None:
    """Two cards of 26.0 on 53.8; three are 17.9 each."""
    assert shared(groups(2, 2, uplink_gen=5)) == []
    assert [s for s, _ in shared(groups(3, 3, uplink_gen=5))] == ["info"]
    eights = groups(2, 2)
    for uid in gpus(4):
        eights = eights.changed(uid, lambda gpu: replace(gpu, link=Link(4, 8)))
    assert shared(eights) == [], "half of x16 is what x8 can"
    assert shared(groups(1, 1, 1)) == [] and shared(groups(1, 1, uplink_gen=3)) == [], "nobody shares"


@pytest.mark.parametrize(
    ("sizes", "grave"),
    [
        ((2, 1, 1), ["gpu0", "gpu1"]),  # two of three equals have an uplink of their own
        ((2, 1), []),  # one of two
        ((3, 2, 1), []),  # of five equals three share with fewer, of the pair's two do
        ((2, 2, 1, 1), []),  # two of five
        ((3, 1, 1, 1), ["gpu0", "gpu1", "gpu2"]),  # three of five
    ],
)
def test_pci005_half_of_the_equals_and_two_share_with_fewer(sizes: tuple[int, ...], grave: list[str]) -> None:
    found = placed(groups(*sizes)).said("PCI005")
    expected = grave or (["gpu0", "gpu1", "gpu2"] if sizes == (3, 2, 1) else [])
    assert [list(f.subjects) for f in found if f.severity == "warning"] == [expected] * bool(expected)
    notes = {(2, 1): ["gpu0", "gpu1"], (3, 2, 1): ["gpu3", "gpu4"], (2, 2, 1, 1): ["gpu0", "gpu1", "gpu2", "gpu3"]}
    assert [list(f.subjects) for f in found if f.severity == "info"] == [notes.get(sizes)] * (sizes in notes)
    for finding in found:
        if finding.severity == "warning":
            bdf = placed(groups(*sizes)).bdf("s0")
            assert (finding.covers, finding.expected_from) == ({bdf}, "equals")
            assert f"share one PCIe 4.0 x16 uplink ({bdf}), unlike their equals" in finding.message


def test_pci005_the_tightest_of_several_uplinks() -> None:
    """A switch below a switch: four share the outer Gen5 link (13.5 each), two the inner Gen4 one (13.0 each)."""
    inner = tuple(
        Switch(f"s{i}", tuple(Gpu(f"g{2 * i + k}", "l40s", Link(4)) for k in range(2)), Link(4), 5) for i in (0, 1)
    )
    node = Node(bridges=(HostBridge("b0", 0, (Switch("s9", inner, Link(5), 5),)),), sockets=1)
    (found,) = placed(node).said("PCI005")
    assert len(found.evidence) == 2 and "2 on each PCIe 4.0" in found.message
    wide = tuple(replace(s, link=Link(5)) for s in inner)
    (found,) = placed(Node(bridges=(HostBridge("b0", 0, (Switch("s9", wide, Link(5), 5),)),), sockets=1)).said("PCI005")
    assert len(found.evidence) == 1 and "gpu0, gpu1, gpu2, gpu3, 4 on each PCIe 5.0" in found.message


def test_pci005_of_what_was_not_read() -> None:
    assert placed(groups(1)).unsaid("PCI005") == "not applicable"
    assert placed(groups(2)).unsaid("PCI005") == "" and placed(groups(1, 1)).unsaid("PCI005") == ""
    assert placed(groups(2)).without(PciFunction).without(PciListing).unsaid("PCI005") == "skipped"
    node = placed(groups(2)).topology
    bare = replace(node, links={k: x for k, x in node.links.items() if k != placed(groups(2)).bdf("g0")})
    assert unsaid(bare, "PCI005") == "", "a whole listing"
    assert unsaid(replace(node, whole_pci=False), "PCI005") == "", "the path was read"
    one = replace(node, whole_pci=False, parents={k: v for k, v in node.parents.items() if k != node.gpus[0].bdf})
    assert unsaid(one, "PCI005") == "in part"
    cut = replace(node, whole_pci=False, links={})
    assert unsaid(cut, "PCI005") == "skipped"


def test_pci005_gpus_beside_grace_have_no_uplink() -> None:
    board = placed(groups(2))
    for uid in gpus(2):
        board = board.pci(uid, device_id="2941", name="NVIDIA Corporation GB200").state(uid, model="NVIDIA GB200")
    assert board.unsaid("PCI005") == "not applicable" and board.unsaid("PCI009") == "not applicable"
    assert board.unsaid("PCI006") == "not applicable"


# --- PCI006: GPUs can 256 bytes, NICs and root ports 512, switches 2048


@pytest.mark.parametrize(
    ("count", "small", "severity"), [(3, 1, "warning"), (2, 1, "info"), (5, 3, "warning"), (5, 4, "info")]
)
def test_pci006_a_smaller_payload_than_the_whole_path_can(count: int, small: int, severity: str) -> None:
    board = hgx(count, nic=None)
    for uid in gpus(small):
        board = board.pci(uid, payload_bytes=128, lines={"DevCtl": Evidence("lspci -vv", 3, "MaxPayload 128")})
    found = board.said("PCI006")
    assert [(f.subjects, f.severity) for f in found] == [((f"gpu{i}",), severity) for i in range(small)]
    first, path = found[0], (board.bdf("g0"), board.bdf("s0"))
    assert first.patches == tuple(SetPayload(link, 256) for link in path)
    assert (first.expected_from, first.alike, first.price_kind) == ("equals", None, "computed")
    assert first.scenarios == (Scenario("gpu-host", "gpu0"),)
    assert [line.text for line in first.evidence] == ["MaxPayload 128"]
    assert f"{count - small} of {count - 1} equals use more" in first.message


def test_pci006_alike_on_all_is_a_note_that_shares_its_words() -> None:
    board = hgx(3, nic=None)
    for uid in gpus(3):
        board = board.pci(uid, payload_bytes=128, lines={})
    found = board.said("PCI006")
    assert [(f.severity, f.expected_from, f.evidence) for f in found] == [("info", "both ends", ())] * 3
    assert {f.alike for f in found} == {
        "uses MaxPayload 128 where its whole path can 256 bytes (calculated, not measured)"
    }
    assert hgx(3, nic=None).said("PCI006") == [], "256 is all a GPU can"


def test_pci006_a_port_on_the_path_that_uses_less_shows_itself() -> None:
    line = Evidence("lspci -vv", 9, "the port's")
    (found,) = hgx(3, nic=None).pci("g0^", payload_bytes=128, lines={"DevCtl": line}).said("PCI006")
    assert found.subjects == ("gpu0",) and found.evidence == (line,)
    both = hgx(3, nic=None).pci("g0^", payload_bytes=128, lines={"DevCtl": line})
    both = both.pci("g0", payload_bytes=128, lines={"DevCtl": line})
    assert both.said("PCI006")[0].evidence == (line,), "one line is enough"
    less = hgx(3, nic=None).pci("g0", payload_bytes=128).pci("g0^", payload_bytes=128, max_payload_bytes=128)
    assert less.said("PCI006") == [], "some port on the path can no more"


@pytest.mark.parametrize(
    ("uid", "values"),
    [
        ("g0", {"payload_bytes": None}),
        ("g0^", {"max_payload_bytes": None}),
        ("s0^", {"port_type": None}),
        ("s0", {"payload_bytes": None, "max_payload_bytes": None}),
    ],
)
def test_pci006_an_end_that_was_not_read(uid: str, values: dict[str, Any]) -> None:
    board = hgx(2, nic=None).pci("g0", payload_bytes=128).pci("g1", payload_bytes=128).pci(uid, **values)
    assert [f.subjects for f in board.said("PCI006")] == [("gpu1",)] and board.unsaid("PCI006") == "in part"
    assert hgx(1, nic=None).pci(uid, **values).unsaid("PCI006") == "skipped"
    assert hgx(2, nic=None).unsaid("PCI006") == ""


def whole_payload(count: int, **requests: int) -> Board:
    """NICs whose payload is all their path can, with such read requests."""
    board = hgx(count)
    for i in range(count):
        for uid in (f"n{i}", f"n{i}^", f"s{i}", f"s{i}^"):
            board = board.pci(uid, payload_bytes=512)
        if f"n{i}" in requests:
            board = board.pci(f"n{i}", read_request_bytes=requests[f"n{i}"])
    return board


@pytest.mark.parametrize(
    ("count", "requests", "severity", "wanted", "by"),
    [
        (3, {"n0": 512}, "warning", 4096, "equals"),  # two of two ask for more
        (2, {"n0": 512}, None, 0, None),  # one of one; 512 is what reset leaves
        (2, {"n0": 256}, "info", 4096, "equals"),
        (1, {"n0": 256}, "info", 512, None),
        (1, {"n0": 512}, None, 0, None),
        (1, {"n0": 511}, "info", 512, None),
        (5, {"n0": 512, "n1": 512, "n2": 512}, "warning", 4096, "equals"),  # two of four
        (3, {"n0": 128, "n1": 256, "n2": 256}, "warning", 512, "equals"),  # at least what reset leaves
    ],
)
def test_pci006_a_nics_read_request(count: int, requests: dict[str, int], severity: str, wanted: int, by: str) -> None:
    board = whole_payload(count, **requests)
    found = [f for f in board.said("PCI006") if f.subjects == ("mlx5_0",)]
    assert [f.severity for f in found] == [severity] * (severity is not None)
    for finding in found:
        assert finding.patches == (SetPci(board.bdf("n0"), "read_request_bytes", wanted),)
        assert finding.expected_from == by and finding.price_kind == "unknown"
        assert [line.text for line in finding.evidence] == ["MaxPayload 256 bytes, MaxReadReq 4096 bytes"]
        assert "asks for at most" in finding.message
    unlined = [f for f in board.pci("n0", lines={}).said("PCI006") if f.subjects == ("mlx5_0",)]
    assert all(f.evidence == () for f in unlined)


def test_pci006_speaks_of_a_nics_payload_too_and_of_no_gpus_read_request() -> None:
    (found, *others) = hgx(3).pci("g0", read_request_bytes=128).said("PCI006")
    assert found.subjects == ("mlx5_0",) and found.scenarios == (Scenario("nic-host", "mlx5_0"),)
    assert [f.subjects for f in others] == [("mlx5_1",), ("mlx5_2",)]
    assert (
        hgx(2).without(PciFunction).said("PCI006") == [] and hgx(2).without(PciFunction).unsaid("PCI006") == "skipped"
    )
    unread = whole_payload(3).pci("n0", read_request_bytes=None)
    assert unread.said("PCI006") == []


# --- PCI007


def logged(board: Board, *lines: tuple[float | None, str], uid: str = "g0") -> Board:
    return board.plus(
        *(LogEvent("aer", board.bdf(uid), None, t, Evidence("dmesg", i, text)) for i, (t, text) in enumerate(lines))
    )


CORRECTED, FATAL = "AER: Corrected error received", "AER: Uncorrectable (Fatal) error"


@pytest.mark.parametrize(
    ("lines", "severity", "words"),
    [
        ([(float(i), CORRECTED) for i in range(9)], "warning", "9 corrected"),  # more than eight in a minute
        ([(float(i), CORRECTED) for i in range(8)], "info", "8 corrected"),
        ([(7.5 * i, CORRECTED) for i in range(9)], "warning", "9 corrected"),  # the ninth at 60 s
        ([(7.6 * i, CORRECTED) for i in range(9)], "info", "9 corrected"),
        ([(None, CORRECTED)] * 9, "info", "9 corrected"),
        ([(1.0, FATAL)], "warning", "1 uncorrected"),
        ([(1.0, CORRECTED), (2.0, FATAL), (3.0, CORRECTED)], "warning", "1 uncorrected"),
        ([(None, FATAL)] * 20, "warning", "20 or more uncorrected"),
        ([(None, FATAL)] * 19, "warning", "19 uncorrected"),
    ],
)
def test_pci007_by_the_log(lines: list[tuple[float | None, str]], severity: str, words: str) -> None:
    (found,) = logged(hgx(2), *lines).said("PCI007")
    assert (found.severity, found.subjects, found.effect) == (severity, ("gpu0",), "risks")
    assert f"has {words} PCIe errors" in found.message
    uncorrected = [i for i, (_, text) in enumerate(lines) if text == FATAL]
    shown = uncorrected[0] if uncorrected else len(lines) - 1
    assert [line.line for line in found.evidence] == [shown], "the first uncorrected one, else the last"


def test_pci007_other_lines_and_other_devices() -> None:
    board = hgx(2)
    other = LogEvent("iommu-fault", board.bdf("g0"), None, 1.0, Evidence("dmesg", 1, FATAL))
    stranger = LogEvent("aer", "0000:fe:00.0", None, 1.0, Evidence("dmesg", 2, FATAL))
    assert board.plus(other, stranger).said("PCI007") == []
    nobody = LogEvent("aer", None, None, 1.0, Evidence("dmesg", 3, FATAL))
    assert board.without(PciFunction).plus(nobody).said("PCI007") == [], "links that nvidia-smi alone tells"
    (found,) = logged(board, (1.0, FATAL), uid="s0^").said("PCI007")
    assert found.subjects == (board.bdf("s0^"),), "a port is named by its address"
    assert [f.subjects for f in logged(board, (1.0, FATAL), uid="n0").said("PCI007")] == [("mlx5_0",)]


@pytest.mark.parametrize(("name", "count", "words"), [
    ("aer_dev_fatal", "2", "2 fatal"), ("aer_dev_nonfatal", "1", "1 non-fatal"), ("aer_dev_fatal", "0", None),
    ("aer_dev_fatal", "10", "10 fatal"), ("aer_dev_correctable", "9", None),
])  # fmt: skip
def test_pci007_totals_are_a_note(name: str, count: str, words: str | None) -> None:
    board = hgx(2).pci("g0", aer=((name, count),))
    found = board.said("PCI007")
    assert [(f.severity, f.subjects, f.effect) for f in found] == [("info", ("gpu0",), "risks")] * (words is not None)
    for finding in found:
        assert f"has counted {words} PCIe errors at some time since boot" in finding.message
        assert [(line.input, line.text) for line in finding.evidence] == [
            (f"/sys/bus/pci/devices/{board.bdf('g0')}/{name}", f"total {count}")
        ]


def test_pci007_of_several_totals_and_of_strangers() -> None:
    found = hgx(2).pci("g0", aer=(("aer_dev_fatal", "2"), ("aer_dev_nonfatal", "3"), ("aer_dev_correctable", "4")))
    (total,) = found.said("PCI007")
    assert "2 fatal and 3 non-fatal" in total.message and [line.text for line in total.evidence] == [
        "total 2",
        "total 3",
    ]
    stranger = PciFunction("0000:fe:00.0", "lspci -vv", aer=(("aer_dev_fatal", "2"), ("CESta", "RxErr+")))
    assert hgx(2).plus(stranger).said("PCI007") == []


@pytest.mark.parametrize(
    ("count", "grown", "severities"),
    [
        (3, {"g0": 9}, ["warning"]),  # more than eight a minute
        (3, {"g0": 8}, ["info"]),
        (3, {"g0": 9, "g1": 9}, ["warning", "warning"]),
        (2, {"g0": 9, "g1": 9}, ["info", "info"]),  # alike on all
        (2, {"g0": 9, "g1": 1}, ["warning", "info"]),
        (1, {"g0": 9}, ["warning"]),
    ],
)
def test_pci007_replays_between_two_listings_a_minute_apart(
    count: int, grown: dict[str, int], severities: list[str]
) -> None:
    board = hgx(count)
    for uid in gpus(count):
        (state,) = (f for f in board.facts if isinstance(f, GpuState) and f.bdf == board.bdf(uid))
        after = replace(state, pcie_replays=grown.get(uid, 0), read_at_s=60.0)
        board = board.state(uid, pcie_replays=0, read_at_s=0.0).plus(after)
    found = board.said("PCI007")
    assert [(f.subjects[0], f.severity) for f in found] == list(zip(map(board.id, grown), severities, strict=True))
    assert {f.effect for f in found} == {"risks"} and "PCIe replays" in found[0].message


def test_pci007_bits_that_nobody_cleared_are_one_note() -> None:
    line = Evidence("lspci -vv", 5, "CESta: RxErr+")
    bits, none = (("CESta", "RxErr+ BadTLP-"),), (("CESta", "RxErr- BadTLP-"),)
    one = hgx(2).pci("g0", aer=bits, lines={"CESta": line})
    (found,) = one.said("PCI007")
    assert (found.severity, found.subjects, found.evidence) == ("info", ("gpu0",), (line,))
    assert found.message.startswith("gpu0 has error bits set") and "(RxErr)" in found.message
    (found,) = one.pci("g1^", aer=(("UESta", "DLP+"),), lines={}).said("PCI007")
    assert found.subjects == ("gpu0", one.bdf("g1^")) and found.message.startswith("2 PCIe functions")
    assert found.evidence == (line,)
    assert hgx(2).pci("g0", aer=bits, lines={}).said("PCI007")[0].evidence == ()
    uncorrected = Evidence("lspci -vv", 6, "UESta")
    (found,) = hgx(2).pci("g0", aer=(("UESta", "DLP+"),), lines={"UESta": uncorrected}).said("PCI007")
    assert found.evidence == (uncorrected,)
    quiet = hgx(2).pci("g0", aer=none)
    assert quiet.said("PCI007") == [] and quiet.unsaid("PCI007") == ""


def test_pci007_of_what_was_not_read() -> None:
    assert hgx(2).unsaid("PCI007") == "skipped"
    assert hgx(2).state("g0", pcie_replays=0).unsaid("PCI007") == "in part"
    assert logged(hgx(2), (1.0, CORRECTED)).unsaid("PCI007") == "in part"
    assert unsaid(replace(hgx(2).topology, links={}), "PCI007") == "skipped"
    assert unsaid(replace(hgx(2).topology, links={}, devices=()), "PCI007") == "not applicable"


# --- PCI009


@pytest.mark.parametrize(
    ("count", "off", "severity"), [(3, 1, "warning"), (2, 1, "info"), (5, 3, "warning"), (5, 4, "info"), (3, 3, "info")]
)
@pytest.mark.parametrize("kind", ["g", "n"])
def test_pci009_half_of_the_equals_and_two_have_it_on(kind: str, count: int, off: int, severity: str) -> None:
    board = hgx(count, gpu="l40s", fabric="none")
    for i in range(off):
        board = board.pci(f"{kind}{i}", relaxed_ordering=False)
    found = board.said("PCI009")
    assert [(f.subjects, f.severity) for f in found] == [((board.id(f"{kind}{i}"),), severity) for i in range(off)]
    on = count - off
    assert {f.expected_from for f in found} == {"equals" if on else None}
    assert {f.alike for f in found} == {None if on else "has PCIe relaxed ordering off"}
    assert found[0].patches == (SetPci(board.bdf(f"{kind}0"), "relaxed_ordering", True),)
    assert [line.text for line in found[0].evidence] == ["RlxdOrd+"]
    by_line = board.pci(f"{kind}0", lines={"DevCtl": Evidence("lspci", 1, "DevCtl")}).said("PCI009")[0]
    assert [line.text for line in by_line.evidence] == ["DevCtl"]
    assert board.pci(f"{kind}0", lines={}).said("PCI009")[0].evidence == ()


def test_pci009_without_an_equal_it_is_no_question() -> None:
    assert hgx(1).pci("g0", relaxed_ordering=False).said("PCI009") == []


def test_pci009_of_what_was_not_read() -> None:
    board = hgx(2, nic=None)
    assert board.unsaid("PCI009") == ""
    assert board.pci("g0", relaxed_ordering=None).unsaid("PCI009") == "in part"
    assert board.pci("g0", relaxed_ordering=None).pci("g1", relaxed_ordering=None).unsaid("PCI009") == "skipped"
    assert unsaid(replace(board.topology, devices=()), "PCI009") == "not applicable"


@pytest.mark.parametrize("rule", ["PCI006", "PCI009", "PCI004"])
def test_virtual_functions_are_not_judged(rule: str) -> None:
    board = hgx(3, link=Link(5, port_gen=4))
    for i in range(3):
        board = board.pci(f"n{i}", read_request_bytes=128, vf_of="0000:f0:00.0")
    board = board.pci("n0", relaxed_ordering=False)
    assert [n.is_vf for n in board.topology.compute_nics] == [True] * 3
    assert board.said(rule) == []
