"""This fleet against yesterday's reports or its baseline: what is new, gone, worse, unseen, or another value."""

import sisters
from sisters import device, edited, fleet, link, report

from topocheck.fleet.changes import compare


def changes(now, then):
    return [(c.what, c.severity, c.hosts) for c in compare("yesterday", now, then).changes]


def narrow(document):
    link(document, "0000:5e:00.0")["width"] = 8


def driver(version):
    return lambda document: document["versions"].update(driver=version)


def finding(rule, severity, *subjects, waived=False):
    """A finding put into a report, and its verdict."""

    def edit(document):
        base = report(fault="mlx5_3-x8")["findings"][0]
        document["findings"].append(
            base | {"rule": rule, "severity": severity, "subjects": list(subjects), "waived": waived}
        )
        if not waived:
            document["verdict"] = "failed" if severity == "error" else "degraded"

    return edit


def skips(rule):
    return lambda document: document["skipped"].append({"rule": rule, "partial": False, "reason": "not read"})


def test_the_same_reports_again_are_no_change():
    answer = compare("yesterday", fleet((4, report())), fleet((4, report())))
    assert (answer.name, answer.nodes, answer.only_then, answer.only_now, answer.changes) == (
        "yesterday",
        4,
        (),
        (),
        (),
    )


def test_a_new_fault_is_told_with_its_severity_its_verdict_and_not_again_by_its_value():
    bad = report(fault="mlx5_3-x8")
    assert changes(fleet((2, report()), (2, bad)), fleet((4, report()))) == [
        ("new PCI001 mlx5_3", "error", ("gpu003", "gpu004")),
        ("verdict healthy → failed", "info", ("gpu003", "gpu004")),
    ]


def test_a_fault_that_went_is_told():
    assert changes(fleet(report()), fleet(report(fault="mlx5_3-x8"))) == [
        ("gone PCI001 mlx5_3", "info", ("gpu001",)),
        ("verdict failed → healthy", "info", ("gpu001",)),
    ]


def test_a_fault_whose_rule_sees_no_more_is_unseen_not_gone():
    now = edited(skips("NET001"))
    then = edited(finding("NET001", "error", "mlx5_3"))
    assert ("unseen NET001 mlx5_3", "info", ("gpu001",)) in changes(fleet(now), fleet(then))


def test_a_fault_that_may_have_been_waived_is_not_called_gone():
    now = edited(finding("NET001", "error", "mlx5_3", waived=True))
    then = edited(finding("NET001", "error", "mlx5_3"))
    assert ("gone or waived NET001 mlx5_3", "info", ("gpu001",)) in changes(fleet(now), fleet(then))


def test_worse_and_better_are_told_apart():
    light, heavy = edited(finding("PCI007", "warning", "mlx5_3")), edited(finding("PCI007", "error", "mlx5_3"))
    assert changes(fleet(heavy), fleet(light))[0] == ("worse PCI007 mlx5_3: warning → error", "error", ("gpu001",))
    assert ("better PCI007 mlx5_3: error → warning", "info", ("gpu001",)) in changes(fleet(light), fleet(heavy))


def test_the_position_counts_not_the_name():
    """Since a boot the card at 0000:5e:00.0 is called mlx5_2: the fault is yesterday's, the numbering is new."""

    def rename(document):
        for entry in document["devices"]:
            entry["id"] = {"mlx5_2": "mlx5_3", "mlx5_3": "mlx5_2"}.get(entry["id"], entry["id"])
        for entry in document["findings"]:
            entry["subjects"] = [{"mlx5_3": "mlx5_2"}.get(s, s) for s in entry["subjects"]]
        for gpu in (d for d in document["devices"] if d["kind"] == "gpu"):
            gpu["nearest_nics"] = [{"mlx5_2": "mlx5_3", "mlx5_3": "mlx5_2"}.get(n, n) for n in gpu["nearest_nics"]]

    bad = report(fault="mlx5_3-x8")
    assert changes(fleet(edited(rename, bad)), fleet(bad)) == [
        ("NIC numbering mlx5_2 0000:4d:00.0, mlx5_3 0000:5e:00.0 → mlx5_3 0000:4d:00.0, mlx5_2 0000:5e:00.0", "info",
         ("gpu001",)),
    ]  # fmt: skip


