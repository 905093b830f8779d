"""Rails by the subnets of RoCE ports, and against the policy's leaf switches."""

import pytest
from plant import RAILED, ends, only_fault, railed, seen, wanted

from topocheck.fleet.rails import rails
from topocheck.names import NameSet


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

    def test_a_policy_of_other_nodes_is_said_not_to_be_asked(self):
        answer = seen(railed(), patterns=policy("leaf-a1", "leaf-a2"))
        assert answer.faults == ()
        assert answer.notes == ("the policy's rails are not asked: it names 2, the nodes have 8",)
        assert seen(railed(), patterns=self.PLAN).notes == ()
