"""Fabric listings, LLDP, counters, GIDs, the environment: what they say of this node's ports, and of whose they are."""

import json

import pytest
from test_probe_net import TEXT_PROBES, fixture

from topocheck.facts import Cabling, Gap, Gid, Host, PortCounters, RdmaDevice
from topocheck.probes import environ, fabric, iblinkinfo, ibnetdiscover, ibv_devinfo, lldp, perfquery


@pytest.mark.parametrize(
    ("probe", "name"), [(iblinkinfo, "iblinkinfo"), (ibnetdiscover, "ibnetdiscover_-p"), (perfquery, "perfquery_-x")]
)
def test_fabric_file_states_no_device(probe, name):
    text = fixture(f"fabric/{name}")
    assert not [fact for fact in probe.parse(text) if isinstance(fact, RdmaDevice)]
    assert [other for other in TEXT_PROBES if other.sniff(text)] == [probe]


@pytest.mark.parametrize("name", ["ibnetdiscover", "ibnetdiscover_-p", "iblinkinfo", "iblinkinfo_-l"])
def test_every_form_tells_the_leaf_of_a_port(name):
    probe = iblinkinfo if name.startswith("iblinkinfo") else ibnetdiscover
    cables = [fact for fact in probe.parse(fixture(f"fabric/{name}")) if isinstance(fact, Cabling)]
    ours = [c for c in cables if c.node_desc == "gpu01 mlx5_0"]
    assert {(c.leaf.switch, c.leaf.port, c.lid) for c in ours} == {("leaf01", "1", 12)}
    assert {c.port_guid for c in ours} - {None} <= {"a088:c203:00ab:1300"}
    assert all("leaf01" in c.leaf.line.text or "gpu01" in c.leaf.line.text for c in ours)


@pytest.mark.parametrize(
    ("link", "able"),
    [
        ('4X       53.125 Gbps Active/  LinkUp)==>      73    1[  ] "leaf01" ( Could be 106.25 Gbps)', (4, "NDR")),
        ('2X       53.125 Gbps Active/  LinkUp)==>      73    1[  ] "leaf01" (Could be 4X )', (4, "HDR")),
        ('1X       2.5 Gbps Active/  LinkUp)==>  73    1[  ] "leaf01" (Could be 4X Could be 14.0625 Gbps)', (4, "FDR")),
        ('4X       10.0 Gbps Active/  LinkUp)==>      73    1[  ] "leaf01" ( Could be FDR10)', (4, "FDR10")),
        ('4X       106.25 Gbps Active/  LinkUp)==>      73    1[  ] "leaf01" ( )', None),
        ('4X       106.25 Gbps Active/  LinkUp)==>      73    1[  ] "leaf01" (Could be 12X )', None),
    ],
)
def test_iblinkinfo_says_what_both_ends_support(link, able):
    """infiniband-diags prints it behind the far end: `(%s %s)`, width and speed, each empty or "Could be …"."""
    text = f"CA: gpu01 mlx5_0:\n      0xa088c20300ab1300     12    1[  ] ==( {link}\n"
    assert {f.able for f in iblinkinfo.parse(text) if isinstance(f, Cabling)} == {able}


def test_switches_of_one_name_go_by_their_guids():
    line = "CA    {0}  1 0x{1:016x} 4x NDR - SW    7{0}  1 0x{2:016x} ( 'gpu0{0} mlx5_0' - 'Quantum Mellanox' )"
    cables = list(ibnetdiscover.parse("\n".join(line.format(i, 0xA1 + i, 0xB1 + i) for i in (1, 2))))[1:]
    assert [c.leaf.switch for c in cables] == ["0x00000000000000b2", "0x00000000000000b3"]


def test_two_blocks_of_a_port_are_two_readings():
    text = fixture("fabric/perfquery_-x")
    readings = [f for f in perfquery.parse(text + text.replace("41864608", "41864700")) if isinstance(f, PortCounters)]
    assert [(r.lid, r.port, dict(r.values)["port_xmit_wait"]) for r in readings] == [
        (73, 1, 41864608),
        (73, 1, 41864700),
    ]


def test_fabric_outputs_without_a_leaf_are_a_gap():
    assert [fact.input for fact in fabric.parse("sminfo: sm lid 1 sm guid 0x1\n") if isinstance(fact, Gap)] == [
        "sminfo"
    ]


def test_lldp_one_interface_and_several():
    def entry(name, switch, port):
        return {name: {"chassis": {switch: {"id": {"type": "mac", "value": "02:00:00:00:02:00"}}}, "port": port}}

    def parsed(interface):
        return list(lldp.parse(json.dumps({"lldp": {"interface": interface}})))

    mac = {"id": {"type": "mac", "value": "02:00:00:00:02:01"}, "descr": "swp1"}
    ifname = {"id": {"type": "ifname", "value": "Ethernet1/5"}, "descr": "to gpu01"}
    one = entry("eth2", "leaf-rail0", mac)
    for listed in (one, [one]):
        (cable,) = parsed(listed)
        assert (cable.netdev, cable.leaf.switch, cable.leaf.port, cable.leaf.by) == (
            "eth2",
            "leaf-rail0",
            "swp1",
            "lldp",
        )
    two = [one, entry("eth3", "leaf-rail1", ifname)]
    assert [c.leaf.port for c in parsed(two)] == ["swp1", "Ethernet1/5"]