def test_one_fault_of_several_devices_is_the_same_with_one_more():
    then, now = (
        edited(finding("PCI009", "warning", "mlx5_0", "mlx5_1")),
        edited(finding("PCI009", "warning", "mlx5_0", "mlx5_1", "mlx5_2")),
    )
    assert changes(fleet(now), fleet(then)) == []


def test_an_update_of_all_nodes_is_one_change():
    assert changes(fleet((40, edited(driver("580.105.08")))), fleet((40, report()))) == [
        ("driver 580.95.05 → 580.105.08", "info", tuple(f"gpu{i:03}" for i in range(1, 41)))
    ]


def test_the_same_change_at_many_places_is_one():
    def all_narrow(document):
        for nic in (d for d in document["devices"] if d["kind"] == "nic"):
            link(document, nic["bdf"])["width"] = 8

    (what, _, _), = changes(fleet(edited(all_narrow)), fleet(report()))  # fmt: skip
    assert what.startswith("PCIe width of 10 places: nic 0000:1a:00.0, ") and what.endswith("and 6 more: x16 → x8")


def test_what_one_report_did_not_read_is_no_change():
    def blind(document):
        document["versions"].update(driver=None, kernel=None)
        document["links"] = []
        device(document, "gpu3")["nvlinks_active"] = None

    assert changes(fleet(edited(blind)), fleet(report())) == []
    assert changes(fleet(report()), fleet(edited(blind))) == []


def test_what_follows_from_a_nic_less_is_not_told_beside_it():
    def without(document):
        gone = device(document, "mlx5_9")
        document["devices"].remove(gone)
        document["links"] = [entry for entry in document["links"] if entry["b"] != gone["bdf"]]
        device(document, "gpu7")["nearest_nics"] = ["mlx5_8"]

    now = edited(driver("580.105.08"), edited(without))
    assert [what for what, _, _ in changes(fleet(now), fleet(report()))] == [
        "NIC count 10 → 9", "driver 580.95.05 → 580.105.08",
    ]  # fmt: skip


def test_hosts_of_one_side_only_are_named():
    now, then = fleet((3, report())), fleet((5, report()))
    answer = compare("baseline", now[1:], then[:1] + then[2:])
    assert (answer.nodes, answer.only_now, answer.only_then) == (1, ("gpu002",), ("gpu001", "gpu004", "gpu005"))


def test_a_host_is_the_same_with_a_domain():
    then, now = fleet((3, report())), fleet((2, report()), edited(narrow))
    now = [node._replace(host=f"{node.host}.cluster.example") for node in now]
    answer = compare("yesterday", now, then)
    assert (answer.nodes, answer.only_now, answer.only_then) == (3, (), ())
    assert [change.hosts for change in answer.changes] == [("gpu003.cluster.example",)]


def test_hosts_of_one_name_in_two_domains_are_two():
    then = [node._replace(host=f"gpu1.{domain}") for node, domain in zip(fleet((2, report())), "ab", strict=True)]
    answer = compare("yesterday", then[:1], then)
    assert (answer.nodes, answer.only_now, answer.only_then) == (1, (), ("gpu1.b",))


def test_errors_first_and_thousands_of_changes_are_counted():
    then = fleet((300, report()))
    drift = [edited(lambda d, i=i: d["versions"].update(kernel=f"6.8.0-{i}")) for i in range(300)]
    drift[299] = edited(finding("NET001", "error", "mlx5_3"))
    answer = compare("yesterday", sisters.fleet(*drift), then)
    assert answer.changes[0].what == "new NET001 mlx5_3"
    assert len(answer.changes) == 200 and answer.changes[-1].what == "102 other changes"  # 1 + 1 + 299 − 199
    assert {host for change in answer.changes for host in change.hosts} == {node.host for node in then}
