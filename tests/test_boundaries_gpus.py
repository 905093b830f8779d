"""Where the rules of GPUs begin and end: half of the equals, one more; exactly at a limit; whom they pass over.

Expected values are rules.md's: "its equals are better" needs at least half of them, and at least two.
"""

import pytest
from altered import (
    alter,
    board,
    cards,
    each,
    facts_of,
    found,
    is_gpu,
    is_nic,
    is_state,
    levels,
    line,
    on_switch,
    silence,
    texts,
)
from nodesim.spec import Gpu, Link, Nic

from topocheck.facts import Evidence, Host, LogEvent, Matrix, NvlinkGpu, P2pMatrix, PciFunction

GIB = 1 << 30
MEMORY = 81559 << 20  # of an H100
BOARD = facts_of(board())  # eight H100, each with its NIC


def states(values, of=range(8), facts=BOARD):
    """The board with some GPUs' states changed."""
    return alter(facts, is_state, each(list(of), **values))


def functions(values, of=range(8), facts=BOARD):
    """The board with some GPUs' PCI functions changed."""
    return alter(facts, is_gpu, each(list(of), **values))


def all_of(count, severity):
    return {f"gpu{i}": severity for i in range(count)}


# --- PCI008 bar1-small


@pytest.mark.parametrize(
    ("small", "size", "expected_from"),
    [
        (8, MEMORY, None),  # covers it
        (8, MEMORY - 1, "the part"),
        (4, 100 * GIB, "equals"),  # 4 of 7 equals have 128 GiB
        (5, 100 * GIB, None),  # 3 of 7
        (1, MEMORY - 1, "equals"),
    ],
)
def test_bar1_against_memory_and_equals(small, size, expected_from):
    facts = states({"bar1_bytes": size}, range(small))
    assert levels(facts, "PCI008") == (all_of(small, "warning") if expected_from else {})
    for finding in found(facts, "PCI008"):
        assert finding.expected_from == expected_from
        assert [text.split()[0] for text in texts(finding)] == ["bar1_bytes", "Region"]


@pytest.mark.parametrize(
    ("node", "size", "expected"),
    [
        (cards(2), GIB, {}),  # one equal proves nothing
        (cards(3), GIB, {"gpu0": "warning"}),
        (cards(1, "h100-pcie"), MEMORY - 1, {"gpu0": "info"}),  # no peer, no NIC
        (cards(1, "h100-pcie", nics=1), MEMORY - 1, {"gpu0": "warning"}),
        (cards(2, "h100-pcie"), MEMORY - 1, {"gpu0": "warning"}),
    ],
)
def test_bar1_by_peers(node, size, expected):
    assert levels(states({"bar1_bytes": size}, [0], facts_of(node)), "PCI008") == expected


def test_bar1_by_one_input():
    small = functions({"bar1_bytes": 256 << 20}, [3], states({"bar1_bytes": 256 << 20}, [3]))
    (whole,) = found(small, "PCI008")
    assert "has a BAR1 of 256 MiB, less than its memory of 81559 MiB" in whole.message
    (unsized,) = found([f for f in small if isinstance(f, PciFunction)], "PCI008")  # no input tells its memory
    assert "less than the 131072 MiB of its equals" in unsized.message
    assert levels([f for f in small if not is_gpu(f)], "PCI008") == {"gpu3": "warning"}
    assert levels([f for f in small if is_state(f)], "PCI008") == {"gpu3": "warning"}
    assert [partial for _, partial in silence([f for f in small if isinstance(f, Matrix)], "PCI008")] == [False]


def test_bar1_unread_and_of_a_vgpu():
    lspci_only = functions({"bar1_bytes": GIB}, [3], states({"bar1_bytes": None}))
    assert levels(lspci_only, "PCI008") == {"gpu3": "warning"}
    assert silence(lspci_only, "PCI008") == []
    one = functions({"bar1_bytes": None}, [3], states({"bar1_bytes": None}, [3]))
    assert silence(one, "PCI008") == [("BAR1 read of 7 of 8 GPUs", True)]
    none = functions({"bar1_bytes": None}, facts=states({"bar1_bytes": None}))
    assert silence(none, "PCI008") == [("BAR1 read of 0 of 8 GPUs", False)]
    assert found(states({"bar1_bytes": GIB, "vgpu": True}, [3]), "PCI008") == []
    assert [partial for _, partial in silence(states({"vgpu": True}), "PCI008")] == [None]


# --- GPU002 gpu-unlike-peers


