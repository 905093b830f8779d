"""The bandwidth model where it turns: links asleep, unread and shared, ports down and unread, NVLink and PCIe rings.

GB/s, one direction: GT/s × lanes × 128/130 / 8 × U(256) × k, k 0.922 of Gen4 and 0.954 of Gen5; 0.98 of a port's rate.
"""

from dataclasses import replace

import pytest
from altered import alter, board, cards, each, facts_of, is_gpu, is_nic, is_rdma, is_state, on_switch
from nodesim.spec import Gpu, HostBridge, Link, Nic, Node, Port, Switch

from topocheck.build import build
from topocheck.facts import NvlinkGpu, NvlinkPort
from topocheck.model import Flow, Scenario, bandwidth, fair_share
from topocheck.patches import AddNic, MoveNic, patched

U = {128: 512 / 632, 256: 1024 / 1144}
K = {4: 0.922, 5: 0.954}
RING = 0.709 * U[256]


def line_rate(gen, width):
    return {3: 8, 4: 16, 5: 32}[gen] * width * 128 / 130 / 8


def pcie(gen, width=16, payload=256):
    return line_rate(gen, width) * U[payload] * K[gen]


def b(node, kind, subject="", other=""):
    """B of a scenario, None where there is none; a nominal one is marked."""
    found = bandwidth(node, Scenario(kind, subject, other))
    return found and (pytest.approx(found.gb_per_s), "nominal") if found and found.nominal else found and found.gb_per_s


def built(node, *without):
    return build(facts_of(node, *without))


def near(value):
    return pytest.approx(value, rel=1e-6)


def alone(link, part="rtxpro", **values):
    """One GPU on a root port."""
    return Node(bridges=(HostBridge("b0", 0, (Gpu("g0", part, link, **values),)),))


NDR = tuple(Nic(f"n{i}", "cx7-ndr", Link()) for i in range(4))
H100 = tuple(Gpu(f"g{i}", "h100-pcie", Link()) for i in range(4))


# --- links


@pytest.mark.parametrize(
    ("link", "pstate", "gen", "width"),
    [
        (Link(5, 16, 5, 16), "P0", 5, 16),
        (Link(5, 16, 5, 16, now_gen=1), "P8", 5, 16),  # asleep: what it can
        (Link(5, 16, 4, 16, now_gen=1), "P8", 4, 16),  # what both ends can
        (Link(5, 16, 5, 16, now_width=8), "P0", 5, 8),
    ],
)
def test_a_link_as_it_runs_or_would_run_awake(link, pstate, gen, width):
    assert b(built(alone(link, pstate=pstate)), "gpu-host", "gpu0") == near(pcie(gen, width))


def test_a_link_asleep_of_which_one_end_was_read():
    node = built(alone(Link(5, 16, 5, 16, now_gen=1), pstate="P8"))
    (link,) = (x for x in node.links.values() if x.b == node.gpus[0].bdf)
    assert link.asleep
    one_end = replace(link, a_max_speed_gts=None, both_max_speed_gts=None)
    assert b(replace(node, links={link.id: one_end}), "gpu-host", "gpu0") == near(pcie(5))


@pytest.mark.parametrize("values", [{"implausible": True}, {"speed_gts": None}, {"width": None}, {"width": 0}])
def test_a_link_that_was_not_read_limits_nothing(values):
    node = built(on_switch(*H100[:2]))
    own = {g.bdf: replace(node.links[g.bdf], **values) for g in node.gpus}
    unread = replace(node, links={**node.links, **own})
    assert b(unread, "gpu-host", "gpu0") == near(pcie(5) / 2)  # the uplink
    assert b(unread, "gpu-pair", "gpu0", "gpu1") is None
    assert b(replace(node, links=own), "gpu-host", "gpu0") is None
    # a ring over links of which none was read: the generation beside the part's NVLink, Gen5
    assert b(unread, "ring") == near(line_rate(5, 16) * RING)
    slow = replace(node.links[node.gpus[1].bdf], width=8)
    half = replace(node, links={**node.links, node.gpus[0].bdf: own[node.gpus[0].bdf], node.gpus[1].bdf: slow})
    assert b(half, "ring") == near(line_rate(5, 8) * RING)


