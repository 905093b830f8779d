"""Where the rules of peer-to-peer, IOMMU and the NVLink fabric begin and end; whom they pass over, and why."""

import pytest
from altered import (
    alter,
    answers,
    board,
    cards,
    each,
    facts_of,
    found,
    is_downstream,
    is_gpu,
    is_nic,
    is_state,
    levels,
    line,
    on_switch,
    repaired,
    silence,
    texts,
    virtual,
)
from nodesim.spec import Gpu, HostBridge, Link, Nic, Node, Switch

from topocheck.facts import Evidence, Host, LogEvent, P2pMatrix, PciFunction
from topocheck.model import Scenario

# --- P2P002 acs-redirect

ON = frozenset({"SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"})


def ports(node, acs_ctl, of=None, **values):
    """Some downstream ports of a node with these ACS controls; what is switched off at the others."""
    facts = facts_of(node)
    count = sum(map(is_downstream, facts))
    facts = alter(facts, is_downstream, each(range(count), acs_ctl=frozenset(), **values))
    lines = {"ACSCtl": line("ACSCtl: ReqRedir+")}
    return alter(facts, is_downstream, each(range(count) if of is None else of, acs_ctl=acs_ctl, lines=lines))


def test_two_gpus_below_ports_that_redirect():
    facts = ports(cards(2), ON)
    given = found(facts, "P2P002")
    assert [(f.subjects, f.severity, f.price_kind, f.loss_range) for f in given] == [
        ((f"gpu{i}",), "warning", "typical", (0.0, 0.5)) for i in range(2)
    ]
    assert given[0].scenarios == (Scenario("gpu-pair", "gpu0", "gpu1"),)
    assert given[1].scenarios == (Scenario("gpu-pair", "gpu1", "gpu0"),)
    for finding in given:
        assert finding.covers == {"gpu0", "gpu1"}
        assert texts(finding) == ["ACSCtl: ReqRedir+"]
        (patch,) = finding.patches
        assert "ACS redirect (CmpltRedir, ReqRedir)" in finding.message
        assert (patch.field, patch.value) == ("acs_ctl", ON - {"ReqRedir", "CmpltRedir"})
    assert repaired(facts, "P2P002") == []


def test_a_gpu_and_a_nic_below_ports_that_redirect():
    given = found(ports(cards(1, nics=1), ON), "P2P002")
    assert [f.subjects for f in given] == [("gpu0",), ("mlx5_0",)]
    assert {f.scenarios for f in given} == {(Scenario("gpu-nic", "gpu0"),)}
    assert {f.covers for f in given} == {frozenset({"gpu0"})}


@pytest.mark.parametrize(
    ("bits", "told"),
    [
        ({"ReqRedir"}, True),
        ({"CmpltRedir"}, True),
        ({"EgressCtrl"}, True),
        ({"SrcValid", "TransBlk", "UpstreamFwd", "DirectTrans"}, False),
        (set(), False),
        ({"ReqRedir", "DirectTrans"}, True),  # no ATS: requests are not translated ones
    ],
)
def test_which_bits_redirect(bits, told):
    assert levels(ports(cards(2), frozenset(bits), [0]), "P2P002") == ({"gpu0": "warning"} if told else {})


@pytest.mark.parametrize(
    ("bits", "ats", "told"), [(ON | {"DirectTrans"}, True, False), (ON, True, True), (ON, False, True)]
)
def test_translated_requests_may_go_straight(bits, ats, told):
    facts = alter(ports(cards(2), bits), is_gpu, each(range(2), ats_enabled=ats))
    assert bool(found(facts, "P2P002")) is told


NICS = tuple(Nic(f"n{i}", "cx7-ndr", Link()) for i in range(2))
A100 = tuple(Gpu(f"g{i}", "a100-pcie", Link(4)) for i in range(2))
BRIDGED = {"fabric": "bridges", "bridged": (("g0", "g1"),)}
NICS_APART = Node(
    bridges=(HostBridge("b0", 0, (Switch("s0", NICS, Link()),)), HostBridge("b1", 1, (Switch("s1", A100[:1], Link()),)))
)
# A GPU beside a second switch that holds a NIC: they meet in the first one
NESTED = on_switch(A100[0], Switch("s1", NICS[:1], Link()))


