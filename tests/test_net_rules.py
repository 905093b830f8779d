"""What the port, GPUDirect and rail rules must not say, and what they say only as a note.

Everything goes through `check` on a copy of one of our nodes with text changed in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import nodes
import pytest
from asked import changed, levels, of, skips
from diagnosis import diagnose
from nodesim import INPUTS, facts, place
from nodesim.spec import Gpu, HostBridge, Link, Nic, Node, Switch

from topocheck.check import Checked, check

ROCE, IB = "hgx-h100-roce", "hgx-h100"
OTHER_STATES = ("ibstatus", "ibv_devinfo_-v", "rdma_link", "ibdev2netdev")
LIDS = {"mlx5_0": 101, "mlx5_1": 102, "mlx5_2": 103, "mlx5_3": 104, "mlx5_6": 107, "mlx5_7": 108, "mlx5_8": 109}


def edited(node: str, file: str, change: Callable[[str], str]) -> nodes.Change:
    """A whole file, changed; it must change."""
    text = (nodes.healthy(node) / file).read_text()
    assert change(text) != text, f"{file} was not changed"
    return nodes.Change(file, text=change(text))


def not_applicable(checked: Checked) -> set[str]:
    return {rule for rule, _ in checked.report.not_applicable}


def counters(**by_nic: int) -> nodes.Change:
    """One reading of LinkDownedCounter of every compute NIC: 0, or what is given."""
    block = "# Port extended counters: Lid {} port 1 (CapMask: 0x5300)\nLinkDownedCounter:..{}\nPortXmitData:..9000\n"
    return nodes.Change("perfquery_-x", text="".join(block.format(lid, by_nic.get(n, 0)) for n, lid in LIDS.items()))


def test_a_lone_port_runs_slower_than_both_ends_of_its_cable_can(tmp_path: Path) -> None:
    ibstat = """CA 'mlx5_0'
	CA type: MT4129
	Number of ports: 1
	Port 1:
		State: Active
		Physical state: LinkUp
		Rate: 100
		Base lid: 12
		Port GUID: 0xa088c20300ab1300
		Link layer: InfiniBand
"""
    link = """CA: gpu01 mlx5_0:
      0xa088c20300ab1300     12    1[  ] ==( 1X       106.25 Gbps Active/  LinkUp)==>      73    1[  ] "leaf01" ({} )
