"""Rails across nodes: each fault named once with both ends, in every topology that has rails; silent in all others."""

import random
import time

import plant
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plant import Plant, dual_plane, fat_tree, railed, spread, three_tier, two_planes

from topocheck.fleet.rails import rails
from topocheck.names import NameSet

RAILED = {
    "two tiers": railed,
    "three tiers": three_tier,
    "dual plane": dual_plane,
    "NICs in two planes": two_planes,
    "two rails a leaf": lambda: railed(per_leaf=2),
    "four rails": lambda: railed(8, 4),
}
PLAIN = {
    "fat tree": (fat_tree, "share one leaf"),
    "single switch": (lambda: fat_tree(12, 8, 100), "one switch"),
    "spread without order": (spread, "no leaf is one rail's"),
    "spread over four": (lambda: spread(9, 8, 4), "no leaf is one rail's"),
    "spread over two": (lambda: spread(9, 2, 2), "no leaf is one rail's"),
    "one NIC a node": (lambda: railed(8, 1), "one compute NIC"),
    "two nodes": (lambda: railed(2), "fewer than 3 nodes"),
}
EVIDENCE = {
    "reports": lambda p: (p.records(), []),
    "listing": lambda p: ([], [p.listing()]),
    "listing and reports": lambda p: (p.records(seen=False), [p.listing()]),
    "listing without GUIDs": lambda p: ([], [p.listing("iblinkinfo", guids=False)]),
    "LLDP": lambda p: (p.records("lldp", "ethernet"), []),
}


def seen(cluster, evidence="reports", patterns=()):
    return rails(*EVIDENCE[evidence](cluster), patterns)


def ends(fault):
    """(host, NIC, port) → the leaf reached and the leaf expected."""
    return {(e.host, e.nic, e.port): (e.leaf, e.expected_leaf) for e in fault.ends}


def wanted(cluster, good, *keys):
    return {
        (host, cluster.nic(host, rail), port): (cluster.leaf[host, rail, port], good.leaf[host, rail, port])
        for host, rail, port in keys
    }


def only_fault(answer):
    assert answer.why_none is None
    assert len(answer.faults) == 1, [f.message for f in answer.faults]
    return answer.faults[0]


@pytest.mark.parametrize("evidence", EVIDENCE)
@pytest.mark.parametrize("shape", RAILED)
class TestEveryTopologyWithRails:
    def test_is_silent_as_it_was_planned(self, shape, evidence):
        cluster = RAILED[shape]()
        answer = seen(cluster, evidence)
        assert (answer.why_none, answer.faults) == (None, ())
        assert sorted(h for pod in answer.pods for h in pod.hosts) == cluster.hosts
        mapped = {(h, r, p): leaf for pod in answer.pods for h in pod.hosts for r, p, leaf in pod.leaf_of}
        assert mapped == cluster.leaf

    def test_names_exchanged_cables_of_one_node(self, shape, evidence):
        cluster, a, b = RAILED[shape](), ("gpu004", 0, 1), ("gpu004", 3, 1)
        cluster.swap(a, b)
        fault = only_fault(seen(cluster, evidence))
        assert (fault.rule, fault.severity) == ("RAIL001", "error")
        assert ends(fault) == wanted(cluster, RAILED[shape](), a, b)

    def test_names_exchanged_cables_of_two_nodes(self, shape, evidence):
        cluster, a, b = RAILED[shape](), ("gpu002", 0, 1), ("gpu005", 3, 1)
        cluster.swap(a, b)
        fault = only_fault(seen(cluster, evidence))
        assert (fault.rule, fault.severity) == ("RAIL001", "error" if shape != "NICs in two planes" else "warning")
        assert ends(fault) == wanted(cluster, RAILED[shape](), a, b)

    def test_names_a_cable_on_another_rails_leaf(self, shape, evidence):
        cluster, a = RAILED[shape](), ("gpu003", 2, 1)
        cluster.leaf[a] = cluster.leaf["gpu003", 1, 1]
        fault = only_fault(seen(cluster, evidence))
        assert (fault.rule, fault.severity) == ("RAIL002", "error")
        assert ends(fault) == wanted(cluster, RAILED[shape](), a)
        assert cluster.nic("gpu003", 1) in fault.message

    def test_names_a_cable_on_a_switch_of_no_rail(self, shape, evidence):
        cluster, a = RAILED[shape](), ("gpu003", 2, 1)
        cluster.leaf[a] = "storage-leaf"
        fault = only_fault(seen(cluster, evidence))
        assert (fault.rule, ends(fault)) == ("RAIL002", wanted(cluster, RAILED[shape](), a))

    def test_says_a_mirrored_node_in_one_finding(self, shape, evidence):
        cluster = RAILED[shape]()
        own = [key for key in cluster.leaf if key[0] == "gpu006"]
        last = max(rail for _, rail, _ in own)
        cluster.leaf |= {(h, r, p): RAILED[shape]().leaf[h, last - r, p] for h, r, p in own}
        fault = only_fault(seen(cluster, evidence))
        assert (fault.rule, {e.host for e in fault.ends}) == ("RAIL001", {"gpu006"})
        assert "mirror order" in fault.message
        # Without a report only the order of device names says so, and a node may name its devices otherwise.
        assert fault.severity == ("warning" if evidence in ("listing", "listing without GUIDs") else "error")