@pytest.mark.parametrize(
    ("field", "usual", "odd", "severity", "effect"),
    [
        ("power_limit_w", 700.0, 699.0, "warning", "slows"),
        ("power_limit_w", 700.0, 701.0, "info", "slows"),  # more slows nobody down
        ("application_clock_mhz", 1980, 1500, "warning", "slows"),
        ("application_clock_mhz", 1500, 1980, "info", "slows"),
        ("mig", False, True, "warning", "slows"),
        ("mig", True, False, "info", "none"),
        ("ecc", True, False, "info", "none"),
        ("confidential", False, True, "info", "none"),
        ("vbios", "96.00.74.00.11", "96.00.74.00.12", "info", "none"),
        ("persistence", True, False, "info", "none"),
    ],
)
def test_one_gpu_set_unlike_the_others(field, usual, odd, severity, effect):
    facts = states({field: odd}, [2], states({field: usual, "lines": {field: line(field)}}))
    (finding,) = found(facts, "GPU002")
    assert (finding.severity, finding.subjects, finding.effect) == (severity, ("gpu2",), effect)
    assert (finding.expected_from, texts(finding)) == ("equals", [field])
    assert "7 of 7 equals" in finding.message


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (range(3), all_of(3, "warning")),  # 5 of 7 equals have the other; of the five, three of seven
        (range(8), {}),
    ],
)
def test_how_many_are_set_otherwise(of, expected):
    assert levels(states({"power_limit_w": 500.0}, of), "GPU002") == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"power_limit_w": 300.0}, {"gpu0": "info"}),  # lower than its only equal: not proven, but named
        ({"power_limit_w": 400.0}, {"gpu1": "info"}),
        ({"mig": True}, {"gpu0": "warning"}),
        ({"ecc": False}, {}),  # of two that differ neither is the odd one
    ],
)
def test_of_two_that_differ_the_lesser_is_named(values, expected):
    assert levels(states(values, [0], facts_of(cards(2))), "GPU002") == expected


def test_of_three_that_all_differ_none_is_odd():
    # neither of two values is what all others have, nor what two of them have
    facts = states({"power_limit_w": 300.0}, [0], states({"power_limit_w": 310.0}, [1], facts_of(cards(3))))
    assert found(facts, "GPU002") == []


def test_unread_settings():
    unread = dict.fromkeys(
        ("power_limit_w", "application_clock_mhz", "mig", "ecc", "confidential", "vbios", "persistence")
    )
    assert silence(states(unread, [4]), "GPU002") == [("settings read of 7 of 8 GPUs (nvidia-smi -q)", True)]
    assert [partial for _, partial in silence(states(unread), "GPU002")] == [False]
    assert found(states({"power_limit_w": None}, range(1, 8)), "GPU002") == []
    assert silence(facts_of(cards(1)), "GPU002") == [("fewer than two GPUs", None)]
    assert silence(facts_of(cards(2)), "GPU002") == []
    words = found(states({"mig": True}, [2]), "GPU002")[0].message
    assert "MIG mode on, 7 of 7 equals off" in words
    words = found(states({"vbios": "96.01"}, [2]), "GPU002")[0].message
    assert "VBIOS 96.01, 7 of 7 equals 96.00.74.00.11" in words
    assert levels(states({"ecc": False}, [0], facts_of(cards(3))), "GPU002") == {"gpu0": "info"}


UNLISTED = [f for f in BOARD if isinstance(f, PciFunction)]


@pytest.mark.parametrize("rule", ["GPU002", "GPU005", "GPU006"])
def test_gpus_that_only_lspci_tells_of(rule):
    assert [partial for _, partial in silence(UNLISTED, rule)] == [False]
    assert found(UNLISTED, rule) == []


# What one input says without a line: the finding stands, with nothing to show
UNLINED = [
    ("PCI008", {"bar1_bytes": GIB}, {"bar1_bytes": GIB}),
    ("GPU002", {"power_limit_w": 500.0}, {}),
    ("GPU003", {}, {"driver": None}),
    ("GPU005", {"remap_failed": True}, {}),
    ("GPU006", {"slowdowns": frozenset({"HW Slowdown"})}, {}),
    ("NVL005", {"fabric_state": "Failed"}, {}),
]


@pytest.mark.parametrize(("rule", "state", "function"), UNLINED)
def test_a_finding_without_a_line_shows_none(rule, state, function):
    facts = functions({**function, "lines": {}}, [2], states({**state, "lines": {}}, [2]))
    assert [(f.subjects, f.evidence) for f in found(facts, rule)] == [(("gpu2",), ())]


def test_a_gpu_on_the_bus_that_the_driver_does_not_list():
    last = [f.bdf for f in BOARD if is_gpu(f)][7]
    counted = [f for f in BOARD if not isinstance(f, (Matrix, P2pMatrix, NvlinkGpu))]
    facts = [f for f in counted if not (is_state(f) and f.bdf == last)]
    assert levels(functions({"driver": None}, [7], facts), "GPU003") == {last: "error"}


