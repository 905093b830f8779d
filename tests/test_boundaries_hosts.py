"""Where the rules of the host and of NUMA begin and end; whom they pass over, and why."""

from dataclasses import replace

import pytest
from altered import (
    alter,
    answers,
    board,
    cards,
    each,
    facts_of,
    found,
    is_gpu,
    is_nic,
    is_rdma,
    is_state,
    levels,
    line,
    on_switch,
    repaired,
    silence,
    texts,
    virtual,
)
from nodesim.spec import Gpu, HostBridge, Link, Nic, Node

from topocheck.facts import Host, Matrix, NumaNode, PciFunction
from topocheck.model import Scenario

BOARD = facts_of(board())  # GPUs 0-3 and NICs 0-3 on NUMA node 0, the others on node 1


def host(**values):
    """The board's host with other values, as the last of its inputs says."""
    is_host = [i for i, f in enumerate(BOARD) if isinstance(f, Host)]
    kept = [replace(f, **{k: None for k in values if getattr(f, k) is not None}) for f in BOARD if isinstance(f, Host)]
    others = [f for i, f in enumerate(BOARD) if i not in is_host]
    return [*others, *kept, Host("test", **values, line=line(",".join(values)))]


# --- AFF005 cpus-remote: node 0 has CPUs 0-15 and 32-47, node 1 the others


@pytest.mark.parametrize(
    ("cpus", "remote"),
    [
        ("0-63", []),
        ("0,16", []),
        ("0-15", [4, 5, 6, 7]),
        ("63", [0, 1, 2, 3]),
    ],
)
def test_cpus_that_a_process_may_run_on(cpus, remote):
    facts = host(allowed_cpus=cpus)
    given = found(facts, "AFF005")
    assert [(f.severity, f.subjects, texts(f)) for f in given] == (
        [("info", tuple(f"gpu{i}" for i in remote), ["allowed_cpus"])] if remote else []
    )
    assert all(f"no CPU of NUMA node {remote[0] // 4} (its CPUs: {cpus})" in f.message for f in given)
    assert repaired(facts, "AFF005") == []


def test_without_a_line_a_setting_shows_none():
    values = {"allowed_cpus": "0-15", "numa_balancing": 1}
    facts = [replace(f, line=None) if isinstance(f, Host) else f for f in host(**values)]
    for rule in ("AFF005", "NUM003"):
        assert [f.evidence for f in found(facts, rule)] == [()]
    facts = alter([f for f in BOARD if not isinstance(f, Matrix)], is_gpu, {0: {**UNKNOWN, "lines": {}}})
    assert [f.evidence for f in found(facts, "NUM001")] == [()]
    facts = alter([f for f in BOARD if not isinstance(f, Matrix)], is_gpu, {0: {"numa_node": 1, "lines": {}}})
    assert [f.evidence for f in found(facts, "NUM002")] == [()]


def test_whose_cpus_are_not_asked():
    nobody = [("no GPU on one of several NUMA nodes with CPUs", None)]
    assert silence(BOARD, "AFF005") == [("no CPU mask in the input", False)]
    assert silence(facts_of(cards(2, sockets=1)), "AFF005") == nobody
    # node 1 is memory of GPUs: it has no CPUs
    memory = alter(host(allowed_cpus="0-15"), lambda f: isinstance(f, NumaNode), {1: {"cpus": ""}})
    assert silence(memory, "AFF005") == nobody
    unplaced = alter([f for f in BOARD if not isinstance(f, Matrix)], is_gpu, each(range(8), numa_node=None))
    assert silence(unplaced, "AFF005") == nobody


# --- AFF004 gpudirect-unavailable

BARE = {"peermem": None, "modules": frozenset({"nvidia", "mlx5_core", "ib_core"})}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"peermem": True, "open_driver": False}, False),
        ({**BARE, "open_driver": True, "kernel": "5.12.0"}, False),
        ({**BARE, "open_driver": True, "kernel": "5.11.9"}, True),
        ({**BARE, "open_driver": True, "kernel": "6.0.0"}, False),
        ({**BARE, "open_driver": False, "kernel": "6.8.0"}, True),
        ({**BARE, "open_driver": False}, True),
    ],
)
def test_ways_to_gpu_memory(values, told):
    facts = host(**values)
    given = found(facts, "AFF004")
    assert [(f.severity, f.price_kind, f.loss_range, f.scenarios) for f in given] == (
        [("warning", "typical", (0.12, 0.84), (Scenario("node-nics"),))] if told else []
    )
    assert silence(facts, "AFF004") == repaired(facts, "AFF004") == []
    assert all(f.subjects == tuple(f"gpu{i}" for i in range(8)) and f.evidence for f in given)