@pytest.mark.parametrize("evidence", EVIDENCE)
@pytest.mark.parametrize("shape", PLAIN)
def test_a_topology_without_rails_is_silent_and_says_why(shape, evidence):
    make, why = PLAIN[shape]
    answer = seen(make(), evidence)
    assert answer.faults == ()
    assert why in answer.why_none


@pytest.mark.parametrize("evidence", EVIDENCE)
def test_a_stray_cable_of_a_plain_tree_is_no_rail_fault(evidence):
    cluster = fat_tree()
    cluster.leaf["gpu002", 3, 1] = "rack3"
    answer = seen(cluster, evidence)
    assert answer.faults == ()
    assert "a plain tree has no rails" in answer.why_none


def test_no_cabling_seen():
    answer = rails(railed().records(seen=False), [])
    assert answer.why_none.startswith("cabling not seen")
    assert answer.by == ()


def test_efa_has_no_rails():
    assert rails(railed().records(layer="efa"), []).why_none == "EFA has no rails"


def test_nothing_at_all():
    assert rails([], []).why_none.startswith("cabling not seen")


@pytest.mark.parametrize(
    ("evidence", "by"), [("reports", "ibnetdiscover"), ("LLDP", "lldp"), ("listing without GUIDs", "iblinkinfo")]
)
def test_who_told_is_said(evidence, by):
    assert seen(railed(), evidence).by == (by,)


class TestWhatAFaultSays:
    def test_both_ends_of_exchanged_cables(self):
        cluster = railed()
        cluster.swap(("gpu004", 2, 1), ("gpu004", 4, 1))
        fault = only_fault(seen(cluster))
        assert fault.message == (
            "gpu004 mlx5_2 reaches leaf-a5 port 4 instead of leaf-a3, mlx5_6 reaches leaf-a3 port 4 instead of leaf-a5"
            ": cables exchanged (7 of 8 nodes have rail 2 on leaf-a3)"
        )
        assert fault.repair == "Exchange the two cables"
        assert fault.ends[0] == (
            "gpu004",
            "mlx5_2",
            "0000:4d:00.0",
            "a288:c203:0003:0201",
            1,
            "leaf-a5",
            "4",
            "leaf-a3",
        )

    def test_two_nodes(self):
        cluster = railed()
        cluster.swap(("gpu002", 2, 1), ("gpu005", 4, 1))
        assert "gpu005 mlx5_6 reaches leaf-a3 port 5 instead of leaf-a5: cables of two nodes exchanged" in (
            only_fault(seen(cluster)).message
        )

    def test_ports_are_named_where_a_nic_has_two(self):
        cluster = dual_plane()
        cluster.swap(("gpu004", 2, 1), ("gpu004", 2, 2))
        assert "mlx5_2 port 2 reaches leaf-x3" in only_fault(seen(cluster)).message


