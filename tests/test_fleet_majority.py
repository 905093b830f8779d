"""Nodes unlike their sisters: what fires, by which majority, and what healthy fleets vary in without a word."""

import re
import shutil
import time

import nodes
import pytest
import sisters
from sisters import (
    device,
    drop,
    edited,
    fleet,
    lanes,
    link,
    nodes_of_subnuma,
    on,
    port,
    renamed,
    report,
    report_of,
    swapped_map,
    version,
)

from topocheck.fleet.majority import unlike
from topocheck.fleet.records import Records
from topocheck.fleet.values import HARDWARE, SAID_BY, SOFTWARE, name_of, values


def all_nics(**fields):
    def edit(document):
        for nic in (d for d in document["devices"] if d["kind"] == "nic"):
            nic.update(fields)

    return edit


FIRES = [
    (drop("gpu7"), "GPU count", "warning", "7", "8"),
    (drop("mlx5_9"), "NIC count", "warning", "9", "10"),
    (drop("0000:86:00.0"), "NVSwitch count", "warning", "3", "4"),
    (version(driver="570.86.15"), "driver", "info", "570.86.15", "580.95.05"),
    (version(kernel="6.8.0-40-generic"), "kernel", "info", "6.8.0-40-generic", "6.8.0-85-generic"),
    (on("gpu3", firmware="96.00.30.00.01"), "VBIOS", "info", "96.00.30.00.01 ×1, 96.00.74.00.11 ×7", "96.00.74.00.11"),
    (
        on("mlx5_3", firmware="28.39.1002"), "NIC firmware of 15b3:1021 MT_0000000838", "info",
        "28.39.1002 ×1, 28.43.2026 ×7", "28.43.2026",
    ),
    (on("mlx5_3", pci_id="15b3:a2dc"), "NIC models", "warning", "15b3:1021 ×9, 15b3:a2dc ×1", "15b3:1021 ×10"),
    (
        on("mlx5_3", board_id="DEL0000000040"), "NIC boards", "info",
        "DEL0000000040 ×1, MT_0000000834 ×2, MT_0000000838 ×7", "MT_0000000834 ×2, MT_0000000838 ×8",
    ),
    (lanes("0000:5e:00.0", width=8), "PCIe width of nic 0000:5e:00.0", "warning", "x8", "x16"),
    (lanes("0000:5d:00.0", width=4), "PCIe width of gpu 0000:5d:00.0", "warning", "x4", "x16"),
    (lanes("0000:5a:00.0", width=8), "PCIe width of link 0000:5a:00.0", "warning", "x8", "x16"),
    (lanes("0000:5e:00.0", speed_gts=16.0), "PCIe speed of nic 0000:5e:00.0", "warning", "16 GT/s", "32 GT/s"),
    (
        lanes("0000:5d:00.0", a_max_speed_gts=16.0), "PCIe slot speed of gpu 0000:5d:00.0", "warning",
        "16 GT/s", "32 GT/s",
    ),
    (
        renamed("gpu0", "gpu1", "gpu"), "GPU numbering", "info",
        "gpu1 0000:19:00.0, gpu0 0000:3b:00.0", "gpu0 0000:19:00.0, gpu1 0000:3b:00.0",
    ),
    (
        renamed("mlx5_2", "mlx5_3", "nic"), "NIC numbering", "info",
        "mlx5_3 0000:4d:00.0, mlx5_2 0000:5e:00.0", "mlx5_2 0000:4d:00.0, mlx5_3 0000:5e:00.0",
    ),
    (nodes_of_subnuma, "NUMA nodes", "warning", "4", "2"),
    (on("gpu7", numa_node=0), "NUMA layout of GPUs over 2 nodes", "warning", "0 ×4, 1 ×3, 0 ×1", "0 ×4, 1 ×4"),
    (port("mlx5_3", mtu=2048), "MTU of nic 0000:5e:00.0 port 1", "warning", "2048", "4096"),
    (port("mlx5_3", rate_gbit_per_s=200.0), "port rate of nic 0000:5e:00.0 port 1", "warning", "200 Gb/s", "400 Gb/s"),
    (
        port("mlx5_3", link_layer="ethernet"), "link layer of nic 0000:5e:00.0 port 1", "warning",
        "ethernet", "infiniband",
    ),
    (on("gpu3", nvlinks_active=17), "NVLinks of gpu 0000:5d:00.0", "warning", "17", "18"),
    (swapped_map, "GPU–NIC map", "warning", "gpu 2 nic 3, gpu 3 nic 2", "gpu 2 nic 2, gpu 3 nic 3"),
]  # fmt: skip


