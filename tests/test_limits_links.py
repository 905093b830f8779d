"""Where the rules of PCIe links begin to speak, and at what severity: at the limits of rules.md, and one beside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from boards import Board, gpus, hgx, hgx_node, placed, said, unsaid
from nodesim.spec import HostBridge, Link, Nic, Node, Port, Switch

from topocheck.expected import Baseline, EarlierDevice, EarlierLink, Expected
from topocheck.facts import BandwidthLimit, Evidence
from topocheck.graph import Topology
from topocheck.model import Scenario
from topocheck.patches import SetLink


def cards(count: int, *, nics: bool = False) -> Node:
    """GPUs without NVLink, each on a switch of its own; no platform has them."""
    return hgx_node(count, gpu="l40s", fabric="none", nic="cx7-ndr" if nics else None)


def linked(node: Node, *uids: str, **values: Any) -> Node:
    """The links above some children with other values."""
    for uid in uids:
        node = node.changed(uid, lambda child: replace(child, link=replace(child.link, **values)))
    return node


def as_before(board: Board, uid: str, width: int | None, speed_gts: float | None) -> Topology:
    """The node with a baseline in which the device's link ran so."""
    bdf, node = board.bdf(uid), board.topology
    device = node.by_id[bdf]
    earlier = EarlierDevice(device.id, device.kind, bdf, device.pci_id, device.model, device.role)
    links = {bdf: EarlierLink(node.links[bdf].a, speed_gts, width)}
    return replace(node, expected=Expected(Baseline("before.json", "2026-11-01T00:00:00Z", (earlier,), links)))


WIDTH, SPEED = {"now_width": 8}, {"now_gen": 4}
BY_RULE = {"PCI001": WIDTH, "PCI002": SPEED}


@pytest.mark.parametrize("rule", BY_RULE)
@pytest.mark.parametrize(
    ("count", "low", "severity"),
    [(3, 1, "error"), (2, 1, "warning"), (5, 3, "error"), (5, 4, "warning"), (6, 4, "warning")],
)
def test_half_of_the_equals_and_two_that_run_better_prove_it(rule: str, count: int, low: int, severity: str) -> None:
    board = placed(linked(cards(count), *gpus(low), **BY_RULE[rule]))
    assert board.levels(rule) == dict.fromkeys(gpus(low), severity)
    (found, *_) = board.said(rule)
    bdf = board.bdf("g0")
    repaired = SetLink(bdf, width=16) if rule == "PCI001" else SetLink(bdf, speed_gts=32.0)
    assert (found.patches, found.covers, found.expected_from) == ((repaired,), {bdf}, "both ends")
    assert (found.confidence, found.price_kind) == ("high", "computed")
    assert found.scenarios == (Scenario("gpu-nic", "gpu0"), Scenario("gpu-host", "gpu0"))
    shown = "LnkSta: Speed 32GT/s, Width x8" if rule == "PCI001" else "LnkSta: Speed 16GT/s, Width x16"
    assert [line.text for line in found.evidence] == [shown]
    assert (f", {count - low} of {count - 1} equals run" in found.message) == (count > low)


@pytest.mark.parametrize("rule", BY_RULE)
def test_alike_on_all_it_is_a_warning_unless_the_platform_has_better(rule: str) -> None:
    node = linked(hgx_node(8), *gpus(8), **BY_RULE[rule])
    assert set(placed(node).levels(rule).values()) == {"warning"}, "an HGX H100 is any maker's"
    found = placed(node).host(product="NVIDIA DGXH100").said(rule)
    assert {(f.severity, f.expected_from) for f in found} == {("error", "platform")}
    held = placed(linked(hgx_node(8), *gpus(8), target_gen=4)).host(product="NVIDIA DGXH100")
    assert {(f.severity, f.expected_from) for f in held.said("PCI002")} == {("warning", "both ends")}, "at full speed"
    one = placed(linked(hgx_node(8), "g0", **BY_RULE[rule])).host(product="NVIDIA DGXH100").said(rule)
    assert [(f.severity, f.expected_from) for f in one] == [("error", "both ends")], "its equals prove it"
    uplinks = [f"s{i}" for i in range(8)]
    board = placed(linked(hgx_node(8), *uplinks, **BY_RULE[rule])).host(product="NVIDIA DGXH100")
    assert {(f.severity, f.expected_from) for f in board.said(rule)} == {("warning", "both ends")}, "of devices only"