JSON0 = {"lldp": [{"interface": [
    {"name": "eth2", "via": "LLDP",
     "chassis": [{"id": [{"type": "mac", "value": "02:00:00:00:02:00"}], "name": [{"value": "leaf-rail0"}]}],
     "port": [{"id": [{"type": "mac", "value": "02:00:00:00:02:01"}], "descr": [{"value": "swp1"}]}]},
    {"name": "eth3.100", "via": "LLDP",
     "chassis": [{"id": [{"type": "mac", "value": "02:00:00:00:03:00"}]}],
     "port": [{"id": [{"type": "ifname", "value": "Ethernet1/5"}], "descr": [{"value": "to gpu01"}]}]}]}]}  # fmt: skip
PLAIN = """\
-------------------------------------------------------------------------------
LLDP neighbors:
-------------------------------------------------------------------------------
Interface:    eth2, via: LLDP, RID: 1, Time: 9 days, 16:56:28
  Chassis:     
    ChassisID:    mac 02:00:00:00:02:00
    SysName:      leaf-rail0
    SysDescr:     Cumulus Linux version 5.9.2
                  Copyright (c)
    MgmtIP:       192.0.2.1
    Capability:   Bridge, on
  Port:        
    PortID:       mac 02:00:00:00:02:01
    PortDescr:    swp1
    TTL:          120
-------------------------------------------------------------------------------
Interface:    eth3.100, via: LLDP, RID: 2, Time: 0 day, 00:01:02
  Chassis:
    ChassisID:    mac 02:00:00:00:03:00
  Port:
    PortID:       ifname Ethernet1/5
    PortDescr:    to gpu01
-------------------------------------------------------------------------------
"""  # noqa: W291 (as it is printed)
KEYVALUE = """\
lldp.eth2.via=LLDP
lldp.eth2.rid=1
lldp.eth2.chassis.mac=02:00:00:00:02:00
lldp.eth2.chassis.name=leaf-rail0
lldp.eth2.chassis.descr=Cumulus Linux version 5.9.2
lldp.eth2.port.mac=02:00:00:00:02:01
lldp.eth2.port.descr=swp1
lldp.eth3.100.via=LLDP
lldp.eth3.100.chassis.mac=02:00:00:00:03:00
lldp.eth3.100.port.ifname=Ethernet1/5
lldp.eth3.100.port.descr=to gpu01
"""


@pytest.mark.parametrize("text", [json.dumps(JSON0, indent=2), PLAIN, KEYVALUE], ids=["json0", "text", "keyvalue"])
def test_lldp_in_its_other_forms(text):
    assert [other for other in TEXT_PROBES if other.sniff(text)] == [lldp]
    cables = [(c.netdev, c.leaf.switch, c.leaf.port, c.leaf.by) for c in lldp.parse(text)]
    assert cables == [
        ("eth2", "leaf-rail0", "swp1", "lldp"),
        ("eth3.100", "02:00:00:00:03:00", "Ethernet1/5", "lldp"),
    ]


@pytest.mark.parametrize("text", [PLAIN, KEYVALUE])
def test_two_lldp_neighbours_of_an_interface_are_none(text):
    other = text.replace("leaf-rail0", "leaf-rail1").replace("eth3.100", "eth4")
    assert [c.netdev for c in lldp.parse(text + other)] == ["eth3.100", "eth4"]
    one, two = ({"eth2": {"via": "LLDP", "chassis": {name: {}}, "port": {}}} for name in ("a", "b"))
    assert list(lldp.parse(json.dumps({"lldp": {"interface": [one, two]}}))) == []


def test_what_lldpcli_shows_of_the_hosts_own_interfaces_is_no_neighbour():
    own = {"status": "RX and TX", "chassis": {"gpu01": {"id": {"type": "mac", "value": "02:00:00:00:00:01"}}}}
    assert list(lldp.parse(json.dumps({"lldp": {"interface": {"eth2": own}}}))) == []


@pytest.mark.parametrize("text", ["", "{", '{"lldp": []}', "[" * 100_000, '{"lldp": {"interface": [1, {"a": 2}]}}'])
def test_lldp_that_is_none(text):
    assert not [fact for fact in lldp.parse(text) if isinstance(fact, Cabling)]


def test_the_environment_is_read_as_json_and_as_env_prints_it():
    for text in ('{"NCCL_IB_HCA": "mlx5_0", "HOME": "/root"}', "HOME=/root\nNCCL_IB_HCA=mlx5_0\n"):
        (fact,) = environ.parse(text)
        assert fact.nccl_environ == (("NCCL_IB_HCA", "mlx5_0"),)
    assert [f.nccl_environ for f in environ.parse("{}") if isinstance(f, Host)] == [()]


def test_gids_with_version_and_address():
    line = "GID[  3]:\t\t::ffff:10.62.186.32, RoCE v2"
    text = f"hca_id:\tmlx5_0\n\tport:\t1\n\tlink_layer:\tEthernet\n\t{line}\n"
    (device,) = ibv_devinfo.parse(text)
    (gid,) = device.ports[0].gids
    assert (gid.number, gid.version, gid.ipv4) == (3, "v2", "10.62.186.32")
    assert Gid(0, "fe80:0000:0000:0000:a288:c2ff:feab:1200", "v1").ipv4 is None
