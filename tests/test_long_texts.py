"""Texts longer than any tool prints: how much of them is looked at, counted in lines, and that it is said."""

from __future__ import annotations

from topocheck.facts import Fact, Gap, LogEvent, PciFunction, RdmaDevice
from topocheck.probes import gather, kernel_log
from topocheck.probes.gather import read_text
from topocheck.probes.lines import MAX_LINES, MOST_FUNCTIONS, first_lines, lines_with, start_of_last
from topocheck.probes.rdma_draft import MOST_DEVICES
from topocheck.sources.base import Missing, Raw
from topocheck.sources.reading import decode

CA = "CA 'mlx5_{}'\n\tPort 1:\n\t\tState: Active\n\t\tRate: 400\n"
XID = "[    {}.000000] NVRM: Xid (PCI:0000:1b:00): 79, pid=4711, GPU has fallen off the bus.\n"
AER = "[  900.500000] pcieport 0000:15:01.0: AER: Corrected error received: 0000:{:02x}:00.0\n"
REST = "only its first 400,000 lines were read"


def gaps(facts: list[Fact]) -> list[str]:
    return [fact.reason for fact in facts if isinstance(fact, Gap)]


def test_the_first_lines_of_a_text_that_has_no_more_are_the_text_itself() -> None:
    text = "a\nb\nc\n"
    assert first_lines(text, 3) is text
    assert first_lines(text, 2) == "a\nb\n"
    assert first_lines("a\nb", 1) == "a\n"


def test_what_stands_behind_the_most_lines_of_any_tool_is_a_gap() -> None:
    text = CA.format(0) + "\n" * MAX_LINES + CA.format(1)
    facts = read_text(Raw("ibstat", text, "ibstat"))
    assert [fact.name for fact in facts if isinstance(fact, RdmaDevice)] == ["mlx5_0"]
    assert gaps(facts) == [REST]


def test_a_log_is_read_to_its_end_whatever_its_name() -> None:
    text = XID.format(1) + "\n" * MAX_LINES + XID.format(2)
    for name, said in (("dmesg", []), ("pasted.txt", [REST])):  # of the latter, what else is in it is not read
        facts = read_text(Raw(name, text, name))
        assert [fact.time_s for fact in facts if isinstance(fact, LogEvent)] == [1, 2], name
        assert gaps(facts) == said, name


def test_of_a_flood_in_the_log_only_the_last_lines_are_looked_at() -> None:
    flood = AER.format(1) * kernel_log.MAX_OF_A_KIND
    text = XID.format(1) + AER.format(2) + flood
    start = start_of_last(text, "AER: ", kernel_log.MAX_OF_A_KIND)
    assert start == text.index("AER: ", text.index("AER: ") + 1)
    looked_at = lines_with(text, ("AER: ", "NVRM: Xid ("), {"AER: ": start})
    assert sum(1 for _ in looked_at) == kernel_log.MAX_OF_A_KIND + 1
    facts = read_text(Raw("dmesg", text, "dmesg"))
    events = [(fact.kind, fact.bdf) for fact in facts if isinstance(fact, LogEvent)]
    assert events == [("xid", "0000:1b:00.0"), *[("aer", "0000:01:00.0")] * kernel_log.KEPT]
    assert gaps(facts) == ['of the lines with "AER:" only the last 30,000 were read']


def test_a_word_that_is_not_said_more_often_is_looked_for_from_the_beginning() -> None:
    assert [start_of_last("a b a", "a", most) for most in (1, 2, 3)] == [4, 0, 0]


def test_a_gid_table_has_each_place_once() -> None:
    row = "mlx5_0 1 {} fe80:0000:0000:0000:a088:c203:00ab:12{:02x} v1 eth0\n"
    text = "".join(row.format(number, number) for number in (0, 1, 0, 1)) + "n_gids_found=4\n"
    [device] = read_text(Raw("show_gids", text, "show_gids"))
    assert isinstance(device, RdmaDevice)
    assert [gid.number for gid in device.ports[0].gids] == [0, 1]


def test_one_wide_character_does_not_widen_a_large_text() -> None:
    line = "LnkSta: Speed 32GT/s\n"
    large = ("\ufeff\U0001f600é\n" + line * 500_000).encode()
    text = decode(large)
    assert text is not None
    assert text.startswith("?é\n" + line)
    assert text.isascii() or max(text) <= "\xff"
    assert decode("\ufeff\U0001f600\n".encode()) == "\U0001f600\n"
    assert decode(b"text" + b"\0" + large) is None


def test_of_one_text_no_more_devices_are_held_than_a_node_has() -> None:
    text = "".join(f"mlx5_{number} port 1 ==> ens{number} (Up)\n" for number in range(MOST_DEVICES + 3))
    facts = read_text(Raw("ibdev2netdev", text, "ibdev2netdev"))
    assert sum(isinstance(fact, RdmaDevice) for fact in facts) == MOST_DEVICES
    assert gaps(facts) == ["more than 2,048 devices: the rest was not read"]


def test_of_one_text_no_more_functions_are_held_than_a_node_has() -> None:
    header = "{:04x}:{:02x}:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev a1)\n"
    text = "".join(header.format(number >> 8, number & 0xFF) for number in range(MOST_FUNCTIONS + 2))
    facts = read_text(Raw("lspci", text, "lspci"))
    assert sum(isinstance(fact, PciFunction) for fact in facts) == MOST_FUNCTIONS
    assert gaps(facts) == ["more than 8,192 devices or functions: the rest was not read"]


def test_of_a_log_about_more_devices_than_a_node_has_the_last_count() -> None:
    line = "[    1.000000] NVRM: Xid (PCI:{:04x}:1b:00): 79, pid=4711, GPU has fallen off the bus.\n"
    text = "".join(line.format(number) for number in range(kernel_log.MAX_SUBJECTS + 2))
    events = [fact for fact in read_text(Raw("dmesg", text, "dmesg")) if isinstance(fact, LogEvent)]
    assert len(events) == kernel_log.MAX_SUBJECTS
    assert events[0].bdf == "0002:1b:00.0"


def test_large_texts_do_not_use_up_what_is_for_small_ones() -> None:
    large, small = Raw("dmesg", "\n" * (MAX_LINES + 1), "dmesg"), Raw("ibstat", CA.format(0), "ibstat")
    budget = gather.Budget()
    assert [budget.checked(item) for item in (large, small)] == [large, small]
    assert budget.checked(large) == Missing("dmesg", "not read: the texts before it have more than 400,000 lines")
    assert budget.checked(small) is small
