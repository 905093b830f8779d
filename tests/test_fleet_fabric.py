"""`topocheck fleet LISTING`: each injected cabling fault is named with both its ends, sound fabrics of every shape are
silent. By texts in the tools' form, and by the real ibnetdiscover and iblinkinfo on a simulated fabric."""

import json
import time

import fabric_edits as edits
import fabric_sim as sim
import pytest

from topocheck.cli import run
from topocheck.fleet.cables import cable_faults
from topocheck.fleet.fabric import listing
from topocheck.fleet.record import Kind, NodeRecord, RailPort
from topocheck.fleet.tiers import tree


def real(test):
    """Needs the simulator, its subnet manager and the tools."""
    for package, program in (("ibsim-utils", "ibsim"), ("opensm", "opensm"), ("infiniband-diags", "ibnetdiscover")):
        test = pytest.mark.real(package, program=program)(test)
    return test


FORMS = (("ibnetdiscover",), ("ibnetdiscover", "-p"), ("iblinkinfo",), ("iblinkinfo", "-l"))


@pytest.fixture
def ask(tmp_path):
    """`topocheck fleet` on these listings: the answer's document, with its exit code."""

    def asked(*texts):
        files = [tmp_path / f"fabric{number}" for number in range(len(texts))]
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        code = run(["fleet", "--format", "json", "--output", str(tmp_path / "answer"), *map(str, files)])
        return json.loads((tmp_path / "answer").read_text()) | {"code": code}

    return asked


def faults(answer):
    return answer["rails"]["faults"]


def assert_names(answer, rule, *words):
    """One fault, and it says all that."""
    (fault,) = faults(answer)
    ends = [f"{end['host']} {end['nic']} at {end['leaf']} port {end['leaf_port']}" for end in fault["ends"]]
    said = " ".join([fault["message"], *ends])
    assert fault["rule"] == rule
    assert [word for word in words if word not in said] == []
    assert answer["code"] == (1 if fault["severity"] == "error" else 0)


@pytest.mark.parametrize("fault", edits.FAULTS)
def test_a_fault_is_named_with_both_ends(fault, ask):
    net = sim.rail_optimised()
    expected = fault(net)
    assert_names(ask(net.listing()), *expected)


@pytest.mark.parametrize("fault", edits.FAULTS)
@real
def test_a_fault_under_the_real_tools_is_named_with_both_ends(fault, ask):
    net = sim.rail_optimised()
    expected = fault(net)
    with sim.running(net) as tool:
        for form in FORMS:
            assert_names(ask(tool(*form)), *expected)


# -- Sound fabrics. Gb/s of each leaf's hosts and uplinks, and the bisection, by hand.

SHAPES = {
    # 4 hosts a leaf and 4 uplinks of 200; all hosts share the leaves: half of 32 ports
    "rails": (lambda: [sim.rail_optimised()], 8, 800, 800, 3200),
    # nothing between the rails: a host reaches another on each of them
    "rails only": (lambda: [sim.rail_optimised(spines=0)], 8, 800, 0, 3200),
    # two units of 8 x 4 uplinks, one half sends to the other what 32 of them carry
    "two units": (lambda: [sim.rail_optimised(units=2)], 16, 800, 800, 6400),
    # 3 uplinks for 6 hosts: units send 8 x 3 x 200
    "two units, narrow above": (lambda: [sim.rail_optimised(6, spines=3, units=2)], 16, 1200, 600, 4800),
    # 4 units send 16 x 200, spines to cores only 8 x 200 each
    "three tiers": (lambda: [sim.three_tier()], 16, 800, 800, 3200),
    # 8 ports a leaf on 4 uplinks; 4 leaves send 800 each
    "fat tree": (lambda: [sim.fat_tree()], 4, 1600, 800, 1600),
    "single switch": (lambda: [sim.single_switch()], 1, 6400, 0, 3200),
    # 6 hosts of 4 ports in each plane
    "dual plane": (lambda: sim.dual_plane(), 8, 1200, 400, 4800),
}