class TestOrders:
    def shifted(self, by, **how):
        cluster = railed(**how)
        for rail in range(8):
            cluster.leaf["gpu003", rail, 1] = f"leaf-a{(rail + by) % 8 + 1}"
        return cluster

    def test_three_cables_in_a_round(self):
        cluster = railed()
        for rail, leaf in ((1, 4), (4, 7), (7, 1)):
            cluster.leaf["gpu003", rail, 1] = f"leaf-a{leaf + 1}"
        fault = only_fault(seen(cluster))
        assert (fault.rule, fault.severity, len(fault.ends)) == ("RAIL001", "error", 3)
        assert fault.repair == "Exchange the 3 cables"

    def test_a_round_over_three_nodes(self):
        cluster = railed()
        for host, rail, leaf in (("gpu001", 1, 4), ("gpu002", 4, 7), ("gpu003", 7, 1)):
            cluster.leaf[host, rail, 1] = f"leaf-a{leaf + 1}"
        fault = only_fault(seen(cluster))
        assert (fault.rule, {e.host for e in fault.ends}) == ("RAIL001", {"gpu001", "gpu002", "gpu003"})

    def test_all_rails_shifted_by_one_are_one_finding(self):
        fault = only_fault(seen(self.shifted(1)))
        assert (fault.rule, fault.severity, len(fault.ends)) == ("RAIL001", "error", 8)
        assert "8 of its 8 rails are in another order" in fault.message

    def test_other_pci_addresses_may_be_the_reason(self):
        cluster = self.shifted(1)
        cluster.buses["gpu003"] = ("0a", "0b", "0c", "0d", "8a", "8b", "8c", "8d")
        fault = only_fault(seen(cluster))
        assert fault.severity == "warning"
        assert "other PCI addresses than its sisters" in fault.message

    def test_two_exchanges_on_one_node_are_two(self):
        cluster = railed()
        cluster.swap(("gpu003", 0, 1), ("gpu003", 1, 1))
        cluster.swap(("gpu003", 5, 1), ("gpu003", 7, 1))
        assert [len(f.ends) for f in seen(cluster).faults] == [2, 2]

    def test_names_are_only_names(self):
        cluster = railed()
        cluster.names = {"gpu002": (9, 8, 7, 6, 3, 2, 1, 0), "gpu005": (0, 1, 2, 3, 4, 5, 6, 7)}
        assert seen(cluster).faults == seen(cluster, "listing and reports").faults == ()

    def test_a_host_without_a_report_may_count_its_devices_from_elsewhere(self):
        cluster = railed()
        cluster.names = {"gpu005": (2, 3, 4, 5, 6, 7, 10, 11)}
        assert seen(cluster, "listing").faults == ()


class TestFaultsOfManyNodes:
    @pytest.mark.parametrize("evidence", EVIDENCE)
    def test_a_rail_over_two_leaves_accuses_nobody(self, evidence):
        cluster = railed()
        for host in cluster.hosts[:4]:
            cluster.leaf[host, 3, 1] = "leaf-new"
        fault = only_fault(seen(cluster, evidence))
        assert (fault.rule, fault.severity, fault.ends) == ("RAIL002", "warning", ())
        assert fault.message == "rail 3 is split over leaf-a4 with 4 nodes and leaf-new with 4 nodes"

    def test_a_third_of_the_nodes_too(self):
        cluster = railed(12)
        for host in cluster.hosts[:4]:
            cluster.leaf[host, 3, 1] = "leaf-a5"
        fault = only_fault(seen(cluster))
        assert (fault.severity, fault.ends) == ("warning", ())

    def test_rails_exchanged_on_half_of_the_nodes(self):
        cluster = railed()
        for host in cluster.hosts[:4]:
            cluster.swap((host, 1, 1), (host, 2, 1))
        fault = only_fault(seen(cluster))
        assert (fault.severity, fault.ends) == ("warning", ())
        assert fault.message.startswith("rail 1 and rail 2 are exchanged on a part of the nodes")

    def test_several_faults_are_told_apart(self):
        cluster = railed(16)
        cluster.swap(("gpu001", 0, 1), ("gpu001", 1, 1))
        cluster.swap(("gpu002", 2, 1), ("gpu003", 3, 1))
        cluster.leaf["gpu004", 4, 1] = "leaf-a6"
        answer = seen(cluster)
        assert [f.rule for f in answer.faults] == ["RAIL001", "RAIL001", "RAIL002"]
        assert [sorted({e.host for e in f.ends}) for f in answer.faults] == [
            ["gpu001"],
            ["gpu002", "gpu003"],
            ["gpu004"],
        ]

    def test_a_node_with_all_cables_on_one_leaf_is_one_finding(self):
        cluster = railed()
        for rail in range(8):
            cluster.leaf["gpu004", rail, 1] = "leaf-a1"
        fault = only_fault(seen(cluster))
        assert (fault.rule, len(fault.ends)) == ("RAIL002", 7)