def test_ways_to_gpu_memory_unread():
    hidden = host(container=True, **BARE, open_driver=False)
    assert silence(hidden, "AFF004") == [("in a container: the modules are the host's", False)]
    assert found(hidden, "AFF004") == []
    without = [f for f in BOARD if not (isinstance(f, Host) and (f.modules or f.open_driver is not None))]
    both = [("loaded modules not in the input", False)]
    assert silence(without, "AFF004") == both
    proprietary = [*without, Host("test", open_driver=False)]
    assert silence(proprietary, "AFF004") == both
    driver = [*without, Host("test", modules=BARE["modules"])]
    assert silence(driver, "AFF004") == [("kernel version and kind of driver not in the input", False)]
    nobody = [("no GPU with a compute NIC for GPUDirect RDMA", None)]
    assert silence(facts_of(cards(2)), "AFF004") == nobody
    assert silence(facts_of(on_switch(*(Nic(f"n{i}", "cx7-ndr", Link()) for i in range(2)))), "AFF004") == nobody
    assert silence(facts_of(cards(1, nics=1)), "AFF004") == []
    assert silence(alter(BOARD, is_rdma, each(range(8), efa=True)), "AFF004") == nobody


# --- NUM001 numa-unknown

UNKNOWN = {"numa_node": None, "numa_unknown": True}


def unnumbered(facts, gpus=(0,), nics=()):
    """Some devices whose numa_node the kernel gives as -1; no matrix to say another thing."""
    lines = {"NUMA node": line("NUMA node: -1"), "header": line("header")}
    facts = [f for f in facts if not isinstance(f, Matrix)]
    facts = alter(facts, is_gpu, each(list(gpus), **UNKNOWN, lines=lines))
    return alter(facts, is_nic, each(list(nics), **UNKNOWN, lines=lines))


def test_devices_without_a_numa_node():
    facts = unnumbered(BOARD, (0, 5), (2,))
    assert levels(facts, "NUM001") == {"gpu0": "warning", "gpu5": "warning", "mlx5_2": "warning"}
    assert {(f.effect, *texts(f)) for f in found(facts, "NUM001")} == {("none", "NUMA node: -1")}
    assert levels(virtual(facts), "NUM001") == {"gpu0": "info", "gpu5": "info", "mlx5_2": "info"}
    assert levels([f for f in facts if not (isinstance(f, Host) and f.virtual is False)], "NUM001")["gpu0"] == "info"
    assert set(levels(unnumbered(BOARD, range(8)), "NUM001").values()) == {"info"}  # no equal has one
    assert levels(unnumbered(BOARD, range(7)), "NUM001")["gpu0"] == "warning"  # one has


def test_whose_numa_node_is_not_asked():
    facts = unnumbered(BOARD)
    one = [f for f in facts if not (isinstance(f, NumaNode) and f.id == 1)]
    assert answers(one, "NUM001") == answers(facts_of(cards(2, sockets=1)), "NUM001")
    assert silence(one, "NUM001") == [("one CPU node", None)]
    none = [f for f in facts if not isinstance(f, NumaNode)]
    assert silence(none, "NUM001") == [("number of CPU nodes not in the input", False)]
    assert found(none, "NUM001") == []
    assert silence([f for f in BOARD if not isinstance(f, NumaNode)], "NUM001") == []
    # GPU memory is a node without CPUs
    memory = alter(facts, lambda f: isinstance(f, NumaNode), {1: {"cpus": ""}})
    assert silence(memory, "NUM001") == [("one CPU node", None)]
    assert silence(facts_of(board(), "lspci"), "NUM001") == [("no PCI listing with NUMA nodes in the input", False)]
    only_nics = unnumbered(facts_of(on_switch(*(Nic(f"n{i}", "cx7-ndr", Link()) for i in range(2)))), (), (0,))
    assert levels(only_nics, "NUM001") == {"mlx5_0": "warning"}
    assert silence([Host("uname -r", kernel="6.8")], "NUM001") == [("no GPU or NIC in the input", None)]


# --- NUM002 numa-disagrees


def test_a_device_unlike_the_others_of_its_host_bridge():
    lines = {"NUMA node": line("NUMA node: 1"), "header": line("header")}
    facts = alter([f for f in BOARD if not isinstance(f, Matrix)], is_gpu, {0: {"numa_node": 1, "lines": lines}})
    (finding,) = found(facts, "NUM002")
    assert (finding.severity, finding.effect, finding.subjects) == ("info", "none", ("gpu0",))
    assert texts(finding) == ["NUMA node: 1"]
    # the matrix says 0 as well: told once
    assert [f.subjects for f in found(alter(BOARD, is_gpu, {0: {"numa_node": 1}}), "NUM002")] == [("gpu0",)]
    assert found(alter(facts, is_gpu, {0: {"numa_node": 0}}), "NUM002") == []


