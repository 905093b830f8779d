"""NUMA nodes: numactl, lscpu and sysfs, in the shapes their outputs have been seen in."""

import textwrap
from pathlib import Path

import pytest

from topocheck.facts import Gap, Host, NumaNode
from topocheck.probes import lscpu, numactl, sysfs_numa
from topocheck.probes.cpu_list import kernel_form, parse_cpus
from topocheck.sources.open import open_source

FIXTURES = Path(__file__).parent.parent / "fixtures" / "probes"


def fixture(path):
    return (FIXTURES / path).read_text()


def sample(probe):
    """The example that ends a probe's docstring."""
    return textwrap.dedent(probe.__doc__.strip("\n").rpartition("\n\n")[2])


def nodes(probe, text):
    return {fact.id: fact for fact in probe.parse(text) if isinstance(fact, NumaNode)}


def cpus(probe, text):
    return {number: node.cpus for number, node in nodes(probe, text).items()}


def sockets(probe, text):
    return {number: node.socket for number, node in nodes(probe, text).items()}


def host(text):
    (fact,) = [fact for fact in lscpu.parse(text) if isinstance(fact, Host)]
    return fact


@pytest.mark.parametrize("probe", [numactl, lscpu], ids=["numactl", "lscpu"])
def test_docstring_sample_is_recognised_by_its_own_probe_alone(probe):
    assert [other for other in (numactl, lscpu) if other.sniff(sample(probe))] == [probe]


@pytest.mark.parametrize(
    ("printed", "spelt"),
    [
        ("0-62:2", ",".join(str(cpu) for cpu in range(0, 64, 2))),
        ("0 1 2 3 8 9", "0-3,8-9"),
        ("192-238,240-255", "192-238,240-255"),
        ("", ""),
        ("0 1 ...", None),
        ("0-99999999999", None),
        ("5-3", None),
    ],
)
def test_cpu_lists_in_the_kernels_form(printed, spelt):
    assert kernel_form(printed) == spelt


def test_a_stride_counts_from_its_start():
    assert parse_cpus("1-13:4") == {1, 5, 9, 13}


# --- numactl ------------------------------------------------------------------------------------------------------


def test_numactl():
    text = sample(numactl)
    assert cpus(numactl, text) == {0: "0-3,8-11", 1: "4-7,12-15"}
    node = nodes(numactl, text)[1]
    assert (node.memory_mib, node.distances, node.socket) == (256877.0, ((0, 21), (1, 10)), None)


def test_numactl_wrapped_lists_and_gpu_memory_nodes():
    found = nodes(numactl, fixture("numactl/wrapped_gpu_nodes"))
    assert {number: node.cpus for number, node in found.items()} == {0: "0-11", 8: "12-15,20-21", 254: "", 255: ""}
    assert (found[254].memory_mib, found[255].memory_mib) == (16128.0, 0.0)
    assert found[254].distances == ((0, 80), (8, 80), (254, 10), (255, 80))


@pytest.mark.parametrize("columns", [80, 100, 120, 132])
def test_numactl_lists_that_a_margin_broke_amid_their_numbers(columns):
    lists = {0: [*range(48), *range(96, 144)], 1: [*range(48, 96), *range(144, 192)]}
    lines = [f"node {node} cpus: {' '.join(map(str, numbers))}" for node, numbers in lists.items()]
    text = "".join(line[at : at + columns] + "\n" for line in lines for at in range(0, len(line), columns))
    assert cpus(numactl, text) == {0: "0-47,96-143", 1: "48-95,144-191"}


def test_numactl_cut_list_is_unknown_not_short():
    facts = list(numactl.parse(fixture("numactl/cut_lists")))
    assert cpus(numactl, fixture("numactl/cut_lists")) == {0: None, 1: "4-7", 2: ""}
    assert [fact.reason for fact in facts if isinstance(fact, Gap)] == ["the list of CPUs of node 0 is cut"]
    assert [fact.distances for fact in facts if isinstance(fact, NumaNode)] == [((0, 10), (1, 21), (2, 14)), (), ()]


def test_numactl_without_its_first_line_and_with_foreign_numbers_below():
    (node,) = nodes(numactl, fixture("numactl/header_lost")).values()
    assert (node.id, node.cpus, node.distances) == (4, "0-3,120-121", ((4, 10),))


def test_numactl_nodes_named_only_in_the_first_line_exist():
    assert cpus(numactl, "available: 3 nodes (0,5-6)\nnode 0 cpus: 0\n") == {0: "0", 5: None, 6: None}


# --- lscpu --------------------------------------------------------------------------------------------------------


def test_lscpu_tables_that_end_before_the_nodes_of_the_summary():
    summary = "".join(f"NUMA node{node} CPU(s): {node}\n" for node in range(2)) + "Socket(s): 2\n"
    text = f"{summary}CPU NODE SOCKET\n0   0    0\n"
    assert (cpus(lscpu, text), sockets(lscpu, text)) == ({0: "0", 1: "1"}, {0: 0, 1: 1})


def test_lscpu_nodes_divide_over_sockets():
    text = sample(lscpu)
    assert cpus(lscpu, text) == {0: "0,2,4,6,8,10,12,14", 1: "1,3,5,7,9,11,13,15"}
    assert sockets(lscpu, text) == {0: 0, 1: 1}
    machine = host(text)
    assert (machine.arch, machine.sockets, machine.cpu_count) == ("x86_64", 2, 16)
    assert machine.virtual is None  # "Virtualization: VT-x" is what the CPU can


