"""Where the rules of counters and MTU begin to speak: at the limits of rules.md, and one beside."""

from __future__ import annotations

from dataclasses import replace

import pytest
from boards import DOWN, Board, counted, gpus, hgx, hgx_node, nics, placed, two_ports
from nodesim.spec import Link

from topocheck.facts import Evidence, NvlinkPort
from topocheck.patches import SetField

# --- NET003, NET008


def all_counted(count: int, counter: str, value: int) -> Board:
    board = hgx(count)
    for i in range(count):
        board = counted(board, f"n{i}", {counter: value})
    return board


COUNTERS = ["link_downed", "link_error_recovery", "symbol_error", "packet_seq_err", "local_ack_timeout_err"]


@pytest.mark.parametrize("counter", COUNTERS)
def test_net003_a_counter_that_rose_by_one_is_a_warning(counter: str) -> None:
    board = counted(all_counted(3, counter, 4), "n0", {counter: 4}, {counter: 5})
    (found,) = board.said("NET003")
    assert (found.severity, found.effect, found.expected_from, found.readings) == ("warning", "risks", None, 2)
    assert found.patches == (SetField("mlx5_0", "readings", (), 1),)
    assert [line.text for line in found.evidence] == [counter] and f"{counter} +1 " in found.message
    assert counted(board, "n0", {counter: 4}, {counter: 4}).said("NET003") == []
    (thrice,) = counted(board, "n0", {counter: 4}, {counter: 5}, {counter: 7}).said("NET003")
    assert f"{counter} +3 " in thrice.message, "from the first reading to the last"
    assert counted(board, "n0", {"port_xmit_data": 0}, {"port_xmit_data": 9}).said("NET003") == [], "no error"
    assert counted(board, "n0", {}, {counter: 9}).said("NET003") == [], "no first value"
    assert counted(board, "n0", {counter: 9}, {}).said("NET003") == [], "no last value"


@pytest.mark.parametrize(
    ("usual", "value", "severities"),
    [(2, 20, ["info"]), (2, 19, []), (0, 10, ["info"]), (0, 9, []), (1, 10, ["info"]), (0, 0xFFFFFFFF, [])],
)
def test_net003_of_one_reading_ten_times_the_median_stands_out(usual: int, value: int, severities: list[str]) -> None:
    board = counted(all_counted(3, "symbol_error", usual), "n0", {"symbol_error": value})
    found = board.said("NET003")
    assert [f.severity for f in found] == severities
    assert {(f.expected_from, f.readings, f.subjects) for f in found} <= {("equals", 1, ("mlx5_0",))}
    twice = counted(board, "n0", *[{"symbol_error": value}] * 2).said("NET003")
    assert [(f.severity, f.expected_from) for f in twice] == [("info", "equals")] * len(severities), "it did not rise"


def test_net003_needs_two_equals_that_count() -> None:
    board = counted(all_counted(2, "symbol_error", 0), "n0", {"symbol_error": 500})
    assert board.said("NET003") == [], "one equal is no median"
    three = counted(all_counted(3, "symbol_error", 0), "n0", {"symbol_error": 500})
    assert len(three.said("NET003")) == 1
    assert counted(three, "n1", {"link_downed": 0}).said("NET003") == [], "one of the two has not that counter"
    ended = counted(three, "n1", {"symbol_error": 0xFFFFFFFF})
    assert ended.said("NET003") == [], "a counter at its end says no number"


@pytest.mark.parametrize(("rule", "counter"), [("NET003", "link_downed"), ("NET008", "port_xmit_wait")])
def test_net003_and_net008_say_whose_counters_were_not_read(rule: str, counter: str) -> None:
    board = hgx(3)
    assert board.unsaid(rule) == "skipped"
    assert counted(board, "n0", {counter: 0}).unsaid(rule) == "in part"
    assert all_counted(3, counter, 0).unsaid(rule) == ""
    assert hgx(3, nic=None).unsaid(rule) == "not applicable"
    assert counted(counted(board, "n0", {"other": 1}), "n1", {counter: 0}).unsaid(rule) == "in part"


def test_net008_needs_a_counter_of_traffic() -> None:
    assert counted(hgx(3), "n0", {"link_downed": 1}).unsaid("NET008") == "skipped"


def test_net003_looks_at_every_port_that_was_counted() -> None:
    """Of a device's two ports one has no counters, here and at its equals."""
    board = two_ports(all_counted(3, "link_downed", 0), 3)
    for i in range(3):
        device = board.rdma(f"n{i}")
        board = board.device(f"n{i}", ports=(device.ports[0], replace(device.ports[1], readings=())))
    assert board.said("NET003") == []
    assert [f.subjects for f in counted(board, "n0", {"link_downed": 10}).said("NET003")] == [("mlx5_0",)]


