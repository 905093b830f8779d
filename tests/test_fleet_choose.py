"""Which nodes a job gets and what its slowest costs; which nodes no job should get."""

import random
import time

import pytest
import sisters
from sisters import edited, report

from topocheck.fleet.choose import exclude, job
from topocheck.fleet.record import RailPort
from topocheck.fleet.report import Pod, RailEnd, RailFault, Rails

NO_CABLING = Rails("no leaf is known of any port")
FULL = 392.0  # eight 400 Gb/s NICs behind PCIe 5.0 x16, 49.0 GB/s each


def unsure(document):
    document["verdict"] = "unknown"
    document["skipped"] = [{"rule": rule, "partial": False, "reason": "not read"} for rule in ("PCI001", "PCI002")]


FAILED = "mlx5_3-x8"  # PCI001, an error
DEGRADED = "mlx5_2-slot-gen4"  # PCI003, a warning


def fleet(healthy=0, degraded=0, unknown=0, failed=0, node="hgx-h100"):
    return sisters.fleet(
        (healthy, report(node)),
        (degraded, report(node, DEGRADED)),
        (unknown, edited(unsure, report(node))),
        (failed, report(node, FAILED)),
    )


def names(*numbers):
    return tuple(f"gpu{number:03}" for number in numbers)


def rail_fault(severity, *hosts):
    ends = tuple(RailEnd(host, "mlx5_3", "0000:5e:00.0", None, 1, "leaf-4", "17", "leaf-3") for host in hosts)
    return RailFault("RAIL001", severity, ends, "reaches leaf-4, belongs at leaf-3", "exchange the cables")


def test_the_fixtures_are_what_they_are_taken_for():
    verdicts = [node.verdict for node in fleet(1, 1, 1, 1)]
    assert verdicts == ["healthy", "degraded", "unknown", "failed"]
    assert fleet(1)[0].nics_gb_per_s == FULL


def test_healthy_nodes_that_are_enough_are_taken_and_the_bad_ones_named():
    nodes = fleet(healthy=4, degraded=1, unknown=1, failed=1)
    answer = job(4, nodes, NO_CABLING)
    assert (answer.chosen, answer.enough, answer.wanted) == (names(1, 2, 3, 4), True, 4)
    assert [left.host for left in answer.left_out] == list(names(5, 6, 7))
    degraded, unknown, failed = (left.why for left in answer.left_out)
    assert degraded.startswith("degraded: PCI003 mlx5_2") and failed.startswith("failed: PCI001 mlx5_3")
    assert unknown == "unknown: 2 rules could not see"
    assert (answer.slowest_gb_per_s, answer.usual_gb_per_s) == (FULL, FULL)


@pytest.mark.parametrize(("wanted", "chosen"), [(2, (1, 2)), (3, (1, 2, 3)), (4, (1, 2, 3, 4))])
def test_degraded_nodes_are_taken_before_unknown_ones(wanted, chosen):
    assert job(wanted, fleet(healthy=2, degraded=1, unknown=1, failed=1), NO_CABLING).chosen == names(*chosen)


def test_nodes_that_have_not_answered_for_a_day_come_last():
    nodes = fleet(healthy=4, degraded=1)
    answer = job(3, nodes, NO_CABLING, names(1, 2))
    assert answer.chosen == names(3, 4, 5)
    assert [(left.host, left.why) for left in answer.left_out] == [
        ("gpu001", "an old report, of 2026-11-15"), ("gpu002", "an old report, of 2026-11-15"),
    ]  # fmt: skip
    assert job(5, nodes, NO_CABLING, names(1, 2)).enough


def test_failed_nodes_are_never_taken():
    answer = job(4, fleet(healthy=2, failed=3), NO_CABLING)
    assert (answer.chosen, answer.enough) == (names(1, 2), False)
    assert len(answer.left_out) == 3


def test_the_slowest_chosen_sets_the_pace():
    """One node with a NIC less: it is named beside what is usual."""
    nodes = [n._replace(nics_gb_per_s=343.0) if n.host == "gpu003" else n for n in fleet(healthy=2, degraded=1)]
    answer = job(3, nodes, NO_CABLING)
    assert (answer.slowest, answer.slowest_gb_per_s, answer.usual_gb_per_s) == ("gpu003", 343.0, FULL)


def test_of_healthy_nodes_the_slow_ones_stay_out():
    slow = [n._replace(nics_gb_per_s=343.0) if n.host == "gpu002" else n for n in fleet(healthy=4)]
    answer = job(3, slow, NO_CABLING)
    assert answer.chosen == names(1, 3, 4)
    assert [(left.host, left.why) for left in answer.left_out] == [("gpu002", "slower: 343 GB/s, all NICs together")]


def test_spare_healthy_nodes_are_no_reason_to_speak():
    assert job(2, fleet(healthy=6), NO_CABLING).left_out == ()


def test_a_rate_that_is_not_known_is_no_pace_and_comes_last():
    nodes = [n._replace(nics_gb_per_s=None) if n.host == "gpu001" else n for n in fleet(healthy=3)]
    assert job(2, nodes, NO_CABLING).chosen == names(2, 3)
    unread = job(3, [n._replace(nics_gb_per_s=None) for n in nodes], NO_CABLING)
    assert (unread.chosen, unread.slowest, unread.slowest_gb_per_s, unread.usual_gb_per_s) == (
        names(1, 2, 3), None, None, None,
    )  # fmt: skip