@pytest.mark.parametrize(
    ("node", "of", "expected"),
    [
        (on_switch(*A100, **BRIDGED), None, []),  # over NVLink
        (on_switch(*A100, NICS[0], **BRIDGED), None, ["gpu0", "gpu1", "mlx5_0"]),  # GPU and NIC over PCIe
        (NICS_APART, None, []),  # two NICs are no pair, and the GPU has nobody in its switch
        (NESTED, [0], ["gpu0"]),
        (NESTED, [1], ["mlx5_0"]),
        (NESTED, [2], []),  # above the NIC alone: nobody meets below
    ],
)
def test_who_meets_in_the_switch_of_a_port(node, of, expected):
    facts = ports(node, ON, of)
    assert [s for f in found(facts, "P2P002") for s in f.subjects] == expected
    assert silence(facts, "P2P002") == []


def test_a_virtual_function_is_nobodys_partner():
    name = "MT2892 Family [ConnectX-6 Dx Virtual Function]"
    facts = alter(ports(cards(2, nics=1), ON), is_nic, {0: {"device_id": "101e", "name": name}})
    assert set(levels(facts, "P2P002")) == {"gpu0", "gpu1"}
    assert found(alter(ports(cards(1, nics=1), ON), is_nic, {0: {"device_id": "101e", "name": name}}), "P2P002") == []


@pytest.mark.parametrize(
    ("values", "reason"),
    [({"driver": "vfio-pci"}, "GPUs are passed through (vfio), which needs ACS"), ({"driver": "nvidia"}, None)],
)
def test_hosts_that_need_acs(values, reason):
    facts = alter(ports(cards(3), ON), is_gpu, {2: values})
    assert silence(facts, "P2P002") == ([(reason, None)] if reason else [])
    assert bool(found(facts, "P2P002")) is (reason is None)
    assert silence(virtual(facts), "P2P002") == [("a VM needs ACS", None)]


def test_acs_of_nobody():
    alone = [("no pair of a GPU with another GPU or a NIC", None)]
    assert silence(facts_of(cards(1)), "P2P002") == alone
    assert silence(facts_of(on_switch(*NICS)), "P2P002") == alone
    assert silence(facts_of(cards(1, nics=1)), "P2P002") == silence(facts_of(cards(2)), "P2P002") == []


def test_without_its_line_a_redirect_shows_none():
    unlined = alter(ports(cards(2), ON), is_downstream, each(range(2), lines={}))
    assert [f.evidence for f in found(unlined, "P2P002")] == [(), ()]


def test_acs_unread():
    unread = {"acs_ctl": None, "max_payload_bytes": None}
    words = "ACS read at {} of 2 switch ports (lspci -vv as root)"
    facts = facts_of(cards(2))
    assert silence(alter(facts, is_downstream, {0: unread}), "P2P002") == [(words.format(1), True)]
    assert silence(alter(facts, is_downstream, each(range(2), **unread)), "P2P002") == [(words.format(0), False)]
    # the rest of the capabilities is there, and no ACS among them: it has none
    assert silence(alter(facts, is_downstream, each(range(2), acs_ctl=None)), "P2P002") == []
    untyped = alter(facts, lambda f: isinstance(f, PciFunction) and f.is_bridge, {1: {"port_type": None}})
    assert silence(untyped, "P2P002") == []
    bridges = sum(isinstance(f, PciFunction) and f.is_bridge for f in facts)
    none = alter(facts, lambda f: isinstance(f, PciFunction) and f.is_bridge, each(range(bridges), port_type=None))
    assert silence(none, "P2P002") == [("no ACS in the input (lspci -vv of the machine)", False)]
    denied = alter(none, is_gpu, {0: {"access_denied": True}})
    assert silence(denied, "P2P002") == [("no ACS in the input (lspci was run without root)", False)]
    assert [partial for _, partial in silence(facts_of(cards(2), "lspci"), "P2P002")] == [False]


# --- P2P003 iommu-translates


def translated(node, kind="DMA", of=None, facts=None):
    """The IOMMU group types of some GPUs."""
    facts = facts_of(node) if facts is None else facts
    values = {"iommu_type": kind, "lines": {"iommu_group/type": line(str(kind))}}
    return alter(facts, is_gpu, each(range(sum(map(is_gpu, facts))) if of is None else of, **values))


