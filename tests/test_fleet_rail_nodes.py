"""Whose cables are compared with whose: kinds of nodes, lost NICs, hosts that only a listing knows."""

import plant
import pytest
from plant import EVIDENCE, Plant, dual_plane, ends, only_fault, railed, seen, spread, three_tier, wanted

from topocheck.fleet.rails import rails


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

    def test_a_host_that_the_fabric_calls_otherwise_counts_once(self):
        cluster = railed()
        listing = cluster.listing()
        listing = listing._replace(cables=tuple(c._replace(host=c.host.upper()) for c in listing.cables))
        answer = rails(cluster.records(seen=False), [listing])
        assert [pod.hosts for pod in answer.pods] == [tuple(cluster.hosts)]

    def test_a_long_host_name_in_the_report(self):
        cluster = railed()
        records = [r._replace(host=f"{r.host}.cluster.example") for r in cluster.records(seen=False)]
        answer = rails(records, [cluster.listing(guids=False)])
        assert answer.faults == ()
        assert all(host.endswith(".cluster.example") for pod in answer.pods for host in pod.hosts)