@pytest.mark.parametrize(("payload", "used"), [(128, 128), (256, 256), (None, 256)])
def test_payloads(payload, used):
    node = built(on_switch(*H100[:2]))
    links = {key: replace(link, payload_bytes=payload) for key, link in node.links.items()}
    assert b(replace(node, links=links), "gpu-pair", "gpu0", "gpu1") == near(pcie(5, 16, used))
    assert b(replace(node, links=links), "ring") == near(line_rate(5, 16) * 0.709 * U[used])


def test_a_pair_takes_the_links_it_does_not_share():
    narrow = Link(5, 1)
    below = Node(bridges=(HostBridge("b0", 0, (Switch("s0", H100[:2], narrow), Switch("s1", H100[2:3], narrow))),))
    node = built(below)
    assert b(node, "gpu-pair", "gpu0", "gpu1") == near(pcie(5))
    assert b(node, "gpu-pair", "gpu0", "gpu2") == near(pcie(5, 1))
    assert b(node, "ring") == near(line_rate(5, 1) * RING)
    assert b(node, "gpu-host", "gpu0") == near(pcie(5, 1) / 2)
    assert b(node, "gpu-host", "gpu2") == near(pcie(5, 1))


# --- GPUs and their NICs


def test_a_nic_behind_a_second_switch():
    node = built(on_switch(H100[0], Switch("s1", NDR[:1], Link(5, 4))))
    assert b(node, "gpu-nic", "gpu0") == near(pcie(5, 4))
    assert b(node, "node-nics") == near(pcie(5, 4))


def far(*roots):
    """A GPU with its NIC on a switch, and one with none behind an uplink of four lanes, with these on root ports."""
    switches = (Switch("s0", (H100[0], NDR[0]), Link()), Switch("s1", (H100[1],), Link(5, 4)))
    return built(Node(bridges=tuple(HostBridge(f"b{i}", 0, (x,)) for i, x in enumerate((*switches, *roots)))))


def test_a_nic_that_a_repair_moves_or_adds_is_on_the_gpus_switch():
    before = far(NDR[1])
    assert b(before, "gpu-nic", "gpu1") == near(pcie(5, 4))
    assert b(patched(before, (MoveNic("gpu1", "mlx5_1"),)), "gpu-nic", "gpu1") == near(49)
    behind = far(Switch("s2", (NDR[1],), Link(5, 1)))
    assert b(patched(behind, (MoveNic("gpu1", "mlx5_1"),)), "gpu-nic", "gpu1") == near(49)
    assert b(patched(far(), (AddNic("gpu1", "mlx5_0"),)), "gpu-nic", "gpu1") == near(49)


def test_a_nic_beyond_the_switch_gives_half():
    wide = (Switch("s0", (H100[0], Switch("s2", NDR[:1], Link())), Link()), Switch("s1", (H100[1],), Link()))
    roots = Node(bridges=tuple(HostBridge(f"b{i}", 0, (x,)) for i, x in enumerate((*wide, NDR[1]))))
    facts = facts_of(roots)
    node = build(facts)
    # PXB is in reach; at NODE GPUDirect RDMA is lost: 0.5
    assert [b(node, "gpu-nic", f"gpu{i}") for i in range(2)] == [near(49), near(24.5)]
    assert b(node, "node-nics") == near(73.5)
    assert bandwidth(node, Scenario("node-nics")).slowest_gb_per_s == near(24.5)
    facts = alter(facts, is_gpu, {1: {"name": "Device 2941", "device_id": "2941"}})
    grace = build(alter(facts, is_state, {1: {"model": "NVIDIA GB200", "pci_id": "10de:2941"}}))
    assert b(grace, "gpu-nic", "gpu1") == near(49)
    # where none is nearer nothing is lost against the others
    apart = built(Node(bridges=tuple(HostBridge(f"b{i}", 0, (x,)) for i, x in enumerate((*H100[:2], *NDR[:2])))))
    assert [b(apart, "gpu-nic", f"gpu{i}") for i in range(2)] == [near(49), near(49)]