"""
    for folder, said, found in (("able", "Could be 4X", ["warning"]), ("not", "", [])):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "ibstat").write_text(ibstat)
        (tmp_path / folder / "iblinkinfo").write_text(link.format(said))
        checked = check(str(tmp_path / folder))
        assert levels(checked, "NET002") == found
        assert all("both ends of its cable support 400" in f.message for f in of(checked, "NET002"))


# --- counters


def test_one_reading_of_a_counter_is_a_note_and_only_far_above_the_equals(tmp_path: Path) -> None:
    assert levels(changed(tmp_path / "high", IB, counters(mlx5_2=40)), "NET003") == ["info"]
    assert levels(changed(tmp_path / "low", IB, counters(mlx5_2=3)), "NET003") == []
    alike = counters(**dict.fromkeys(LIDS, 40))
    assert levels(changed(tmp_path / "alike", IB, alike), "NET003") == []


def test_a_counter_that_was_cleared_between_readings_did_not_rise(tmp_path: Path) -> None:
    text = (counters(mlx5_2=40).text or "") + (counters().text or "")
    assert levels(changed(tmp_path, IB, nodes.Change("perfquery_-x", text=text)), "NET003") == []


def test_counters_of_a_switch_are_nobody_here(tmp_path: Path) -> None:
    block = "# Port extended counters: Lid 2052 port 1 (CapMask: 0x5300)\nPortXmitDiscards:..20046\nPortXmitWait:..9\n"
    checked = changed(tmp_path, IB, nodes.Change("perfquery_-x", text=block))
    assert of(checked, "NET008") == [] and skips(checked, "NET008")
    assert [(g.input, g.reason) for g in checked.report.gaps] == [("perfquery", "no port of this node was found in it")]


def test_waiting_in_one_reading_is_a_note(tmp_path: Path) -> None:
    block = "# Port extended counters: Lid 101 port 1 (CapMask: 0x5300)\nPortXmitData:..1000\nPortXmitWait:..9000\n"
    assert levels(changed(tmp_path, IB, nodes.Change("perfquery_-x", text=block)), "NET008") == ["info"]


# --- MTU, GIDs, likeness


def test_all_roce_ports_at_1024_are_one_note(tmp_path: Path) -> None:
    small = edited(ROCE, "ibv_devinfo_-v", lambda t: t.replace("active_mtu:\t\t4096 (5)", "active_mtu:\t\t1024 (3)"))
    checked = changed(tmp_path, ROCE, small)
    assert levels(checked, "NET004") == ["info"] and checked.report.verdict == "healthy"


def test_the_mtu_of_a_storage_nic_is_its_own(tmp_path: Path) -> None:
    change = nodes.Change(
        "ibv_devinfo_-v", at="^hca_id:\tmlx5_4", replace="active_mtu:\t\t4096", by="active_mtu:\t\t1024"
    )
    assert levels(changed(tmp_path, ROCE, change), "NET004") == []


def test_gids_of_a_port_that_is_down_are_not_asked(tmp_path: Path) -> None:
    v1 = edited(ROCE, "show_gids", lambda t: re.sub(r"(?m)^(mlx5_8 .*)v2 ", r"\1v1 ", t))
    down = nodes.Change(
        "ibstat",
        at="^CA 'mlx5_8'",
        replace="State: Active\n\t\tPhysical state: LinkUp",
        by="State: Down\n\t\tPhysical state: Disabled",
    )
    checked = changed(tmp_path, ROCE, v1, down, drop=("ibv_devinfo_-v", "ibdev2netdev"))
    assert levels(checked, "NET007") == [] and levels(checked, "NET001") == ["error"]


def test_infiniband_needs_no_gid_rule() -> None:
    assert {"NET007", "RAIL004"} <= not_applicable(check(str(nodes.healthy(IB))))


def test_one_dual_port_storage_card_may_have_two_link_layers(tmp_path: Path) -> None:
    """A DGX A100's dual-port cards: one port InfiniBand storage, the other Ethernet for management."""
    mixed = edited("dgx-a100", "ibstat", lambda t: _layer_of(t, "mlx5_4", "InfiniBand"))
    checked = changed(tmp_path, "dgx-a100", mixed, drop=OTHER_STATES)
    layers = {p.link_layer for n in ("mlx5_4", "mlx5_5") for p in checked.topology.by_id[n].ports}
    assert layers == {"infiniband", "ethernet"}
    assert [f for f in of(checked, "NET006") if f.severity != "info"] == []


def test_a_compute_card_that_came_up_as_ethernet_is_told_once(tmp_path: Path) -> None:
    other = edited(IB, "ibstat", lambda t: _layer_of(t, "mlx5_2", "Ethernet"))
    drop = (*OTHER_STATES, "nvidia-smi_topo_-m")
    checked = changed(tmp_path, IB, other, drop=drop)
    loud = [(f.rule, f.subjects) for f in checked.report.findings if f.severity != "info"]
    assert loud == [("NET006", ("mlx5_2",))]


def _layer_of(text: str, nic: str, layer: str) -> str:
    return re.sub(rf"(CA '{nic}'(?:\n\t.*)*?Link layer: )\w+", rf"\g<1>{layer}", text)


# --- GPUDirect, CPU mask, NCCL


@pytest.mark.parametrize("node", ["p5-vm", "pcie-box"])
def test_gpudirect_is_asked_where_it_matters(node: str) -> None:
    checked = check(str(nodes.healthy(node)))
    assert of(checked, "AFF004") == []
    assert ("AFF004" in not_applicable(checked)) == (node == "p5-vm")


def test_in_a_container_the_modules_are_the_hosts(tmp_path: Path) -> None:
    fault = nodes.edit(IB, "no-peermem-closed-driver")
    inside = nodes.Change("run/.containerenv", text="engine=podman\n")
    checked = changed(tmp_path, IB, *fault.changes, inside)
    assert of(checked, "AFF004") == [] and skips(checked, "AFF004")