def test_one_kind_of_node_is_taken_though_another_has_more():
    nodes = sisters.fleet((6, report("dgx-a100")), (4, report()))
    answer = job(4, nodes, NO_CABLING)
    assert answer.chosen == names(7, 8, 9, 10)  # eight NICs of 49.0 GB/s are more than eight of 24.5
    assert {left.why for left in answer.left_out} == {"another kind of node: DGX A100"}
    assert job(5, nodes, NO_CABLING).chosen == names(1, 2, 3, 4, 5)  # only they are five


def test_a_kind_of_which_all_are_healthy_goes_before_a_faster_one_with_degraded_nodes():
    nodes = sisters.fleet((4, report("dgx-a100")), (3, report()), report(fault=DEGRADED))
    assert job(4, nodes, NO_CABLING).chosen == names(1, 2, 3, 4)


def test_the_bad_nodes_of_the_kind_that_is_taken_are_named_before_other_kinds():
    others = sisters.fleet((3, report("dgx-a100")), (1, report("dgx-a100", "mlx5_7-gen3")))
    others = [node._replace(host=f"a{node.host}") for node in others]
    answer = job(4, [*others, *fleet(healthy=4, failed=1)], NO_CABLING)
    assert [left.host for left in answer.left_out] == ["gpu005", "agpu001", "agpu002", "agpu003", "agpu004"]


def test_kinds_are_mixed_only_where_none_has_enough():
    answer = job(8, sisters.fleet((6, report("dgx-a100")), (4, report())), NO_CABLING)
    assert answer.enough and answer.chosen == names(1, 2, 3, 4, 5, 6, 7, 8)


def test_a_node_with_a_nic_less_is_of_the_same_kind_but_slower():
    """Seven of eight NICs: 7 × 49.0 = 343.0 GB/s."""
    nodes = sisters.fleet((3, report()), report(fault="mlx5_9-gone"))
    answer = job(4, nodes, NO_CABLING)
    assert (answer.enough, answer.slowest, answer.slowest_gb_per_s) == (True, "gpu004", 343.0)


def test_few_pods_are_preferred():
    """Pods of 2, 6 and 4: four nodes fit the third, five the second, eight need two pods, not three."""
    nodes = fleet(healthy=12)
    pods = (Pod(names(1, 2), ()), Pod(names(3, 4, 5, 6, 7, 8), ()), Pod(names(9, 10, 11, 12), ()))
    cabling = Rails(None, pods=pods)
    assert job(4, nodes, cabling).chosen == names(9, 10, 11, 12)
    assert job(5, nodes, cabling).chosen == names(3, 4, 5, 6, 7)
    assert job(8, nodes, cabling).chosen == names(1, 2, 3, 4, 5, 6, 7, 8)


def test_a_pod_of_healthy_nodes_goes_before_fewer_pods_with_degraded_ones():
    nodes = fleet(healthy=4, degraded=2)
    cabling = Rails(None, pods=(Pod(names(1, 2, 5, 6), ()), Pod(names(3, 4), ())))
    assert job(4, nodes, cabling).chosen == names(1, 2, 3, 4)


def test_a_node_with_crossed_cables_gets_no_job():
    answer = job(3, fleet(healthy=4), Rails(None, faults=(rail_fault("error", "gpu002"),)))
    assert answer.chosen == names(1, 3, 4)
    assert answer.left_out[0].why.startswith("RAIL001 mlx5_3 reaches leaf-4")


def test_the_choice_does_not_depend_on_the_order_of_the_reports():
    nodes = fleet(healthy=6, degraded=3, unknown=2, failed=2)
    cabling = Rails(None, pods=(Pod(names(1, 4, 7), ()), Pod(names(2, 3, 5, 6), ())))
    first = job(7, nodes, cabling)
    for seed in range(5):
        mixed = random.Random(seed).sample(nodes, len(nodes))
        assert job(7, mixed, cabling) == first and exclude(mixed, cabling) == exclude(nodes, cabling)


def test_no_node_at_all():
    answer = job(4, [], NO_CABLING)
    assert (answer.chosen, answer.left_out, answer.enough, answer.slowest) == ((), (), False, None)


def test_failed_nodes_are_excluded_and_only_they():
    found = exclude(fleet(healthy=2, degraded=2, unknown=2, failed=2), NO_CABLING)
    assert [entry.host for entry in found] == list(names(7, 8))
    assert all(entry.why.startswith("failed: PCI001 mlx5_3 runs") and len(entry.why) < 150 for entry in found)


def test_waived_errors_exclude_nobody():
    def waive(document):
        document["verdict"] = "healthy"
        for entry in document["findings"]:
            entry["waived"] = True

    assert exclude(sisters.fleet(edited(waive, report(fault=FAILED))), NO_CABLING) == ()


@pytest.mark.parametrize(("severity", "hosts"), [("error", ("gpu001", "gpu002")), ("warning", ()), ("info", ())])
def test_cabling_errors_exclude_both_ends_warnings_nobody(severity, hosts):
    found = exclude(fleet(healthy=3), Rails(None, faults=(rail_fault(severity, "gpu001", "gpu002"),)))
    assert tuple(entry.host for entry in found) == hosts


def test_ten_thousand_nodes_are_chosen_from_in_two_seconds():
    node = fleet(healthy=1)[0]
    assert isinstance(node.ports[0], RailPort)
    many = [node._replace(host=f"n{i:05}") for i in range(10_000)]
    pods = tuple(Pod(tuple(f"n{i:05}" for i in range(start, start + 32)), ()) for start in range(0, 10_000, 32))
    start = time.perf_counter()
    answer = job(5000, many, Rails(None, pods=pods))
    assert time.perf_counter() - start < 2
    assert answer.enough and len({int(host[1:]) // 32 for host in answer.chosen}) == 157  # ⌈5000 / 32⌉