DOWN = (Port("down", "disabled"),)


def test_a_gpu_whose_nic_is_down_shares_one_that_is_up():
    node = built(on_switch(*H100[:3], replace(NDR[0], ports=DOWN), *NDR[1:3]))
    assert [b(node, "gpu-nic", f"gpu{i}") for i in range(3)] == [near(24.5), near(24.5), near(49)]
    assert b(node, "node-nics") == near(98)
    assert b(node, "nic-host", "mlx5_0") is None
    none = built(on_switch(*H100[:1], replace(NDR[0], ports=DOWN)))
    assert b(none, "gpu-nic", "gpu0") is None


def test_nics_without_gpus():
    node = built(on_switch(*NDR[:2]))
    assert b(node, "node-nics") == near(98)
    down = built(on_switch(NDR[0], replace(NDR[1], ports=DOWN)))
    assert bandwidth(down, Scenario("node-nics"))[:2] == (near(49), 0.0)


# --- rates of ports


def test_ports_of_one_device_carry_together_what_is_active():
    facts = facts_of(cards(1, "h100-pcie", nics=1))
    (device,) = (f for f in facts if is_rdma(f))
    port = device.ports[0]
    two = (replace(port, rate_gbit_per_s=100.0), replace(port, port=2, rate_gbit_per_s=200.0))
    assert b(build(alter(facts, is_rdma, {0: {"ports": two}})), "gpu-nic", "gpu0") == near(300 / 8 * 0.98)
    one = (two[0], replace(two[1], state="down"))
    assert b(build(alter(facts, is_rdma, {0: {"ports": one}})), "gpu-nic", "gpu0") == near(100 / 8 * 0.98)


def unread(count, *unknown, nics=2):
    """Cards and NICs of which no port was read; some NICs of a model that is not in the table."""
    facts = facts_of(cards(count, "h100-pcie", nics=nics), "rdma")
    return build(alter(facts, is_nic, {i: {"device_id": "ffff"} for i in unknown}))


def test_a_nic_whose_ports_were_not_read_has_its_models_rate():
    node = unread(2)
    assert {n.role for n in node.nics} == {"compute"}
    assert b(node, "gpu-nic", "gpu0") == near(49)  # ConnectX-7: 400 Gb/s
    assert b(node, "nic-host", node.nics[0].id) == near(49)


def test_a_nic_of_an_unknown_model_has_a_nominal_rate():
    node = unread(1, 0, nics=1)
    assert b(node, "gpu-nic", "gpu0") == (near(49), "nominal")  # only ratios mean anything
    assert b(node, "nic-host", node.nics[0].id) == near(pcie(5))  # its link alone was read
    mixed = facts_of(cards(2, "h100-pcie", nics=2))
    mixed = alter(mixed, is_nic, each(range(2), device_id="ffff"))
    devices = [f for f in mixed if is_rdma(f)]
    states = ({"rate_gbit_per_s": 200.0}, {"rate_gbit_per_s": None})
    ports = [replace(d.ports[0], **state) for d, state in zip(devices, states, strict=True)]
    changes = {i: {"ports": (port,), "model": None} for i, port in enumerate(ports)}
    node = build(alter(mixed, is_rdma, changes))
    assert [b(node, "gpu-nic", f"gpu{i}") for i in range(2)] == [
        (near(24.5), "nominal")
    ] * 2  # as the one that was read