class TestSeverity:
    def test_two_of_three_nodes_show_but_do_not_prove(self):
        cluster = railed(3)
        cluster.swap(("gpu001", 2, 1), ("gpu001", 4, 1))
        assert only_fault(seen(cluster)).severity == "warning"

    def test_three_of_four_prove(self):
        cluster = railed(4)
        cluster.swap(("gpu001", 2, 1), ("gpu001", 4, 1))
        assert only_fault(seen(cluster)).severity == "error"

    def test_an_order_of_two_leaves_is_met_by_chance(self):
        cluster = railed(3, 2)
        cluster.swap(("gpu001", 0, 1), ("gpu001", 1, 1))
        assert seen(cluster).faults == ()


class TestWhoIsCompared:
    def test_a_port_that_is_down_takes_no_part(self):
        cluster = railed()
        cluster.leaf["gpu001", 2, 1] = "leaf-a5"
        cluster.down.add(("gpu001", 2, 1))
        assert seen(cluster).faults == seen(cluster, "listing").faults == ()

    @pytest.mark.parametrize("evidence", EVIDENCE)
    def test_a_lost_nic_moves_no_rail(self, evidence):
        cluster = railed()
        for key in (("gpu001", 2, 1), ("gpu004", 0, 1), ("gpu005", 5, 1), ("gpu005", 6, 1)):
            del cluster.leaf[key]
        answer = seen(cluster, evidence)
        assert (answer.why_none, answer.faults, len(answer.pods)) == (None, (), 1)

    def test_a_cable_of_a_node_that_lost_a_nic(self):
        cluster = railed()
        del cluster.leaf["gpu001", 2, 1]
        cluster.swap(("gpu001", 5, 1), ("gpu001", 6, 1))
        assert ends(only_fault(seen(cluster))) == wanted(cluster, railed(), ("gpu001", 5, 1), ("gpu001", 6, 1))

    def test_platforms_are_not_mixed(self):
        """The same leaves, cabled from the other end on another platform."""
        other = railed(4, first=50)
        other.leaf = {(h, r, p): f"leaf-a{8 - r}" for h, r, p in other.leaf}
        other.platform = dict.fromkeys(other.hosts, "DGX A100")
        both = railed() | other
        assert seen(both).faults == ()
        assert sorted(len(pod.hosts) for pod in seen(both).pods) == [4, 8]

    def test_numbers_of_rails_are_not_mixed(self):
        half = Plant({(h, r, 1): f"leaf-a{r * 2 + 1}" for h in plant.hosts_of(5, 50) for r in range(4)})
        half.buses = dict.fromkeys(half.hosts, ("1a", "4d", "9c", "cc"))
        answer = seen(railed() | half)
        assert answer.faults == ()
        assert sorted(len(pod.hosts) for pod in answer.pods) == [5, 8]

    def test_two_nodes_of_another_kind_are_left_alone(self):
        other = railed(2, first=50)
        other.swap(("gpu050", 1, 1), ("gpu050", 2, 1))
        other.platform = dict.fromkeys(other.hosts, "DGX A100")
        assert seen(railed() | other).faults == ()

    @pytest.mark.parametrize("guids", [True, False])
    def test_hosts_that_are_no_gpu_nodes(self, guids):
        """A management host on a spine, login nodes with one port, storage with two on any leaves."""
        rest = Plant({("ufm", 0, 1): "leaf-a3", ("ufm", 1, 1): "leaf-a4", ("sm", 0, 1): "spine1"})
        rest.leaf |= {(f"login{i}", 0, 1): "leaf-a1" for i in range(4)}
        rest.leaf |= {(f"store{i}", r, 1): f"leaf-a{(3 * i + r) % 8 + 1}" for i in range(6) for r in range(2)}
        for fabric in (railed(), railed(2)):
            assert rails([], [(fabric | rest).listing(guids=guids)]).faults == ()

    def test_storage_nics_are_slower_and_no_rail(self):
        cluster = railed()
        storage = Plant({(h, 8, 1): f"leaf-a{i % 8 + 1}" for i, h in enumerate(cluster.hosts)})
        storage.names = dict.fromkeys(cluster.hosts, (*plant.NUMBERS, 4))
        slow = storage.listing(rate=200.0)
        slow = slow._replace(cables=tuple(c._replace(guid=None) for c in slow.cables))
        answer = rails([], [cluster.listing(), slow])
        assert (answer.faults, len(answer.pods[0].leaf_of)) == ((), 8)

    def test_one_name_for_several_hosts_is_nobodys(self):
        cluster = railed()
        several = Plant({("host", r, 1): f"leaf-a{r + 1}" for r in range(8)})
        again = Plant({("host", r, 1): f"leaf-a{8 - r}" for r in range(8)})
        first, second, third = (p.listing(guids=False) for p in (cluster, several, again))
        other = [c._replace(switch_port=p) for p, more in (("30", second), ("31", third)) for c in more.cables]
        answer = rails([], [first._replace(cables=(*first.cables, *other))])
        assert (answer.faults, answer.pods[0].hosts) == ((), tuple(cluster.hosts))
        assert answer.notes == ("host: not compared, several hosts go by this name",)

    def test_a_port_is_found_by_its_guid_whatever_the_description_says(self):
        cluster = railed()
        listing = cluster.listing()
        listing = listing._replace(cables=tuple(c._replace(host=None, device=None) for c in listing.cables))
        cluster.swap(("gpu001", 1, 1), ("gpu001", 2, 1))  # the reports' own leaves are not asked
        assert rails(cluster.records(), [listing]).faults == ()
        alone = rails([], [listing])
        assert alone.why_none.startswith("cabling not seen")
        assert alone.notes == ("64 CA ports not compared: their description names no host",)

    def test_two_ports_of_a_nic_by_their_description(self):
        cluster = dual_plane()
        answer = rails(cluster.records(seen=False), [cluster.listing(guids=False)])
        assert (answer.faults, len(answer.pods[0].leaf_of)) == ((), 16)

    def test_a_storage_cluster_with_as_many_ports(self):
        """Cabled as it came, on the same leaves: other names, other hosts."""
        stores = spread(5, 8, 8)
        stores.leaf = {(h.replace("gpu", "store"), r, p): leaf for (h, r, p), leaf in stores.leaf.items()}
        assert seen(railed() | stores, "listing").faults == ()

    def test_hosts_whose_names_have_no_numbers_are_compared_too(self):
        cluster = railed()
        names = dict(zip(cluster.hosts, ("ada", "bob", "cyd", "dan", "eve", "fay", "gus", "hal"), strict=True))
        cluster.swap(("gpu004", 1, 1), ("gpu004", 2, 1))
        cluster.leaf = {(names[h], r, p): leaf for (h, r, p), leaf in cluster.leaf.items()}
        assert {e.host for e in only_fault(seen(cluster, "listing")).ends} == {"dan"}

    @pytest.mark.parametrize("evidence", ["reports", "listing"])
    def test_a_rail_that_a_whole_pod_lacks_is_noted(self, evidence):
        cluster = three_tier()
        for host in cluster.hosts[:6]:
            del cluster.leaf[host, 2, 1]
        answer = seen(cluster, evidence)
        place = "0000:4d:00.0" if evidence == "reports" else "mlx5_2"
        assert answer.faults == ()
        assert answer.notes == (f"no cable seen at rail 2 ({place}) on any of 6 nodes, gpu001 to gpu006",)

    def test_a_long_host_name_in_the_report(self):
        cluster = railed()
        records = [r._replace(host=f"{r.host}.cluster.example") for r in cluster.records(seen=False)]
        answer = rails(records, [cluster.listing(guids=False)])
        assert answer.faults == ()
        assert all(host.endswith(".cluster.example") for pod in answer.pods for host in pod.hosts)


