"""Where the rules of nearness begin and end: half of the GPUs, one less; sockets and NUMA nodes; whose NIC it is."""

import pytest
from altered import alter, answers, cards, each, facts_of, found, is_gpu, is_state, levels, on_switch, silence, texts
from altered import virtual as as_vm
from nodesim.spec import Gpu, HostBridge, Link, Nic, Node, Switch

from topocheck.build import build
from topocheck.facts import Host, Matrix
from topocheck.model import Scenario
from topocheck.patches import AddNic, MoveNic


def gpu(i, *beside):
    return Switch(f"s{i}", (Gpu(f"g{i}", "h100-pcie", Link()), *beside), Link())


def nic(i):
    return Nic(f"n{i}", "cx7-ndr", Link())


PAIR = tuple(Gpu(f"g{i}", "h100-pcie", Link()) for i in range(2))


def served(near, total, *, numa=0, far=True, **values):
    """So many GPUs on socket 0 with a NIC on their switch; the others on `numa`, with a NIC on a root port of socket 0
    or, not `far`, with none."""
    bridges = [HostBridge(f"b{i}", 0 if i < near else numa, (gpu(i, *[nic(i)] * (i < near)),)) for i in range(total)]
    roots = [HostBridge(f"f{i}", 0, (nic(i),)) for i in range(near, total)] if far else []
    return facts_of(Node(bridges=(*bridges, *roots), **values))


ROOTS = tuple(HostBridge(f"f{i}", 0, (nic(i),)) for i in range(4))


def repairs(finding):
    """Its patches with their kind: two kinds may hold the same words."""
    return [(type(patch), *patch) for patch in finding.patches]


def grace(facts):
    """The same with GB200 in place of its GPUs."""
    count = sum(map(is_gpu, facts))
    facts = alter(facts, is_gpu, each(range(count), name="Device 2941", device_id="2941"))
    return alter(facts, is_state, each(range(count), model="NVIDIA GB200", pci_id="10de:2941"))


# --- AFF002 gpu-nic-far


@pytest.mark.parametrize(
    ("near", "total", "expected"),
    [
        (4, 4, {}),
        (3, 4, {"gpu3": "warning"}),
        (2, 4, {"gpu2": "warning", "gpu3": "warning"}),  # half have one
        (1, 4, {}),  # fewer than half
        (2, 5, {}),
        (1, 2, {"gpu1": "warning"}),
        (0, 4, {f"gpu{i}": "info" for i in range(4)}),  # by design
    ],
)
def test_how_many_have_a_nic_on_their_switch(near, total, expected):
    facts = served(near, total)
    assert levels(facts, "AFF002") == expected
    assert found(facts, "AFF001") == []


def test_a_far_nic_is_to_be_moved_and_a_missing_one_to_be_added():
    (moved,) = found(served(3, 4), "AFF002")
    assert repairs(moved) == [(MoveNic, "gpu3", "mlx5_3")]
    assert moved.scenarios == (Scenario("gpu-nic", "gpu3"),)
    assert (moved.price_kind, moved.loss_range, moved.expected_from) == ("typical", (0.30, 0.55), "equals")
    assert moved.covers == {"gpu3"}
    assert texts(moved)[0].split()[0] == "GPU3"
    (added,) = found(served(3, 4, far=False), "AFF002")
    assert repairs(added) == [(AddNic, "gpu3", "mlx5_0")]
    assert added.repair.startswith("Add")