NOW = {"PCI001": (8, None), "PCI002": (None, 16.0)}
FULL = {"PCI001": (16, None), "PCI002": (None, 32.0)}
LIMITED = {"PCI001": {"width": 8}, "PCI002": {"gen": 4}}


@pytest.mark.parametrize("rule", BY_RULE)
def test_a_link_that_ran_better_in_the_baseline(rule: str) -> None:
    """Both its ends say now that they can no more."""
    board = placed(linked(cards(4), "g0", **LIMITED[rule]))
    assert board.said(rule) == []
    assert said(as_before(board, "g0", *NOW[rule]), rule) == [], "as it is now"
    assert said(as_before(board, "g0", None, None), rule) == [], "not read then"
    (found,) = said(as_before(board, "g0", *FULL[rule]), rule)
    assert (found.severity, found.expected_from, found.subjects) == ("error", "baseline", ("gpu0",))
    assert "in the baseline of 2026-11-01" in found.message and "it ran" in found.message
    repaired = {"PCI001": SetLink(board.bdf("g0"), width=16), "PCI002": SetLink(board.bdf("g0"), speed_gts=32.0)}
    assert found.patches == (repaired[rule],)


@pytest.mark.parametrize("rule", BY_RULE)
@pytest.mark.parametrize(("count", "by"), [(3, "both ends"), (2, "baseline"), (1, "baseline")])
def test_equals_prove_it_before_the_baseline_does(rule: str, count: int, by: str) -> None:
    board = placed(linked(cards(count), "g0", **BY_RULE[rule]))
    (found,) = said(as_before(board, "g0", *FULL[rule]), rule)
    assert (found.severity, found.expected_from) == ("error", by)
    assert "both ends can" in found.message
    (found,) = said(as_before(board, "g0", *NOW[rule]), rule)
    assert found.severity == ("error" if count == 3 else "warning") and found.expected_from == "both ends"
    assert "baseline" not in found.message


@pytest.mark.parametrize("rule", BY_RULE)
def test_a_better_baseline_than_both_ends_is_named_whatever_the_equals(rule: str) -> None:
    board = placed(linked(linked(cards(3), "g0", **LIMITED[rule]), "g0", now_width=4, now_gen=3))
    (found,) = said(as_before(board, "g0", *FULL[rule]), rule)
    assert (found.severity, found.expected_from) == ("error", "baseline")


def test_pci001_of_a_link_that_sleeps_is_a_warning() -> None:
    node = linked(cards(3), *gpus(3), now_gen=1)
    for uid in gpus(3):
        node = node.changed(uid, lambda gpu: replace(gpu, pstate="P8"))
    assert placed(node).said("PCI001") == [] and placed(node).said("PCI002") == []
    (found,) = placed(linked(node, "g0", now_width=8)).said("PCI001")
    assert (found.severity, found.confidence, found.expected_from) == ("warning", "medium", "both ends")
    assert "asleep now" in found.message
    # the port is told to hold it at Gen4: the sleep hides no setting
    (held,) = placed(linked(node, "g0", target_gen=4)).said("PCI002")
    assert (held.severity, held.patches) == ("warning", (SetLink(placed(node).bdf("g0"), speed_gts=32.0),))
    alone = cards(3).changed("g0", lambda gpu: replace(gpu, pstate="P8"))
    assert placed(linked(alone, "g0", now_gen=1, target_gen=4)).levels("PCI002") == {"g0": "warning"}
    asleep = as_before(placed(node), "g0", 16, 32.0)
    assert said(asleep, "PCI002") == [], "it ran faster when it was awake"
    assert placed(node).unsaid("PCI002") == "in part" and placed(node).unsaid("PCI001") == ""


