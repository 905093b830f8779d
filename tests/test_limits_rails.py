"""Where the rules of rails begin to speak: at the limits of rules.md, and one beside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from boards import Board, hgx, hgx_node, placed, said
from nodesim.spec import Node

from topocheck.expected import Expected
from topocheck.facts import Evidence, Gid, LeafPort
from topocheck.graph import Topology
from topocheck.names import NameSet
from topocheck.patches import SetField

# --- RAIL001, RAIL002


def leaved(board: Board, leaves: list[str] | str) -> Board:
    """The leaf that each rail's port reaches."""
    for i, leaf in enumerate(leaves):
        line = Evidence("lldpctl", i, f"{leaf} line")
        board = board.port(f"n{i}", leaf=LeafPort(leaf, "Ethernet1", "lldp", line))
    return board


def by_policy(board: Board, *rails: str) -> Topology:
    return replace(board.topology, expected=Expected(rails=tuple(map(NameSet.parsed, rails))))


def by_sisters(board: Board, *sisters: Mapping[str, str]) -> Topology:
    hosts = {f"sister{i}": {n: LeafPort(leaf, None, "lldp") for n, leaf in s.items()} for i, s in enumerate(sisters)}
    return replace(board.topology, sisters=hosts)


IN_ORDER = [f"leaf-r{i}" for i in range(4)]
CROSSED = ["leaf-r1", "leaf-r0", "leaf-r2", "leaf-r3"]
SISTER = {f"mlx5_{i}": f"leaf-r{i}" for i in range(4)}


@pytest.mark.parametrize(
    ("by", "severity", "confidence"),
    [("policy", "error", "high"), ("sister nodes", "warning", "high"), ("order of leaf names", "warning", "medium")],
)
def test_rail001_two_that_reach_each_others_leaf(by: str, severity: str, confidence: str) -> None:
    def node(leaves: list[str]) -> Topology:
        board = leaved(hgx(4), leaves)
        if by == "policy":
            return by_policy(board, *IN_ORDER)
        return by_sisters(board, SISTER, SISTER) if by == "sister nodes" else board.topology

    assert said(node(IN_ORDER), "RAIL001") == [] and said(node(IN_ORDER), "RAIL002") == []
    (found,) = said(node(CROSSED), "RAIL001")
    assert (found.severity, found.confidence, found.expected_from) == (severity, confidence, by)
    assert found.subjects == ("mlx5_0", "mlx5_1") and found.price_kind == "unknown"
    assert [line.text for line in found.evidence] == ["leaf-r1 line", "leaf-r0 line"]
    assert found.patches == tuple(
        SetField(f"mlx5_{i}", "leaf", LeafPort(f"leaf-r{i}", None, "lldp"), 1) for i in (0, 1)
    )
    assert said(node(CROSSED), "RAIL002") == [], "RAIL001 speaks of it"


@pytest.mark.parametrize(("by", "severity"), [("policy", "error"), ("sister nodes", "warning")])
def test_rail002_a_leaf_that_is_no_rails_own(by: str, severity: str) -> None:
    board = leaved(hgx(4), ["leaf-r9", *IN_ORDER[1:]])
    node = by_policy(board, *IN_ORDER) if by == "policy" else by_sisters(board, SISTER, SISTER)
    (found,) = said(node, "RAIL002")
    assert (found.severity, found.expected_from, found.subjects) == (severity, by, ("mlx5_0",))
    assert found.patches == (SetField("mlx5_0", "leaf", LeafPort("leaf-r0", None, "lldp"), 1),)
    assert [line.text for line in found.evidence] == ["leaf-r9 line"]
    assert said(node, "RAIL001") == []
    bare = LeafPort("leaf-r9", None, "lldp")
    board = board.port("n0", leaf=bare)
    node = by_policy(board, *IN_ORDER) if by == "policy" else by_sisters(board, SISTER, SISTER)
    assert said(node, "RAIL002")[0].evidence == ()
    crossed = leaved(hgx(4), CROSSED).port("n0", leaf=LeafPort("leaf-r1", None, "lldp"))
    assert [line.text for line in crossed.said("RAIL001")[0].evidence] == ["leaf-r0 line"]


