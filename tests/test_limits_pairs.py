"""Where the rules of GPU pairs, rings, Xids and guests begin to speak: at the limits of rules.md, and one beside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from boards import Board, hgx, hgx_node, pair_of_cards, placed
from nodesim.spec import Gpu, HostBridge, Link, Node, Switch

from topocheck.facts import Evidence, GpuState, Host, LogEvent, Matrix, P2pMatrix, PciFunction
from topocheck.model import Scenario
from topocheck.patches import JoinNvlink, SetField, SetP2p

# --- P2P001


def barred(node: Node, *pairs: tuple[str, str], status: str = "CNS") -> Board:
    """Peer-to-peer is missing between some GPUs, read and write."""
    return placed(replace(node, no_p2p=tuple((pair, status) for pair in pairs)))


def test_p2p001_of_a_pair_on_one_switch() -> None:
    (found,) = barred(pair_of_cards(), ("g0", "g1")).said("P2P001")
    assert (found.subjects, found.severity, found.patches) == (("gpu0", "gpu1"), "warning", (SetP2p("gpu0", "gpu1"),))
    assert found.loss_range == (0.21, 0.66) and found.price_kind == "typical"  # staged copies
    assert (found.scenarios, found.covers) == ((Scenario("gpu-pair", "gpu0", "gpu1"),), {"gpu0", "gpu1"})
    assert [line.text.split()[0] for line in found.evidence] == ["GPU0"]
    assert "(chipset not supported)" in found.message
    assert barred(pair_of_cards(), ("g1", "g2")).said("P2P001") == [], "they meet at the CPU"
    unlined = barred(pair_of_cards(), ("g0", "g1"))
    unlined = unlined.changed(lambda f: replace(f, lines={}) if isinstance(f, P2pMatrix) else f)
    assert unlined.said("P2P001")[0].evidence == ()


def test_p2p001_under_two_switches_of_one_another() -> None:
    """PXB is a switch still."""
    inner = Switch("s1", (Gpu("g0", "l40s", Link(4)),), Link())
    bridge = HostBridge("b0", 0, (Switch("s0", (inner, Gpu("g1", "l40s", Link(4))), Link()),))
    assert barred(Node(bridges=(bridge,)), ("g0", "g1")).levels("P2P001") == {"g0": "warning"}


@pytest.mark.parametrize("capability", ["r", "w"])
@pytest.mark.parametrize("row", ["GPU0", "GPU1"])
def test_p2p001_one_way_of_one_kind_is_enough(capability: str, row: str) -> None:
    other = {"GPU0": "GPU1", "GPU1": "GPU0"}[row]

    def change(f: Any) -> Any:
        if not isinstance(f, P2pMatrix) or f.capability != capability:
            return f
        return replace(f, cells={**f.cells, (row, other): "DR"})

    (found,) = placed(pair_of_cards()).changed(change).said("P2P001")
    assert found.subjects == ("gpu0", "gpu1") and "(disabled by regkey)" in found.message
    assert [line.text.split()[0] for line in found.evidence] == [row]
    assert found.evidence[0].input == f"nvidia-smi topo -p2p {capability}"


@pytest.mark.parametrize("exempt", [{"mig": True}, {"vgpu": True}, {"confidential": True}])
@pytest.mark.parametrize("uid", ["g0", "g1"])
def test_p2p001_of_gpus_that_cannot_by_mode(exempt: dict[str, bool], uid: str) -> None:
    assert barred(pair_of_cards(), ("g0", "g1")).state(uid, **exempt).said("P2P001") == []


def test_p2p001_on_nvlink_is_an_error_of_a_board_only() -> None:
    (found,) = barred(hgx_node(8), ("g0", "g7")).said("P2P001")
    assert (found.severity, found.loss_range) == ("error", (0.91, 0.91))  # 0.09 of an NVLink pair remains
    assert barred(hgx_node(4), ("g0", "g3")).levels("P2P001") == {"g0": "error"}, "by its part, whatever the number"
    bridged = pair_of_cards(8, "a100-pcie", fabric="bridges", bridged=(("g0", "g1"), ("g2", "g3")))
    (found,) = barred(bridged, ("g0", "g1")).said("P2P001")
    assert (found.severity, found.loss_range) == ("warning", (0.91, 0.91))


def test_p2p001_geforce_never_has_it() -> None:
    found = placed(pair_of_cards(4, "4090")).said("P2P001")
    assert [(f.severity, f.subjects) for f in found] == [("info", ("gpu0", "gpu1")), ("info", ("gpu2", "gpu3"))]
    assert "as this product never has" in found[0].message and found[0].loss_range == (0.21, 0.66)


def unnamed(board: Board, count: int) -> Board:
    """The GPUs are of a product that nothing names."""
    for uid in (f"g{i}" for i in range(count)):
        board = board.pci(uid, device_id="ffff", name=None).state(uid, model=None, pci_id=None)
        board = board.nvlinks(uid, lambda f: replace(f, model=None))
    return board


@pytest.mark.parametrize(("count", "severity"), [(8, "error"), (4, "warning")])
def test_p2p001_of_a_product_not_known(count: int, severity: str) -> None:
    """On NVLink it is told, on a board of eight as of an NVSwitch board; on PCIe it may never have had it."""
    board = barred(hgx_node(count), ("g0", "g1"))
    board = unnamed(board, count)
    assert {g.part for g in board.topology.gpus} == {None}
    assert board.levels("P2P001") == {"g0": severity} and board.unsaid("P2P001") == ""
    cards = barred(pair_of_cards(), ("g0", "g1"), ("g2", "g3"))
    cards = unnamed(cards, 4)
    assert cards.said("P2P001") == [] and cards.unsaid("P2P001") == "in part"
    assert cards.reasons("P2P001")[0].startswith("2 pairs of a product not known")


def test_p2p001_of_what_was_not_read() -> None:
    assert hgx(2).unsaid("P2P001") == "" and hgx(1).unsaid("P2P001") == "not applicable"
    assert hgx(2).without(P2pMatrix).unsaid("P2P001") == "skipped"


# --- P2P004: a ring of four needs two neighbours for each


def apart(node: Node, *pairs: tuple[str, str]) -> Node:
    """Pairs that the matrix shows at SYS."""
    return replace(node, cells=tuple((way, "SYS") for a, b in pairs for way in ((a, b), (b, a))))


def test_p2p004_a_board_whose_ring_leaves_nvlink() -> None:
    board = placed(apart(hgx_node(4), ("g0", "g2"), ("g0", "g3")))
    (found,) = board.said("P2P004")
    assert (found.severity, found.subjects, found.expected_from) == ("warning", ("gpu0",), "the part")
    assert found.patches == (JoinNvlink(("gpu0", "gpu1", "gpu2", "gpu3"), 18),) and found.covers == {"gpu0"}
    assert (found.price_kind, found.scenarios) == ("computed", (Scenario("ring"),))
    assert [line.text.split()[0] for line in found.evidence] == ["GPU0"]
    assert "gpu0 reaches 1 of 3 GPUs by NVLink" in found.message and "carries about" not in found.message
    assert placed(apart(hgx_node(4), ("g0", "g2"))).said("P2P004") == [], "a ring is left"
    assert placed(apart(hgx_node(2), ("g0", "g1"))).levels("P2P004") == {"g0": "warning"}


def test_p2p004_shows_the_rows_of_the_first_two() -> None:
    pairs = [(f"g{i}", f"g{k}") for i in range(4) for k in range(i + 1, 4)]
    (found,) = placed(apart(hgx_node(4), *pairs)).said("P2P004")
    assert found.subjects == ("gpu0", "gpu1", "gpu2", "gpu3") and found.severity == "warning"
    assert [line.text.split()[0] for line in found.evidence] == ["GPU0", "GPU1"]
    assert found.patches == (JoinNvlink(("gpu0", "gpu1", "gpu2", "gpu3"), 18),), "as the part has"
    guest = placed(apart(hgx_node(4), *pairs)).changed(
        lambda f: replace(f, virtual=True) if isinstance(f, Host) and f.virtual is False else f
    )
    (found,) = guest.said("P2P004")
    assert (found.severity, found.patches, found.price_kind, found.expected_from) == ("info", (), "unknown", None)
    assert "carries about" in found.message
    some = placed(apart(hgx_node(4), *pairs[:3])).changed(
        lambda f: replace(f, virtual=True) if isinstance(f, Host) and f.virtual is False else f
    )
    assert [f.severity for f in some.said("P2P004")] == ["warning"], "of the others some are joined"


def test_p2p004_of_bridged_pairs_is_a_note_with_the_figure() -> None:
    node = pair_of_cards(4, "a100-pcie", fabric="bridges", bridged=(("g0", "g1"), ("g2", "g3")))
    (found,) = placed(node).said("P2P004")
    assert (found.severity, found.patches, found.price_kind) == ("info", (), "unknown")
    # Gen4 x16 rings at 20.0 GB/s (hardware/pcie.py); every PCIe link was read
    assert "its slowest edge carries about 20 GB/s" in found.message and "assumed" not in found.message
    assert found.subjects == ("gpu0", "gpu1", "gpu2", "gpu3")


def test_p2p004_of_whom_it_cannot_speak() -> None:
    assert hgx(1).unsaid("P2P004") == "not applicable"
    assert hgx(2).unsaid("P2P004") == "not applicable", "a ring of two stays on NVLink"
    assert placed(pair_of_cards()).unsaid("P2P004") == "not applicable"
    assert hgx(4).state("g0", mig=True).unsaid("P2P004") == "skipped"
    assert hgx(4).without(Matrix).unsaid("P2P004") == "skipped"

    def cut(*lost: tuple[str, str]) -> Board:
        return placed(apart(hgx_node(4), ("g0", "g2"), ("g0", "g3"))).changed(
            lambda f: (
                replace(f, cells={k: v for k, v in f.cells.items() if k not in lost}) if isinstance(f, Matrix) else f
            )
        )

    assert cut(("GPU0", "GPU1")).unsaid("P2P004") == "" and len(cut(("GPU0", "GPU1")).said("P2P004")) == 1
    assert cut(("GPU0", "GPU1"), ("GPU1", "GPU0")).unsaid("P2P004") == "skipped"


# --- GPU004


def xid(number: int | None, line: int, uid: str = "g0", time_s: float | None = None) -> Any:
    def event(board: Board) -> LogEvent:
        return LogEvent("xid", board.bdf(uid), number, time_s, Evidence("dmesg", line, f"Xid {number} line {line}"))

    return event


def load(line: int | None, time_s: float | None = None) -> Any:
    return lambda board: LogEvent("driver-load", None, None, time_s, Evidence("dmesg", line, "loading NVRM"))


def logged(*events: Any, board: Board | None = None) -> Board:
    board = board or hgx(2)
    return board.plus(Host("dmesg"), *(event(board) for event in events))


def levels(board: Board) -> list[tuple[str, str, list[str]]]:
    return [(f.subjects[0], f.severity, [line.text for line in f.evidence]) for f in board.said("GPU004")]


HARD = [48, 62, 64, 74, 79, 95, 119, 120, 140, *range(143, 151), 154]
MILD = [13, 31, 43, 45, 63, 92, 94]


@pytest.mark.parametrize(("number", "severity"), [(n, "warning") for n in HARD] + [(n, "info") for n in MILD])
def test_gpu004_by_number(number: int, severity: str) -> None:
    (found,) = logged(xid(number, 5)).said("GPU004")
    assert (found.severity, found.subjects, found.covers) == (severity, ("gpu0",), {"gpu0"})
    assert found.effect == ("stops" if severity == "warning" else "none")
    sign = logged(xid(number, 5), board=hgx(2).state("g0", ecc_uncorrectable=1))
    expected = "error" if number in (64, 79, 95, 119, 120) else severity
    assert [f.severity for f in sign.said("GPU004")] == [expected]


@pytest.mark.parametrize(
    ("sign", "severity"),
    [
        ({"remap_failed": True}, "error"),
        ({"ecc_uncorrectable": 1}, "error"),
        ({"remap_pending": True, "ecc_uncorrectable": 0, "remap_failed": False}, "warning"),
        ({}, "warning"),
    ],
)
def test_gpu004_a_sign_that_is_read_now(sign: dict[str, Any], severity: str) -> None:
    board = hgx(2).state("g0", **sign)
    assert levels(logged(xid(95, 5), board=board)) == [("gpu0", severity, ["Xid 95 line 5"])]
    assert levels(logged(xid(95, 5, "g1"), board=board)) == [("gpu1", "warning", ["Xid 95 line 5"])], "the other GPU's"


@pytest.mark.parametrize("sign", [{"dead": True}, {}])
def test_gpu004_a_function_that_does_not_answer(sign: dict[str, bool]) -> None:
    board = hgx(2).pci("g0", **sign)
    assert [s for _, s, _ in levels(logged(xid(79, 5), board=board))] == ["error" if sign else "warning"]
    lost = logged(xid(79, 5), board=hgx(2).state("g0", lost="GPU is lost"))
    assert [s for _, s, _ in levels(lost)] == ["error"]


@pytest.mark.parametrize(
    ("number", "severity"), [(79, "error"), (119, "error"), (120, "error"), (64, "warning"), (95, "warning")]
)
def test_gpu004_a_driver_that_does_not_answer_is_a_sign_of_some(number: int, severity: str) -> None:
    hung = hgx(2).host(driver_hung="nvidia-smi -L: no answer within 19 s")
    assert [s for _, s, _ in levels(logged(xid(number, 5), board=hung))] == [severity]
    both = logged(xid(79, 5, "g0"), xid(95, 6, "g1"), board=hung)
    assert [(u, s) for u, s, _ in levels(both)] == [("gpu0", "error"), ("gpu1", "warning")]


@pytest.mark.parametrize(("at", "severities"), [(5, ["warning"]), (6, ["warning"]), (7, ["info"])])
def test_gpu004_from_before_the_drivers_last_load_it_is_a_note(at: int, severities: list[str]) -> None:
    board = logged(load(1), load(at), load(2), xid(79, 6))
    assert board.unsaid("GPU004") == ""
    found = levels(board)
    assert found == [("gpu0", severities[0], ["Xid 79 line 6"])]
    assert ("before the driver was loaded again" in board.said("GPU004")[0].message) == (severities == ["info"])
    assert ("since the driver was loaded" in board.said("GPU004")[0].message) == (severities == ["warning"])


def test_gpu004_without_line_numbers_all_of_it_counts() -> None:
    unnumbered = LogEvent("xid", "0000:13:00.0", 79, None, Evidence("journal", None, "Xid 79"))
    board = hgx(2)
    unnumbered = replace(unnumbered, bdf=board.bdf("g0"))
    assert [f.severity for f in board.plus(Host("dmesg"), unnumbered, load(None)(board)).said("GPU004")] == ["warning"]


@pytest.mark.parametrize(
    ("before_s", "words"),
    [
        (7200.0, "the last 2 h before"),
        (7199.0, "the last 120 min before"),
        (5400.0, "the last 90 min before"),
        (0.0, "the last 0 min before"),
        (-60.0, "the last before"),
    ],
)
def test_gpu004_tells_how_long_ago(before_s: float, words: str) -> None:
    (found,) = logged(xid(79, 1, time_s=100.0), load(9, 100.0 + before_s)).said("GPU004")
    assert words in found.message
    for times in ((None, 100.0), (100.0, None)):
        (found,) = logged(xid(79, 1, time_s=times[0]), load(9, times[1])).said("GPU004")
        assert "the last before" in found.message


def test_gpu004_one_finding_for_what_counts_and_one_for_what_does_not() -> None:
    board = logged(xid(79, 1), load(3), xid(13, 4), xid(13, 5), xid(74, 6), xid(62, 7), xid(74, 8))
    assert levels(board) == [
        ("gpu0", "warning", ["Xid 74 line 8", "Xid 62 line 7"]),
        ("gpu0", "info", ["Xid 13 line 5"]),
        ("gpu0", "info", ["Xid 79 line 1"]),
    ]
    (hard, mild, old) = board.said("GPU004")
    assert "Xid 74 (NVLink error) 2 times, Xid 62 (" in hard.message and "Xid 13 (" in mild.message
    assert "Xid 13" not in hard.message and "Xid 79" in old.message and "Xid 74" not in old.message


def test_gpu004_what_the_driver_asks_for_says_it_once() -> None:
    board = hgx(2).state("g0", recovery_action="Reset")
    assert levels(logged(xid(79, 5), board=board)) == [("gpu0", "error", ["recovery_action None"])]
    assert [(u, s) for u, s, _ in levels(logged(xid(13, 5), xid(79, 6, "g1"), board=board))] == [
        ("gpu0", "error"), ("gpu0", "info"), ("gpu1", "warning")
    ]  # fmt: skip
    assert logged(board=hgx(2).state("g0", recovery_action="NONE")).said("GPU004") == []
    unlined = hgx(2).state("g0", recovery_action="Reset", lines={})
    assert logged(board=unlined).said("GPU004")[0].evidence == ()


def test_gpu004_names_what_is_no_device_by_its_address() -> None:
    stranger = LogEvent("xid", "0000:fe:00.0", 79, None, Evidence("dmesg", 2, "x"))
    nobody = LogEvent("xid", None, 79, None, Evidence("dmesg", 3, "y"))
    numberless = LogEvent("xid", None, None, None, Evidence("dmesg", 4, "z"))
    board = hgx(2).plus(Host("dmesg"), stranger, nobody, numberless)
    assert [(f.subjects, f.severity) for f in board.said("GPU004")] == [
        (("0000:fe:00.0",), "warning"), (("gpu",), "warning")
    ]  # fmt: skip
    empty = placed(Node(bridges=(HostBridge("b0", 0, ()),)))
    assert empty.unsaid("GPU004") == "not applicable"
    assert empty.plus(Host("dmesg"), numberless).unsaid("GPU004") == "not applicable"
    assert len(empty.plus(Host("dmesg"), stranger).said("GPU004")) == 1


def test_gpu004_without_a_log() -> None:
    assert hgx(2).unsaid("GPU004") == "in part", "the recovery action is known"
    mute = hgx(2).state("g0", recovery_action=None).state("g1", recovery_action=None)
    assert mute.unsaid("GPU004") == "skipped" and hgx(2).without(GpuState).unsaid("GPU004") == "skipped"
    assert mute.state("g1", recovery_action="None").unsaid("GPU004") == "in part"


# --- VIRT001


def hidden(*, virtual: bool | None = True, numa: bool = False, count: int = 4) -> Board:
    """A guest whose GPUs all hang on one host bridge, without a NUMA node."""
    held = tuple(Gpu(f"g{i}", "l40s", Link(4), numa=0 if numa else -1) for i in range(count))
    board = placed(Node(bridges=(HostBridge("b0", 0, held),), sockets=1)).without(Matrix)

    def change(f: Any) -> Any:
        if isinstance(f, Host) and f.virtual is False:
            return replace(f, virtual=virtual)
        return f if numa or not isinstance(f, PciFunction) else replace(f, numa_node=None)

    return board.changed(change)


def test_virt001_a_flat_tree_of_a_guest_is_a_note() -> None:
    board = hidden()
    found = board.said("VIRT001")
    assert [(f.severity, f.effect, len(f.subjects)) for f in found] == [("info", "none", 4)]
    assert len(found[0].evidence) == 1
    first = Evidence("lspci", 1, "the first GPU")
    assert board.pci("g0", lines={"header": first}).said("VIRT001")[0].evidence == (first,)
    assert len(hidden(count=2).said("VIRT001")) == 1
    assert hidden(virtual=False).unsaid("VIRT001") == "not applicable"
    assert hidden(count=1).unsaid("VIRT001") == "not applicable"
    assert hidden(numa=True).said("VIRT001") == []


def guest(**host: Any) -> Board:
    """An Azure ND H100 v5, whose hypervisor hides the tree."""
    board = hgx(8)
    for i in range(8):
        board = board.pci(f"n{i}", device_id="101e")
    board = board.changed(lambda f: replace(f, virtual=True) if isinstance(f, Host) and f.virtual is False else f)
    return board.plus(
        Host("dmi", product="Microsoft Corporation Virtual Machine", asset_tag="7783-7084-3265-9085-8269-3286-77"),
        *([Host("env", **host)] if host else []),
    )


def test_virt001_a_platform_that_needs_the_file() -> None:
    needy = guest(nccl_environ=())
    assert needy.topology.platform is not None, needy.topology.machine
    assert needy.topology.platform.topology_file
    (found,) = needy.said("VIRT001")
    assert (found.severity, found.expected_from, len(found.subjects)) == ("warning", "platform", 8)
    assert found.patches == (SetField("", "topology_file", "NCCL_TOPO_FILE"),)
    assert guest().said("VIRT001") == [], "nothing that would show it was read"
    assert guest(nccl_environ=(("NCCL_TOPO_FILE", "/opt/topo.xml"),)).said("VIRT001") == []
    assert guest(nccl_environ=(), topology_file="/var/run/virtualTopology.xml").said("VIRT001") == []


def test_virt001_a_file_of_other_addresses() -> None:
    board = guest()
    gpus = frozenset(board.bdf(f"g{i}") for i in range(8))
    line = Evidence("/opt/topo.xml", 1, "busid")
    whole = guest(topology_gpus=gpus, line=line)
    assert whole.said("VIRT001") == []
    for count in (1, 8):
        others = frozenset(sorted(gpus)[count:]) | {"0000:fe:00.0"}
        (found,) = guest(topology_gpus=others, line=line).said("VIRT001")
        assert (found.severity, found.expected_from, len(found.subjects)) == ("warning", "platform", count)
        assert found.evidence == (line,) and found.patches == (SetField("", "topology_gpus", gpus),)
    named = guest(topology_gpus=frozenset({"0000:fe:00.0"}), line=line, nccl_environ=(("NCCL_TOPO_FILE", "/else.xml"),))
    assert named.said("VIRT001") == [], "NCCL takes another file"
    same = guest(topology_gpus=frozenset({"0000:fe:00.0"}), line=line, nccl_environ=(("NCCL_TOPO_FILE", line.input),))
    assert len(same.said("VIRT001")) == 1
    plain = hidden(numa=True).plus(Host("env", topology_gpus=frozenset({"0000:fe:00.0"})))
    (found,) = plain.said("VIRT001")
    assert (found.severity, found.expected_from, found.evidence) == ("info", None, ())