@pytest.mark.parametrize(
    ("target", "now", "told"), [(5, None, False), (4, None, True), (4, 4, True), (None, 4, True), (None, None, False)]
)
def test_pci002_tells_of_a_target_speed_below_what_both_ends_can(target: int, now: int, told: bool) -> None:
    board = placed(linked(cards(3), "g0", target_gen=target, now_gen=now))
    assert board.levels("PCI002") == ({"g0": "error" if now else "warning"} if told else {})
    for found in board.said("PCI002"):
        speed = {4: "16", None: "32"}[now]
        lines = [f"LnkSta: Speed {speed}GT/s, Width x16"] + ["LnkCtl2: Target Link Speed: 16GT/s"] * bool(target)
        assert [line.text for line in found.evidence] == lines
        assert ("Target Link Speed of" in found.message) == bool(target)
        assert ("Auto" in found.repair.split(";")[0]) == bool(target)
        assert found.confidence == "high"


def test_pci002_without_a_target_speed_in_the_input() -> None:
    board = placed(cards(3)).pci("g0^", target_speed_gts=None)
    assert board.said("PCI002") == [] and board.unsaid("PCI002") == ""


@pytest.mark.parametrize("rule", ["PCI001", "PCI002", "PCI003"])
def test_links_that_were_not_read(rule: str) -> None:
    board = placed(hgx_node(3, gpu="a100", fabric="none"))  # a part that does not sleep
    assert board.unsaid(rule) == ""
    unread = {"speed_gts": None, "width": None, "max_speed_gts": None, "max_width": None}
    for uid in ("n0", "n0^"):
        board = board.pci(uid, **unread)
    assert board.unsaid(rule) == "in part"
    assert unsaid(replace(board.topology, links={}), rule) == "skipped"
    assert unsaid(replace(board.topology, links={}, devices=()), rule) == "not applicable"


def test_a_link_known_from_the_boot_log_alone_is_pci003s() -> None:
    """mlx5_core said at boot that x8 limits it; lspci printed what both ends can."""
    board = placed(hgx_node(3, gpu="a100", fabric="none"))
    for uid in ("n0", "n0^"):
        board = board.pci(uid, speed_gts=None, width=None, target_speed_gts=16.0)
    line = Evidence("dmesg", 4, "limited by 32.0 GT/s PCIe x8 link")
    board = board.plus(BandwidthLimit(board.bdf("n0"), board.bdf("n0^"), 32.0, 8, 32.0, 16, line, "mlx5_core"))
    for rule in ("PCI001", "PCI002"):
        assert board.said(rule) == [] and board.unsaid(rule) == "in part"


def test_a_link_whose_present_value_was_not_read_is_not_below_anything() -> None:
    """lspci printed what the card can, of the port nothing."""
    board = placed(hgx_node(3, gpu="a100", fabric="none")).pci("n0", speed_gts=None, width=None)
    board = board.pci("n0^", speed_gts=None, width=None, max_speed_gts=None, max_width=None)
    for rule in ("PCI001", "PCI002", "PCI003"):
        assert board.said(rule) == [] and board.unsaid(rule) == "in part"


def test_one_end_that_was_not_read_leaves_pci001_in_part() -> None:
    board = placed(hgx_node(3, gpu="a100", fabric="none")).pci("n0^", max_speed_gts=None, max_width=None)
    assert board.unsaid("PCI001") == "in part" and board.unsaid("PCI002") == "in part"


# --- PCI003


@pytest.mark.parametrize("slot", [{"port_gen": 4}, {"port_width": 8}])
@pytest.mark.parametrize(
    ("count", "low", "severity"), [(3, 3, "info"), (3, 1, "warning"), (3, 2, "warning"), (1, 1, "info")]
)
def test_pci003_of_a_slot_that_can_less(slot: dict[str, int], count: int, low: int, severity: str) -> None:
    board = placed(linked(cards(count), *gpus(low), **slot))
    found = board.said("PCI003")
    assert [(f.subjects, f.severity) for f in found] == [((f"gpu{i}",), severity) for i in range(low)]
    assert {f.expected_from for f in found} == {"equals" if severity == "warning" else "both ends"}
    bdf = board.bdf("g0")
    assert (found[0].patches, found[0].covers) == ((SetLink(bdf, speed_gts=32.0, width=16),), {bdf})
    assert found[0].scenarios == (Scenario("gpu-nic", "gpu0"), Scenario("gpu-host", "gpu0"))
    assert [line.text.partition(":")[0] for line in found[0].evidence][:2] == ["LnkCap", "LnkCap"]
    assert found[0].confidence == "high" and found[0].price_kind == "computed"
    assert ("as all 3 of its kind" in found[0].message) == (severity == "info" and count == 3)
    assert ("unlike its equals" in found[0].message) == (severity == "warning")
    can = "4.0 x16" if "port_gen" in slot else "5.0 x8"
    assert f"can PCIe 5.0 x16, {board.bdf('g0^')} above it only {can}" in found[0].message


