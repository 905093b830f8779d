"""The RDMA tools: each one's own shapes, the words in one spelling, and what a damaged or foreign text must not do."""

import textwrap
from pathlib import Path

import pytest

from topocheck.facts import Gap, PciFunction, RdmaDevice
from topocheck.probes import (
    environ,
    fabric,
    fi_info,
    ibdev2netdev,
    iblinkinfo,
    ibnetdiscover,
    ibstat,
    ibstatus,
    ibv_devices,
    ibv_devinfo,
    lldp,
    mst_status,
    perfquery,
    rdma_link,
    show_gids,
    sysfs_ib,
)
from topocheck.sources.open import open_source

FIXTURES = Path(__file__).parent.parent / "fixtures" / "probes"
TEXT_PROBES = [
    ibstat,
    ibstatus,
    ibv_devices,
    ibv_devinfo,
    ibdev2netdev,
    rdma_link,
    show_gids,
    mst_status,
    fi_info,
    fabric,
    ibnetdiscover,
    iblinkinfo,
    perfquery,
    lldp,
    environ,
]


def fixture(path):
    return (FIXTURES / path).read_text()


def sample(probe):
    """The example that ends a probe's docstring."""
    return textwrap.dedent(probe.__doc__.strip("\n").rpartition("\n\n")[2])


def devices(probe, text):
    return {fact.name: fact for fact in probe.parse(text) if isinstance(fact, RdmaDevice)}


def port(device, number=1):
    return device.ports[number - 1]


# --- what each docstring shows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("probe", TEXT_PROBES, ids=lambda probe: probe.__name__.rpartition(".")[2])
def test_docstring_sample_is_recognised_by_its_own_probe_alone(probe):
    assert [other.INPUT for other in TEXT_PROBES if other.sniff(sample(probe))] == [probe.INPUT]
    assert list(probe.parse(sample(probe)))


def test_ibstat():
    device = devices(ibstat, sample(ibstat))["mlx5_0"]
    assert (device.model, device.firmware) == ("MT4129", "28.39.1002")
    assert device.node_guid == device.sys_image_guid == "a088:c203:00ab:1200"
    assert (port(device).state, port(device).physical, port(device).rate_gbit_per_s) == ("active", "linkup", 400.0)
    assert (port(device).link_layer, port(device).lid, port(device).sm_lid) == ("infiniband", 12, 1)
    assert port(device).lines["rate_gbit_per_s"] == ("ibstat", 11, "Rate: 400")
    assert device.line == ("ibstat", 1, "CA 'mlx5_0'")


def test_ibstat_two_ports_without_indent_and_the_tool_gave_up():
    text = fixture("ibstat/dual_port_indent_lost")
    device = devices(ibstat, text)["mlx4_0"]
    first, second = device.ports
    assert (first.state, first.physical, first.link_layer, first.guid) == (
        "down",
        "polling",
        "infiniband",
        "e41d:2d03:00aa:0011",
    )
    assert (second.state, second.rate_gbit_per_s, second.link_layer, second.guid) == ("active", 40.0, "ethernet", None)
    assert [fact.reason[:14] for fact in ibstat.parse(text) if isinstance(fact, Gap)] == ["ibstat stopped"]


def test_ibstatus():
    found = devices(ibstatus, fixture("ibstatus/ib_and_ethernet"))
    ethernet, infiniband = port(found["mlx5_an0"]), port(found["mlx5_ib0"])
    assert (ethernet.state, ethernet.rate_gbit_per_s, ethernet.subnet) == ("active", 40.0, None)
    assert (infiniband.state, infiniband.rate_gbit_per_s, infiniband.lid) == ("init", 14.0625, 0x96)
    assert infiniband.subnet == "fe80:0000:0000:0001"


def test_ibv_devinfo_rate_is_lanes_times_speed_and_zero_guids_are_unknown():
    found = devices(ibv_devinfo, fixture("ibv_devinfo/verbose_ib_and_efa"))
    card = found["mlx5_0"]
    assert (card.model, card.vendor_id, card.board_id) == ("MT4129", "15b3", "MT_0000000838")
    assert (card.node_guid, card.sys_image_guid) == ("a088:c203:00ab:1200", None)
    assert port(card).rate_gbit_per_s == 4 * 100.0
    assert (port(card).mtu, port(card).max_mtu, port(card).physical) == (2048, 4096, "linkup")
    assert port(card).subnet == "fe80:0000:0000:0000"
    efa = found["rdmap79s0"]
    assert (efa.efa, port(efa).link_layer, port(efa).rate_gbit_per_s) == (True, "efa", 4 * 25.0)


