"""Where the rules of GID tables and of NCCL's choice of NICs begin and end."""

from dataclasses import replace

import pytest
from altered import alter, board, cards, each, facts_of, found, is_rdma, line, on_switch, repaired, silence, texts
from nodesim.spec import Gpu, HostBridge, Link, Nic, Node, Switch

from topocheck.build import build
from topocheck.facts import Gid, Host
from topocheck.model import Scenario

BOARD = facts_of(board())

# --- NET007 gid-missing

ROCE = facts_of(board(nic="cx7-roce"))  # link-local and IPv4 GIDs, v1 and v2 each: v2 with IPv4 at index 3


def tables(change, of, facts=ROCE):
    """Some NICs' ports changed."""
    devices = [f for f in facts if is_rdma(f)]
    return alter(facts, is_rdma, {i: {"ports": (change(devices[i].ports[0]), *devices[i].ports[1:])} for i in of})


def gids(*table):
    """A port with these GIDs."""
    return lambda port: replace(port, gids=tuple(Gid(*entry) for entry in table), lines={"gids": line("GIDs")})


LOCAL, IPV4 = "fe80:0000:0000:0000:0a00:0001:0002:0003", "0000:0000:0000:0000:0000:ffff:0a01:0001"


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ([(0, LOCAL, "v1"), (1, LOCAL, "v2"), (2, IPV4, "v1"), (3, IPV4, "v2")], None),
        ([(0, LOCAL, "v1"), (2, IPV4, "v1")], "none of them RoCE v2"),
        ([(0, LOCAL, "v1"), (1, IPV4, "v2")], "its RoCE v2 IPv4 GID at index 1, its equals at index 3"),
        ([(0, LOCAL, "v1"), (3, LOCAL, "v2")], "no RoCE v2 GID with an IPv4 address, its equals at index 3"),
    ],
)
def test_a_gid_table_unlike_the_others(table, told):
    facts = tables(gids(*table), [2])
    given = found(facts, "NET007")
    expected = [("warning", "stops", ("mlx5_2",), ["GIDs"])] if told else []
    assert [(f.severity, f.effect, f.subjects, texts(f)) for f in given] == expected
    assert all(told in f.message for f in given)
    assert {f.expected_from for f in given} == ({"equals" if "index" in told else None} if told else set())
    assert repaired(facts, "NET007") == []


@pytest.mark.parametrize(("count", "told"), [(3, 3), (5, 3), (8, 0)])
def test_how_many_have_their_gid_elsewhere(count, told):
    # of the equals of each most, and at least half, have it at one index
    assert len(found(tables(gids((0, LOCAL, "v1"), (5, IPV4, "v2")), range(count)), "NET007")) == told


def test_gids_that_are_all_elsewhere_prove_nothing():
    facts = ROCE
    for i in range(8):
        facts = tables(gids((i, IPV4, "v2")), [i], facts)
    assert found(facts, "NET007") == []
    two = facts_of(on_switch(*(Nic(f"n{i}", "cx7-roce", Link()) for i in range(2))))
    assert found(tables(gids((7, IPV4, "v2")), [0], two), "NET007") == []
    (one,) = found(tables(gids((0, IPV4, "v1")), [0], two), "NET007")  # but v2 is missing whatever others have
    assert [(gid.number, gid.version) for gid in one.patches[0].value] == [(0, "v1"), (1, "v2")]
    (one,) = found(tables(gids((0, IPV4, "v1")), [0]), "NET007")
    assert [(gid.number, gid.version) for gid in one.patches[0].value] == [(0, "v1"), (3, "v2")]
    (one,) = found(tables(gids((0, IPV4, "v1"), (6, LOCAL, "v2")), [0]), "NET007")
    assert [gid.number for gid in one.patches[0].value] == [0, 6, 3]


@pytest.mark.parametrize(
    ("values", "told"), [({"state": "down"}, False), ({"state": None}, True), ({"link_layer": "infiniband"}, False)]
)
def test_ports_in_use(values, told):
    old = gids((0, LOCAL, "v1"))
    facts = tables(lambda port: replace(old(port), **values), range(8))
    assert len(found(facts, "NET007")) == (8 if told else 0)
    assert silence(facts, "NET007") == ([] if told else [("no RoCE port in use", None)])