def test_alike_for_all_is_one_note():
    (info,) = found(served(0, 4), "AFF002")
    assert (info.severity, info.effect, info.expected_from) == ("info", "none", None)
    assert info.covers == {f"gpu{i}" for i in range(4)}
    assert [text.split()[0] for text in texts(info)] == ["GPU0"]
    assert info.repair.startswith("As built")
    # two of them on the socket without NICs: at SYS
    two = facts_of(Node(bridges=tuple(HostBridge(f"b{i}", i // 2, (gpu(i),)) for i in range(4)) + ROOTS))
    assert "nearer than NODE:" in found(two, "AFF002")[0].message


@pytest.mark.parametrize(("product", "gpu_nic_class"), [("NVIDIA DGXH100", "PXB"), ("a board of ours", None)])
def test_alike_for_all_though_the_platform_has_them_nearer(product, gpu_nic_class):
    eight = tuple(HostBridge(f"b{i}", 0, (Switch(f"s{i}", (Gpu(f"g{i}", "h100", Link()),), Link()),)) for i in range(8))
    roots = tuple(HostBridge(f"f{i}", 0, (nic(i),)) for i in range(8))
    facts = [*facts_of(Node(bridges=(*eight, *roots), fabric="nvswitch")), Host("dmi", product=product)]
    (info,) = found(facts, "AFF002")
    assert info.expected_from == ("platform" if gpu_nic_class else None)
    assert info.repair.startswith("Look for" if gpu_nic_class else "As built")


def test_on_grace_the_nearest_is_on_its_cpu():
    facts = grace(served(0, 4))
    assert silence(facts, "AFF002") == [("Grace: NODE is the nearest there is", None)]
    assert answers(grace(served(0, 4, numa=0)), "AFF001") == []
    # on another socket even there; some have one on theirs
    assert set(levels(grace(served(2, 4, numa=1)), "AFF001")) == {"gpu2", "gpu3"}
    # two of four are Grace: of the others none has a NIC on its switch
    mixed = alter(served(0, 4), is_gpu, each(range(2), name="Device 2941", device_id="2941"))
    mixed = alter(mixed, is_state, each(range(2), model="NVIDIA GB200", pci_id="10de:2941"))
    assert set(levels(mixed, "AFF002")) == {"gpu2", "gpu3"}


def test_without_places_nothing_is_near_or_far():
    unplaced = [f for f in facts_of(cards(2, nics=2), "topo") if not is_gpu(f)]
    words = "no input places the GPUs and NICs: no lspci, no nvidia-smi topo -m"
    for rule in ("AFF001", "AFF002", "AFF003"):
        assert silence(unplaced, rule) == [(words, False)]
        assert silence(facts_of(cards(2)), rule) == [("no NIC in the input", None)]
        assert found(unplaced, rule) == []


# --- AFF001 gpu-nic-remote


@pytest.mark.parametrize(
    ("near", "total", "expected"),
    [
        (3, 4, {"gpu3": "warning"}),
        (2, 4, {"gpu2": "warning", "gpu3": "warning"}),
        (1, 3, {"gpu1": "info", "gpu2": "info"}),
        (1, 4, {"gpu1": "info", "gpu2": "info", "gpu3": "info"}),
        (0, 4, {f"gpu{i}": "info" for i in range(4)}),
        (4, 4, {}),
    ],
)
def test_how_many_have_a_nic_on_their_socket(near, total, expected):
    assert levels(served(near, total, numa=1), "AFF001") == expected


def test_numa_nodes_of_one_socket():
    # NPS2: the GPUs without a NIC on their switch are on NUMA node 1 of socket 0
    assert found(served(2, 4, numa=1, numa_per_socket=2), "AFF001") == []
    assert set(levels(served(2, 4, numa=2, numa_per_socket=2), "AFF001")) == {"gpu2", "gpu3"}


def test_what_is_said_of_a_remote_nic():
    (moved,) = found(served(3, 4, numa=1), "AFF001")
    assert repairs(moved) == [(MoveNic, "gpu3", "mlx5_3")]
    assert (moved.price_kind, moved.loss_range, moved.expected_from) == ("typical", (0.35, 0.55), "equals")
    assert (moved.covers, moved.scenarios) == ({"gpu3"}, (Scenario("gpu-nic", "gpu3"),))
    assert moved.confidence == "high"
    (by_tree,) = found([f for f in served(3, 4, numa=1) if not isinstance(f, Matrix)], "AFF001")
    assert by_tree.confidence == "medium"
    assert len(texts(by_tree)) == 2  # where each of the two is
    (added,) = found(served(3, 4, numa=1, far=False), "AFF001")
    assert repairs(added) == [(AddNic, "gpu3", "mlx5_0")]
    assert added.repair.startswith("Add")


def test_two_compute_nics_can_be_near_or_far_one_cannot():
    one = [("one compute NIC for the node", None)]
    assert silence(served(1, 2, numa=1, far=False), "AFF001") == one
    assert levels(served(1, 2, numa=1), "AFF001") == {"gpu1": "warning"}
    # all on root ports of one host bridge: in a VM that says nothing
    flat = facts_of(Node(bridges=(HostBridge("b0", 0, (*PAIR, nic(0), nic(1))),)))
    for rule in ("AFF001", "AFF002", "AFF003"):
        assert silence(as_vm(flat), rule) == [("a flat PCIe tree says nothing of distance", None)]
        assert found(as_vm(flat), rule) == []
    assert levels(flat, "AFF002") == {"gpu0": "info", "gpu1": "info"}


def test_its_own_nic_is_named_before_a_nearer_ones():
    # gpu3's own NIC is on socket 0 beside three others at the same distance
    (finding,) = found(served(3, 4, numa=1), "AFF001")
    assert "mlx5_3" in finding.message
    assert finding.patches[0].nic == "mlx5_3"


# --- AFF003 gpu-nic-shared


def shared(*children, far=1):
    """These on one switch, the other NICs each on a root port."""
    roots = tuple(HostBridge(f"b{i + 1}", 0, (nic(10 + i),)) for i in range(far))
    return facts_of(Node(bridges=(HostBridge("b0", 0, (Switch("s0", children, Link()),)), *roots)))


def test_two_gpus_on_the_only_nic_of_their_switch():
    (finding,) = found(shared(*PAIR, nic(0)), "AFF003")
    assert (finding.severity, finding.subjects) == ("warning", ("gpu1", "gpu0"))
    assert repairs(finding) == [(MoveNic, "gpu1", "mlx5_1")]
    assert finding.scenarios == (Scenario("node-nics"), Scenario("gpu-nic", "gpu1"))
    assert (finding.price_kind, finding.expected_from, finding.covers) == ("computed", "equals", {"gpu1"})
    assert texts(finding)[0].split()[0] == "GPU1"
    assert "gpu1's own mlx5_1 is NODE away" in finding.message
    assert "gpu0 mlx5_0, gpu1 mlx5_1" in finding.message


def test_whose_nic_is_on_its_switch_shares_none():
    assert found(shared(*PAIR, nic(0), nic(1), far=0), "AFF003") == []
    # PXB, behind a second switch
    nested = on_switch(*PAIR, nic(0), Switch("s1", (nic(1),), Link()))
    assert found(facts_of(nested), "AFF003") == []
    assert found(shared(*PAIR, nic(0), Switch("s1", (nic(1),), Link()), far=0), "AFF003") == []


def pairs(*counts):
    """A switch with one NIC and so many GPUs each."""
    gpus = iter([Gpu(f"g{i}", "h100-pcie", Link()) for i in range(sum(counts))])
    switches = [Switch(f"s{i}", (*(next(gpus) for _ in range(n)), nic(i)), Link()) for i, n in enumerate(counts)]
    return facts_of(Node(bridges=tuple(HostBridge(f"b{i}", 0, (switch,)) for i, switch in enumerate(switches))))


@pytest.mark.parametrize(("counts", "each_nic"), [((2, 2), 2), ((4, 4), 4), ((3,), 3), ((2, 1), None)])
def test_fewer_nics_than_gpus_by_design(counts, each_nic):
    given = found(pairs(*counts), "AFF003")
    expected = [("info", "none", sum(counts))] if each_nic else []
    assert [(f.severity, f.effect, len(f.subjects)) for f in given] == expected
    assert all(f.message == f"{each_nic} GPUs share a compute NIC, alike for all" for f in given)
    assert all(texts(f)[0].split()[0] == "GPU0" for f in given)


def test_a_gpu_without_any_nic_near_is_no_sharing():
    # two GPUs a NIC, but one pair's NIC is beyond its switch
    far = Node(
        bridges=(
            HostBridge("b0", 0, (Switch("s0", (*PAIR, nic(0)), Link()),)),
            HostBridge("b1", 0, (Switch("s1", tuple(Gpu(f"g{i}", "h100-pcie", Link()) for i in (2, 3)), Link()),)),
            HostBridge("b2", 0, (nic(1),)),
        )
    )
    assert [f for f in found(facts_of(far), "AFF003") if f.severity == "info"] == []
    assert silence(facts_of(cards(1, nics=1)), "AFF003") == [("one GPU", None)]
    assert build(facts_of(far)).gpus[3].id == "gpu3"