# --- GPU003 driver-unusable


@pytest.mark.parametrize("values", [{"driver": None}, {"driver": "nouveau"}, {"bars_unassigned": True}])
@pytest.mark.parametrize(
    ("count", "severity"),
    [(1, "error"), (4, "error"), (5, "warning"), (8, "warning")],  # 4, then 3 of 7 equals are usable
)
def test_gpus_that_the_driver_cannot_use(values, count, severity):
    given = found(functions(values, range(count)), "GPU003")
    assert [(f.subjects, f.severity, f.effect) for f in given] == [
        ((f"gpu{i}",), severity, "stops") for i in range(count)
    ]
    assert {f.expected_from for f in given} == {"equals" if severity == "error" else None}


@pytest.mark.parametrize(("count", "severity"), [(2, "warning"), (3, "error")])
def test_a_gpu_without_driver_among_few(count, severity):
    assert levels(functions({"driver": None}, [0], facts_of(cards(count))), "GPU003") == {"gpu0": severity}


def test_equals_of_a_gpu_without_driver_are_of_its_model():
    mixed = on_switch(*(Gpu(f"g{i}", "l40s" if i else "h100-pcie", Link(4)) for i in range(4)))
    assert levels(functions({"driver": None}, [0], facts_of(mixed)), "GPU003") == {"gpu0": "warning"}
    assert levels(functions({"bars_unassigned": True}, [0], facts_of(mixed)), "GPU003") == {"gpu0": "warning"}


@pytest.mark.parametrize(
    ("values", "expected", "shown"),
    [
        ({"driver": None}, "warning", "header"),
        ({"driver": "vfio-pci"}, None, None),
        ({"driver": "other"}, None, None),
        ({"bars_unassigned": True}, "warning", "Region 1"),
        ({"driver": None, "driver_shown": False}, None, None),
    ],
)
def test_a_nic_that_the_driver_cannot_use(values, expected, shown):
    lines = {key: line(key) for key in ("Region 1", "header")}
    given = found(alter(BOARD, is_nic, {2: {**values, "lines": lines}}), "GPU003")
    assert [(f.severity, f.subjects, texts(f)) for f in given] == (
        [(expected, ("mlx5_2",), [shown])] if expected else []
    )


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"driver": "nouveau"}, ["Kernel driver in use: nouveau"]),
        ({"bars_unassigned": True}, ["Region 1: Memory at <unassigned>"]),
    ],
)
def test_the_line_that_shows_it(values, shown):
    lines = {name: line(name) for name in ("header",)} | {text.partition(":")[0]: line(text) for text in shown}
    lines.setdefault("Region 1", line("Region 1: Memory at 2100"))
    (finding,) = found(functions(values | {"lines": lines}, [0]), "GPU003")
    assert texts(finding) == shown


@pytest.mark.parametrize("driver", ["vfio-pci", "nvidia_vgpu_vfio"])
def test_gpus_passed_through_and_gpus_whose_driver_is_not_shown(driver):
    assert found(functions({"driver": driver}), "GPU003") == []
    assert found(functions({"driver": None, "driver_shown": False}), "GPU003") == []
    assert found(functions({"dead": True, "driver": None}, [0]), "GPU003") == []  # GPU001's


REFUSAL = Host("nvidia-smi", driver_error="Driver/library version mismatch", line=line("Failed to initialize NVML"))
ABSENT = Host("nvidia-smi", driver_error="couldn't communicate with the NVIDIA driver", line=line("has failed"))
NO_GPU = facts_of(on_switch(Nic("n0", "cx7-ndr", Link()), Nic("n1", "cx7-ndr", Link())))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ([*functions({"driver": None}), REFUSAL], [("error", 8)]),  # once, not for each GPU
        ([*functions({"bars_unassigned": True}, [0]), REFUSAL], [("error", 8), ("error", 1)]),
        ([REFUSAL], [("error", 0)]),  # a module is loaded, in another version
        ([ABSENT], [("info", 0)]),  # perhaps a login node
        ([*NO_GPU, ABSENT], []),  # a machine without GPUs
        ([*(f for f in BOARD if is_state(f)), ABSENT], [("error", 8)]),
    ],
)
def test_a_driver_that_refuses(facts, expected):
    assert [(f.severity, len(f.subjects)) for f in found(facts, "GPU003")] == expected


def hung(*events):
    silent = Host("nvidia-smi", driver_hung="nvidia-smi -L: no answer within 19 s", line=line("no answer"))
    return [(f.severity, f.effect, texts(f)) for f in found([*BOARD, Host("dmesg"), silent, *events], "GPU003")]