@pytest.mark.parametrize("table", [[(0, LOCAL, "v1")], [(1, IPV4, "v2")]])
def test_a_gid_table_without_its_line_shows_none(table):
    facts = tables(lambda port: replace(gids(*table)(port), lines={}), [2])
    assert [f.evidence for f in found(facts, "NET007")] == [()]


def test_gids_are_compared_with_those_of_equals():
    # one fast NIC for eight GPUs, all on root ports: nobody's role is known, and it has no equal
    gpus = tuple(Gpu(f"g{i}", "l40s", Link(4)) for i in range(8))
    nics = tuple(Nic(f"n{i}", "cx6dx" if i else "cx7-roce", Link()) for i in range(4))
    spread = Node(bridges=tuple(HostBridge(f"b{i}", 0, (child,)) for i, child in enumerate((*gpus, *nics))))
    assert {n.role for n in build(facts_of(spread)).nics} == {"unknown"}
    devices = [f for f in facts_of(spread) if is_rdma(f)]
    (fast,) = (i for i, device in enumerate(devices) if device.model == "MT4129")
    assert found(tables(gids((0, LOCAL, "v1"), (5, IPV4, "v2")), [fast], facts_of(spread)), "NET007") == []
    (one,) = found(tables(gids((0, LOCAL, "v1"), (1, IPV4, "v2")), [0]), "NET007")
    assert [(gid.number, gid.gid) for gid in one.patches[0].value] == [(0, LOCAL), (3, IPV4)]
    other = facts_of(on_switch(*(Nic(f"n{i}", "cx7-roce", Link()) for i in range(3))))
    assert len(found(tables(gids((0, LOCAL, "v1"), (5, IPV4, "v2")), [0], other), "NET007")) == 1
    none = tables(gids((0, LOCAL, "v1"), (1, LOCAL, "v2")), range(2), other)  # two of three have no IPv4 address
    assert [f.subjects for f in found(none, "NET007")] == []


def test_gid_tables_unread_and_of_others():
    unread = gids((0, LOCAL, None), (1, IPV4, None))
    assert silence(tables(unread, [4]), "NET007") == [("GID table read of 7 of 8 RoCE ports", True)]
    assert silence(tables(unread, range(8)), "NET007") == [("no GID table in the input", False)]
    efa = alter(tables(gids((0, LOCAL, "v1")), [4]), is_rdma, {4: {"efa": True}})
    assert found(efa, "NET007") == []
    storage = Node(bridges=(*board(nic="cx7-ndr").bridges, HostBridge("b9", 0, (Nic("n9", "cx6dx", Link(4)),))))
    facts = facts_of(storage)
    last = sum(map(is_rdma, facts)) - 1
    assert found(tables(gids((0, LOCAL, "v1")), [last], facts), "NET007") == []


# --- AFF006 nccl-picks-other-nic


def environ(hca, facts=BOARD):
    return [*facts, Host("environ", nccl_environ=(("NCCL_IB_HCA", hca),), line=line(f"NCCL_IB_HCA={hca}"))]


@pytest.mark.parametrize(
    ("hca", "left_out"),
    [
        ("mlx5", []),
        ("^mlx5_3", ["gpu3"]),
        ("=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6", ["gpu7"]),
        ("mlx5_0,mlx5_1", [f"gpu{i}" for i in range(2, 8)]),
    ],
)
def test_nics_that_a_variable_leaves_out(hca, left_out):
    facts = environ(hca)
    warnings = [f for f in found(facts, "AFF006") if f.severity == "warning"]
    assert [f.subjects for f in warnings] == ([tuple(left_out)] if left_out else [])
    for finding in warnings:
        assert finding.scenarios == tuple(Scenario("gpu-nic", gpu) for gpu in left_out)
        assert (finding.price_kind, finding.loss_range) == ("typical", (0.30, 0.55))
        assert texts(finding) == [f"NCCL_IB_HCA={hca}"]
        assert finding.patches[0].value == {}
    assert repaired(facts, "AFF006") == []
    assert [f for f in found(facts, "AFF006") if f.severity == "info"] == []  # one cause is told once


