"""Where the NVLink, peer-to-peer and Xid rules begin to speak: at the limits of rules.md, and one beside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from boards import Board, gpus, hgx, hgx_node, pair_of_cards, placed
from nodesim.spec import Node

from topocheck.facts import Evidence, Host, Matrix, NvlinkGpu, NvlinkPort
from topocheck.model import Scenario
from topocheck.patches import SetNvlinkRate, SetNvlinks


def down(node: Node, uids: list[str], *links: int) -> Node:
    """Those NVLinks of some GPUs inactive."""
    for uid in uids:
        node = node.changed(uid, lambda gpu: replace(gpu, links_down=frozenset(links)))
    return node


def bridged(pairs: int, *joined: int) -> Node:
    """A100 PCIe cards, two a switch and a bridge on each pair; `joined`: pairs, all unless given."""
    numbers = joined or tuple(range(pairs))
    return pair_of_cards(
        2 * pairs, "a100-pcie", fabric="bridges", bridged=tuple((f"g{2 * k}", f"g{2 * k + 1}") for k in numbers)
    )


# --- NVL001


@pytest.mark.parametrize(
    ("count", "low", "severity", "by"),
    [
        (8, 1, "error", "equals"),
        (8, 8, "error", "equals"),  # the platform, HGX H100, has 18
        (4, 4, "warning", "equals"),  # no equal is better, and no platform is known
        (4, 3, "error", "equals"),  # one is
        (1, 1, "error", "both ends"),  # it has no equal
    ],
)
def test_nvl001_on_a_board(count: int, low: int, severity: str, by: str) -> None:
    found = placed(down(hgx_node(count), gpus(low), 3)).said("NVL001")
    assert [(f.subjects, f.severity, f.expected_from) for f in found] == [
        ((f"gpu{i}",), severity, by) for i in range(low)
    ]
    first = found[0]
    assert (first.patches, first.scenarios) == ((SetNvlinks("gpu0", 18),), (Scenario("nvlink", "gpu0"),))
    assert (first.price_kind, first.covers) == ("typical", {"gpu0"})
    assert first.loss_range is not None and first.loss_range[0] == pytest.approx(1 / 18, abs=1e-4)
    assert [line.text for line in first.evidence] == ["Link 3: <inactive>"]
    assert "has 17 of 18 NVLinks up (link 3 inactive)" in first.message


@pytest.mark.parametrize(("links", "named"), [((1, 2, 3, 4), True), ((1, 2, 3, 4, 5), False)])
def test_nvl001_names_up_to_four_links(links: tuple[int, ...], named: bool) -> None:
    (found,) = placed(down(hgx_node(8), ["g0"], *links)).said("NVL001")
    assert ("(links 1, 2, 3, 4 inactive)" in found.message) == named


@pytest.mark.parametrize(
    ("pairs", "low", "told"),
    [
        (2, ["g0"], ["g0"]),  # three of three have 12
        (1, ["g0"], []),  # one equal proves nothing
        (3, ["g0", "g1", "g2"], ["g0", "g1", "g2"]),  # three of five are better
        (3, ["g0", "g1", "g2", "g3"], []),  # two of five
    ],
)
def test_nvl001_of_bridged_cards_half_of_the_equals_and_two(pairs: int, low: list[str], told: list[str]) -> None:
    board = placed(down(bridged(pairs), low, 5))
    assert board.levels("NVL001") == dict.fromkeys(told, "warning")
    for found in board.said("NVL001"):
        assert found.patches == (SetNvlinks(found.subjects[0], 12),) and found.expected_from == "equals"


def test_nvl001_which_pairs_are_bridged_is_no_question() -> None:
    """Of six cards four are bridged: the other two have no link up, as built."""
    assert placed(bridged(3, 0, 1)).said("NVL001") == []


def test_nvl001_cards_that_were_not_listed_are_no_measure() -> None:
    """Two of the two that nvidia-smi nvlink lists beside it are better; the other three it did not list."""
    board = placed(down(bridged(3), ["g0"], 5))
    listed = [f for f in board.facts if not isinstance(f, NvlinkGpu) or f.index <= 2]
    assert replace(board, facts=tuple(listed)).levels("NVL001") == {"g0": "warning"}


def test_nvl001_gpus_in_mig_mode_are_left_out() -> None:
    board = placed(down(bridged(2), ["g0"], 5))
    assert board.unsaid("NVL001") == ""
    for uid in ("g1", "g2"):
        board = board.state(uid, mig=True)
    assert board.said("NVL001") == [] and board.unsaid("NVL001") == "in part"
    alone = placed(down(hgx_node(8), ["g0"], 3)).state("g0", mig=True)
    assert alone.said("NVL001") == []
    matrix = alone.without(NvlinkGpu)
    assert matrix.said("NVL001") == []
    for uid in gpus(8):
        alone = alone.state(uid, mig=True)
    assert alone.unsaid("NVL001") == "skipped" and alone.without(NvlinkGpu).unsaid("NVL001") == "skipped"


@pytest.mark.parametrize(("links", "severity"), [(range(1), "error"), (range(18), "warning")])
def test_nvl001_by_the_matrix_alone(links: range, severity: str) -> None:
    """NV17 with all others; PCIe with all others may be a partition."""
    board = placed(down(hgx_node(8), ["g0"], *links)).without(NvlinkGpu)
    (found,) = board.said("NVL001")
    assert (found.subjects, found.severity, found.patches) == (("gpu0",), severity, (SetNvlinks("gpu0", 18),))
    assert [line.text.split()[0] for line in found.evidence] == ["GPU0"]


def test_nvl001_without_any_link_and_any_measure_is_a_warning() -> None:
    assert set(placed(down(hgx_node(4), gpus(4), *range(18))).levels("NVL001").values()) == {"warning"}


def test_nvl001_the_matrix_speaks_where_the_listing_does_not() -> None:
    """All links of g0 are listed as up; the matrix has NV17 with every other GPU."""
    others = gpus(8)[1:]
    board = placed(cells(hgx_node(8), *(way for g in others for way in (("g0", g, "NV17"), (g, "g0", "NV17")))))
    assert board.levels("NVL001") == {"g0": "error"}


def test_nvl001_tells_a_gpu_once() -> None:
    board = placed(down(hgx_node(8), ["g0", "g1"], 3))
    assert [f.subjects for f in board.said("NVL001")] == [("gpu0",), ("gpu1",)]
    listed = [f for f in board.facts if not isinstance(f, NvlinkGpu) or f.index != 1]
    by_both = replace(board, facts=tuple(listed)).said("NVL001")
    assert [(f.subjects, f.evidence[0].input) for f in by_both] == [
        (("gpu0",), "nvidia-smi nvlink -s"), (("gpu1",), "nvidia-smi topo -m")
    ]  # fmt: skip


def test_nvl001_of_a_guest_that_was_given_none() -> None:
    board = placed(down(hgx_node(8), gpus(8), *range(18)))
    assert {f.severity for f in board.said("NVL001")} == {"error"}
    guest = board.changed(lambda f: replace(f, virtual=True) if isinstance(f, Host) and f.virtual is False else f)
    assert guest.said("NVL001") == []
    some = placed(down(hgx_node(8), gpus(7), *range(18)))
    some = some.changed(lambda f: replace(f, virtual=True) if isinstance(f, Host) and f.virtual is False else f)
    assert len(some.said("NVL001")) == 7, "one of them has its links"


def test_nvl001_shows_the_line_that_says_so() -> None:
    none = placed(down(hgx_node(8), ["g0"], *range(18)))
    (found,) = none.said("NVL001")
    assert [line.text for line in found.evidence] == [
        "NVML: Unable to retrieve NVLink information as all links are inActive"
    ]
    few = hgx().nvlinks("g0", lambda f: replace(f, ports=f.ports[1:6]))
    (found,) = few.said("NVL001")
    assert "has 5 of 18" in found.message and found.evidence[0].text.startswith("Link 1: "), "what was printed of it"
    unlined = hgx().nvlinks("g0", lambda f: replace(f, ports=tuple(p._replace(line=None) for p in f.ports[1:6])))
    assert unlined.said("NVL001")[0].evidence == ()
    half = hgx().nvlinks("g0", lambda f: replace(f, ports=(f.ports[1]._replace(line=None), *f.ports[2:6])))
    assert half.said("NVL001")[0].evidence[0].text.startswith("Link 2: ")


@pytest.mark.parametrize(
    ("of_port", "told"),
    [
        (lambda p: p, False),  # the first five, all up: cut short, for it prints the inactive ones too
        (lambda p: p._replace(active=p.link != 2), True),
        (lambda p: p._replace(line=Evidence("NVML", None, "NVLink state")), True),  # it gives no inactive ones
        (lambda p: p._replace(link=p.link + 1), True),
    ],
)
def test_nvl001_of_a_list_that_ends_early(of_port: Callable[[NvlinkPort], NvlinkPort], told: bool) -> None:
    board = hgx().nvlinks("g0", lambda f: replace(f, ports=tuple(map(of_port, f.ports[:5]))))
    assert board.levels("NVL001") == ({"g0": "error"} if told else {})
    assert board.unsaid("NVL001") == ("" if told else "in part")


def test_nvl001_of_what_was_not_read() -> None:
    assert hgx().without(NvlinkGpu).unsaid("NVL001") == "", "the matrix says that they are joined"
    pairs = placed(bridged(2))
    assert pairs.unsaid("NVL001") == "" and pairs.without(NvlinkGpu).unsaid("NVL001") == "skipped"
    assert pairs.without(NvlinkGpu).state("g0", mig=True).unsaid("NVL001") == "in part"
    assert placed(pair_of_cards()).unsaid("NVL001") == "not applicable"


# --- NVL002


def cells(node: Node, *pairs: tuple[str, str, str]) -> Node:
    return replace(node, cells=tuple(((a, b), cell) for a, b, cell in pairs))


def test_nvl002_a_pair_with_fewer_links_than_its_equals() -> None:
    (found,) = placed(cells(hgx_node(8), ("g0", "g1", "NV17"), ("g1", "g0", "NV17"))).said("NVL002")
    assert (found.severity, found.subjects, found.expected_from) == ("error", ("gpu0", "gpu1"), "equals")
    assert found.patches == (SetNvlinks("gpu0", 18, "gpu1"),) and found.covers == {"gpu0", "gpu1"}
    assert (found.scenarios, found.price_kind) == ((Scenario("gpu-pair", "gpu0", "gpu1"),), "typical")
    assert found.loss_range is not None and found.loss_range[0] == pytest.approx(1 / 18, abs=1e-4)
    assert [line.text.split()[0] for line in found.evidence] == ["GPU0"]
    (none,) = placed(cells(hgx_node(8), ("g0", "g1", "SYS"), ("g1", "g0", "SYS"))).said("NVL002")
    assert "have no NVLink (SYS) where their equals have NV18" in none.message


def test_nvl002_by_direction_is_a_warning() -> None:
    (found,) = placed(cells(hgx_node(8), ("g0", "g1", "NV17"))).said("NVL002")
    assert (found.severity, found.patches) == ("warning", (SetNvlinks("gpu0", 18, "gpu1"),))
    assert "NV17 in one direction, in the other NV18" in found.message


def test_nvl002_of_bridged_pairs_is_a_warning() -> None:
    (found,) = placed(cells(bridged(2), ("g0", "g1", "NV8"), ("g1", "g0", "NV8"))).said("NVL002")
    assert (found.severity, found.subjects, found.patches) == (
        "warning", ("gpu0", "gpu1"), (SetNvlinks("gpu0", 12, "gpu1"),)
    )  # fmt: skip


def test_nvl002_of_whom_it_cannot_speak() -> None:
    assert hgx(1).unsaid("NVL002") == "not applicable" and hgx(1).without(Matrix).unsaid("NVL002") == "not applicable"
    assert hgx(2).unsaid("NVL002") == "" and hgx(2).without(Matrix).unsaid("NVL002") == "skipped"
    assert placed(pair_of_cards()).unsaid("NVL002") == "not applicable"
    assert placed(bridged(1)).unsaid("NVL002") == ""
    some = hgx().state("g0", mig=True)
    assert some.unsaid("NVL002") == "in part"
    for uid in gpus(8):
        some = some.state(uid, mig=True)
    assert some.unsaid("NVL002") == "skipped"


# --- NVL003: H100 prints 26.562 GB/s a link, 95 % of it is 25.2339


def rated(board: Board, uid: str, rate: float | None, *links: int) -> Board:
    """The GPU's links, all unless given, at a rate."""

    def change(f: NvlinkGpu) -> NvlinkGpu:
        ports = (p._replace(rate_gb_per_s=rate) if not links or p.link in links else p for p in f.ports)
        return replace(f, ports=tuple(ports))

    return board.nvlinks(uid, change)