@pytest.mark.parametrize(
    ("kind", "told"), [("DMA", True), ("DMA-FQ", True), ("identity", False), ("blocked", False), (None, False)]
)
def test_types_of_iommu_groups(kind, told):
    facts = translated(cards(2), kind)
    given = found(facts, "P2P003")
    assert [(f.subjects, f.severity, f.effect, texts(f)) for f in given] == (
        [(("gpu0", "gpu1"), "warning", "corrupts", [kind])] if told else []
    )
    assert [f.covers for f in given] == ([{"gpu0", "gpu1"}] if told else [])
    assert all(f"by the IOMMU ({kind}):" in f.message for f in given)
    assert repaired(facts, "P2P003") == []
    assert [partial for _, partial in silence(facts, "P2P003")] == ([False] if kind is None else [])


def test_who_copies_through_a_translating_iommu():
    # gpu0 copies to both others; gpu1 and gpu2 have no peer-to-peer with each other
    no_p2p = ((("g1", "g2"), "CNS"), (("g2", "g1"), "CNS"))
    facts = translated(cards(3, no_p2p=no_p2p))
    assert [f.subjects for f in found(facts, "P2P003")] == [("gpu0", "gpu1", "gpu2")]
    (one,) = found(translated(cards(3, no_p2p=no_p2p), of=[1]), "P2P003")
    assert (one.subjects, "1 pairs copy" in one.message) == (("gpu1",), True)
    lonely = tuple(((f"g{a}", f"g{b}"), "CNS") for a in range(3) for b in range(3) if 2 in (a, b) and a != b)
    assert [f.subjects for f in found(translated(cards(3, no_p2p=lonely)), "P2P003")] == [("gpu0", "gpu1")]
    nobody = tuple(((f"g{a}", f"g{b}"), "CNS") for a in range(3) for b in range(3) if a != b)
    assert answers(translated(cards(3, no_p2p=nobody)), "P2P003") == []
    # read and write differ: not OK
    facts = translated(cards(2))
    at = next(i for i, f in enumerate(facts) if isinstance(f, P2pMatrix))
    cells = dict.fromkeys(facts[at].cells, "CNS")
    facts[at] = P2pMatrix(facts[at].witness, "r", facts[at].names, cells, facts[at].lines)
    assert found(facts, "P2P003") == []


def test_bridged_pairs_and_a_third_card():
    bridged = on_switch(*A100, **BRIDGED)
    (info,) = found(translated(bridged), "P2P003")
    assert (info.severity, info.effect, info.covers) == ("info", "none", frozenset())
    third = on_switch(*A100, Gpu("g2", "a100-pcie", Link(4)), **BRIDGED)
    (finding,) = found(translated(third), "P2P003")
    assert (finding.severity, finding.subjects) == ("warning", ("gpu0", "gpu1", "gpu2"))
    assert "2 pairs copy" in finding.message
    assert "1 pairs copy" not in finding.message


@pytest.mark.parametrize(
    ("kind", "bdf", "severity"),
    [
        ("iommu-fault", "gpu", "error"),
        ("iommu-fault", "0000:ff:00.0", "warning"),
        ("aer", "gpu", "warning"),
    ],
)
def test_a_fault_of_the_iommu_that_names_a_gpu(kind, bdf, severity):
    facts = translated(cards(2))
    gpu = next(f.bdf for f in facts if is_gpu(f))
    logged = [
        LogEvent(kind, gpu if bdf == "gpu" else bdf, None, 1.0, Evidence("dmesg", i, f"fault {i}")) for i in (1, 2)
    ]
    (finding,) = found([*facts, Host("dmesg"), *logged], "P2P003")
    assert finding.severity == severity
    assert texts(finding) == ["DMA", *(["fault 2"] if severity == "error" else [])]
    assert ("refused" in finding.message) is (severity == "error")


def test_iommu_of_nobody_and_unread():
    nobody = [("fewer than two GPUs, a VM, or Grace", None)]
    assert silence(translated(cards(1)), "P2P003") == nobody
    assert silence(virtual(translated(cards(2))), "P2P003") == nobody
    assert [p for _, p in silence([f for f in translated(cards(2)) if not isinstance(f, P2pMatrix)], "P2P003")] == [
        True
    ]
    assert silence(translated(cards(2), of=[0], facts=translated(cards(2), None)), "P2P003") == []


# --- NVL005 fabric-not-ready

BOARD = facts_of(board())


def states(values, of=range(8)):
    return alter(BOARD, is_state, each(list(of), **values))


