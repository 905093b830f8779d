"""What the mutation check (tests/mutate.py) found and no other test noticed: whom a rule does not speak of, and why."""

from dataclasses import replace

import nodes
import pytest
from diagnosis import diagnose
from nodesim import INPUTS, Numbering, facts, place
from nodesim.spec import Gpu, HostBridge, Link, Nic, Node, Port, Switch

from topocheck.check import ask, check
from topocheck.facts import Evidence, GpuState, Host, LogEvent, PciFunction, RdmaDevice
from topocheck.model import Scenario, bandwidth
from topocheck.rules import ALL

RULES = {rule.ID: rule for rule in ALL}
# No port counters, LLDP, CPU mask, NCCL variables and IOMMU types are in our captures unless a fault puts them there.
UNREAD = {"AFF005", "AFF006", "NET003", "NET008", "P2P003", "RAIL002"}
# Healthy node -> rules skipped, skipped in part, not applicable, notes: by rules.md and by what is captured
ANSWERS = {
    # no fabric state before Hopper; InfiniBand has no MTU and no IP rails; two GPUs share an uplink: a note
    "dgx-a100": (UNREAD, {"RAIL001"}, {"P2P004", "NVL005", "NET007", "RAIL004"}, {"PCI005"}),
    "hgx-h100": (UNREAD, {"RAIL001"}, {"P2P004", "NET007", "RAIL004"}, set()),
    "hgx-h100-pairs": (UNREAD, {"RAIL001"}, {"P2P004", "NET007", "RAIL004"}, {"PCI005"}),
    # RoCE with LLDP and an environment; its capture has no p2p matrix, no NUMA balancing and no kernel log
    "hgx-h100-roce": (
        {"NVL004", "NET003", "NET008", "P2P001", "P2P003", "NUM003"},
        {"GPU004"},
        {"P2P004"},
        set(),
    ),
    # Grace: GPUs hang on C2C, not on PCIe
    "gb200-tray": (
        UNREAD - {"P2P003"},
        {"RAIL001"},
        {"PCI005", "PCI008", "P2P002", "P2P003", "P2P004", "AFF002", "NET007", "RAIL004"},
        {"PCI006"},
    ),
    # a VM with EFA: no ports, no rails, ACS is needed
    "p5-vm": (
        {"AFF005", "NET003", "NET008"},
        set(),
        {"P2P002", "P2P003", "P2P004", "AFF004", "AFF006", "NET006", "NET007"}
        | {"RAIL001", "RAIL002", "RAIL003", "RAIL004"},
        set(),
    ),
    # cards without NVLink, NICs beside the CPU; sleeping links are judged in part
    "pcie-box": (
        UNREAD,
        {"PCI002", "RAIL001"},
        {"P2P004", "NVL001", "NVL002", "NVL003", "NVL004", "NVL005", "NET007", "RAIL004"},
        {"AFF002"},
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_rules_say_of_a_healthy_node(name):
    answers = ask(check(str(nodes.healthy(name))).topology, RULES)
    skipped, partial, not_applicable, notes = ANSWERS[name]
    assert {s.rule for s in answers.skipped if not s.partial} == skipped
    assert {s.rule for s in answers.skipped if s.partial} == partial
    assert {rule for rule, _ in answers.not_applicable} == not_applicable
    assert {(f.rule, f.severity) for f in answers.findings} == {(rule, "info") for rule in notes}


# GPUs and NICs on one switch, cards without NVLink -> whom a rule cannot be about
NVLINK = {"NVL001", "NVL002", "NVL003", "NVL004", "NVL005", "P2P004"}
NO_PAIR = {"PCI005", "GPU002", "P2P001", "P2P003", "VIRT001"}  # VIRT001 says "bare metal" where there is a pair
RAILS = {"RAIL001", "RAIL002", "RAIL003", "RAIL004"}
NO_NIC = {"PCI004", "AFF001", "AFF002", "AFF003", "AFF004", "AFF006", "NET001", "NET002", "NET003", "NET004", "NET005"}
NO_NIC |= {"NET006", "NET007", "NET008"} | RAILS
NO_GPU = {"PCI008", "GPU001", "GPU004", "GPU005", "GPU006", "P2P002", "AFF001", "AFF002", "AFF003", "AFF004", "AFF005"}
NO_GPU |= {"AFF006", "NUM003", "NET005", "NET007"} | RAILS
NOT_APPLICABLE = {
    (1, 0): NVLINK | NO_PAIR | NO_NIC | {"P2P002"},
    (1, 1): NVLINK | NO_PAIR | RAILS | {"AFF001", "AFF003", "NET006", "NET007"},
    (2, 0): NVLINK | NO_NIC | {"VIRT001"},
    (2, 1): NVLINK | RAILS | {"AFF001", "NET006", "NET007", "VIRT001"},
    (0, 2): NVLINK | NO_PAIR | NO_GPU,
    (1, 2): NVLINK | NO_PAIR | {"AFF003", "NET007", "RAIL004"},
    (2, 2): NVLINK | {"NET007", "RAIL004", "VIRT001"},
}


def switched(gpus, nics):
    children = [Gpu(f"g{i}", "l40s", Link(4, 16)) for i in range(gpus)]
    children += [Nic(f"n{i}", "cx7-ndr", Link()) for i in range(nics)]
    held = (Switch("s0", tuple(children), Link()),)
    return diagnose(facts(place(Node(bridges=(HostBridge("b0", 0, held),)), Numbering())))


@pytest.mark.parametrize(("gpus", "nics"), NOT_APPLICABLE)
def test_of_whom_there_is_none_a_rule_says_so(gpus, nics):
    diagnosis = switched(gpus, nics)
    assert {rule for rule, _ in diagnosis.answers.not_applicable} == NOT_APPLICABLE[gpus, nics]
    assert diagnosis.grave == []


def test_two_gpus_share_the_only_nic():
    (shared,) = (f for f in switched(2, 1).answers.findings if f.rule == "AFF003")
    assert shared.severity == "info"
    assert [f for f in switched(1, 1).answers.findings if f.rule == "AFF003"] == []


def board():
    """Four H100 in a full mesh, each with a RoCE NIC on its switch, two on each socket."""
    sockets = [0, 0, 1, 1]
    bridges = tuple(
        HostBridge(
            f"b{i}", s, (Switch(f"s{i}", (Gpu(f"g{i}", "h100", Link()), Nic(f"n{i}", "cx7-roce", Link())), Link()),)
        )
        for i, s in enumerate(sockets)
    )
    return place(Node(bridges=bridges, fabric="mesh"), Numbering())


# An input left out -> rules that cannot run any more, and those that then speak of nobody
WITHOUT = {
    "host": ({"AFF004", "NUM003"}, set()),
    "lspci": ({"GPU003", "NUM001", "P2P002", "P2P003", "PCI005", "PCI006", "PCI009"}, set()),
    "numa": (set(), {"AFF005"}),
    "nvlink": ({"NVL003"}, set()),
    "p2p": ({"P2P001"}, set()),
    "query": ({"GPU002", "GPU004", "GPU005", "GPU006", "NVL005"}, set()),
    "rdma": ({"NET001", "NET002", "NET006", "PCI004"}, {"NET004", "NET007", "RAIL004"}),
    "topo": ({"NVL002", "P2P004"}, set()),
}


def unasked(diagnosis):
    answers = diagnosis.answers
    return {s.rule for s in answers.skipped if not s.partial}, {rule for rule, _ in answers.not_applicable}


@pytest.mark.parametrize("name", WITHOUT)
def test_without_an_input_its_rules_say_that_they_did_not_look(name):
    whole, without = (diagnose(facts(board(), INPUTS - missing)) for missing in (set(), {name}))
    skipped, not_applicable = WITHOUT[name]
    assert unasked(without)[0] - unasked(whole)[0] == skipped
    assert unasked(without)[1] - unasked(whole)[1] == not_applicable
    assert without.grave == []


def with_one(pick, **changed):
    """The board's facts with the first that `pick` takes changed."""
    of_node = facts(board())
    place_ = next(i for i, fact in enumerate(of_node) if pick(fact))
    of_node[place_] = replace(of_node[place_], **changed)
    return diagnose(of_node)


def is_gpu(fact):
    return isinstance(fact, PciFunction) and fact.class_id == "0302"


@pytest.mark.parametrize(("field", "rule"), [("relaxed_ordering", "PCI009"), ("payload_bytes", "PCI006")])
def test_one_device_unread_leaves_the_rule_in_part(field, rule):
    partly = {s.rule for s in with_one(is_gpu, **{field: None}).answers.skipped if s.partial}
    assert rule in partly
    assert rule not in {s.rule for s in diagnose(facts(board())).answers.skipped}


@pytest.mark.parametrize(
    ("changed", "rules"),
    [
        ({"relaxed_ordering": False}, {("PCI009", "warning")}),
        ({"bars_unassigned": True}, {("GPU003", "error")}),
        ({"driver": None}, {("GPU003", "error")}),
        ({"driver": "vfio-pci"}, set()),  # passed through to a guest
    ],
)
def test_one_gpu_unlike_its_equals(changed, rules):
    assert {(f.rule, f.severity) for f in with_one(is_gpu, **changed).grave} == rules


def test_a_numa_node_that_nothing_else_says_is_a_note():
    # its host bridge, the NIC beside it and the matrix say 0
    (found,) = (f for f in with_one(is_gpu, numa_node=1).findings if f.rule == "NUM002")
    assert (found.severity, found.subjects, found.effect) == ("info", ("gpu0",), "none")


def is_state(fact):
    return isinstance(fact, GpuState)


@pytest.mark.parametrize(
    ("changed", "rules"),
    [
        ({"fabric_state": "In Progress"}, {("NVL005", "error")}),
        ({"fabric_status": "Invalid State"}, {("NVL005", "error")}),
        ({"fabric_status": "N/A"}, set()),
        ({"fabric_status": None}, set()),
        ({"fabric_health": (("Route Unhealthy", "True"),)}, {("NVL005", "error")}),
        ({"fabric_health": (("Route Unhealthy", "False"),)}, set()),
        ({"recovery_action": "Reset"}, {("GPU004", "error")}),
        ({"recovery_action": "none"}, set()),
    ],
)
def test_one_gpus_state(changed, rules):
    assert {(f.rule, f.severity) for f in with_one(is_state, **changed).grave} == rules


def is_device(fact):
    return isinstance(fact, RdmaDevice)


@pytest.mark.parametrize(
    ("changed", "rules"),
    [
        ({"rate_gbit_per_s": 200.0}, {("NET002", "error")}),  # three of its kind at 400
        ({"rate_gbit_per_s": None}, set()),
        ({"state": "down", "physical": "disabled"}, {("NET001", "error")}),
    ],
)
def test_one_port_unlike_its_equals(changed, rules):
    device = next(fact for fact in facts(board()) if is_device(fact))
    ports = (replace(device.ports[0], **changed), *device.ports[1:])
    found = with_one(is_device, ports=ports).grave
    assert {(f.rule, f.severity) for f in found} == rules
    # 3 of 4 NICs of 49.0 GB/s, and half of one: the node loses 1/4 or 1/8
    lost = {"NET001": 1 / 4, "NET002": 1 / 8}
    assert all(f.price.loss == pytest.approx(lost[f.rule], abs=0.01) for f in found if f.price.scenario == "node NICs")


def logged(number, *more):
    """The board with an Xid of gpu0 in its log, and other facts."""
    of_node = facts(board())
    bdf = next(fact.bdf for fact in of_node if is_gpu(fact))
    event = LogEvent("xid", bdf, number, 100.0, Evidence("dmesg", 9, f"NVRM: Xid (PCI:{bdf}): {number}"))
    return diagnose([*of_node, event, Host("dmesg"), *more])


@pytest.mark.parametrize(
    ("number", "hung", "severity"),
    [
        (79, False, "warning"),  # off the bus, but it answers now
        (79, True, "error"),  # and the driver does not answer
        (119, True, "error"),
        (74, True, "warning"),  # NVLink: silences no driver
        (31, False, "info"),  # a program's page fault
        (999, False, "info"),
    ],
)
def test_xids_by_number_and_sign(number, hung, severity):
    silence = Host("nvidia-smi", driver_hung="nvidia-smi -L: no answer within 19 s")
    found = [f for f in logged(number, *([silence] if hung else [])).answers.findings if f.rule == "GPU004"]
    assert [(f.severity, f.subjects, f.effect) for f in found] == [
        (severity, ("gpu0",), "none" if severity == "info" else "stops")
    ]


def unpaired(part, fabric="none", bridged=()):
    """Four cards on one switch of which the first two have no peer-to-peer."""
    cards = tuple(Gpu(f"g{i}", part, Link(4)) for i in range(4))
    of_node = Node(
        bridges=(HostBridge("b0", 0, (Switch("s0", cards, Link()),)),),
        fabric=fabric,
        bridged=bridged,
        no_p2p=((("g0", "g1"), "CNS"), (("g1", "g0"), "CNS")),
    )
    return [f for f in diagnose(facts(place(of_node, Numbering()))).findings if f.rule == "P2P001"]


@pytest.mark.parametrize(
    ("part", "fabric", "bridged", "severity", "range_"),
    [
        ("l40s", "none", (), "warning", (0.21, 0.66)),  # staged over PCIe
        ("h100", "mesh", (), "error", (0.91, 0.91)),  # a board of NVLink, staged
        ("a100-pcie", "bridges", (("g0", "g1"), ("g2", "g3")), "warning", (0.91, 0.91)),
    ],
)
def test_a_pair_without_peer_to_peer(part, fabric, bridged, severity, range_):
    (found,) = unpaired(part, fabric, bridged)
    assert (found.severity, found.subjects) == (severity, ("gpu0", "gpu1"))
    assert found.price.range == pytest.approx(range_)


def prices(**changed):
    device = next(fact for fact in facts(board()) if is_device(fact))
    found = with_one(is_device, ports=(replace(device.ports[0], **changed), *device.ports[1:])).grave
    return [(f.price.scenario, f.price.found_gb_per_s, f.price.repaired_gb_per_s, f.price.loss) for f in found]


def test_a_slow_and_a_dead_port_are_priced_by_what_their_gpu_and_the_node_lose():
    # 400 Gb/s: 49.0 GB/s, 200: 24.5, half of one GPU's; three of four NICs: 147 of 196, a quarter
    assert prices(rate_gbit_per_s=200.0) == [("gpu0 -> mlx5_0 GPUDirect RDMA", 24.5, 49.0, 0.5)]
    assert prices(state="down", physical="disabled") == [("node NICs", 147.0, 196.0, 0.25)]


def test_scenarios_of_a_mesh():
    # 18 NVLinks of an H100 to three others: 6 a pair; copies 0.870, rings 0.807 of 25 GB/s a link
    topology = diagnose(facts(board())).topology
    b = {kind: bandwidth(topology, Scenario(kind, "gpu0", "gpu1")).gb_per_s for kind in ("gpu-pair", "nvlink", "ring")}
    assert b == pytest.approx({"gpu-pair": 6 * 25 * 0.870, "nvlink": 18 * 25 * 0.870, "ring": 6 * 25 * 0.807})
    # PCIe Gen5 x16: 53.8; the four GPUs share no link on their way up
    assert bandwidth(topology, Scenario("gpu-host", "gpu0")).gb_per_s == pytest.approx(53.8, abs=0.05)
    assert bandwidth(topology, Scenario("nic-host", "mlx5_0")).gb_per_s == pytest.approx(49.0)
    assert bandwidth(topology, Scenario("gpu-nic", "gpu0")).gb_per_s == pytest.approx(49.0)
    assert bandwidth(topology, Scenario("node-nics")).gb_per_s == pytest.approx(4 * 49.0)
    assert bandwidth(topology, Scenario("nic-host", "mlx5_9")) is None
    assert bandwidth(topology, Scenario("gpu-nic", "gpu9")) is None


def test_scenarios_of_cards_on_one_switch():
    # Gen4 cards: 26.0 each; Gen5 x16 uplink: 53.8 over four is 13.5 each; a pair meets in the switch
    topology = diagnose(facts(place(cards_on_one_switch(4), Numbering()))).topology
    assert bandwidth(topology, Scenario("gpu-host", "gpu0")).gb_per_s == pytest.approx(53.8 / 4, abs=0.05)
    assert bandwidth(topology, Scenario("gpu-pair", "gpu0", "gpu3")).gb_per_s == pytest.approx(26.0, abs=0.05)
    assert bandwidth(topology, Scenario("ring")).gb_per_s == pytest.approx(20.0, abs=0.05)
    assert bandwidth(topology, Scenario("node-nics")) is None
    assert bandwidth(topology, Scenario("gpu-pair", "gpu0", "gpu9")) is None


def cards_on_one_switch(count):
    cards = tuple(Gpu(f"g{i}", "l40s", Link(4)) for i in range(count))
    return Node(bridges=(HostBridge("b0", 0, (Switch("s0", cards, Link()),)),))


def test_two_bridged_cards_are_enough_for_a_ring():
    cards = tuple(Gpu(f"g{i}", "a100-pcie", Link(4)) for i in range(2))
    held = (Switch("s0", cards, Link()),)
    pair = Node(bridges=(HostBridge("b0", 0, held),), fabric="bridges", bridged=(("g0", "g1"),))
    reasons = dict(diagnose(facts(place(pair, Numbering()))).answers.not_applicable)
    assert reasons["P2P004"] == "a ring stays on NVLink"
    assert "NVL002" not in reasons


@pytest.mark.parametrize(
    ("kind", "subject", "scenario"), [(is_gpu, "gpu0", "gpu0 <-> host"), (None, "mlx5_0", "mlx5_0 <-> host")]
)
def test_a_small_payload_is_priced_by_copies_to_the_host(kind, subject, scenario):
    nic = next(fact for fact in facts(board()) if isinstance(fact, PciFunction) and (fact.class_id or "")[:2] == "02")
    diagnosis = with_one(kind or (lambda fact: fact == nic), payload_bytes=128)
    (found,) = (f for f in diagnosis.findings if f.rule == "PCI006" and f.subjects == (subject,) and f.price)
    assert found.price.scenario == scenario


def test_of_two_nics_the_one_that_is_up_carries_the_gpu():
    pair = (Nic("n0", "cx7-ndr", Link()), Nic("n1", "cx7-ndr", Link(), ports=(Port("down", "disabled"),)))
    bridges = tuple(
        HostBridge(f"b{i}", i, (Switch(f"s{i}", (Gpu(f"g{i}", "l40s", Link(5)), *nics), Link()),))
        for i, nics in enumerate((pair, (Nic("n2", "cx7-ndr", Link()), Nic("n3", "cx7-ndr", Link()))))
    )
    topology = diagnose(facts(place(Node(bridges=bridges), Numbering()))).topology
    # one port of 49.0; on the other switch two share the GPU's Gen5 x16, 53.8
    assert bandwidth(topology, Scenario("gpu-nic", "gpu0")).gb_per_s == pytest.approx(49.0)
    assert bandwidth(topology, Scenario("gpu-nic", "gpu1")).gb_per_s == pytest.approx(53.8, abs=0.05)