@pytest.mark.parametrize(
    ("rate", "told"), [(26.562 * 0.95, False), (26.562 * 0.9499, True), (25.0, True), (26.0, False)]
)
def test_nvl003_more_than_rounding_below_its_generation(rate: float, told: bool) -> None:
    found = rated(hgx(), "g0", rate, 4).said("NVL003")
    assert [(f.subjects, f.severity, f.expected_from) for f in found] == [(("gpu0",), "warning", "the part")] * told
    for finding in found:
        assert finding.patches == (SetNvlinkRate("gpu0", 26.562),)
        assert (finding.scenarios, finding.price_kind, finding.covers) == ((Scenario("ring"),), "computed", {"gpu0"})
        assert [line.text.partition(":")[0] for line in finding.evidence] == ["Link 4"]
        assert "has NVLink 4 at" in finding.message
        unlined = rated(hgx(), "g0", rate, 4).nvlinks(
            "g0", lambda f: replace(f, ports=tuple(p._replace(line=None) for p in f.ports))
        )
        assert unlined.said("NVL003")[0].evidence == ()


def test_nvl003_counts_the_slow_links_and_names_the_slowest_rate() -> None:
    (found,) = rated(rated(hgx(), "g0", 20.0, 4), "g0", 10.0, 7).said("NVL003")
    assert "has 2 NVLinks at 10 GB/s where 26.562 is normal" in found.message
    assert [line.text.partition(":")[0] for line in found.evidence] == ["Link 4"]
    everywhere = hgx()
    for uid in gpus(8):
        everywhere = rated(everywhere, uid, 13.281)
    assert len(everywhere.said("NVL003")) == 8, "the part has more, whatever the equals"