@pytest.mark.parametrize("state", ["Not Started", "In Progress", "Failed"])
def test_a_gpu_that_has_not_registered(state):
    (finding,) = found(states({"fabric_state": state, "lines": {"fabric_state": line(state)}}, [3]), "NVL005")
    assert (finding.severity, finding.subjects, finding.effect) == ("error", ("gpu3",), "stops")
    assert (texts(finding), finding.covers) == ([state], {"gpu3"})


@pytest.mark.parametrize(
    ("count", "up_s", "severity"),
    [
        (1, 60.0, "error"),  # its equals have registered
        (4, 60.0, "error"),  # 4 of 7 have
        (5, 60.0, "warning"),  # 3 of 7
        (8, None, "warning"),  # nothing says how long it is up
        (8, 599.9, "warning"),
        (8, 600.0, "error"),  # ten minutes
        (8, 3600.0, "error"),
    ],
)
def test_in_progress_in_the_first_ten_minutes(count, up_s, severity):
    facts = states({"fabric_state": "In Progress"}, range(count))
    log = [Host("dmesg", least_uptime_s=up_s)] if up_s else []
    assert levels([*facts, *log], "NVL005") == {f"gpu{i}": severity for i in range(count)}


@pytest.mark.parametrize(
    ("values", "severity", "shown"),
    [
        ({"fabric_status": "Success"}, None, None),
        ({"fabric_status": "N/A"}, None, None),
        ({"fabric_status": None}, None, None),
        ({"fabric_status": "Busy"}, "error", "fabric_status"),
        ({"fabric_health": (("Degraded Bandwidth", "True"),)}, "error", "health"),
        ({"fabric_health": (("Bandwidth", "Degraded"),)}, "error", "health"),
        ({"fabric_health": (("Bandwidth", "Full"), ("Route Unhealthy", "yes"))}, "error", "health"),
        ({"fabric_health": (("Route Recovery", "True"), ("Bandwidth", "False"))}, None, None),
        ({"fabric_cluster": False}, "warning", "fabric_cluster"),
    ],
)
def test_a_gpu_that_has_registered(values, severity, shown):
    lines = {key: line(key) for key in ("fabric_state", "fabric_status", "fabric_cluster")}
    lines |= {f"fabric_health {n}": line("health") for n in ("Degraded Bandwidth", "Bandwidth", "Route Unhealthy")}
    facts = alter(states({"fabric_cluster": True}), is_state, {2: {**values, "lines": lines}})
    assert [(f.severity, f.subjects, texts(f)) for f in found(facts, "NVL005")] == (
        [(severity, ("gpu2",), [shown])] if severity else []
    )


@pytest.mark.parametrize(("count", "told"), [(1, True), (4, True), (5, False), (8, False)])
def test_gpus_of_no_cluster(count, told):
    facts = alter(states({"fabric_cluster": True}), is_state, each(range(count), fabric_cluster=False))
    assert set(levels(facts, "NVL005")) == ({f"gpu{i}" for i in range(count)} if told else set())


@pytest.mark.parametrize(
    ("manager", "state", "told"),
    [
        ("570.86.15", None, True),
        ("580.95.05", None, False),  # the simulated driver's version
        ("570.86.15", "Completed", False),
        ("570.86.15", "In Progress", True),
    ],
)
def test_a_fabric_manager_of_another_version(manager, state, told):
    log = Host("dmesg", fabric_manager=manager, line=line("version mismatch"))
    given = [f for f in found([*states({"fabric_state": state}), log], "NVL005") if len(f.subjects) == 8]
    assert [(f.severity, texts(f)) for f in given] == ([("warning", ["version mismatch"])] if told else [])
    one = alter(states({"fabric_state": None}), is_state, {7: {"fabric_state": "Completed"}})
    assert found([*one, log], "NVL005") == []  # one has registered since


def test_whose_fabric_is_not_asked():
    assert silence(facts_of(cards(2)), "NVL005") == [("no GPU of an NVSwitch board in the input", None)]
    unread = {"fabric_state": None}
    assert silence(states(unread), "NVL005") == [("no fabric state in the input (nvidia-smi -q)", False)]
    assert silence(states(unread, [0]), "NVL005") == [("fabric state read of 7 of 8 GPUs", True)]
    for word in ("N/A", "Not Supported", "Unknown Error"):
        without = [("the driver gives no fabric state for these GPUs", None)]
        assert silence(states({"fabric_state": word}), "NVL005") == without
        assert answers(states({"fabric_state": word}, [0]), "NVL005") == []