def test_pci003_equals_in_worse_slots_make_this_one_no_exception() -> None:
    worse = linked(linked(cards(3), "g0", port_gen=4), "g1", "g2", port_gen=3, port_width=8)
    assert placed(worse).levels("PCI003") == {"g0": "info", "g1": "warning", "g2": "warning"}
    narrow = linked(linked(cards(3), "g0", port_gen=4), "g1", "g2", port_gen=3)
    assert placed(narrow).levels("PCI003")["g0"] == "info"


def test_pci003_the_card_is_the_limit() -> None:
    assert placed(linked(cards(3), *gpus(3), gen=4, width=8)).said("PCI003") == []


def test_pci003_of_a_switchs_uplink_has_no_kind_to_speak_of() -> None:
    (found,) = placed(linked(cards(1), "s0", port_gen=4)).said("PCI003")
    assert found.severity == "info" and "of its kind" not in found.message


ONE_ENDED: dict[str, Any] = {"max_speed_gts": None, "max_width": None}


@pytest.mark.parametrize(
    ("link", "told"),
    [({"now_width": 8}, True), ({"now_gen": 4}, True), ({}, False), ({"now_gen": 4, "now_width": 8}, True)],
)
def test_pci003_of_a_link_whose_other_end_was_not_read(link: dict[str, int], told: bool) -> None:
    board = placed(linked(cards(3, nics=True), "n0", **link)).pci("n0^", **ONE_ENDED)
    found = board.said("PCI003")
    assert [(f.subjects, f.severity, f.confidence) for f in found] == [(("mlx5_0",), "warning", "low")] * told
    for finding in found:
        bdf = board.bdf("n0")
        assert finding.patches == (SetLink(bdf, speed_gts=32.0, width=16),) and finding.covers == {bdf}
        assert (finding.expected_from, finding.price_kind) == ("its own capability", "computed")
        assert finding.scenarios == (Scenario("gpu-nic", "gpu0"), Scenario("nic-host", "mlx5_0"))
        width, speed = link.get("now_width", 16), {4: 16, None: 32}[link.get("now_gen")]
        assert [line.text for line in finding.evidence] == [f"LnkSta: Speed {speed}GT/s, Width x{width}"]
        assert "now and can 5.0 x16" in finding.message


@pytest.mark.parametrize(("pstate", "gen", "width", "told"), [
    ("P8", 1, 16, False), ("P8", 1, 8, True), ("P0", 1, 16, True), (None, 1, 16, False), (None, 2, 16, False),
    (None, 3, 16, True), ("P0", None, 16, False),
])  # fmt: skip
def test_pci003_of_a_gpu_sleep_explains_the_speed_only(pstate: str, gen: int, width: int, told: bool) -> None:
    """The other end was not read, by lspci or by nvidia-smi."""
    board = placed(linked(cards(3), "g0", now_gen=gen, now_width=width)).pci("g0^", **ONE_ENDED)
    board = board.state("g0", pstate=pstate, gen=None, gen_max=None, width=None, width_max=None)
    assert list(board.levels("PCI003")) == ["g0"] * told


@pytest.mark.parametrize(("width", "gen", "shown"), [(8, 5, "width"), (16, 4, "gen"), (8, 4, "width")])
def test_pci003_shows_the_value_that_is_low(width: int, gen: int, shown: str) -> None:
    """lspci printed the card's LnkCap alone, nvidia-smi what is used."""
    board = placed(hgx_node(3, gpu="a100", fabric="none"))
    for uid in ("g0", "g0^"):
        board = board.pci(uid, speed_gts=None, width=None, **(ONE_ENDED if uid == "g0^" else {"max_speed_gts": 32.0}))
    maxima = {"width_max": None, "gen_max": None, "gen_host_max": None, "gen_device_max": 5}
    (found,) = board.state("g0", width=width, gen=gen, **maxima).said("PCI003")
    assert [line.text.split()[0] for line in found.evidence] == [shown]


