"""Where the port rules begin to speak, and at what severity: exactly at the limits of rules.md, and one beside."""

from __future__ import annotations

from dataclasses import replace

import pytest
from boards import DOWN, Board, counted, hgx, hgx_node, nics, placed, two_ports
from nodesim.spec import HostBridge, Link, Nic, Port

from topocheck.facts import Evidence
from topocheck.model import Scenario
from topocheck.patches import SetPort


def with_storage(state: str = "active", physical: str = "linkup") -> Board:
    """Four GPUs with NICs, and two 100 Gb/s cards on root ports of their own: storage by their kind."""
    cards = (Nic("n8", "cx5", Link(3)), Nic("n9", "cx5", Link(3), ports=(Port(state, physical),)))
    node = hgx_node(4)
    return placed(replace(node, bridges=(*node.bridges, HostBridge("b9", 0, cards))))


# --- NET001


@pytest.mark.parametrize(
    ("count", "down", "severity"),
    [
        (4, 1, "error"),  # three of three equals are Active
        (3, 1, "warning"),  # two of two: fewer than three
        (7, 4, "error"),  # three of six: half
        (8, 5, "warning"),  # three of seven: fewer than half
        (5, 3, "warning"),  # two of four: half, but fewer than three
        (2, 2, "warning"),  # none
        (1, 1, "warning"),  # it has no equal
    ],
)
def test_net001_is_an_error_from_half_of_its_kind_and_three(count: int, down: int, severity: str) -> None:
    found = hgx(count, gpu="l40s", fabric="none").ports(nics(*range(down)), **DOWN).said("NET001")
    assert [(f.subjects, f.severity) for f in found] == [((f"mlx5_{i}",), severity) for i in range(down)]
    active = count - down
    assert {f.expected_from for f in found} == {"equals" if active else None}
    # the rate its equals run at, where one runs, else the most that a ConnectX-7 carries; never that of a down port
    assert found[0].patches == (SetPort("mlx5_0", 1, 400.0),)
    assert found[0].scenarios == (Scenario("node-nics"), Scenario("gpu-nic", "gpu0"))
    assert (found[0].price_kind, found[0].effect, found[0].covers) == ("computed", "slows", {"gpu0"})
    assert [line.text for line in found[0].evidence] == [
        "state: active",
        "physical: linkup",
    ]  # the lines of these fields
    assert "Reseat" in found[0].repair


def test_net001_of_what_the_platform_has_is_an_error_without_an_equal() -> None:
    board = hgx().host(product="NVIDIA DGXH100").ports(nics(*range(8)), **DOWN)
    found = board.said("NET001")
    assert {(f.severity, f.expected_from) for f in found} == {("error", "platform")}
    # seven Active equals say it themselves
    assert [f.expected_from for f in board.ports(nics(*range(1, 8)), state="active").said("NET001")] == ["equals"]
    named = replace(hgx(2).ports(nics(0, 1), **DOWN), compute_nics="mlx5_*").said("NET001")
    assert {(f.severity, f.expected_from) for f in named} == {("error", "policy")}


@pytest.mark.parametrize(("state", "severity"), [("down", "info"), ("init", "info"), ("active", None)])
def test_net001_of_storage_is_a_note(state: str, severity: str | None) -> None:
    board = with_storage(state)
    assert {n.role for n in board.topology.nics if n.id == board.id("n9")} == {"storage"}
    assert list(board.levels("NET001").values()) == [severity] * (severity is not None)
    if severity:
        assert board.said("NET001")[0].price_kind == "unknown"


def test_net001_of_storage_as_the_policy_names_the_others_is_a_note() -> None:
    board = replace(with_storage("down"), compute_nics="mlx5_[0-3]")
    assert list(board.levels("NET001").values()) == ["info"]


def test_net001_without_a_gpu_it_is_the_nic_that_stops() -> None:
    cards = tuple(Nic(f"n{i}", "cx7-ndr", Link()) for i in range(4))
    board = placed(replace(hgx_node(0), fabric="none", bridges=(HostBridge("b0", 0, cards),))).port("n0", **DOWN)
    (found,) = board.said("NET001")
    assert (found.effect, found.price_kind, found.covers, found.severity) == ("stops", "computed", frozenset(), "error")
    (alone,) = board.ports(nics(1, 2, 3), **DOWN).said("NET001")[:1]
    assert (alone.price_kind, alone.expected_from) == ("unknown", None), "no rate is known that it would have"