@pytest.mark.parametrize(
    ("leaves", "told"),
    [
        ("aabc", (0, 1)),  # of three leaves two have one rail each
        ("aabb", ()),  # two rails a leaf
        ("aaab", ()),  # one leaf of each count
        ("aabbcd", ()),  # half of the leaves have two
        ("aabcd", (0, 1)),
        ("aaabcd", (0, 1, 2)),
        ("abcd", ()),
        ("aab", ()),  # one leaf beside it
        ("aabbccd", ()),  # one has fewer
        ("aaabbcc", (0, 1, 2)),  # the others have two
        ("aaabbcde", ()),  # two are crowded
        ("aaabbccd", (0, 1, 2)),  # half of the leaves have two
        ("aaabbccde", ()),  # fewer than half
    ],
)
def test_rail002_two_rails_on_one_leaf_while_the_others_have_each_their_own(leaves: str, told: tuple[int, ...]) -> None:
    board = leaved(hgx(len(leaves), gpu="l40s", fabric="none"), leaves)
    found = board.said("RAIL002")
    assert [f.subjects for f in found] == [tuple(f"mlx5_{i}" for i in told)] * bool(told)
    for finding in found:
        assert (finding.severity, finding.expected_from) == ("warning", "equals")
        assert [p.subject for p in finding.patches] == [f"mlx5_{i}" for i in told[1:]]  # type: ignore[union-attr]
        assert [line.text for line in finding.evidence] == ["a line"] * len(told)
        assert "reach one leaf, a; the other rails" in finding.message
    assert said(by_policy(board, *leaves), "RAIL002") == [], "the policy wants it so"


def test_rail002_a_wrong_leaf_is_told_instead_of_two_on_one() -> None:
    board = leaved(hgx(4), ["leaf-r1", *IN_ORDER[1:]])
    (found,) = said(by_sisters(board, SISTER, SISTER), "RAIL002")
    assert found.subjects == ("mlx5_0",) and "it should reach leaf-r0 (sister nodes)" in found.message


@pytest.mark.parametrize("rule", ["RAIL001", "RAIL002"])
def test_rails_of_which_no_cabling_is_seen(rule: str) -> None:
    assert hgx(4).unsaid(rule) == ("in part" if rule == "RAIL001" else "skipped")
    assert leaved(hgx(4), IN_ORDER).unsaid(rule) == "" and hgx(1).unsaid(rule) == "not applicable"


def ordered(count: int, *pairs: tuple[int, int], near: str = "PIX") -> Node:
    """The NIC nearest to each GPU is the one given."""
    cells = [
        (way, near if nic == dict(pairs).get(gpu, gpu) else "SYS")
        for gpu in range(count)
        for nic in range(count)
        for way in ((f"g{gpu}", f"n{nic}"), (f"n{nic}", f"g{gpu}"))
    ]
    return replace(hgx_node(count, gpu="l40s", fabric="none"), cells=tuple(cells))


def test_rail001_a_permuted_order_is_a_note() -> None:
    assert placed(ordered(3)).said("RAIL001") == []
    for count in (2, 3):
        (found,) = placed(ordered(count, (0, 1), (1, 0))).said("RAIL001")
        assert (found.severity, found.effect, found.subjects) == ("info", "none", ())
        assert [line.text.split()[0] for line in found.evidence] == ["GPU0"]
        assert "(gpu0 mlx5_1, gpu1 mlx5_0" in found.message


def test_rail001_the_order_of_nics_beside_the_cpu_says_nothing() -> None:
    assert placed(ordered(2, (0, 1), (1, 0), near="NODE")).said("RAIL001") == []


def test_rail001_of_a_gpu_without_a_nic_the_order_says_nothing() -> None:
    node = ordered(4, (0, 1), (1, 0)).changed("n3", lambda nic: None)
    assert placed(node).said("RAIL001") == []


# --- RAIL004


def addressed(*addresses: str | None, nic: str = "cx7-roce") -> Board:
    """RoCE rails with such IPv4 addresses."""
    board = hgx(len(addresses), gpu="l40s", fabric="none", nic=nic)
    for i, address in enumerate(addresses):
        digits = "".join(f"{int(part):02x}" for part in (address or "0.0.0.0").split("."))
        mapped = Gid(3, f"0000:0000:0000:0000:0000:ffff:{digits[:4]}:{digits[4:]}", "v2")
        local = Gid(0, "fe80:0000:0000:0000:0000:0000:0000:0001", "v1")
        board = board.port(f"n{i}", gids=(local, mapped) if address else (local,))
    return board