@pytest.mark.parametrize(("edit", "field", "severity", "value", "majority"), FIRES)
def test_a_node_unlike_its_sisters_is_named_with_the_size_of_the_majority(edit, field, severity, value, majority):
    entry = next(e for e in unlike(fleet((9, report()), edited(edit))) if e.field == field)
    assert (entry.severity, entry.majority, entry.accused, entry.nodes) == (severity, majority, True, 10)
    assert entry.share == pytest.approx(9 / 10)
    assert [(o.value, o.hosts, o.follows) for o in entry.others] == [(value, ("gpu010",), ())]


def test_every_field_that_is_compared_is_tried_above_or_said_here_why_not():
    tried = {name_of(field) for _, field, *_ in FIRES}
    assert set(SAID_BY) - tried == {"fabric manager", "ports a NIC", "sockets"}  # as driver, NIC models, NUMA nodes
    assert set(HARDWARE).isdisjoint(SOFTWARE)


def test_another_number_of_numa_nodes_is_told_once():
    entry, = unlike(fleet((9, report()), edited(nodes_of_subnuma)))  # fmt: skip
    assert (entry.field, entry.others[0].value) == ("NUMA nodes", "4")


@pytest.mark.parametrize(("alike", "odd", "accused"), [
    (4, 1, True), (3, 1, False), (5, 1, True), (7, 2, False), (8, 2, True), (2, 1, False), (79, 21, False),
    (80, 20, True),
])  # fmt: skip
def test_five_nodes_and_four_fifths_make_a_majority(alike, odd, accused):
    entries = unlike(fleet((alike, report()), (odd, edited(lanes("0000:5e:00.0", width=8)))))
    assert [(e.field, e.accused, e.nodes, len(e.others[0].hosts)) for e in entries] == [
        ("PCIe width of nic 0000:5e:00.0", accused, alike + odd, odd)
    ]


def test_three_nodes_of_a_platform_among_many_others_accuse_nobody():
    box, odd = report("pcie-box"), edited(version(driver="570.86.15"), report("pcie-box"))
    entries = unlike(fleet((40, report()), (2, box), odd))
    assert [(e.field, e.accused, e.kind.gpu_model) for e in entries] == [("driver", False, "NVIDIA L40S")]


def test_those_without_the_field_do_not_count():
    """Four have x16, one x8, five did not read it: 4 of 5."""
    blind = edited(lanes("0000:5e:00.0", width=None))
    entry, = unlike(fleet((4, report()), (5, blind), edited(lanes("0000:5e:00.0", width=8))))  # fmt: skip
    assert (entry.nodes, entry.share, entry.accused) == (5, 4 / 5, True)


@pytest.mark.parametrize("node", nodes.names())
def test_healthy_nodes_that_are_alike_are_not_spoken_of(node):
    assert unlike(fleet((9, report(node)))) == ()


def test_four_platforms_of_unequal_size_side_by_side_are_healthy():
    mixed = fleet((20, report()), (9, report("dgx-a100")), (6, report("hgx-h100-roce")), (3, report("pcie-box")))
    assert unlike(mixed) == ()