def test_ibv_devinfo_iwarp_in_wide_columns_with_hard_blanks():
    text = fixture("ibv_devinfo/iwarp_wide_columns")
    assert ibv_devinfo.sniff(text)
    device = devices(ibv_devinfo, text)["i40iw0"]
    assert (device.transport, device.board_id, device.vendor_id) == ("iWARP", "I40IW Board ID", "8086")
    assert (port(device).state, port(device).mtu, port(device).rate_gbit_per_s) == ("down", 1024, None)


def test_ibv_devices():
    device = devices(ibv_devices, sample(ibv_devices))["mlx5_0"]
    assert (device.node_guid, device.ports) == ("a088:c203:00ab:1200", ())


def test_ibdev2netdev_plain_word_is_the_interfaces():
    text = "mlx5_0 port 1 ==> ens1 (Up)\nmlx5_1 port 1 ==> ens2 (Down)\nmlx5_2 port 1 ==> ib0 (Down)\n"
    states = {name: port(device).state for name, device in devices(ibdev2netdev, text).items()}
    assert states == {"mlx5_0": "active", "mlx5_1": "down", "mlx5_2": None}


@pytest.mark.parametrize("columns", [80, 100, 120])
@pytest.mark.parametrize("broken", [textwrap.wrap, lambda line, n: [line[:n], line[n:]]], ids=["between words", "hard"])
def test_ibdev2netdev_rows_that_a_margin_broke(columns, broken):
    row = "0000:3b:00.{0} mlx5_{0} (MT4119 - MCX556A-ECAT) ConnectX-5 VPI adapter card, EDR IB   fw 16.27.1016 port 1 "
    row += "(ACTIVE) ==> ib{0} (Up)"
    text = "\n".join(part for i in range(2) for part in broken(row.format(i), columns))
    found = {device.name: device for device in ibdev2netdev.parse(text)}
    assert [(found[n].bdf, found[n].firmware, found[n].ports[0].state) for n in ("mlx5_0", "mlx5_1")] == [
        ("0000:3b:00.0", "16.27.1016", "active"),
        ("0000:3b:00.1", "16.27.1016", "active"),
    ]


def test_ibdev2netdev_verbose_has_the_ports_own_state():
    card, vf = devices(ibdev2netdev, fixture("ibdev2netdev/verbose_with_vf")).values()
    assert (card.bdf, card.model, card.firmware) == ("0000:1b:00.0", "MT4129", "28.39.1002")
    assert (port(card).state, port(card).netdev) == ("active", "ibp27s0")
    assert (vf.bdf, port(vf).state, port(vf).netdev) == ("0000:9c:00.2", "down", "ens9f0v0")


def test_rdma_link_old_and_new_rows_and_soft_devices():
    found = devices(
        rdma_link, sample(rdma_link) + "\n1/1: mlx5_9/1: lid 3 sm_lid 1 state INIT physical_state LINK_UP\n"
    )
    assert port(found["mlx5_0"]).link_layer == "infiniband"
    assert (port(found["mlx5_0"]).lid, port(found["mlx5_0"]).physical) == (12, "linkup")
    assert (port(found["mlx5_3"]).netdev, port(found["mlx5_3"]).link_layer) == ("ens3np0", "ethernet")
    assert port(found["mlx5_9"]).state == "init"
    assert {name for name, device in found.items() if device.software} == {"rxe0"}


def test_show_gids_v2_is_roce():
    text = sample(show_gids) + "\nmlx5_1  1     0      fe80:0000:0000:0000:a288:c2ff:feab:1300               v1    \n"
    found = devices(show_gids, text)
    assert (port(found["mlx5_0"]).link_layer, port(found["mlx5_0"]).netdev) == ("ethernet", "eth0")
    assert (port(found["mlx5_1"]).link_layer, port(found["mlx5_1"]).netdev) == (None, None)