def with_subnets(cluster):
    """RoCE: rail r of every host of a pod in the subnet of its leaf."""
    number = {leaf: i for i, leaf in enumerate(dict.fromkeys(cluster.leaf.values()))}
    cluster.subnet = {key: f"10.20.{number[leaf]}.0/24" for key, leaf in cluster.leaf.items()}
    return cluster


def roce(cluster, leaves=False):
    return rails(cluster.records("lldp", "ethernet", seen=leaves), [])


@pytest.mark.parametrize("leaves", [True, False], ids=["LLDP and subnets", "subnets alone"])
@pytest.mark.parametrize("shape", RAILED)
class TestSubnets:
    def test_as_planned(self, shape, leaves):
        answer = roce(with_subnets(RAILED[shape]()), leaves)
        assert (answer.why_none, answer.faults) == (None, ())
        assert answer.by == (("lldp", "subnet") if leaves else ("subnet",))

    def test_exchanged(self, shape, leaves):
        cluster = with_subnets(RAILED[shape]())
        a, b = ("gpu004", 0, 1), ("gpu004", 3, 1)
        cluster.subnet[a], cluster.subnet[b] = cluster.subnet[b], cluster.subnet[a]
        fault = only_fault(roce(cluster, leaves))
        assert (fault.rule, fault.severity, len(fault.ends)) == ("RAIL004", "error", 2)
        assert {(e.leaf, e.expected_leaf) for e in fault.ends} == {
            (cluster.subnet[a], cluster.subnet[b]), (cluster.subnet[b], cluster.subnet[a])
        }  # fmt: skip

    def test_two_rails_in_one(self, shape, leaves):
        cluster = with_subnets(RAILED[shape]())
        cluster.subnet["gpu004", 1, 1] = cluster.subnet["gpu004", 2, 1]
        fault = only_fault(roce(cluster, leaves))
        assert (fault.rule, fault.severity, ends(fault).keys()) == ("RAIL004", "error", {("gpu004", "mlx5_1", 1)})
        assert "mlx5_2" in fault.message