def test_a_mask_that_holds_a_cpu_of_each_node_is_enough(tmp_path: Path) -> None:
    mask = nodes.Change("proc/self/status", replace="0-223", by="0,56")
    assert of(changed(tmp_path, ROCE, mask), "AFF005") == []


def test_gpu_memory_is_a_numa_node_without_cpus(tmp_path: Path) -> None:
    mask = nodes.Change("proc/self/status", text="Name:\tpython3\nCpus_allowed_list:\t0-7\n")
    checked = changed(tmp_path, "gb200-tray", mask)
    subjects = [s for f in of(checked, "AFF005") for s in f.subjects]
    assert subjects == ["gpu2", "gpu3"], "those of the other Grace, not those whose memory nodes have no CPU"


@pytest.mark.parametrize("hca", ["^mlx5_4,mlx5_5", "mlx5", "=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_6,mlx5_7,mlx5_8,mlx5_9"])
def test_an_nccl_ib_hca_that_leaves_in_all_compute_nics_is_right(hca: str, tmp_path: Path) -> None:
    environ = nodes.Change("environ.json", text=json.dumps({"NCCL_IB_HCA": hca}))
    assert of(changed(tmp_path, ROCE, environ), "AFF006") == []


def test_without_nccl_variables_its_choice_is_not_judged() -> None:
    assert skips(check(str(nodes.healthy(IB))), "AFF006")