# --- NVLink


def nvlink(node, *ids, ports):
    """The node with these NVLinks of some of its GPUs, or of all."""
    chosen = ids or tuple(d.id for d in node.gpus)
    return replace(node, devices=tuple(replace(d, nvlinks=ports) if d.id in chosen else d for d in node.devices))


def test_a_pair_and_a_gpu_over_nvlink():
    pair = {"fabric": "bridges", "bridged": (("g0", "g1"),)}
    a100 = tuple(Gpu(f"g{i}", "a100-pcie", Link(4)) for i in range(4))
    whole = facts_of(on_switch(*a100, **pair))
    for facts in (whole, [f for f in whole if not isinstance(f, NvlinkGpu)]):  # by the matrix alone as well
        node = build(facts)
        assert b(node, "nvlink", "gpu0") == near(12 * 25 * 0.909)
        assert b(node, "nvlink", "gpu2") is None
        assert b(node, "gpu-pair", "gpu0", "gpu1") == near(12 * 25 * 0.909)
        assert b(node, "gpu-pair", "gpu0", "gpu2") == near(pcie(4))
        assert b(node, "nvlink", "gpu9") is None
        assert b(node, "ring") == near(line_rate(4, 16) * RING)
    assert bandwidth(built(cards(1)), Scenario("ring")) is None


@pytest.mark.parametrize(
    ("ports", "share"),
    [
        (None, 1),
        ((), 1),
        ((NvlinkPort(0, True, None),), 1),
        ((NvlinkPort(0, True, 26.562),), 1),
        ((NvlinkPort(0, True, 53.125),), 1),  # never above its generation
        ((NvlinkPort(0, True, 13.281),), 0.5),
        ((NvlinkPort(0, True, 13.281), NvlinkPort(1, True, 26.562)), 0.75),
        ((NvlinkPort(0, True, 13.281), NvlinkPort(1, False, 26.562), NvlinkPort(2, True, None)), 0.5),
    ],
)
def test_a_ring_over_nvlinks_that_are_trained_low(ports, share):
    for chosen in ((), ("gpu0",)):
        node = nvlink(built(board()), *chosen, ports=ports)
        assert b(node, "ring") == near(18 * 25 * 0.807 * share)


def test_a_ring_of_an_unknown_part_over_nvlink():
    node = built(board())
    gpus = tuple(replace(d, part=None, nvlinks=(NvlinkPort(0, True, 1.0),)) for d in node.gpus)
    assert b(replace(node, devices=gpus), "ring") == near(18 * 25 * 0.807)
    bare = tuple(replace(d, part=d.part._replace(nvlinks=0), nvlinks=(NvlinkPort(0, True, 1.0),)) for d in node.gpus)
    assert b(replace(node, devices=bare), "ring") == near(18 * 25 * 0.807)


@pytest.mark.parametrize(("part", "gts"), [("h100-pcie", 32), ("a100-pcie", 16), ("l40s", 16), (None, 16)])
def test_a_ring_over_pcie_links_that_nobody_read(part, gts):
    node = built(cards(2, part or "l40s"))
    gpus = tuple(replace(d, part=d.part if part else None) for d in node.gpus)
    assert b(replace(node, devices=gpus, links={}), "ring") == near(gts * 16 * 128 / 130 / 8 * RING)


def test_flows_without_a_limit_have_none():
    inf = float("inf")
    assert fair_share([Flow("a", (), inf), Flow("b", (), 3.0)], {}) == [inf, 3.0]
    assert fair_share([Flow("a", (("x", "up"),), inf)], {("x", "up"): inf}) == [inf]
    assert fair_share([], {}) == []
    # less than 1 GB/s is left for the other
    assert fair_share([Flow("a", (("x", "up"),), 0.25), Flow("b", (("x", "up"),), inf)], {("x", "up"): 1.0}) == [
        0.25,
        0.75,
    ]
