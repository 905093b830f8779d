"""Which nodes are sisters at all: a platform in several makers' chassis, in several fabrics, numbered in other ways."""

from sisters import drop, edited, fleet, lanes, nodes_of_subnuma, renamed, report, swapped_map

from topocheck.fleet.majority import unlike
from topocheck.fleet.report import Other


def ethernet(document):
    for nic in (d for d in document["devices"] if d["kind"] == "nic"):
        nic["ports"][0]["link_layer"] = "ethernet"


def test_an_ethernet_cluster_beside_an_infiniband_one_is_no_fault():
    assert unlike(fleet((90, report()), (10, edited(ethernet)))) == ()


def test_one_node_whose_cards_are_all_set_to_ethernet_is_named():
    entry, = unlike(fleet((9, report()), edited(ethernet)))  # fmt: skip
    assert entry.field.startswith("link layer of 8 places") and entry.accused
    assert entry.others[0].hosts == ("gpu010",)


def other_chassis(document):
    """All devices at other addresses, the NICs in NUMA order unlike ours: another maker's HGX H100."""
    places = {d["bdf"]: d["bdf"].replace("0000:", "0001:") for d in document["devices"]}
    for entry in document["devices"]:
        entry["bdf"] = places[entry["bdf"]]
    for entry in document["links"]:
        entry["b"] = places.get(entry["b"], entry["b"])


def and_remapped(document):
    other_chassis(document)
    swapped_map(document)
    nodes_of_subnuma(document)


def test_another_makers_chassis_of_the_same_platform_is_not_accused_of_being_another():
    """Fifteen of a hundred with a NIC less, other NUMA nodes and another map, all by design."""

    def other(document):
        drop("mlx5_5")(document)
        and_remapped(document)

    assert unlike(fleet((85, report()), (15, edited(other)))) == ()


def test_within_a_chassis_of_its_own_the_odd_one_is_still_found():
    odd = edited(lanes("0001:5e:00.0", width=8), edited(and_remapped))
    entry, = unlike(fleet((80, report()), (19, edited(and_remapped)), odd))  # fmt: skip
    assert (entry.field, entry.nodes, entry.others[0].hosts) == ("PCIe width of nic 0001:5e:00.0", 20, ("gpu100",))


def test_a_node_whose_buses_are_numbered_anew_is_unlike_in_its_numbering_only():
    found = unlike(fleet((9, report()), edited(other_chassis)))
    assert [(e.field, e.severity, e.accused) for e in found] == [
        ("GPU numbering", "info", True), ("NIC numbering", "info", True),
    ]  # fmt: skip
    assert found[0].others[0].value.startswith("gpu0 0001:19:00.0, ")
    assert found[0].others[0].value.endswith(" and 6 more")  # two of eight GPUs are listed


def test_a_swap_is_told_by_what_is_swapped_whatever_other_nodes_do():
    found = unlike(fleet((18, report()), edited(renamed("mlx5_2", "mlx5_3", "nic")), edited(other_chassis)))
    entry = next(e for e in found if e.field == "NIC numbering")
    assert Other("mlx5_3 0000:4d:00.0, mlx5_2 0000:5e:00.0", ("gpu019",)) in entry.others


def test_chassis_may_share_some_addresses():
    """Four of eighteen are the same: seven nodes of another maker, with another number of NUMA nodes by design."""

    def partly(document):
        nodes_of_subnuma(document)
        for entry in document["devices"]:
            if entry["id"] not in ("gpu0", "gpu1", "gpu2", "gpu3"):
                entry["bdf"] = entry["bdf"].replace("0000:", "0001:")

    assert unlike(fleet((60, report()), (7, edited(partly)))) == ()


def test_four_nodes_of_another_chassis_are_too_few_to_compare_and_not_accused_of_their_hardware():
    found = unlike(fleet((40, report()), (4, edited(and_remapped))))
    assert {e.severity for e in found} == {"info"} and {e.field for e in found} == {"GPU numbering", "NIC numbering"}


def test_nodes_accused_of_a_nic_less_are_not_compared_among_themselves():
    """Eight lack one card and two another: what else differs between them follows from that."""
    found = unlike(fleet((90, report()), (8, edited(drop("mlx5_9"))), (2, edited(drop("mlx5_0")))))
    assert [(e.field, len(e.others[0].hosts)) for e in found] == [("NIC count", 10)]