HARMLESS = {
    "memory": lambda d: [n.update(memory_gib=n["memory_gib"] - 16) for n in d["numa_nodes"]],
    "CPUs offline": lambda d: d["numa_nodes"][0].update(cpus="0-55,112-166"),
    "minors": lambda d: [x.update(minor=7 - x["minor"]) for x in d["devices"] if x["kind"] == "gpu"],
    "GPUs asleep": lambda d: [
        x.update(speed_gts=2.5) for x in d["links"] for g in d["devices"] if g["kind"] == "gpu" and g["bdf"] == x["b"]
    ],
    "P-states": lambda d: [x.update(pstate="P8") for x in d["devices"] if x["kind"] == "gpu"],
    "LIDs, GUIDs, subnet": lambda d: [
        p.update(lid=p["lid"] and p["lid"] + 40, guid="b83f:d203:0009:1000", subnet="fe80:0000:0000:0001")
        for x in d["devices"] if x["kind"] == "nic" for p in x["ports"]
    ],
    "storage port": port("mlx5_4", mtu=1024, rate_gbit_per_s=100.0),
    "MIG has no NVLinks": on("gpu3", mig=True, nvlinks_active=0),
    "a port that is down": port("mlx5_3", state="down", mtu=1024, rate_gbit_per_s=10.0),
    "virtual functions": lambda d: d["devices"].append(
        device(d, "mlx5_0") | {"id": "mlx5_10", "bdf": "0000:1a:00.1", "vf_of": "0000:1a:00.0", "firmware": "1"}
    ),
    "privileges": lambda d: d.update(privileged=False, boot_id=None),
    "a GPU's memory as a NUMA node": lambda d: d["numa_nodes"].append(
        {"id": 2, "cpus": None, "socket": None, "memory_gib": 80.0}
    ),
    "versions not read": version(driver=None, kernel=None),
    "NIC without firmware": on("mlx5_3", firmware=None, board_id=None),
    "NUMA node not read": on("mlx5_3", numa_node=None),
    "nearness not read": on("gpu3", nearest_nics=None),
    "RDMA devices not read": lambda d: [x.update(id=x["bdf"]) for x in d["devices"] if x["kind"] == "nic"],
    "NVLinks not read": on("gpu3", nvlinks_active=None),
    "an SSD more in a narrow slot": lambda d: d["links"].append(
        link(d, "0000:18:00.0") | {"a": "0000:70:01.0", "b": "0000:71:00.0", "width": 2}
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", HARMLESS)
def test_what_varies_harmlessly_or_was_not_read_accuses_nobody(what):
    assert unlike(fleet((9, report()), edited(HARMLESS[what]))) == ()


@pytest.mark.parametrize("node", ["hgx-h100", "dgx-a100", "gb200-tray", "pcie-box"])
def test_reports_without_root_among_those_with_it_accuse_nobody(node, tmp_path):
    """lspci without root shows no capability; and the other way round."""
    shutil.copytree(nodes.healthy(node), tmp_path / "capture")
    listing, = tmp_path.glob("capture/lspci*vv")  # fmt: skip
    text = listing.read_text()
    listing.write_text(re.sub(r"(?m)^\tCapabilities:.*\n(?:\t\t.*\n)*", "", text))
    assert listing.read_text() != text
    poor, rich = report_of(tmp_path / "capture"), report(node)
    assert len(values(poor)) < len(values(rich))
    assert unlike(fleet((9, rich), poor)) == ()
    assert unlike(fleet((9, poor), rich)) == ()


@pytest.mark.parametrize("without", ["nvidia-smi_-q_-x", "nvidia-smi_topo_-m", "ibv_devinfo_-v", "lspci_-D_-nn_-vv"])
def test_a_tool_that_is_missing_on_one_node_accuses_nobody(without, tmp_path):
    shutil.copytree(nodes.healthy("hgx-h100"), tmp_path / "capture")
    (tmp_path / "capture" / without).unlink()
    poor = report_of(tmp_path / "capture")
    assert unlike(fleet((9, report()), poor)) == ()
    assert unlike(fleet((9, poor), report())) == ()


@pytest.mark.parametrize("node", ["hgx-h100", "dgx-a100"])
def test_what_a_nodes_own_findings_say_is_not_said_again(node):
    """Every fault of our nodes, one among nine healthy sisters: what is unlike in hardware, a rule says already."""
    for fault in nodes.edits(node):
        for entry in unlike(fleet((9, report(node)), report(node, fault.name))):
            assert entry.severity == "info" or not entry.accused or not entry.unexplained, (fault.name, entry)


def test_the_rule_that_says_it_is_named():
    entry, = unlike(fleet((9, report()), report(fault="mlx5_3-x8")))  # fmt: skip
    assert entry.others[0].follows == ("PCI001",) and entry.unexplained == ()


def test_a_finding_of_another_device_explains_nothing():
    narrow = edited(lanes("0000:9c:00.0", width=8), report(fault="mlx5_3-x8"))
    told = {e.field: e.others[0].follows for e in unlike(fleet((9, report()), narrow))}
    assert told == {"PCIe width of nic 0000:5e:00.0": ("PCI001",), "PCIe width of nic 0000:9c:00.0": ()}


def test_of_two_nodes_with_one_value_the_one_with_a_finding_stands_apart():
    quiet = edited(lanes("0000:5e:00.0", width=8))
    entry, = unlike(fleet((9, report()), quiet, report(fault="mlx5_3-x8")))  # fmt: skip
    assert [(o.value, o.hosts, o.follows) for o in entry.others] == [
        ("x8", ("gpu010",), ()), ("x8", ("gpu011",), ("PCI001",)),
    ]  # fmt: skip


def test_what_was_waived_is_not_compared():
    def waive(document):
        document["findings"][0]["waived"] = True

    narrow = report(fault="mlx5_3-x8")
    assert narrow["findings"][0]["rule"] == "PCI001"
    assert unlike(fleet((9, report()), edited(waive, narrow))) == ()


def test_who_has_more_is_shown_not_accused():
    """Four fifths of a bad batch do not make its one good node the culprit."""
    entry, = unlike(fleet((9, edited(lanes("0000:5e:00.0", width=8))), report()))  # fmt: skip
    assert (entry.majority, entry.accused, entry.others[0].value) == ("x8", False, "x16")


def older_nics(document):
    """All eight compute NICs are of the generation before."""
    for nic in (d for d in document["devices"] if d["kind"] == "nic" and d["role"] == "compute"):
        nic |= {"pci_id": "15b3:101b", "firmware": "20.43.2026", "board_id": "MT_0000000223"}
        nic["ports"][0]["rate_gbit_per_s"] = 200
        sisters.link(document, nic["bdf"]).update(speed_gts=16.0, max_speed_gts=16.0)


@pytest.mark.parametrize("count", [1, 2, 4, 10, 11])
def test_nics_of_another_generation_are_shown_with_nothing_that_follows(count):
    found = unlike(sisters.fleet((12 - count, report()), (count, edited(older_nics))))
    assert [(entry.field, entry.accused) for entry in found if entry.severity == "warning"] == [("NIC models", False)]


def test_within_a_generation_the_odd_one_is_still_found():
    both = lambda document: (older_nics(document), sisters.port("mlx5_1", mtu=2048)(document))  # noqa: E731
    found = unlike(sisters.fleet((20, report()), (4, edited(older_nics)), edited(both)))
    warnings = [entry for entry in found if entry.accused and entry.severity == "warning"]
    assert [(entry.field, entry.others[0].hosts) for entry in warnings] == [
        ("MTU of nic 0000:3c:00.0 port 1", ("gpu025",))
    ]


def test_eight_narrow_links_of_one_node_are_one_entry():
    nics = [d["bdf"] for d in report()["devices"] if d["kind"] == "nic" and d["role"] == "compute"]

    def narrow(document):
        for bdf in nics:
            link(document, bdf)["width"] = 8

    entry, = unlike(fleet((9, report()), edited(narrow)))  # fmt: skip
    assert entry.field.startswith("PCIe width of 8 places: nic 0000:1a:00.0, nic 0000:3c:00.0")
    assert entry.field.endswith(" and 4 more")


def test_fifty_firmware_releases_are_counted_not_listed():
    drift = [edited(all_nics(firmware=f"28.{i}.1000")) for i in range(50)]
    entries = unlike(fleet((400, report()), *drift))
    assert {e.field for e in entries} == {f"NIC firmware of 15b3:1021 MT_000000083{n}" for n in (4, 8)}
    for entry in entries:
        assert entry.accused and entry.share == pytest.approx(400 / 450)
        assert len(entry.others) == 8 and entry.others[-1].value == "43 other values"
        assert len({host for other in entry.others for host in other.hosts}) == 50


def test_a_part_given_to_a_container_is_no_missing_gpu():
    def part(document):
        for number in range(4, 8):
            drop(f"gpu{number}")(document)
        document["findings"].append(
            report(fault="mlx5_3-x8")["findings"][0] | {"rule": "GPU001", "severity": "info", "subjects": []}
        )

    assert unlike(fleet((9, report()), edited(part))) == ()


def test_nodes_without_platform_and_gpu_are_of_no_kind():
    def login(document):
        document["platform"]["name"] = None
        document["devices"] = [d for d in document["devices"] if d["kind"] == "nic"]

    other = edited(version(kernel="5.14.0-503"), edited(login))
    assert unlike(fleet((9, edited(login)), other)) == ()


def test_a_document_that_is_not_whole_is_refused():
    def torn(document):
        del document["links"]

    with pytest.raises(ValueError, match="links"):
        sisters.fleet(edited(torn))


def test_ten_thousand_nodes_with_three_odd_ones_take_less_than_two_seconds():
    records = Records()
    odd = [lanes("0000:5e:00.0", width=8), version(driver="570.86.15"), drop("mlx5_9")]
    healthy, *bad = fleet(report(), *[edited(e) for e in odd], records=records)
    many = [healthy._replace(host=f"n{i:05}") for i in range(10_000)]
    start = time.perf_counter()
    found = unlike([*many, *bad])
    assert time.perf_counter() - start < 2
    assert {(e.field, e.others[0].hosts) for e in found} == {
        ("PCIe width of nic 0000:5e:00.0", ("gpu002",)), ("driver", ("gpu003",)), ("NIC count", ("gpu004",)),
    }  # fmt: skip