def test_two_gpus_that_nccl_would_give_one_nic_are_a_note(tmp_path: Path) -> None:
    """GPU0 and GPU2 share a switch with two NICs: of two NICs NCCL gives a GPU the one of its number modulo 2."""
    near, far = ("PIX", "PIX", "SYS", "SYS"), ("SYS", "SYS", "PIX", "PIX")
    names = [f"{kind}{i}" for kind in ("GPU", "NIC") for i in range(4)]
    rows = []
    for gpu in range(4):
        pairs = [" X " if other == gpu else "NV6" for other in range(4)]
        rows.append("\t".join([f"GPU{gpu}", *pairs, *(near if gpu % 2 == 0 else far)]))
    for nic in range(4):
        gpus = [(near if gpu % 2 == 0 else far)[nic] for gpu in range(4)]
        nics = [" X " if o == nic else "PIX" if o // 2 == nic // 2 else "SYS" for o in range(4)]
        rows.append("\t".join([f"NIC{nic}", *gpus, *nics]))
    legend = "\nNIC Legend:\n\n" + "".join(f"  NIC{i}: mlx5_{i}\n" for i in range(4))
    (tmp_path / "nvidia-smi_topo_-m").write_text("\t" + "\t".join(names) + "\n" + "\n".join(rows) + "\n" + legend)
    ca = "CA 'mlx5_{0}'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n"
    (tmp_path / "ibstat").write_text("".join(ca.format(i) for i in range(4)))
    (tmp_path / "environ.json").write_text('{"NCCL_DEBUG": "INFO"}')
    checked = check(str(tmp_path))
    (finding,) = of(checked, "AFF006")
    assert finding.severity == "info" and finding.subjects == ("gpu0", "gpu1", "gpu2", "gpu3")
    assert "gpu0 mlx5_0" in finding.message and "gpu2 mlx5_0" in finding.message
    assert sorted(n for own in checked.topology.assignment.values() for n in own) == [f"mlx5_{i}" for i in range(4)]


# --- rails


def leaves(by_netdev: Callable[[int], str]) -> nodes.Change:
    """The LLDP neighbours of the eight rails, by rail number."""
    document = json.loads((nodes.healthy(ROCE) / "lldpctl_-f_json").read_text())
    for rail, interface in enumerate(document["lldp"]["interface"]):
        (entry,) = interface.values()
        (neighbour,) = entry["chassis"].values()
        entry["chassis"] = {by_netdev(rail): neighbour}
    return nodes.Change("lldpctl_-f_json", text=json.dumps(document))


@pytest.mark.parametrize(
    "by_rail",
    [
        lambda rail: "tor1",
        lambda rail: f"leaf{rail // 2}",
        lambda rail: f"leaf{rail % 2}",
        lambda rail: f"leaf-r{8 - rail}",
        lambda rail: "abcdefgh"[7 - rail],
    ],
    ids=["one switch", "two rails a leaf", "two leaves", "counted the other way", "names without a number"],
)
def test_cabling_that_is_alike_for_all_rails_is_a_design(by_rail: Callable[[int], str], tmp_path: Path) -> None:
    checked = changed(tmp_path, ROCE, leaves(by_rail))
    assert {p.leaf.switch for n in checked.topology.compute_nics for p in n.ports if p.leaf} == set(
        map(by_rail, range(8))
    )
    assert levels(checked, "RAIL001") + levels(checked, "RAIL002") == []


def test_nodes_of_another_unit_say_nothing_of_this_nodes_leaves(tmp_path: Path) -> None:
    def elsewhere(text: str) -> str:
        """The sisters' cables on other leaves: only this node's lines stay where they are."""
        units = text.split("vendid=")
        moved = [
            re.sub(r"(?m)^\[\d+\].*gpu-a01 .*\n", "", u).replace("leaf0", "other0").replace("fc6a", "fc6b")
            for u in units
        ]
        kept = [re.sub(r"(?m)^\[\d+\].*gpu-a0[234] .*\n", "", u) for u in units]
        return "vendid=".join(kept) + "vendid=".join(moved)

    fault = nodes.edit(IB, "fabric-mlx5_9-astray").changes[0]
    assert fault.text is not None
    assert levels(changed(tmp_path / "own", IB, fault), "RAIL002") == ["warning"]
    moved = nodes.Change(fault.file, text=elsewhere(fault.text))
    found = of(changed(tmp_path / "other", IB, moved), "RAIL002")
    assert [f.expected_from for f in found] == ["equals"], "two rails on one leaf, but nobody to compare with"


def test_all_rails_in_one_subnet_are_a_note(tmp_path: Path) -> None:
    def flat(text: str) -> str:
        text = re.sub(r"10\.20\.(\d)\.17", r"10.20.1.2\1", text)
        return re.sub(r"0a14:0([1-8])11", lambda m: f"0a14:01{20 + int(m[1]):02x}", text)

    checked = changed(tmp_path, ROCE, edited(ROCE, "show_gids", flat))
    assert levels(checked, "RAIL004") == ["info"] and checked.report.verdict == "healthy"


def test_the_report_names_the_leaf_of_each_port() -> None:
    node = check(str(nodes.healthy(ROCE))).topology
    ports = [p for n in node.compute_nics for p in n.ports]
    assert [(p.leaf.switch, p.leaf.port, p.leaf.by) for p in ports if p.leaf] == [
        (f"leaf-r{rail}", "Ethernet64", "lldp") for rail in range(1, 9)
    ]


def test_a_port_its_platform_has_is_expected_up_whatever_the_others_do(tmp_path: Path) -> None:
    """A DGX A100 with all eight compute ports down: no equal is better, but the machine has them."""
    text = (nodes.healthy("dgx-a100") / "ibstat").read_text()
    down = re.sub(
        r"State: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 200",
        "State: Down\n\t\tPhysical state: Polling\n\t\tRate: 10",
        text,
    )
    checked = changed(tmp_path, "dgx-a100", nodes.Change("ibstat", text=down), drop=OTHER_STATES)
    found = of(checked, "NET001")
    assert {(f.severity, f.expected_from) for f in found} == {("error", "platform")}
    assert sum(len(f.subjects) for f in found) == 8


def test_a_port_that_no_subnet_manager_has_reached_shows_that(tmp_path: Path) -> None:
    initialising = nodes.Change(
        "ibstat",
        at="^CA 'mlx5_2'",
        replace="Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tBase lid: 103\n\t\tLMC: 0\n\t\tSM lid: 1",
        by="Initializing\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tBase lid: 0\n\t\tLMC: 0\n\t\tSM lid: 0",
    )
    (finding,) = of(changed(tmp_path, IB, initialising, drop=OTHER_STATES), "NET001")
    assert "no subnet manager" in finding.message
    assert [line.text for line in finding.evidence][-1] == "SM lid: 0"


def test_a_node_guid_ties_a_name_to_its_function(tmp_path: Path) -> None:
    """ibv_devices names nothing but GUIDs; the order of the names is not that of the slots."""
    (tmp_path / "ibv_devices").write_text(
        "    device          \t   node GUID\n    ------          \t----------------\n"
        "    mlx5_0          \tb83fd20300011080\n    mlx5_1          \tb83fd20300011040\n"
    )
    block = (
        "0000:{0}:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 Family [ConnectX-7] [15b3:1021]\n"
        "\tCapabilities: [100 v1] Device Serial Number b8-3f-d2-03-00-01-{1}\n"
    )
    (tmp_path / "lspci_-nnvv").write_text(block.format("1a", "10-40") + "\n" + block.format("3c", "10-80"))
    assert {n.id: n.bdf for n in check(str(tmp_path)).topology.nics} == {
        "mlx5_0": "0000:3c:00.0",
        "mlx5_1": "0000:1a:00.0",
    }


def test_all_nics_farther_than_the_platform_has_them(tmp_path: Path) -> None:
    far = edited("dgx-a100", "nvidia-smi_topo_-m", lambda t: t.replace("PXB", "NODE"))
    (finding,) = of(changed(tmp_path, "dgx-a100", far, drop=("lspci*",)), "AFF002")
    assert (finding.severity, finding.expected_from) == ("info", "platform")
    assert "nearer than NODE (DGX A100 has them at PXB)" in finding.message


def test_rails_in_even_steps_smaller_than_a_24_have_each_their_own(tmp_path: Path) -> None:
    """Four /25 that begin in the middle of a /24: two of them have its number, and nothing is wrong."""

    def stepped(text: str) -> str:
        def address(rail: int) -> tuple[int, int]:
            return 1 + (rail + 1) // 2, 17 + 128 * ((rail + 1) % 2)

        lines = [line for line in text.splitlines(keepends=True) if not re.match(r"mlx5_[6-9] .*10\.20\.", line)]
        text = re.sub(r"10\.20\.(\d)\.17", lambda m: "10.20.{}.{}".format(*address(int(m[1]) - 1)), "".join(lines))
        return re.sub(r"0a14:0(\d)11", lambda m: "0a14:{:02x}{:02x}".format(*address(int(m[1]) - 1)), text)

    checked = changed(tmp_path, ROCE, edited(ROCE, "show_gids", stepped), drop=("ibv_devinfo_-v",))
    seen = [g.ipv4 for n in checked.topology.compute_nics for p in n.ports for g in p.gids if g.ipv4]
    assert sorted(set(seen)) == ["10.20.1.145", "10.20.2.145", "10.20.2.17", "10.20.3.17"]
    assert levels(checked, "RAIL004") == []


@pytest.mark.parametrize(("given", "told"), [(INPUTS, {"GPU001"}), (frozenset({"topo"}), set())])
def test_where_two_gpus_share_a_nic_a_lost_gpu_is_no_missing_nic(given: frozenset[str], told: set[str]) -> None:
    """Four switches of two GPUs and a NIC: without one GPU its neighbour has the NIC alone, and of seven GPUs three,
    less than half, have none of their own."""
    pairs = ((Gpu(f"g{2 * i}", "h100", Link()), Gpu(f"g{2 * i + 1}", "h100", Link())) for i in range(4))
    switches = [Switch(f"s{i}", (*two, Nic(f"n{i}", "cx7-ndr", Link())), Link()) for i, two in enumerate(pairs)]
    node = Node(tuple(HostBridge(f"b{i}", 0, (switch,)) for i, switch in enumerate(switches)), fabric="nvswitch")
    assert not diagnose(facts(place(node), given)).grave
    ill = node.changed("g3", lambda child: replace(child, lost=True))
    assert {f.rule for f in diagnose(facts(place(ill), given)).grave} == told