def test_mst_status_verbose_shapes():
    text = fixture("mst_status/verbose_shapes")
    found = devices(mst_status, text)
    assert {name: device.bdf for name, device in found.items()} == {
        "mlx5_0": "0000:1b:00.0",
        "mlx5_3": "0000:9c:00.1",
        "mlx5_4": "0000:9c:00.2",
    }
    assert [port(device).netdev for device in found.values()] == ["ibp27s0", None, "ens9f0v0"]
    assert [device.model for device in found.values()] == ["MT4129", "MT4125", None]
    functions = [fact for fact in mst_status.parse(text) if isinstance(fact, PciFunction)]
    assert [(f.numa_node, f.numa_unknown) for f in functions] == [(0, False), (None, True), (1, False)]


# --- EFA ----------------------------------------------------------------------------------------------------------


def test_fi_info_counts_stems_and_reads_speed():
    found = devices(fi_info, fixture("fi_info/verbose_two_efa_one_ena"))
    assert list(found) == ["rdmap79s0", "rdmap16s27"]
    first, second = found.values()
    # Bus 79 = 0x4f; bus 16, slot 27 = 0x10, 0x1b.
    assert (first.bdf, second.bdf) == ("0000:4f:00.0", "0000:10:1b.0")
    assert (port(first).rate_gbit_per_s, port(first).state, port(first).link_layer) == (100.0, "active", "efa")
    assert (port(second).rate_gbit_per_s, port(second).state) == (200.0, "down")


def test_fi_info_filtered_by_grep_and_cut():
    found = devices(fi_info, fixture("fi_info/grep_filtered_and_cut"))
    assert {name: device.bdf for name, device in found.items()} == {"efa_0": None, "rdmap0s31": "0000:00:1f.0"}
    assert all(device.efa and port(device).state is None for device in found.values())


@pytest.mark.parametrize(
    ("domain", "bdf"),
    [("rdmaP2p1s0", "0002:01:00.0"), ("rdmap300s0", None), ("rdmap1s32", None), ("rdmap1s0f1", "0000:01:00.1")],
)
def test_fi_info_address_only_where_the_name_holds_one(domain, bdf):
    (device,) = devices(fi_info, f"provider: efa\n    domain: {domain}-rdm\n").values()
    assert device.bdf == bdf


def test_fi_info_no_efa_is_a_gap():
    (gap,) = fi_info.parse("fi_getinfo: -61 (No data available)\n")
    assert isinstance(gap, Gap)


# --- several outputs in one text ----------------------------------------------------------------------------------


def test_each_probe_takes_its_own_part_of_a_pasted_ticket():
    text = fixture("pasted/ticket")
    assert {probe.INPUT for probe in TEXT_PROBES if probe.sniff(text)} == {
        "ibstat",
        "ibstatus",
        "ibdev2netdev",
        "rdma link",
    }
    (from_ibstat,) = devices(ibstat, text).values()
    assert (from_ibstat.name, len(from_ibstat.ports), port(from_ibstat).lid) == ("mlx5_0", 1, None)
    (from_ibstatus,) = devices(ibstatus, text).values()
    assert (from_ibstatus.name, port(from_ibstatus).physical) == ("mlx5_7", "disabled")
    assert port(from_ibstatus).lines["state"].line == 15  # counted in the text as given
    assert list(devices(rdma_link, text)) == ["mlx5_0", "rxe0"]


@pytest.mark.parametrize("probe", TEXT_PROBES, ids=lambda probe: probe.__name__.rpartition(".")[2])
def test_damage_costs_the_damaged_line_only(probe):
    text = sample(probe)
    whole = [fact for fact in probe.parse(text) if isinstance(fact, RdmaDevice)]
    damaged = [fact for fact in probe.parse("\x00\xff\n" + text + "\nStat\x00: ?? [\n") if isinstance(fact, RdmaDevice)]
    assert [(d.name, len(d.ports)) for d in damaged] == [(d.name, len(d.ports)) for d in whole]
    for end in range(0, len(text), 7):
        list(probe.parse(text[:end]))  # cut anywhere: never an exception


@pytest.mark.parametrize(
    "text", ["a" * 2_000_000, " " * 2_000_000, "port 1 (" * 200_000, "a:" * 500_000, "1 " * 500_000]
)
def test_one_endless_line_is_no_device(text):
    for probe in TEXT_PROBES:
        assert not probe.sniff(text)
        assert not devices(probe, text)


# --- sysfs --------------------------------------------------------------------------------------------------------