@pytest.mark.parametrize(
    ("addresses", "severity", "subjects"),
    [
        (("10.0.1.1", "10.0.1.9", "10.0.2.1", "10.0.3.1"), "warning", (0, 1)),
        (("10.0.1.1", "10.0.1.9", "10.0.2.1"), None, ()),  # one other rail
        (("10.0.1.1", "10.0.1.9", "10.0.1.17", "10.0.2.2", "10.0.3.1"), None, ()),  # three
        (("10.0.1.1", "10.0.1.9", "10.0.2.1", "10.0.2.2", "10.0.3.1", "10.0.4.1"), None, ()),  # two such subnets
        (("10.0.1.1", "10.0.2.1", "10.0.3.1", "10.0.4.1"), None, ()),
        (("10.0.1.0", "10.0.1.128", "10.0.2.0", "10.0.2.128"), None, ()),  # even steps: /25
        (("10.0.1.128", "10.0.2.0", "10.0.2.128", "10.0.3.0"), None, ()),
        (("10.0.1.1", "10.0.1.2", "10.0.1.3"), "info", (0, 1, 2)),
        (("10.0.1.1", "10.0.1.7"), "info", (0, 1)),
        (("10.0.1.1", "10.0.1.9", "10.0.2.1", "10.0.3.1", None), "warning", (0, 1)),
    ],
)
def test_rail004_two_in_one_subnet_while_two_others_have_their_own(
    addresses: tuple[str | None, ...], severity: str, subjects: tuple[int, ...]
) -> None:
    found = addressed(*addresses).said("RAIL004")
    assert [(f.severity, f.subjects) for f in found] == [(severity, tuple(f"mlx5_{i}" for i in subjects))] * bool(
        subjects
    )
    for finding in found:
        assert [line.text for line in finding.evidence] == ["GID[0]"] * (2 if severity == "warning" else 1)
        assert finding.effect == ("slows" if severity == "warning" else "none")
        if severity == "warning":
            assert (finding.confidence, finding.expected_from) == ("medium", "equals")
            (patch,) = finding.patches
            assert (patch.subject, patch.field, patch.port) == ("mlx5_1", "gids", 1)  # type: ignore[union-attr]
            gids = [g.ipv4 for g in patch.value]  # type: ignore[union-attr]
            assert gids == [None, "255.255.255.1"], "the link-local one stays"
            assert "(10.0.1.1) and mlx5_1 (10.0.1.9) share 10.0.1.0/24" in finding.message


def test_rail004_the_first_address_of_a_port_counts() -> None:
    board = addressed("10.0.1.1", "10.0.1.9", "10.0.2.1", "10.0.3.1")
    more = Gid(5, "0000:0000:0000:0000:0000:ffff:0a00:0909", "v2")
    board = board.port("n1", gids=(*board.rdma("n1").ports[0].gids, more))
    (found,) = board.said("RAIL004")
    (patch,) = found.patches
    assert [g.ipv4 for g in patch.value] == [None, "255.255.255.1"]  # type: ignore[union-attr]
    assert board.port("n0", lines={}).said("RAIL004")[0].evidence[0].text == "GID[0]"
    assert len(board.port("n0", lines={}).said("RAIL004")[0].evidence) == 1


def test_rail004_of_whom_it_cannot_speak() -> None:
    two = ("10.0.1.1", "10.0.2.1")
    assert addressed(*two).unsaid("RAIL004") == ""
    assert addressed(two[0], None).unsaid("RAIL004") == "skipped"
    assert addressed(*two).port("n0", state="down").unsaid("RAIL004") == "not applicable"
    assert addressed(*two, nic="cx7-ndr").unsaid("RAIL004") == "not applicable"
    assert addressed("10.0.1.1").unsaid("RAIL004") == "not applicable"
    same = addressed("10.0.1.1", "10.0.1.2").port("n0", lines={}).said("RAIL004")
    assert same[0].evidence == ()