def unheld(rates: list[float]) -> Board:
    """GPUs of a workstation part with NVLink (RTX A6000, 10de:2230), whose rate no figure gives: a link each."""
    node = pair_of_cards(4, "a100-pcie", fabric="bridges", bridged=(("g0", "g1"), ("g2", "g3")))
    board = placed(node)
    for i, rate in enumerate(rates):
        ports = tuple(NvlinkPort(k, True, rate, line=Evidence("nvidia-smi nvlink -s", k, f"Link {k}")) for k in (0, 1))
        board = board.pci(f"g{i}", device_id="2230").state(f"g{i}", model="NVIDIA RTX A6000")
        board = board.nvlinks(f"g{i}", lambda f, ports=ports: replace(f, ports=ports))  # type: ignore[misc]
    return board


@pytest.mark.parametrize(
    ("rates", "told"),
    [
        ([14.0, 14.0, 14.0, 10.0], {3}),  # unlike the others
        ([14.0, 14.0, 10.0, 10.0], {2, 3}),  # as many: the faster is taken for normal
        ([14.0, 10.0, 10.0, 10.0], set()),  # most run so
    ],
)
def test_nvl003_of_other_parts_the_most_common_rate_is_normal(rates: list[float], told: set[int]) -> None:
    found = unheld(rates).said("NVL003")
    assert {(f.subjects, f.expected_from) for f in found} == {((f"gpu{i}",), "equals") for i in told}
    assert {f.patches for f in found} <= {(SetNvlinkRate(f.subjects[0], 14.0),) for f in found}