@pytest.mark.parametrize(
    ("wait", "data", "discards", "told"),
    [
        (1000, 1000, 0, []),  # as many ticks as words
        (1001, 1000, 0, ["port_xmit_wait"]),
        (2, 1, 0, ["port_xmit_wait"]),
        (9, 0, 0, []),  # nothing was sent: no measure
        (0, 1000, 1, ["port_xmit_discards"]),
        (2000, 1000, 2, ["port_xmit_wait", "port_xmit_discards"]),
        (0, 0, 0, []),
    ],
)
@pytest.mark.parametrize("before", [0, 500])
def test_net008_waits_longer_than_it_sends(wait: int, data: int, discards: int, told: list[str], before: int) -> None:
    values = {"port_xmit_wait": wait, "port_xmit_data": data, "port_xmit_discards": discards}
    once = counted(hgx(3), "n0", values).said("NET008")
    assert [f.severity for f in once] == ["info"] * bool(told)
    assert [f.readings for f in once] == [1] * bool(told)
    first = dict.fromkeys(values, before)
    twice = counted(hgx(3), "n0", first, {key: before + value for key, value in values.items()}).said("NET008")
    assert [(f.severity, f.readings) for f in twice] == [("warning", 2)] * bool(told)
    for found in (*once, *twice):
        assert [line.text for line in found.evidence] == told and found.subjects == ("mlx5_0",)
        assert found.patches == (SetField("mlx5_0", "readings", (), 1),)


def test_net008_counters_that_were_not_read_say_nothing() -> None:
    assert counted(hgx(3), "n0", {"port_xmit_wait": 9}).said("NET008") == [], "sent: not known"
    assert counted(hgx(3), "n0", {"port_xmit_data": 1}).said("NET008") == []
    assert len(counted(hgx(3), "n0", {"port_xmit_discards": 1}).said("NET008")) == 1


# --- NET004


@pytest.mark.parametrize(
    ("count", "small", "told"),
    [(5, 1, 1), (5, 3, 3), (5, 4, 0), (3, 1, 1), (3, 2, 0), (8, 5, 0), (7, 4, 4)],
)
def test_net004_half_of_the_equals_and_two_have_more(count: int, small: int, told: int) -> None:
    found = hgx(count, nic="cx7-roce").ports(nics(*range(small)), mtu=1024).said("NET004")
    assert [(f.subjects, f.severity) for f in found] == [((f"mlx5_{i}",), "warning") for i in range(told)]
    for i, finding in enumerate(found):
        assert (finding.expected_from, finding.patches) == ("equals", (SetField(f"mlx5_{i}", "mtu", 4096, 1),))
        assert [line.text for line in finding.evidence] == ["mtu: 4096"]
    assert all(f.evidence == () for f in hgx(3).port("n0", mtu=1024, lines={}).said("NET004"))


def test_net004_takes_the_usual_of_the_larger_ones() -> None:
    board = hgx(5, nic="cx7-roce").port("n0", mtu=1024).port("n1", mtu=8192)
    (found,) = (f for f in board.said("NET004") if f.subjects == ("mlx5_0",))
    assert found.patches == (SetField("mlx5_0", "mtu", 4096, 1),)


def test_net004_other_cards_are_no_measure() -> None:
    """Three NICs of one kind at 1024; those of another kind, compute too by the policy's word, at 4096."""
    node = hgx_node(6)
    for i in range(3):
        node = node.changed(f"n{i}", lambda nic: replace(nic, part_key="cx6-hdr", link=Link(4)))
    board = replace(placed(node).ports(nics(0, 1, 2), mtu=1024), compute_nics="mlx5_*")
    assert len(board.topology.compute_nics) == 6
    assert board.said("NET004") == []


@pytest.mark.parametrize(
    ("count", "nic", "mtu", "told"),
    [
        (2, "cx7-roce", 1024, True),
        (1, "cx7-roce", 1024, False),
        (2, "cx7-ndr", 1024, False),
        (2, "cx7-roce", 2048, False),
    ],
)
def test_net004_all_roce_ports_at_the_smallest_are_a_note(count: int, nic: str, mtu: int, told: bool) -> None:
    board = hgx(count, nic=nic, gpu="l40s", fabric="none").ports(nics(*range(count)), mtu=mtu)
    found = board.said("NET004")
    assert [(f.severity, f.effect, f.subjects) for f in found] == [("info", "none", ("mlx5_0", "mlx5_1"))] * told
    assert [line.text for f in found for line in f.evidence] == ["mtu: 4096"] * told
    if told:
        assert board.port("n1", mtu=2048).said("NET004") == [] and board.port("n0", mtu=2048).said("NET004") == []
        (found_first,) = board.port("n0", lines={"mtu": Evidence("ibv_devinfo", 7, "of the first")}).said("NET004")
        assert [line.text for line in found_first.evidence] == ["of the first"]
        assert board.port("n0", lines={}).said("NET004")[0].evidence == ()


def test_net004_of_mtus_that_were_not_read() -> None:
    assert hgx(3).unsaid("NET004") == ""
    assert hgx(3).port("n0", mtu=None).unsaid("NET004") == "in part"
    assert hgx(3).ports(nics(0, 1, 2), mtu=None).unsaid("NET004") == "skipped"
    assert hgx(3).ports(nics(0, 1, 2), **DOWN).unsaid("NET004") == "not applicable"
    assert hgx(5).port("n0", mtu=1024, state="down").said("NET004") == []
    second = two_ports(hgx(5), 5, "n0", mtu=1024, state="down")
    assert second.said("NET004") == [], "a second port that is down"