class TestMoreOfSubnets:
    def test_exchanged_cables_and_addresses_are_one_fault(self):
        cluster = with_subnets(railed())
        for of in (cluster.leaf, cluster.subnet):
            of["gpu002", 1, 1], of["gpu002", 2, 1] = of["gpu002", 2, 1], of["gpu002", 1, 1]
        assert only_fault(roce(cluster, leaves=True)).rule == "RAIL001"

    def test_all_in_one(self):
        cluster = railed()
        cluster.subnet = dict.fromkeys(cluster.leaf, "10.20.0.0/24")
        assert roce(cluster).why_none == "all ports are on one subnet"

    def test_point_to_point(self):
        cluster = railed(8, 4)
        cluster.subnet = {key: f"10.{20 + key[1]}.{i // 4}.0/24" for i, key in enumerate(cluster.leaf)}
        assert roce(cluster).faults == ()

    def test_a_subnet_of_no_rail_proves_nothing(self):
        cluster = with_subnets(railed())
        cluster.subnet["gpu002", 3, 1] = "10.20.99.0/24"
        assert roce(cluster).faults == ()

    def test_an_infiniband_prefix_is_none(self):
        cluster = with_subnets(railed())
        assert rails(cluster.records(seen=False), []).why_none.startswith("cabling not seen")

    def test_a_link_local_prefix_is_none(self):
        cluster = railed()
        cluster.subnet = dict.fromkeys(cluster.leaf, "fe80:0000:0000:0000")
        assert roce(cluster).why_none.startswith("cabling not seen")


def policy(*texts):
    return tuple(NameSet.parsed(text) for text in texts)


class TestPolicy:
    PLAN = policy(*(f"leaf-a{rail + 1},spare-{rail + 1}" for rail in range(8)))

    def test_as_planned(self):
        answer = seen(railed(), patterns=self.PLAN)
        assert (answer.why_none, answer.faults) == (None, ())

    def test_what_it_allows_is_no_fault(self):
        cluster = railed()
        cluster.leaf["gpu001", 2, 1] = "spare-3"
        assert seen(cluster, patterns=self.PLAN).faults == ()
        assert len(seen(cluster).faults) == 1

    def test_it_proves_where_sisters_are_too_few(self):
        cluster = railed(2)
        cluster.swap(("gpu001", 1, 1), ("gpu001", 2, 1))
        fault = only_fault(seen(cluster, patterns=self.PLAN))
        assert (fault.rule, fault.severity) == ("RAIL001", "error")
        assert ends(fault) == wanted(cluster, railed(2), ("gpu001", 1, 1), ("gpu001", 2, 1))
        assert "(policy)" in fault.message

    def test_it_wins_over_what_all_nodes_have(self):
        cluster = railed()
        for host in cluster.hosts:
            cluster.leaf[host, 3, 1] = "leaf-new"
        fault = only_fault(seen(cluster, patterns=self.PLAN))
        assert (fault.rule, fault.severity, len(fault.ends)) == ("RAIL002", "error", 8)
        assert {e.expected_leaf for e in fault.ends} == {"leaf-a4,spare-4"}

    def test_a_plan_of_other_rails_is_not_for_these_nodes(self):
        assert seen(railed(8, 4), patterns=self.PLAN).faults == ()