def sound(answer):
    return (answer["verdict"], answer["code"], faults(answer), answer["exclude"]) == ("healthy", 0, [], "")


@pytest.mark.parametrize("shape", SHAPES)
def test_a_sound_fabric_is_silent_and_measured(shape, ask):
    make, leaves, host_gbit, uplink_gbit, bisection = SHAPES[shape]
    answer = ask(*(net.listing() for net in make()))
    assert sound(answer)
    seen = answer["rails"]["leaves"]
    rates = {(leaf["host_gbit_per_s"], leaf["uplink_gbit_per_s"]) for leaf in seen}
    assert (len(seen), rates) == (leaves, {(host_gbit, uplink_gbit)})
    assert {leaf["oversubscription"] for leaf in seen} == {host_gbit / uplink_gbit if uplink_gbit else None}
    assert answer["rails"]["bisection_gbit_per_s"] == bisection


@pytest.mark.parametrize("shape", sorted(SHAPES.keys() - {"rails only"}))  # a program on one rail sees no other
@real
def test_a_sound_fabric_under_the_real_tools_is_silent(shape, ask):
    make, leaves, *_ = SHAPES[shape]
    outputs = []
    for net in make():
        with sim.running(net) as tool:
            outputs.append([tool("ibnetdiscover"), tool("iblinkinfo")])
    for texts in zip(*outputs, strict=True):
        answer = ask(*texts)
        assert sound(answer)
        assert len(answer["rails"]["leaves"]) == leaves


@pytest.mark.parametrize("oddity", edits.SOUND)
def test_what_is_meant_to_be_so_is_no_fault(oddity, ask):
    net = sim.rail_optimised()
    oddity(net)
    assert sound(ask(net.listing()))


@pytest.mark.parametrize("fault", [edits.narrow, edits.slow, edits.missing, edits.narrow_uplink, edits.missing_uplink])
@pytest.mark.parametrize("oddity", [edits.storage, edits.aggregation, edits.modular, edits.slow_management])
def test_a_fault_is_found_beside_what_is_meant_to_be_so(fault, oddity, ask):
    net = sim.rail_optimised()
    oddity(net)
    rule, *words = fault(net)
    if oddity is edits.modular:
        words = [word.replace("spine3", "core/S03/U1") for word in words]
    assert_names(ask(net.listing()), rule, *words)


def test_switches_of_one_name_are_named_by_guid(ask):
    net = sim.rail_optimised()
    edits.factory_switches(net)
    edits.narrow(net)
    assert_names(ask(net.listing()), "NET002", "gpu03 mlx5_5", f"0x{net.guid('leaf-u1-r5')} port 3")


@pytest.mark.parametrize("fault", [edits.narrow, edits.missing, edits.narrow_uplink, edits.missing_uplink])
def test_a_cut_listing_accuses_nobody_falsely(fault):
    """What is not there may merely not be listed; what is there is as it was."""
    net = sim.rail_optimised()
    fault(net)
    text = net.listing()
    (whole,) = judged(text)
    for length in range(0, len(text), 331):
        assert set(judged(text[:length])) <= {whole}, text[:length][-200:]


@pytest.mark.parametrize("head", ["", 'Switch\t40 "S-02ba', 'Rt\t1 "R-02badc0ffe00ff00"\t# "router"'])
def test_cables_of_a_record_whose_head_is_damaged_are_not_another_switchs(head):
    lines = sim.rail_optimised(units=2).listing().split("\n")
    heads = [i for i, line in enumerate(lines) if line.startswith("Switch")]
    assert len(heads) == 20
    whole = listing("\n".join(lines), "")
    for at in heads:
        found = listing("\n".join([*lines[:at], head, *lines[at + 1 :]]), "")
        assert set(found.trunks) <= set(whole.trunks) and set(found.cables) <= set(whole.cables)


def judged(*texts, nodes=()):
    """Faults of cables, by rule and what is named first."""
    listings = [found for text in texts if (found := listing(text, "")) is not None]
    return [(f.rule, *f.message.split()[:2]) for f in cable_faults(tree(listings), nodes)]