# --- PCI004: line rates of x16 in GB/s: Gen3 15.75, Gen4 31.5, Gen5 63.0; half of them of x8

DUAL_DOWN = {"state": "down", "physical": "polling"}


def on_slots(nic: str, link: Link, *, count: int = 3, low: int = 3, ports: int = 1) -> Board:
    """Cards of which the first `low` are in such slots, the others in Gen5 x16 ones."""
    node = hgx_node(count, gpu="h100", fabric="none", nic=nic, ports=(Port(),) * ports)
    for i in range(low):
        node = node.changed(f"n{i}", lambda card: replace(card, link=link))
    return placed(node)


@pytest.mark.parametrize(
    ("nic", "link", "told", "gts"),
    [
        ("cx5", Link(3), False, 0.0),  # 100 Gb/s are 12.5 GB/s
        ("cx6-hdr", Link(3), True, 16.0),  # 25.0 on 15.75
        ("cx6-hdr", Link(4), False, 0.0),
        ("cx6-hdr", Link(4, 8), True, 32.0),  # 25.0 on 15.75; Gen5 x8 carries 31.5
        ("cx7-ndr", Link(5), False, 0.0),  # 50.0 on 63.0
        ("cx7-ndr", Link(5, port_gen=4), True, 32.0),  # 50.0 on 31.5
        ("cx7-ndr", Link(5, now_gen=4), True, 32.0),  # as it runs, whatever it can
        ("cx7-ndr", Link(5, 8), True, 64.0),  # 50.0 on 31.5; Gen6 x8 carries 63.0
        ("cx7-ndr", Link(5, 4), True, 64.0),  # nothing carries it over x4: the fastest there is
        ("cx4lx", Link(1, 16), False, 0.0),  # 25 Gb/s are 3.125, Gen1 x16 carries 4.0
    ],
)
def test_pci004_a_line_rate_above_the_links(nic: str, link: Link, told: bool, gts: float) -> None:
    board = on_slots(nic, link)
    found = board.said("PCI004")
    assert [(f.subjects, f.severity) for f in found] == [((f"mlx5_{i}",), "info") for i in range(3) if told]
    for i, finding in enumerate(found):
        bdf = board.bdf(f"n{i}")
        assert (finding.expected_from, finding.price_kind) == ("both ends", "computed")
        assert finding.patches == (SetLink(bdf, speed_gts=gts),)
        assert finding.covers == {f"mlx5_{i}", bdf}
        assert finding.scenarios == (Scenario("gpu-nic", f"gpu{i}"),)
        assert [line.text.partition(":")[0] for line in finding.evidence] == ["LnkSta", "rate_gbit_per_s"]


def test_pci004_a_rate_that_just_fits() -> None:
    """16 Gb/s are 2.0 GB/s, and so is Gen2 x4 with its 8b/10b."""
    board = on_slots("cx5", Link(2, 4))
    assert len(board.said("PCI004")) == 3
    assert board.port("n0", rate_gbit_per_s=16.0).levels("PCI004").get("n0") is None
    assert board.port("n0", rate_gbit_per_s=17.0).levels("PCI004").get("n0") == "info"
    # on Gen1 x4 it does not fit, Gen2 is enough
    (found, *_) = on_slots("cx5", Link(1, 4)).port("n0", rate_gbit_per_s=16.0).said("PCI004")
    assert found.patches == (SetLink(board.bdf("n0"), speed_gts=5.0),)
    # of two links of the way one fits
    node = linked(hgx_node(3, gpu="h100", fabric="none", nic="cx5", link=Link(2, 4)), "g0", gen=1, width=4)
    (found, *_) = placed(node).port("n0", rate_gbit_per_s=16.0).said("PCI004")
    assert found.patches == (SetLink(board.bdf("g0"), speed_gts=5.0),)
    assert found.covers == {"mlx5_0", board.bdf("g0")}