def test_nvl003_a_gpu_in_mig_mode_is_no_measure() -> None:
    board = unheld([14.0, 14.0, 14.0, 10.0])
    for uid in ("g0", "g1", "g2"):
        board = board.state(uid, mig=True)
    assert board.said("NVL003") == [] and board.unsaid("NVL003") == "in part"


@pytest.mark.parametrize("rule", ["NVL003", "NVL004"])
def test_nvl003_and_nvl004_of_what_was_not_read(rule: str) -> None:
    assert placed(pair_of_cards()).unsaid(rule) == "not applicable"
    assert hgx().without(NvlinkGpu).unsaid(rule) == "skipped"
    board = hgx()
    for uid in gpus(8):
        board = board.nvlinks(uid, lambda f: replace(f, ports=tuple(p._replace(errors=(("CRC", 0),)) for p in f.ports)))
    assert board.unsaid(rule) == "" and board.said(rule) == []
    one = board.nvlinks("g0", lambda f: replace(f, ports=tuple(p._replace(errors=()) for p in f.ports)))
    assert one.unsaid("NVL004") == "in part" and one.unsaid("NVL003") == ""
    for uid in gpus(8):
        board = board.state(uid, mig=True)
    assert board.unsaid(rule) == "skipped"
    assert placed(down(hgx_node(8), ["g0"], 3)).said("NVL003") == [], "it has no rate at all"
    assert rated(hgx(), "g0", None, 3).said("NVL003") == [], "a link at rest"
    inactive = hgx().nvlinks("g0", lambda f: replace(f, ports=tuple(p._replace(active=False) for p in f.ports)))
    assert rated(inactive, "g0", 5.0).said("NVL003") == [], "the rate of a link that is down"