def test_lscpu_strides_and_a_table_that_tells_the_sockets():
    text = fixture("lscpu/stride_three_nodes_four_sockets")
    assert cpus(lscpu, text) == {0: "0,2,4,6,8,10,12,14", 2: "1,5,9,13", 3: "3,7,11,15"}
    # Three nodes do not divide over four sockets; the table shows node 0 on sockets 0 and 2, node 2 on 1, node 3 on 3.
    assert sockets(lscpu, text) == {0: None, 2: 1, 3: 3}
    assert sockets(lscpu, text.partition("# The following")[0]) == {0: None, 2: None, 3: None}


def test_lscpu_nested_guest_with_several_core_types_and_empty_nodes():
    text = fixture("lscpu/nested_guest_with_empty_nodes")
    assert cpus(lscpu, text) == {0: "0-3", 1: "4-6", 2: "", 10: ""}
    assert sockets(lscpu, text) == {0: 0, 1: 1, 2: None, 10: None}  # memory-only nodes have no socket
    machine = host(text)
    assert (machine.virtual, machine.hypervisor, machine.sockets) == (True, "KVM", 2)


def test_lscpu_of_a_xen_host_is_no_guest_and_translations_are_read():
    text = fixture("lscpu/xen_host_german")
    assert cpus(lscpu, text) == {0: "0-3"}
    assert host(text).virtual is None


@pytest.mark.parametrize(
    "text",
    [
        "Sockel:              2\nHypervisor-Anbieter: KVM\nNUMA-Knoten0 CPU(s): 0-3\nNUMA-Knoten1 CPU(s): 4-7\n",
        "座：           2\n超管理器厂商：  KVM\nNUMA 节点：    2\nNUMA 节点0 CPU： 0-3\nNUMA 节点1 CPU： 4-7\n",
        "Socket(s) :  2\nConstructeur d'hyperviseur : KVM\nNœud NUMA 0 de processeur(s) : 0-3\n"
        "Nœud NUMA 1 de processeur(s) : 4-7\n",
        "Socket(s): 2\nHypervisor vendor: KVM\nCPU(s) de nó0 NUMA: 0-3\nCPU(s) de nó1 NUMA: 4-7\n",
    ],
    ids=["de", "zh", "fr", "pt"],
)
def test_lscpu_in_the_language_of_its_user(text):
    assert lscpu.sniff(text)
    assert cpus(lscpu, text) == {0: "0-3", 1: "4-7"} and sockets(lscpu, text) == {0: 0, 1: 1}
    assert host(text).virtual and host(text).hypervisor == "KVM"


def test_lscpu_extended_table():
    text = fixture("lscpu/extended_offline")
    assert lscpu.sniff(text)
    assert cpus(lscpu, text) == {0: "0-1", 1: "2,4"}  # CPU 3 is offline
    assert sockets(lscpu, text) == {0: 0, 1: 1}
    assert host(text).sockets == 2


def test_lscpu_without_numa_lines_still_describes_the_host():
    text = "Architecture: armv7l\nCPU(s):              2\nSocket(s):           1\nModel name:          Cortex-A15\n"
    assert not nodes(lscpu, text)
    assert host(text).sockets == 1


# --- both ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("probe", [numactl, lscpu], ids=["numactl", "lscpu"])
def test_odd_texts_state_nothing(probe):
    for text in ("", "a" * 2_000_000, "1 " * 500_000, "CPU " + "aaa " * 100_000, "\x00\xff\n" * 1000):
        assert not nodes(probe, text)
    for end in range(0, len(sample(probe)), 5):
        list(probe.parse(sample(probe)[:end]))


def test_numactl_in_a_pasted_ticket():
    text = fixture("pasted/ticket")
    assert numactl.sniff(text)
    assert not lscpu.sniff(text)
    assert cpus(numactl, text) == {0: "0-3"}


# --- sysfs --------------------------------------------------------------------------------------------------------


def put(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def test_sysfs_numa(tmp_path):
    base = "sys/devices/system"
    for node, cpulist, distance in ((0, "0-3,8-11", "10 21 17"), (1, "4-7,12-15", "21 10 28"), (2, "", "17 28 10")):
        put(tmp_path, f"{base}/node/node{node}/cpulist", cpulist)
        put(tmp_path, f"{base}/node/node{node}/distance", distance)
        put(tmp_path, f"{base}/node/node{node}/meminfo", f"Node {node} MemTotal:       {(node + 1) * 2048} kB")
    put(tmp_path, f"{base}/cpu/cpu0/topology/physical_package_id", "36")
    put(tmp_path, f"{base}/cpu/cpu4/topology/physical_package_id", "3180")
    put(tmp_path, f"{base}/node/online", "0-2")
    found = {fact.id: fact for fact in sysfs_numa.read(open_source(str(tmp_path)))}
    assert {number: node.cpus for number, node in found.items()} == {0: "0-3,8-11", 1: "4-7,12-15", 2: ""}
    assert {number: node.socket for number, node in found.items()} == {0: 0, 1: 1, 2: None}
    assert [node.memory_mib for node in found.values()] == [2.0, 4.0, 6.0]
    assert found[2].distances == ((0, 17), (1, 28), (2, 10))


def test_sysfs_numa_package_unknown(tmp_path):
    put(tmp_path, "sys/devices/system/node/node0/cpulist", "0")
    put(tmp_path, "sys/devices/system/cpu/cpu0/topology/physical_package_id", "-1")
    (node,) = sysfs_numa.read(open_source(str(tmp_path)))
    assert (node.socket, node.memory_mib, node.distances) == (None, None, ())