@pytest.mark.parametrize("rail", [3, 6])
def test_the_same_cable_missing_on_two_nodes_is_two_faults(rail):
    """mlx5_3 is there, for there is an mlx5_4."""
    net = sim.rail_optimised(8)
    for host in ("gpu02", "gpu05"):
        del net.cables[sim.hca(host, rail)]
    assert judged(net.listing()) == [("NET001", host, f"mlx5_{rail}:") for host in ("gpu02", "gpu05")]


def test_a_last_card_that_several_nodes_do_not_have_is_no_fault():
    net = sim.rail_optimised(8)
    for host in ("gpu02", "gpu05"):
        del net.cables[sim.hca(host, 7)]
    assert judged(net.listing()) == []


def test_a_fabric_that_two_tools_list_is_counted_once(ask):
    net = sim.rail_optimised()
    twice = ask(net.listing(), net.listing())
    assert twice["rails"]["leaves"] == ask(net.listing())["rails"]["leaves"]


@pytest.mark.parametrize("fault", [edits.narrow_uplink, edits.slow_uplink, edits.missing_uplink])
def test_a_fault_between_switches_accuses_no_node(fault, ask):
    net = sim.rail_optimised()
    fault(net)
    assert ask(net.listing())["exclude"] == ""


@pytest.mark.parametrize(
    ("make", "tiers"),
    [
        (sim.rail_optimised, ["tiers: 8 leaves, 4 spines"]),
        (sim.three_tier, ["tiers: 16 leaves, 8 spines, 2 cores"]),
        (sim.single_switch, []),
    ],
)
def test_the_tiers_are_told_apart_and_a_management_host_makes_no_leaf(make, tiers, ask):
    assert [note for note in ask(make().listing())["rails"]["notes"] if "tiers" in note] == tiers


def test_slow_above_the_spines(ask):
    net = sim.three_tier()
    (end, *_) = net.trunks("spine-u2-1", "core2")
    net.odd[end] = (4, "FDR")
    far = net.cables[end]
    assert_names(ask(net.listing()), "NET002", f"spine-u2-1 port {end[1]}", f"core2 port {far[1]}", "4x FDR (56 Gb/s)")


@pytest.mark.parametrize("nics", [1, 2])
def test_a_missing_cable_of_a_plain_tree_is_said_where_a_sister_port_tells_the_leaf(nics, ask):
    net = sim.fat_tree(nics=nics)
    del net.cables[sim.hca("gpu06", nics - 1)]
    if nics == 1:  # the whole node is unseen: nothing tells that it should be there
        assert sound(ask(net.listing()))
    else:
        assert_names(ask(net.listing()), "NET001", "gpu06 mlx5_1", "leaf2")


def test_two_subnets_are_two_fabrics(ask):
    """A fault in one is said with the GUID of its switch, for both have switches of that name."""
    one, two = sim.dual_plane()
    two.odd["gpu04 mlx5_6", 1] = (1, "HDR")
    assert_names(ask(one.listing(), two.listing()), "NET002", "gpu04 mlx5_6", f"0x{two.guid('leaf-u1-r2')} port 4")


# -- Together with the nodes' own reports.


def reports(net, state="active"):
    """Of four nodes that call themselves and their NICs otherwise than the listing does. `state`: of the ports without
    a cable."""

    def port(host, rail):
        own, bdf = "active" if sim.hca(host, rail) in net.cables else state, f"0000:{rail + 1:02x}:00.0"
        guid = net.port_guid(f"{host} mlx5_{rail}")
        return RailPort(f"ibp{rail}", bdf, 1, rail, guid, own, "infiniband", 200.0, None, None, None, None, None)

    kind, time = Kind("HGX H100", "H100", 8, 8), "2026-11-20T03:04:05Z"
    return [
        NodeRecord(f"{host}.site", time, "", "", "healthy", kind, (), (), 0, (), ports, None)
        for host in sim.hosts(4)
        for ports in [tuple(port(host, rail) for rail in range(8))]
    ]