def put(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def link(root, path, target):
    at = root / path
    at.parent.mkdir(parents=True, exist_ok=True)
    (root / target).mkdir(parents=True, exist_ok=True)
    at.symlink_to(Path(*[".."] * (len(Path(path).parts) - 1)) / target)


@pytest.fixture
def tree(tmp_path):
    """A ConnectX port, its VF, an EFA and a soft device, as sysfs lays them out."""
    pf = "sys/devices/pci0000:15/0000:15:01.0/0000:1b:00.0"
    vf = "sys/devices/pci0000:15/0000:15:01.0/0000:1b:00.2"
    efa = "sys/devices/pci0000:4e/0000:4f:00.0"
    for name, device, vendor, layer, rate, state in (
        ("mlx5_0", pf, "0x15b3", "InfiniBand", "400 Gb/sec (4X NDR)", "4: ACTIVE"),
        ("mlx5_1", vf, "0x15b3", "Ethernet", "40 Gb/sec (4X QDR)", "1: DOWN"),
        ("rdmap79s0", efa, "0x1d0f", "Unspecified", "100 Gb/sec (4X EDR)", "4: ACTIVE"),
    ):
        real = f"{device}/infiniband/{name}"
        put(tmp_path, f"{device}/vendor", vendor)
        put(tmp_path, f"{real}/fw_ver", "28.39.1002")
        put(tmp_path, f"{real}/node_guid", "a088:c203:00ab:1200")
        put(tmp_path, f"{real}/sys_image_guid", "0000:0000:0000:0000")
        for file, text in (("state", state), ("phys_state", "5: LinkUp"), ("rate", rate), ("link_layer", layer)):
            put(tmp_path, f"{real}/ports/1/{file}", text)
        put(tmp_path, f"{real}/ports/1/lid", "0xc")
        put(tmp_path, f"{real}/ports/1/gids/0", "fe80:0000:0000:0001:a088:c203:00ab:1201")
        link(tmp_path, f"{real}/device", device)
        link(tmp_path, f"sys/class/infiniband/{name}", real)
    put(tmp_path, f"{pf}/net/ibp27s0/dev_port", "0")
    put(tmp_path, f"{vf}/net/other/dev_port", "1")
    link(tmp_path, f"{vf}/physfn", pf)
    put(tmp_path, "sys/devices/virtual/infiniband/rxe7/ports/1/state", "4: ACTIVE")
    link(tmp_path, "sys/class/infiniband/rxe7", "sys/devices/virtual/infiniband/rxe7")
    return {fact.name: fact for fact in sysfs_ib.read(open_source(str(tmp_path)))}


def test_sysfs_ib_functions_and_kinds(tree):
    assert {name: device.bdf for name, device in tree.items()} == {
        "mlx5_0": "0000:1b:00.0",
        "mlx5_1": "0000:1b:00.2",
        "rdmap79s0": "0000:4f:00.0",
        "rxe7": None,
    }
    assert [name for name, device in tree.items() if device.software] == ["rxe7"]
    assert [name for name, device in tree.items() if device.efa] == ["rdmap79s0"]
    assert {name: device.vf_of for name, device in tree.items() if device.vf_of} == {"mlx5_1": "0000:1b:00.0"}
    assert {device.sys_image_guid for device in tree.values()} == {None}


def test_sysfs_ib_ports(tree):
    infiniband, vf, efa = port(tree["mlx5_0"]), port(tree["mlx5_1"]), port(tree["rdmap79s0"])
    assert (infiniband.state, infiniband.rate_gbit_per_s, infiniband.lid) == ("active", 400.0, 12)
    assert (infiniband.subnet, infiniband.guid) == ("fe80:0000:0000:0001", "a088:c203:00ab:1201")
    assert (infiniband.netdev, vf.netdev) == ("ibp27s0", None)  # dev_port 1 is the second port's
    assert (vf.state, vf.link_layer, vf.subnet) == ("down", "ethernet", None)
    assert (efa.link_layer, efa.rate_gbit_per_s) == ("efa", 100.0)
    assert infiniband.lines["rate_gbit_per_s"] == (
        "/sys/class/infiniband/mlx5_0/ports/1/rate",
        None,
        "400 Gb/sec (4X NDR)",
    )


def test_sysfs_ib_nothing_where_there_is_no_tree(tmp_path):
    (tmp_path / "note").write_text("empty\n")
    assert not list(sysfs_ib.read(open_source(str(tmp_path))))