def test_a_variable_without_its_line_shows_none():
    facts = [*BOARD, Host("environ", nccl_environ=(("NCCL_IB_HCA", "^mlx5_3"), ("NCCL_DEBUG", "INFO")))]
    (finding,) = found(facts, "AFF006")
    assert finding.evidence == ()
    assert finding.patches[0].value == {"NCCL_DEBUG": "INFO"}


def test_a_nic_that_is_down_is_left_out_by_nobody():
    facts = environ("^mlx5_3")
    down = tables(lambda port: replace(port, state="down", physical="disabled"), [3], facts)
    assert [f for f in found(down, "AFF006") if f.severity == "warning"] == []


def test_of_nics_that_are_all_down_none_is_chosen():
    down = tables(lambda port: replace(port, state="down", physical="disabled"), range(8), environ("mlx5"))
    assert found(down, "AFF006") == []


def test_whose_choice_is_not_asked():
    assert silence(BOARD, "AFF006") == [("no NCCL_* variable in the input", False)]
    assert silence(environ("mlx5", facts_of(cards(2))), "AFF006") == [("no NIC in the input", None)]
    efa = environ("mlx5", alter(BOARD, is_rdma, each(range(8), efa=True)))
    assert silence(efa, "AFF006") == [("EFA's plugin chooses, not NCCL", None)]
    one_efa = environ("mlx5", alter(BOARD, is_rdma, {0: {"efa": True}}))
    assert silence(one_efa, "AFF006") == []
    unnamed = environ("mlx5", facts_of(board(), "rdma", "topo"))
    assert silence(unnamed, "AFF006") == [("no RDMA name of a NIC in the input", False)]


def chain(*nics_of):
    """A GPU on a switch each, with these NICs; all switches below one host bridge."""
    switches = tuple(
        Switch(f"s{i}", (Gpu(f"g{i}", "h100-pcie", Link()), *nics), Link()) for i, nics in enumerate(nics_of)
    )
    return facts_of(Node(bridges=(HostBridge("b0", 0, switches),)))


def test_a_choice_that_is_doubled():
    # two GPUs on one switch with two NICs, of which one is faster: both take it
    fast, slow = Nic("n0", "cx7-ndr", Link()), Nic("n1", "cx7-ndr", Link())
    facts = facts_of(on_switch(*(Gpu(f"g{i}", "h100-pcie", Link()) for i in range(2)), fast, slow))
    assert found(environ("mlx5", facts), "AFF006") == []
    slower = environ("mlx5", tables(lambda port: replace(port, rate_gbit_per_s=100.0), [1], facts))
    (info,) = found(slower, "AFF006")
    assert (info.severity, info.subjects) == ("info", ("gpu0", "gpu1"))
    assert "though each GPU has a NIC of its own" in info.message
    assert texts(info)[0].split()[0] == "GPU0"


def test_a_choice_that_is_farther():
    # gpu1's own NIC runs at a tenth of gpu0's: NCCL counts bandwidth before distance
    facts = chain([Nic("n0", "cx7-ndr", Link())], [Nic("n1", "cx7-ndr", Link())])
    assert found(environ("mlx5", facts), "AFF006") == []
    slower = environ("mlx5", tables(lambda port: replace(port, rate_gbit_per_s=40.0), [1], facts))
    (info,) = found(slower, "AFF006")
    assert (info.severity, info.subjects) == ("info", ("gpu1",))
    assert "farther than the GPU's own NIC" in info.message
    assert texts(info)[0].split()[0] == "GPU1"
    down = environ("mlx5", tables(lambda port: replace(port, state="down", physical="disabled"), [1], facts))
    assert [f.subjects for f in found(down, "AFF006")] == [("gpu0", "gpu1")]  # both take the one that is up