SHAPES = st.sampled_from(["rails", "two on a leaf", "planes by port"])
FAULTS = st.sampled_from(["exchange on a node", "exchange of two nodes", "stray", "round", "mirror"])


@st.composite
def clusters(draw):
    """A cluster of up to three pods, with its rails, and how to make it again."""
    shape, pods, nodes = draw(SHAPES), draw(st.integers(1, 3)), draw(st.integers(4, 7))
    count = draw(st.integers(6 if shape == "two on a leaf" else 3, 8))

    def make():
        found = Plant()
        for pod in range(pods):
            part = railed(nodes, count, "abc"[pod], per_leaf=1 + (shape == "two on a leaf"), first=1 + pod * nodes)
            if shape == "planes by port":
                part.leaf |= {(h, r, 2): f"second-{leaf}" for (h, r, _), leaf in part.leaf.items()}
            found |= part
        return found

    return make


def break_it(cluster, fault, dice):
    """The ports whose cables are moved; () where the fault would change nothing."""
    host, other = dice.sample([h for h in cluster.hosts if cluster.leaf[h, 0, 1] == cluster.leaf["gpu001", 0, 1]], 2)
    own, others = ([key for key in cluster.leaf if key[0] == h] for h in (host, other))
    before = dict(cluster.leaf)
    if fault == "exchange on a node":
        cluster.swap(*dice.sample(own, 2))
    elif fault == "exchange of two nodes":
        cluster.swap(dice.choice(own), dice.choice(others))
    elif fault == "stray":
        cluster.leaf[dice.choice(own)] = dice.choice(["another-leaf", cluster.leaf[dice.choice(own)]])
    elif fault == "round":
        a, b, c = dice.sample(own, 3)
        if len({before[key] for key in (a, b, c)}) == 3:
            cluster.leaf |= {a: before[b], b: before[c], c: before[a]}
    else:
        last = max(rail for _, rail, _ in own)
        cluster.leaf |= {(h, r, p): before[h, last - r, p] for h, r, p in own}
    return [key for key in before if before[key] != cluster.leaf[key]]


@settings(max_examples=150, deadline=None)
@given(clusters(), st.sampled_from(sorted(EVIDENCE)), FAULTS, st.integers(0, 10**6))
def test_any_cluster_and_any_one_fault(make, evidence, fault, seed):
    cluster = make()
    assert seen(cluster, evidence).faults == ()
    moved = break_it(cluster, fault, random.Random(seed))
    answer = seen(cluster, evidence)
    if moved:
        assert ends(only_fault(answer)) == wanted(cluster, make(), *moved)
        assert answer.faults[0].rule == ("RAIL002" if fault == "stray" else "RAIL001")
    else:
        assert answer.faults == ()


@settings(max_examples=60, deadline=None)
@given(st.integers(5, 40), st.integers(3, 8), st.integers(0, 10**6))
def test_ports_cabled_by_chance_accuse_nobody(nodes, count, seed):
    dice = random.Random(seed)
    leaves = [f"leaf{i}" for i in range(1, count + 1)]
    cluster = Plant({(h, r, 1): dice.choice(leaves) for h in plant.hosts_of(nodes) for r in range(count)})
    assert [f for f in seen(cluster).faults if f.ends] == []


def test_ten_thousand_nodes():
    """80,000 ports in pods of 40 nodes and three faults, found among them in 3 s."""
    cluster = Plant()
    for pod in range(250):
        cluster.leaf |= railed(40, 8, f"p{pod}-", first=1 + pod * 40).leaf
    place = {host: i for i, host in enumerate(cluster.hosts)}
    cluster.guid = lambda host, rail, port: f"{place[host]:08x}:{rail:02x}{port:02x}"
    cluster.switch_port = lambda key: str(place[key[0]] % 40)
    cluster.swap(("gpu100", 1, 1), ("gpu100", 2, 1))
    cluster.swap(("gpu5000", 1, 1), ("gpu5001", 2, 1))
    cluster.leaf["gpu9999", 3, 1] = cluster.leaf["gpu9999", 4, 1]
    records, listing = cluster.records(seen=False), cluster.listing()
    start = time.perf_counter()
    answer = rails(records, [listing])
    took_s = time.perf_counter() - start
    assert [sorted({e.host for e in f.ends}) for f in answer.faults] == [
        ["gpu100"],
        ["gpu5000", "gpu5001"],
        ["gpu9999"],
    ]
    assert took_s < 3