def event(kind, number, at):
    return LogEvent(kind, "0000:1b:00.0", number, None, Evidence("dmesg", at, kind))


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([], True),
        ([event("xid", 79, 9)], False),  # GPU004's
        ([event("xid", 119, None)], False),
        ([event("xid", 31, 9)], True),
        ([event("aer", 79, 9)], True),
        ([event("xid", 79, 9), event("driver-load", None, 10)], True),  # of before the load
        ([event("driver-load", None, 8), event("xid", 120, 9)], False),
        ([event("driver-load", None, 1), event("xid", 79, None)], True),  # no line tells that it is of after the load
    ],
)
def test_a_driver_that_does_not_answer(events, told):
    assert hung(*events) == ([("warning", "risks", ["no answer"])] if told else [])


def test_of_nobody_the_driver_rule_says_why():
    assert silence([Host("uname -r", kernel="6.8")], "GPU003") == [("no GPU or NIC in the input", None)]
    assert silence([f for f in BOARD if is_state(f)], "GPU003") == [("no driver or BAR in the input", False)]
    assert silence(BOARD, "GPU003") == silence(NO_GPU, "GPU003") == []
    assert hung() == [("warning", "risks", ["no answer"])]


# --- GPU005 gpu-memory-unsound


@pytest.mark.parametrize(
    ("values", "severity", "shown"),
    [
        ({"remap_failed": True, "ecc_uncorrectable": 3, "remap_pending": True}, "error", "remap_failed"),
        ({"ecc_uncorrectable": 1, "remap_pending": True}, "warning", "ecc_uncorrectable"),
        ({"remap_pending": True}, "info", "remap_pending"),
        ({"ecc_uncorrectable": 0}, None, None),
    ],
)
def test_the_worst_of_a_gpus_memory_is_told(values, severity, shown):
    lines = {name: line(name) for name in ("remap_failed", "ecc_uncorrectable", "remap_pending")}
    given = found(states({**values, "lines": lines}, [6]), "GPU005")
    assert [(f.severity, f.subjects, texts(f), f.effect) for f in given] == (
        [(severity, ("gpu6",), [shown], "risks")] if severity else []
    )


@pytest.mark.parametrize("read", ["remap_failed", "ecc_uncorrectable", "remap_pending"])
def test_one_reading_of_a_gpus_memory_is_enough(read):
    unread = {"remap_failed": None, "ecc_uncorrectable": None, "remap_pending": None}
    words = "memory errors read of {} of 8 GPUs (nvidia-smi -q)"
    assert silence(states(unread, [6]), "GPU005") == [(words.format(7), True)]
    assert silence(states(unread), "GPU005") == [(words.format(0), False)]
    assert silence(states(unread | {read: 0}), "GPU005") == []


# --- GPU006 gpu-held-back

HOT, BRAKE, ANY = "HW Thermal Slowdown", "HW Power Brake Slowdown", "HW Slowdown"


@pytest.mark.parametrize(
    ("reasons", "count", "readings", "severity"),
    [
        ({HOT}, 1, 2, "warning"),
        ({BRAKE, ANY}, 1, 2, "warning"),
        ({HOT}, 4, 2, "warning"),  # 4 of 7 equals run free
        ({HOT}, 5, 2, "info"),
        ({HOT}, 8, 2, "info"),  # the room is hot
        ({HOT}, 1, 1, "info"),  # one reading
        ({ANY}, 1, 2, "info"),  # without a cause
    ],
)
def test_who_is_held_back(reasons, count, readings, severity):
    lines = {name: line(name) for name in (HOT, BRAKE, ANY)}
    facts = states({"slowdowns": frozenset(reasons), "lines": lines}, range(count))
    again = [f for f in facts if is_state(f)] if readings == 2 else []
    given = found([*facts, *again], "GPU006")
    assert {s: f.severity for f in given for s in f.subjects} == all_of(count, severity)
    for finding in given:
        assert finding.readings == readings
        assert texts(finding) == [next(r for r in (HOT, BRAKE, ANY) if r in reasons)] * readings
        assert finding.expected_from == ("equals" if count < 8 else None)
        assert (finding.alike is None) == (count < 8)
        assert f"in {readings} of {readings} readings" in finding.message


def test_held_back_at_one_of_two_readings():
    hot = states({"slowdowns": frozenset({HOT})}, [0])
    (finding,) = found([*hot, *(f for f in BOARD if is_state(f))], "GPU006")
    assert (finding.severity, finding.readings) == ("info", 1)
    unread = states({"slowdowns": None}, [0])
    assert silence(unread, "GPU006") == [("clocks' event reasons read of 7 of 8 GPUs", True)]
    assert [partial for _, partial in silence(states({"slowdowns": None}), "GPU006")] == [False]