@pytest.mark.parametrize("named", [True, False])
def test_a_port_is_known_by_its_guid_whatever_the_listing_calls_it(named):
    net = sim.rail_optimised()
    edits.narrow(net)
    if not named:
        net.rename |= {sim.hca("gpu03", rail)[0]: "MT4123 ConnectX6   Mellanox Technologies" for rail in range(8)}
    (fault,) = cable_faults(tree([listing(net.listing(), "")]), reports(net))
    (end,) = fault.ends
    assert (end.host, end.nic, end.bdf, end.guid) == (
        "gpu03.site",
        "ibp5",
        "0000:06:00.0",
        net.port_guid("gpu03 mlx5_5"),
    )
    assert (end.leaf, end.leaf_port) == ("leaf-u1-r5", "3")


def test_a_port_that_its_node_sees_active_lacks_no_cable():
    net = sim.rail_optimised()
    edits.missing(net)
    assert judged(net.listing(), nodes=reports(net)) == []
    (fault,) = cable_faults(tree([listing(net.listing(), "")]), reports(net, "down"))
    (end,) = fault.ends
    assert (end.host, end.nic, end.bdf, end.expected_leaf) == ("gpu01.site", "ibp6", "0000:07:00.0", "leaf-u1-r6")


# -- 16 leaves of 64 hosts.


def large(units=1):
    return sim.rail_optimised(64, rails=16, spines=16, units=units, ports=96)


@real
def test_a_thousand_cables_under_the_real_tools(ask):
    net = large()
    net.odd[sim.hca("gpu33", 9)] = (1, "HDR")
    with sim.running(net) as tool:
        for form in FORMS:
            answer = ask(tool(*form))
            assert_names(answer, "NET002", "gpu33 mlx5_9", "leaf-u1-r9 port 33", "63 of 64")
            assert len(answer["rails"]["leaves"]) == 16


def seconds(work):
    """The least of three."""
    took = []
    for _ in range(3):
        started = time.process_time()
        work()
        took.append(time.process_time() - started)
    return min(took)


def test_the_time_grows_with_the_number_of_cables():
    """Four times the cables, 4,096 of hosts: sixteenfold if each were compared with each."""
    texts = [large(units).listing() for units in (1, 4)]
    took = [seconds(lambda text=text: cable_faults(tree([listing(text, "")]), ())) for text in texts]
    assert took[1] < 8 * took[0]


@pytest.mark.parametrize(
    "text",
    [
        '[1]\t"S-02badc0ffe000100"[1]\t\t# "' + "x" * 2_000_000,
        "[1]" + " " * 2_000_000,
        "CA 1 1 0x02badc0ffe000100 4x HDR - SW" + " 1" * 1_000_000,
        '0x02badc0ffe000100 "a" 1 1[  ] ==(' + " 4X" * 1_000_000,
        "\n".join(["[1](2badc0ffe000101)"] * 50_000),
    ],
)
def test_what_looks_like_a_listing_costs_little(text):
    head = sim.rail_optimised().listing()
    link = '0x02badc0ffe000200 "a" 2 1[  ] ==( 4X 53.125 Gbps Active/ LinkUp)==> 0x02badc0ffe000300 3 1[  ] "b" ( )'
    for known in (head, link):
        started = time.process_time()
        assert listing(f"{known}\n{text}", "") is not None
        assert time.process_time() - started < 5


def test_listings_of_different_times_are_told(ask):
    net = sim.rail_optimised()
    before = net.listing()
    net.swap(("gpu02", 3), ("gpu02", 4))
    answer = ask(before, net.listing())
    assert faults(answer) == []
    assert answer["rails"]["notes"][0].startswith("the listings have different hosts in 2 switch ports")
    assert not [note for note in ask(before, before)["rails"]["notes"] if "different" in note]
    two_planes = ask(*(net.listing() for net in sim.dual_plane()))
    assert not [note for note in two_planes["rails"]["notes"] if "different" in note]