NEAR_1 = "16-31,48-63"  # the CPUs of NUMA node 1, the second threads of its cores included


@pytest.mark.parametrize(
    ("cpus", "told"), [("0-15,32-47", False), (NEAR_1, True), ("0-63", False), ("16-31", False), (None, False)]
)
def test_a_device_whose_local_cpus_are_another_nodes(cpus, told):
    lines = {"NUMA node": line("NUMA node: 0"), "local_cpulist": line(str(cpus))}
    facts = alter(BOARD, is_gpu, {0: {"local_cpus": cpus, "lines": lines}})
    facts = [*facts, NumaNode("numactl -H", 2)]  # a node whose CPUs no input tells
    given = found(facts, "NUM002")
    assert [(f.severity, f.subjects, texts(f)) for f in given] == ([("info", ("gpu0",), [NEAR_1])] if told else [])
    assert all("but its local CPUs are those of node 1" in f.message for f in given)


def test_a_numa_node_is_doubted_once():
    # unlike its host bridge's others, and its CPUs, and the matrix
    facts = alter(BOARD, is_gpu, {0: {"numa_node": 1, "local_cpus": "0-15,32-47"}})
    assert [f.subjects for f in found(facts, "NUM002")] == [("gpu0",)]
    assert answers([f for f in BOARD if isinstance(f, (Matrix, NumaNode))], "NUM002") == []


def test_inputs_that_name_two_numa_nodes():
    # all of its host bridge is on node 0; the matrix says 1
    matrix = next(i for i, f in enumerate(BOARD) if isinstance(f, Matrix))
    facts = list(BOARD)
    rows = dict(facts[matrix].rows)
    rows["GPU0"] = rows["GPU0"]._replace(numa="1", cpus="16-31")
    facts[matrix] = replace(facts[matrix], rows=rows)
    (finding,) = found(facts, "NUM002")
    assert finding.subjects == ("gpu0",)
    assert "but 1 in nvidia-smi topo -m" in finding.message
    rows["GPU0"] = rows["GPU0"]._replace(numa="0", cpus="0-15", gpu_numa="2")  # its memory's node is meant
    facts[matrix] = replace(facts[matrix], rows=rows)
    assert answers(facts, "NUM002") == []


def test_of_whom_no_numa_node_is_known():
    blind = [f for f in BOARD if not isinstance(f, Matrix)]
    blind = alter(alter(blind, is_gpu, each(range(8), numa_node=None)), is_nic, each(range(8), numa_node=None))
    assert silence(blind, "NUM002") == [("no NUMA node of a GPU or NIC in the input", False)]
    gpus = alter(facts_of(cards(2), "topo"), is_gpu, each(range(2), numa_node=None))
    assert silence(gpus, "NUM002") == [("no NUMA node of a GPU or NIC in the input", False)]
    nics = facts_of(on_switch(*(Nic(f"n{i}", "cx7-ndr", Link()) for i in range(2))), "topo")
    nics = alter(nics, is_nic, each(range(2), numa_node=None))
    assert silence(nics, "NUM002") == [("no NUMA node of a GPU or NIC in the input", False)]
    assert silence([Host("uname -r", kernel="6.8")], "NUM002") == [("no GPU or NIC in the input", None)]
    # a device alone on its bus agrees with itself
    alone = Node(bridges=(HostBridge("b0", 1, (Gpu("g0", "l40s", Link(4)),)),))

    def others(fact):
        return isinstance(fact, PciFunction) and not is_gpu(fact)

    blank = facts_of(alone, "topo")
    assert answers(alter(blank, others, each(range(sum(map(others, blank))), numa_node=None)), "NUM002") == []
    assert answers([f for f in facts_of(alone, "topo") if not isinstance(f, PciFunction) or is_gpu(f)], "NUM002") == []


# --- NUM003 numa-balancing-on


@pytest.mark.parametrize(("value", "told"), [(0, False), (1, True), (2, False), (3, True)])
@pytest.mark.parametrize("grace", [False, True])
def test_numa_balancing(value, told, grace):
    facts = host(numa_balancing=value)
    if grace:
        facts = alter(facts, is_gpu, each(range(8), name="Device 2941", device_id="2941"))
        facts = alter(facts, is_state, each(range(8), model="NVIDIA GB200", pci_id="10de:2941"))
    given = found(facts, "NUM003")
    expected = [("warning" if grace else "info", ["numa_balancing"])] if told else []
    assert [(f.severity, texts(f)) for f in given] == expected
    assert [p.value for f in given for p in f.patches] == ([value - 1] if told else [])
    assert repaired(facts, "NUM003") == []