# --- NVL004


def erred(board: Board, uid: str, *counts: dict[str, int], before: dict[str, int] | None = None) -> Board:
    """Counters of the GPU's first links; of the others 0."""

    def port(p: NvlinkPort) -> NvlinkPort:
        now = counts[p.link] if p.link < len(counts) else {"CRC": 0}
        line = Evidence("nvidia-smi nvlink -e", p.link, f"Link {p.link} counts")
        return p._replace(errors=tuple(now.items()), error_line=line, errors_before=tuple((before or {}).items()))

    return board.nvlinks(uid, lambda f: replace(f, ports=tuple(port(p) for p in f.ports)))


def quiet(count: int = 3) -> Board:
    board = hgx(count)
    for uid in gpus(count):
        board = erred(board, uid)
    return board


@pytest.mark.parametrize(("total", "out"), [(9, False), (10, True), (11, True)])
def test_nvl004_ten_times_the_median_of_all_links(total: int, out: bool) -> None:
    """The median of 54 links is 0: ten errors stand out against one."""
    assert quiet().said("NVL004") == []
    (found,) = erred(quiet(), "g0", {"CRC": 1, "Replay": 0}, {"CRC": total - 1, "Replay": 1}).said("NVL004")
    assert (found.severity, found.effect, found.subjects) == ("info", "risks", ("gpu0",))
    assert found.expected_from == ("equals" if out else None)
    assert [line.text for line in found.evidence] == ["Link 1 counts"]
    assert f"errors on 2 of 18 NVLinks, most on link 1: {total - 1} CRC, 1 Replay at some time" in found.message


def test_nvl004_against_a_median_above_one() -> None:
    board = quiet()
    for uid in gpus(3):
        board = erred(board, uid, *[{"CRC": 3}] * 18)
    assert {f.expected_from for f in board.said("NVL004")} == {None}
    (first, *_) = erred(board, "g0", {"CRC": 30}, *[{"CRC": 3}] * 17).said("NVL004")
    assert first.expected_from == "equals"
    (first, *_) = erred(board, "g0", {"CRC": 29}, *[{"CRC": 3}] * 17).said("NVL004")
    assert first.expected_from is None
    # links without counters are none: the median is of those that count
    for uid in gpus(3):
        board = board.nvlinks(
            uid, lambda f: replace(f, ports=tuple(p._replace(errors=()) if p.link else p for p in f.ports))
        )
    counted = [erred_first(board, total).said("NVL004")[0].expected_from for total in (29, 30)]
    assert counted == [None, "equals"]


def erred_first(board: Board, total: int) -> Board:
    """So many errors on the first link of g0, the others as they are."""
    return board.nvlinks(
        "g0", lambda f: replace(f, ports=(f.ports[0]._replace(errors=(("CRC", total),)), *f.ports[1:]))
    )


@pytest.mark.parametrize(
    ("now", "before", "severity"),
    [
        ({"Replay": 6}, {"Replay": 5}, "warning"),
        ({"Recovery": 1}, {"Recovery": 0}, "warning"),
        ({"replay errors": 2}, {"replay errors": 1}, "warning"),
        ({"Replay": 5}, {"Replay": 5}, "info"),
        ({"Replay": 5}, {}, "info"),  # no earlier count
        ({"CRC": 9}, {"CRC": 1}, "info"),  # judged by its rate, which needs a time
    ],
)
def test_nvl004_replays_or_recoveries_that_rise(now: dict[str, int], before: dict[str, int], severity: str) -> None:
    (found,) = erred(quiet(), "g0", now, before=before).said("NVL004")
    assert found.severity == severity
    assert ("and they rise" in found.message) == (severity == "warning")


@pytest.mark.parametrize(("per_s", "severity"), [(None, "info"), (0.0, "info"), (99.9, "info"), (100.0, "warning")])
def test_nvl004_a_hundred_crc_errors_a_second(per_s: float | None, severity: str) -> None:
    board = erred(quiet(), "g0", {"CRC": 900}, {"CRC": 400}).nvlinks(
        "g0", lambda f: replace(f, ports=(f.ports[0], f.ports[1]._replace(crc_per_s=per_s), *f.ports[2:]))
    )
    (found,) = board.said("NVL004")
    assert (found.severity, "most on link 1" in found.message) == (severity, severity == "warning")


def test_nvl004_names_the_link_that_rises_not_the_one_with_most() -> None:
    board = erred(quiet(), "g0", {"CRC": 99}, {"Replay": 2}, before={"Replay": 1})
    (found,) = board.said("NVL004")
    assert "most on link 1" in found.message and found.severity == "warning"
    unlined = board.nvlinks("g0", lambda f: replace(f, ports=tuple(p._replace(error_line=None) for p in f.ports)))
    assert unlined.said("NVL004")[0].evidence == ()