@pytest.mark.parametrize(
    ("second", "others", "told"),
    [
        (DOWN, DOWN, []),  # a second port in use nowhere
        (DOWN, {}, ["n0.1"]),  # the other cards use both
        ({"state": "init", "physical": "linkup"}, DOWN, ["n0.1"]),  # a cable is in
        ({"state": "down", "physical": "linkup"}, DOWN, ["n0.1"]),
        ({"state": "armed", "physical": None}, DOWN, ["n0.1"]),
        ({"state": "init", "physical": None}, DOWN, ["n0.1"]),
        ({"state": "initialize", "physical": None}, DOWN, ["n0.1"]),
        ({"state": None, "physical": None}, {}, []),  # not read
    ],
)
def test_net001_of_a_second_port(second: dict, others: dict, told: list[str]) -> None:
    board = hgx(4, nic="cx7-dual", ports=(Port(), Port())).port("n0.1", **second)
    board = board.ports([f"n{i}.1" for i in (1, 2, 3)], **others)
    assert list(board.levels("NET001")) == told


def test_net001_one_equal_that_uses_both_ports_is_enough() -> None:
    board = hgx(4, nic="cx7-dual", ports=(Port(), Port())).ports([f"n{i}.1" for i in range(3)], **DOWN)
    assert list(board.levels("NET001")) == ["n0.1", "n1.1", "n2.1"]
    whole = board.ports(nics(0), **DOWN)  # nothing of the card is up: both ports are told
    assert list(whole.levels("NET001"))[:2] == ["n0", "n0.1"]


def test_net001_a_port_of_two_is_told_for_compute_only() -> None:
    waiting = {"state": "init", "physical": "linkup"}
    (found,) = two_ports(hgx(4), 4, "n0", **waiting).said("NET001")
    assert (found.subjects, found.patches) == (("mlx5_0",), (SetPort("mlx5_0", 2, 400.0),))
    board = with_storage()
    device = board.rdma("n9")
    assert board.device("n9", ports=(*device.ports, replace(device.ports[0], port=2, **waiting))).said("NET001") == []
    (found,) = replace(two_ports(hgx(2), 2, "n0", **waiting), compute_nics="mlx5_*").said("NET001")
    assert (found.severity, found.expected_from) == ("warning", "equals"), "its other port is up, as the policy wants"


def test_net001_of_nics_whose_state_was_not_read() -> None:
    unread = {"state": None, "physical": None}
    assert hgx(4).unsaid("NET001") == ""
    assert hgx(4).ports(nics(0), **unread).unsaid("NET001") == "in part"
    assert hgx(4).ports(nics(0, 1, 2, 3), **unread).unsaid("NET001") == "skipped"
    assert with_storage().port("n9", **unread).unsaid("NET001") == "", "storage is not expected up"
    assert hgx(4, nic=None).unsaid("NET001") == "not applicable"


@pytest.mark.parametrize(
    ("port", "lines"),
    [
        ({"state": "init", "physical": "linkup", "sm_lid": 0}, ["state", "physical", "sm_lid"]),
        ({"state": "init", "physical": None, "sm_lid": 0}, ["state", "physical", "sm_lid"]),
        ({"state": "init", "physical": "linkup", "sm_lid": 1}, ["state", "physical"]),
        ({"state": "down", "physical": "polling", "sm_lid": 0}, ["state", "physical"]),
        ({"state": "init", "physical": "linkup", "sm_lid": 0, "link_layer": "ethernet"}, ["state", "physical"]),
    ],
)
def test_net001_shows_the_subnet_manager_that_did_not_come(port: dict, lines: list[str]) -> None:
    keys = ("state", "physical", "sm_lid")
    shown = {key: Evidence("ibstat", 1, key) for key in keys}
    (found,) = hgx(4).port("n0", **port, lines=shown).said("NET001")
    assert [line.text for line in found.evidence] == lines


def test_net001_without_a_line_shows_the_device() -> None:
    (found,) = hgx(4).port("n0", **DOWN, lines={}).said("NET001")
    assert len(found.evidence) == 1


@pytest.mark.parametrize("vf", ["NET001", "NET002", "NET003", "NET004", "NET008"])
def test_virtual_functions_are_nobodys_port(vf: str) -> None:
    """A VF whose PF is seen: its port is down, slow, small and erring."""
    board = hgx(4)
    bdf, pf = board.bdf("n0").replace("00.0", "00.1"), board.bdf("n0")
    (function,) = (f for f in board.facts if getattr(f, "bdf", None) == pf and hasattr(f, "class_id"))
    device = board.rdma("n0")
    readings = ((("link_downed", 0), ("port_xmit_discards", 0)), (("link_downed", 9), ("port_xmit_discards", 9)))
    for change in (
        DOWN,
        {"state": "init", "physical": "linkup"},
        {"rate_gbit_per_s": 100.0, "mtu": 1024, "readings": readings},
    ):
        port = replace(device.ports[0], **change)
        more = (replace(function, bdf=bdf, vf_of=pf), replace(device, name="mlx5_20", bdf=bdf, vf_of=pf, ports=(port,)))
        assert board.plus(*more).said(vf) == []