def test_pci004_unlike_its_equals_is_a_warning() -> None:
    (found,) = on_slots("cx7-ndr", Link(5, port_gen=4), low=1).said("PCI004")
    assert (found.severity, found.expected_from) == ("warning", "equals")
    board = on_slots("cx7-ndr", Link(5, port_gen=4), low=2)
    assert [f.severity for f in board.said("PCI004")] == ["warning"] * 2
    # the third carries less: it is no measure
    assert [f.severity for f in board.port("n2", rate_gbit_per_s=200.0).said("PCI004")] == ["info"] * 2


def test_pci004_both_ports_of_a_card_count() -> None:
    """Two of 200 Gb/s on Gen4 x16: 50.0 on 31.5; one: 25.0."""
    board = on_slots("cx7-dual", Link(4), ports=2)
    assert len(board.said("PCI004")) == 6
    (one, *_) = board.said("PCI004")
    assert "has 400 Gb/s of active ports (50.0 GB/s)" in one.message
    for i in range(3):
        board = board.port(f"n{i}.1", **DUAL_DOWN)
    assert board.said("PCI004") == []
    half = on_slots("cx7-dual", Link(4), ports=2).port("n0.1", **DUAL_DOWN)
    assert "n0" not in half.levels("PCI004") and half.levels("PCI004")["n1"] == "info"
    assert on_slots("cx7-dual", Link(4), ports=2).port("n0.1", rate_gbit_per_s=None).levels("PCI004").get("n0") is None


def test_pci004_judges_the_narrowest_link_of_the_way_to_the_gpu() -> None:
    """A GPU beside the card on its switch: the switch's uplink is not on their way; the GPU's own link is."""
    node = hgx_node(3, gpu="h100", fabric="none")
    assert placed(linked(node, "s0", port_gen=3)).said("PCI004") == []
    board = placed(linked(node, "g0", port_gen=4))
    (found,) = board.said("PCI004")
    assert found.patches == (SetLink(board.bdf("g0"), speed_gts=32.0),)
    assert found.covers == {"mlx5_0", board.bdf("g0")}
    none = placed(linked(hgx_node(3, gpu="h100", fabric="none"), "n0", "s0", port_gen=4))
    (found,) = none.without(type(none.topology.gpus[0].gpu)).said("PCI004")
    assert found.patches == (SetLink(none.bdf("n0"), speed_gts=32.0),)


def test_pci004_without_gpus_judges_the_way_to_the_host() -> None:
    held = tuple(Nic(f"n{i}", "cx7-ndr", Link(5, port_gen=4)) for i in range(2))
    board = placed(Node(bridges=(HostBridge("b0", 0, (Switch("s0", held, Link(4), 4),)),)))
    (found, _) = board.said("PCI004")
    assert found.scenarios == (Scenario("nic-host", "mlx5_0"),)
    assert found.patches == (SetLink(board.bdf("n0"), speed_gts=32.0), SetLink(board.bdf("s0"), speed_gts=32.0))


def test_pci004_of_what_was_not_read() -> None:
    board = on_slots("cx7-ndr", Link(4))
    for uid in ("n0", "n0^"):
        board = board.pci(uid, speed_gts=None, width=None)
    for uid in ("g0", "g0^"):
        board = board.pci(uid, speed_gts=None, width=None)
    board = board.state("g0", gen=None, width=None)
    assert board.unsaid("PCI004") == "in part" and list(board.levels("PCI004")) == ["n1", "n2"]
    board = on_slots("cx7-ndr", Link(4))
    assert board.unsaid("PCI004") == ""
    for i in range(3):
        board = board.port(f"n{i}", rate_gbit_per_s=None)
    assert board.unsaid("PCI004") == "skipped"
    assert hgx(2, nic=None).unsaid("PCI004") == "not applicable"
    unlinked = replace(on_slots("cx7-ndr", Link(4)).topology, links={})
    assert unsaid(unlinked, "PCI004") == "skipped"


def test_pci004_a_link_that_sleeps_counts_as_it_would_be_awake() -> None:
    """L40S: Gen4, 31.5 GB/s awake; the NIC's 25.0 fit."""
    node = hgx_node(3, gpu="l40s", fabric="none", nic="cx6-hdr")
    for uid in gpus(3):
        node = node.changed(uid, lambda gpu: replace(gpu, pstate="P8", link=Link(4, now_gen=1)))
    assert placed(node).said("PCI004") == []
