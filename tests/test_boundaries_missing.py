"""Where GPU001 begins and ends: positive signs of loss, fewer than the platform or a baseline has, a part given."""

from dataclasses import replace

import pytest
from altered import alter, answers, board, cards, each, facts_of, found, is_gpu, is_state, line, silence, texts, virtual

from topocheck.build import build
from topocheck.expected import Baseline, EarlierDevice, Expected
from topocheck.facts import Host, Matrix, NvlinkGpu, P2pMatrix, PciFunction

BOARD = facts_of(board())  # eight H100 on the bus and in nvidia-smi -q
BDFS = [f.bdf for f in BOARD if is_gpu(f)]
DGX = Host("/sys/class/dmi/id", product="NVIDIA DGXH100", line=line("product"))
LOST = {"lost": "GPU is lost", "lines": {"lost": line("GPU is lost")}}
DEAD = {"dead": True, "lines": {"header": line("(rev ff)")}}


def brief(facts):
    return [(f.severity, f.subjects, texts(f), f.effect, f.confidence) for f in found(facts, "GPU001")]


def error(*shown, subject="gpu3"):
    return [("error", (subject,) if subject else (), list(shown), "stops", "high")]


def test_signs_of_loss():
    assert brief(BOARD) == []
    lost = alter(BOARD, is_state, {3: LOST})
    assert brief(lost) == error("GPU is lost")
    dead = alter(BOARD, is_gpu, {3: DEAD})
    assert brief(alter(dead, is_state, {3: LOST})) == error("GPU is lost", "(rev ff)")  # told once
    alone = [f for f in dead if isinstance(f, PciFunction)]
    assert brief(alone) == error("(rev ff)")
    named = [f for f in dead if not is_state(f)]  # the matrix counts eight: which of them it is, is not known
    assert brief(named) == error("(rev ff)", subject=BDFS[3])
    (finding,) = found(lost, "GPU001")
    assert (finding.covers, finding.expected_from) == ({"gpu3"}, None)


def test_what_is_shown_of_a_lost_gpu_without_its_line():
    other = alter(BOARD, is_state, {3: {**LOST, "lines": {"pstate": line("P0")}}})
    assert brief(other) == error("P0")
    none = alter(BOARD, is_state, {3: {**LOST, "lines": {}}})
    assert brief(none) == error()


def test_a_lost_gpu_by_its_number_alone():
    listing = [f for f in BOARD if is_state(f)]
    by_number = alter(listing, is_state, each(range(8), bdf=None))
    assert [f.subjects for f in found(alter(by_number, is_state, {3: LOST}), "GPU001")] == [("gpu3",)]
    gone = alter(listing, is_state, {3: {**LOST, "index": None, "bdf": None}})
    assert [f.subjects for f in found(gone, "GPU001")] == [("gpu",)]


def without(*numbers, bus=True, listed=True):
    """The board with some GPUs in no listing of the bus, or of the driver; no matrix counts them either."""
    bdfs = {BDFS[i] for i in numbers}
    kept = [f for f in BOARD if not isinstance(f, (Matrix, P2pMatrix, NvlinkGpu))]
    kept = [f for f in kept if not (bus and is_gpu(f) and f.bdf in bdfs)]
    return [f for f in kept if not (listed and is_state(f) and f.bdf in bdfs)]


@pytest.mark.parametrize(
    ("gone", "words"), [([], None), ([7], "7 GPUs are on the bus, DGX H100 has 8"), ([1, 2], "6 GPUs")]
)
def test_fewer_than_the_platform_has(gone, words):
    facts = [*without(*gone), DGX]
    assert brief(facts) == (error("product", subject=None) if words else [])
    assert all(f.message.startswith(words) and f.expected_from == "platform" for f in found(facts, "GPU001"))
    assert brief(without(*gone)) == []  # an unknown machine
    hidden = [("info", (), ["product"], "none", "high")] if words else []
    assert brief(virtual(facts)) == hidden
    assert brief([*facts, Host("/.dockerenv", container=True)]) == hidden


def test_a_lost_gpu_is_not_missing_as_well():
    lost = [*alter(without(7, listed=False), is_state, {7: LOST}), DGX]
    assert [f.subjects for f in found(lost, "GPU001")] == [("gpu7",)]


@pytest.mark.parametrize(("hidden", "told"), [([], False), ([7], True), ([0, 5], True), (range(8), False)])
def test_more_on_the_bus_than_the_driver_lists(hidden, told):
    facts = alter(
        without(*hidden, bus=False), is_gpu, {i: {"lines": {"header": line(f"header {i}")}} for i in range(8)}
    )
    shown = f"header {min(hidden, default=0)}"
    assert brief(facts) == ([("info", (), [shown], "none", "low")] if told else [])
    passed = alter(facts, is_gpu, each(list(hidden), driver="vfio-pci"))
    assert brief(passed) == []
    nouveau = alter(facts, is_gpu, each(list(hidden), driver=None))
    assert len(brief(nouveau)) == told


def test_a_dead_gpu_is_not_one_that_was_not_given():
    facts = alter(without(7, bus=False), is_gpu, {7: DEAD})
    assert [(f.severity, texts(f)) for f in found(facts, "GPU001")] == [("error", ["(rev ff)"])]
    both = alter(without(3, 7, bus=False), is_gpu, {3: DEAD})
    assert [f.severity for f in found(both, "GPU001")] == ["error", "info"]
    assert "nvidia-smi lists 6 of the 7 GPUs" in found(both, "GPU001")[1].message
    unlisted = [f for f in BOARD if not is_state(f) and not isinstance(f, (Matrix, P2pMatrix, NvlinkGpu))]
    assert brief(unlisted) == []  # the driver was not asked
    excerpt = [f for f in without(7, bus=False) if is_gpu(f) or is_state(f)]  # no root port, no host bridge
    assert brief(excerpt) == []


def earlier(*numbers):
    """A baseline with these GPUs."""
    devices = (EarlierDevice(f"gpu{i}", "gpu", BDFS[i], "10de:2330", "H100", None) for i in numbers)
    return Expected(baseline=Baseline("before.json", "2026-11-01T00:00:00Z", tuple(devices)))


def test_fewer_than_a_baseline_had():
    now = build([*without(3), DGX])
    (finding,) = found(replace(now, expected=earlier(*range(8))), "GPU001")  # and not the platform's count as well
    assert (finding.severity, finding.subjects, finding.expected_from) == ("error", (BDFS[3],), "baseline")
    assert texts(finding) == [f"gpu3 {BDFS[3]} H100"]
    assert "8 GPUs in the baseline of 2026-11-01" in finding.message
    assert found(replace(build(without(3)), expected=earlier(0, 1)), "GPU001") == []


def test_of_nobody_gpu001_says_why():
    nobody = [("no GPU in the input", None)]
    assert silence(facts_of(cards(0, nics=2)), "GPU001") == nobody
    gone = replace(build(facts_of(cards(0, nics=2))), expected=earlier(0))
    assert [f.severity for f in found(gone, "GPU001")] == ["error"]
    matrix = [f for f in BOARD if isinstance(f, Matrix)]
    blind = [("no PCI listing and no nvidia-smi -q: nothing here could call a GPU lost", False)]
    assert silence(matrix, "GPU001") == blind
    for part in (is_gpu, is_state):
        assert answers([f for f in BOARD if part(f)], "GPU001") == []
    listing = [f for f in BOARD if is_state(f)]
    assert silence(alter(listing, is_state, each(range(8), bdf=None)), "GPU001") == blind