@pytest.mark.parametrize("rule", ["NET001", "NET002", "NET003", "NET004", "NET008"])
def test_a_guest_with_virtual_functions_alone_has_no_port_to_judge(rule: str) -> None:
    board = counted(hgx(4), "n0", {"link_downed": 0, "port_xmit_wait": 1}, {"link_downed": 9, "port_xmit_wait": 1})
    board = board.port("n0", rate_gbit_per_s=100.0, mtu=1024).port("n1", state="init")
    assert board.levels(rule) or rule == "NET008"
    for uid in nics(0, 1, 2, 3):
        board = board.pci(uid, vf_of="0000:f0:00.0")
    assert [n.is_vf for n in board.topology.compute_nics] == [True] * 4
    assert board.levels(rule) == {}
    assert board.unsaid(rule) in ("not applicable", "skipped" if rule == "NET002" else "")


def test_a_management_port_may_be_anything() -> None:
    board = with_storage("init").device("n9", transport="iWARP")
    assert {n.role for n in board.topology.nics if n.id == board.id("n9")} == {"management"}
    assert board.levels("NET001") == {}


# --- NET002


@pytest.mark.parametrize(("count", "slow", "severity"), [(4, 1, "error"), (3, 1, "warning"), (4, 2, "warning")])
def test_net002_is_an_error_from_three_faster_ones(count: int, slow: int, severity: str) -> None:
    board = hgx(count, gpu="l40s", fabric="none").ports(nics(*range(slow)), rate_gbit_per_s=200.0)
    found = board.said("NET002")
    assert [(f.subjects, f.severity) for f in found] == [((f"mlx5_{i}",), severity) for i in range(slow)]
    assert (found[0].expected_from, found[0].price_kind) == ("equals", "computed")
    assert found[0].patches == (SetPort("mlx5_0", 1, 400.0),)
    assert found[0].scenarios == (Scenario("gpu-nic", "gpu0"), Scenario("nic-host", "mlx5_0"))
    assert [line.text for line in found[0].evidence] == ["rate_gbit_per_s: 400.0"]


def test_net002_of_a_role_not_known_is_a_warning() -> None:
    """Four NICs of one kind beside the CPUs of eight times as many GPUs: no role can be told."""
    cards = tuple(Nic(f"n{i}", "cx7-ndr", Link()) for i in range(4))
    node = hgx_node(24, nic=None, gpu="l40s", fabric="none")
    board = placed(replace(node, bridges=(*node.bridges, HostBridge("b99", 0, cards)))).port(
        "n0", rate_gbit_per_s=200.0
    )
    assert {n.role for n in board.topology.nics} == {"unknown"}
    assert board.levels("NET002") == {"n0": "warning"}
    assert board.port("n0", **DOWN).levels("NET001") == {"n0": "warning"}


@pytest.mark.parametrize(("able", "levels"), [(None, {}), (400.0, {}), (400.1, {"n0": "warning"})])
def test_net002_of_a_lone_port_whose_cable_can_more(able: float | None, levels: dict[str, str]) -> None:
    line = Evidence("iblinkinfo", 3, "( Could be 4X )")
    board = hgx(1).port("n0", able_gbit_per_s=able, lines={"able": line})
    assert board.levels("NET002") == levels
    for found in board.said("NET002"):
        assert (found.expected_from, found.evidence) == ("both ends", (line,))
        assert found.patches == (SetPort("mlx5_0", 1, able),)
    assert board.port("n0", **DOWN).said("NET002") == []
    assert hgx(2).port("n0", able_gbit_per_s=able).said("NET002") == [], "alike in a fabric that is built so"


def test_net002_of_rates_that_were_not_read() -> None:
    assert hgx(4).said("NET002") == [] and hgx(4).unsaid("NET002") == ""
    assert hgx(4).port("n0", rate_gbit_per_s=None).unsaid("NET002") == "in part"
    assert hgx(4).ports(nics(0, 1, 2, 3), rate_gbit_per_s=None).unsaid("NET002") == "skipped"
    assert hgx(4, nic=None).unsaid("NET002") == "not applicable"
    down = hgx(4).port("n0", **DOWN, rate_gbit_per_s=10.0)
    assert down.said("NET002") == [] and down.unsaid("NET002") == "", "the rate of a port that is down is a placeholder"


def test_net002_repairs_the_slow_ports_only() -> None:
    """Of a device's ports one runs at 200, one at 100, one is down, of one the rate is not read; equals run at 400."""
    board = hgx(4)
    for i in range(4):
        device = board.rdma(f"n{i}")
        rates = (200.0, 100.0, 50.0, None) if i == 0 else (400.0, 10.0, 10.0, 10.0)
        states = ("active", "active", "down", "active") if i == 0 else ("active", "down", "down", "down")
        ports = [replace(device.ports[0], port=1 + k, rate_gbit_per_s=rates[k], state=states[k]) for k in range(4)]
        board = board.device(f"n{i}", ports=tuple(ports))
    (found,) = board.said("NET002")
    assert found.patches == (SetPort("mlx5_0", 1, 400.0), SetPort("mlx5_0", 2, 400.0))
