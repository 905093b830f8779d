"""Rails across nodes: each fault named once with both ends, in every topology that has rails; silent in all others."""

import pytest
from plant import (
    EVIDENCE,
    PLAIN,
    RAILED,
    Plant,
    dual_plane,
    ends,
    fat_tree,
    only_fault,
    railed,
    seen,
    three_tier,
    wanted,
)

from topocheck.fleet.rails import rails


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
        assert (fault.rule, fault.severity) == ("RAIL001", "error")
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
        assert "8 of its 8 cables are in another order" in fault.message

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
        assert fault.message == "rail 3 is split over leaf-a4 with 4 nodes and leaf-new with 4 nodes, gpu[001-004]"

    def test_a_third_of_the_nodes_too(self):
        cluster = railed(12)
        for host in cluster.hosts[:4]:
            cluster.leaf[host, 3, 1] = "leaf-a5"
        fault = only_fault(seen(cluster))
        assert (fault.severity, fault.ends) == ("warning", ())

    def test_pods_that_share_most_leaves_are_one_finding(self):
        cluster = railed(16)
        for host in cluster.hosts[8:]:
            cluster.leaf |= {(host, rail, 1): f"leaf-b{rail + 1}" for rail in (5, 6, 7)}
        fault = only_fault(seen(cluster))
        assert (fault.severity, fault.ends) == ("warning", ())
        assert fault.message == (
            "rail 5 and rail 6 and rail 7 are each split over two leaves: "
            "rail 5 over leaf-a6 with 8 nodes and leaf-b6 with 8 nodes, gpu[009-016]"
        )

    def test_a_node_between_two_pods_shows_but_does_not_prove(self):
        cluster = three_tier()
        cluster.leaf |= {("gpu001", rail, 1): f"leaf-b{rail + 1}" for rail in range(4)}
        assert only_fault(seen(cluster)).severity == "warning"

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

    def test_four_nodes_are_believed_where_other_pods_have_rails(self):
        """Two of four are whole, which four cables are by chance once in four times."""
        alone, among = railed(4, 4), three_tier(4, 4, 3)
        for cluster in (alone, among):
            cluster.swap(("gpu002", 1, 1), ("gpu003", 3, 1))
        assert seen(alone).faults == ()
        fault = only_fault(seen(among))
        assert (fault.rule, {e.host for e in fault.ends}) == ("RAIL001", {"gpu002", "gpu003"})


class TestSeverity:
    def test_two_of_three_nodes_show_but_do_not_prove(self):
        cluster = railed(3)
        cluster.swap(("gpu001", 2, 1), ("gpu001", 4, 1))
        assert only_fault(seen(cluster)).severity == "warning"

    def test_three_of_four_prove(self):
        cluster = railed(4)
        cluster.swap(("gpu001", 2, 1), ("gpu001", 4, 1))
        assert only_fault(seen(cluster)).severity == "error"

    # all nodes but one have the order that one of them has: nodes / ways ^ (nodes - 2), 2 % shows and 0.1 % proves
    @pytest.mark.parametrize(
        ("nodes", "cables", "severities"),
        [
            (10, 2, []),  # 10 / 2^8 = 3.9 %
            (12, 2, ["warning"]),  # 12 / 2^10 = 1.2 %
            (15, 2, ["warning"]),  # 15 / 2^13 = 0.18 %
            (16, 2, ["error"]),  # 16 / 2^14 = 0.098 %
            (5, 3, []),  # 5 / 6^3 = 2.3 %
            (6, 3, ["warning"]),  # 6 / 6^4 = 0.46 %
            (7, 3, ["error"]),  # 7 / 6^5 = 0.09 %
        ],
    )
    def test_an_order_of_few_cables_is_soon_met_by_chance(self, nodes, cables, severities):
        cluster = railed(nodes, cables)
        cluster.swap(("gpu001", 0, 1), ("gpu001", 1, 1))
        assert [f.severity for f in seen(cluster).faults] == severities


def test_hosts_that_go_by_address_are_not_one_host():
    """The first parts of 10.0.0.1 and 10.0.0.2 are no short names: a report of one says nothing of the other."""
    cluster = Plant({(f"10.0.0.{h}", r, 1): f"leaf{r}" for h in range(1, 6) for r in range(8)})
    answer = rails(cluster.records(seen=False)[:1], [cluster.listing()])
    assert [pod.hosts for pod in answer.pods] == [("10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5")]
