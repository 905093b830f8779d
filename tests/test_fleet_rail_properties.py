"""Rails of any cluster: one fault is named alone, chance accuses nobody, and ten thousand nodes take seconds."""

import random
import time

import plant
from hypothesis import given, settings
from hypothesis import strategies as st
from plant import EVIDENCE, Plant, ends, only_fault, railed, seen, wanted

from topocheck.fleet.fabric import HostCable, Listing
from topocheck.fleet.rails import rails
from topocheck.fleet.record import RailPort
from topocheck.names import NameSet

SHAPES = st.sampled_from(["rails", "two on a leaf", "planes by port"])
FAULTS = st.sampled_from(["exchange on a node", "exchange of two nodes", "stray", "round", "mirror"])


@st.composite
def clusters(draw):
    """A cluster of up to three pods, with its rails, and how to make it again."""
    shape, pods, nodes = draw(SHAPES), draw(st.integers(1, 3)), draw(st.integers(5, 7))
    count = draw(st.integers(6 if shape == "two on a leaf" else 4, 8))

    def make():
        found = Plant()
        for pod in range(pods):
            part = railed(nodes, count, "abc"[pod], per_leaf=1 + (shape == "two on a leaf"), first=1 + pod * nodes)
            if shape == "planes by port":
                part.leaf |= {(h, r, 2): f"second-{leaf}" for (h, r, _), leaf in part.leaf.items()}
            found |= part
        return found

    return make


def break_it(cluster, fault, dice):
    """The ports whose cables are moved; () where the fault would change nothing."""
    host, other = dice.sample([h for h in cluster.hosts if cluster.leaf[h, 0, 1] == cluster.leaf["gpu001", 0, 1]], 2)
    own, others = ([key for key in cluster.leaf if key[0] == h] for h in (host, other))
    before = dict(cluster.leaf)
    if fault == "exchange on a node":
        cluster.swap(*dice.sample(own, 2))
    elif fault == "exchange of two nodes":
        cluster.swap(dice.choice(own), dice.choice(others))
    elif fault == "stray":
        cluster.leaf[dice.choice(own)] = dice.choice(["another-leaf", cluster.leaf[dice.choice(own)]])
    elif fault == "round":
        a, b, c = dice.sample(own, 3)
        if len({before[key] for key in (a, b, c)}) == 3:
            cluster.leaf |= {a: before[b], b: before[c], c: before[a]}
    else:
        last = max(rail for _, rail, _ in own)
        cluster.leaf |= {(h, r, p): before[h, last - r, p] for h, r, p in own}
    return [key for key in before if before[key] != cluster.leaf[key]]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(clusters(), st.sampled_from(sorted(EVIDENCE)), FAULTS, st.integers(0, 10**6))
def test_any_cluster_and_any_one_fault(make, evidence, fault, seed):
    cluster = make()
    assert seen(cluster, evidence).faults == ()
    moved = break_it(cluster, fault, random.Random(seed))
    answer = seen(cluster, evidence)
    if moved:
        assert ends(only_fault(answer)) == wanted(cluster, make(), *moved)
        assert answer.faults[0].rule == ("RAIL002" if fault == "stray" else "RAIL001")
    else:
        assert answer.faults == ()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(5, 40), st.integers(3, 8), st.integers(0, 10**6))
def test_ports_cabled_by_chance_accuse_nobody(nodes, count, seed):
    dice = random.Random(seed)
    leaves = [f"leaf{i}" for i in range(1, count + 1)]
    cluster = Plant({(h, r, 1): dice.choice(leaves) for h in plant.hosts_of(nodes) for r in range(count)})
    assert [f for f in seen(cluster).faults if f.ends] == []


def test_ten_thousand_nodes():
    """80,000 ports in pods of 40 nodes and three faults, found among them in 3 s of a core."""
    cluster = Plant()
    for pod in range(250):
        cluster.leaf |= railed(40, 8, f"p{pod}-", first=1 + pod * 40).leaf
    place = {host: i for i, host in enumerate(cluster.hosts)}
    cluster.guid = lambda host, rail, port: f"{place[host]:08x}:{rail:02x}{port:02x}"
    cluster.switch_port = lambda key: str(place[key[0]] % 40)
    cluster.swap(("gpu100", 1, 1), ("gpu100", 2, 1))
    cluster.swap(("gpu5000", 1, 1), ("gpu5001", 2, 1))
    cluster.leaf["gpu9999", 3, 1] = cluster.leaf["gpu9999", 4, 1]
    records, listing = cluster.records(seen=False), cluster.listing()
    start = time.process_time()
    answer = rails(records, [listing])
    took_s = time.process_time() - start
    assert [sorted({e.host for e in f.ends}) for f in answer.faults] == [
        ["gpu100"],
        ["gpu5000", "gpu5001"],
        ["gpu9999"],
    ]
    assert took_s < 3


NAMES = st.sampled_from(["a", "b1", "b2", "b3", "gpu-x", "名", ""])
CABLES = st.builds(
    HostCable, host=st.none() | NAMES, device=st.none() | st.sampled_from(["mlx5_1", "mlx5_10", "²", "x"]),
    guid=st.none() | st.sampled_from(["g1", "g2", "g3"]), lid=st.none(), port=st.none() | st.integers(0, 3),
    switch=NAMES, switch_port=NAMES, rate_gbit_per_s=st.none() | st.sampled_from([0.0, 100.0, 400.0]),
    width=st.none(), speed=st.none(), by=st.just("iblinkinfo"), description=NAMES,
)  # fmt: skip
PORTS = st.builds(
    RailPort, nic=NAMES, bdf=st.none() | st.sampled_from(["0000:1a:00.0", "0000:3c:00.0"]), port=st.integers(0, 2),
    rail=st.none() | st.integers(0, 9), guid=st.none() | st.sampled_from(["g1", "g2", "g3"]),
    state=st.sampled_from([None, "active", "down"]),
    link_layer=st.sampled_from([None, "ethernet", "infiniband", "efa"]),
    rate_gbit_per_s=st.none(), subnet=st.none() | NAMES, netdev=st.none(), leaf=st.none() | NAMES,
    leaf_port=st.none() | NAMES, by=st.sampled_from([None, "lldp"]),
)  # fmt: skip


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(st.lists(PORTS, max_size=5), max_size=6),
    st.lists(CABLES, max_size=20),
    st.sampled_from([(), (NameSet("a"), NameSet("b*"))]),
)
def test_odd_records_and_listings_are_taken_as_they_are(ports, cables, patterns):
    records = [railed(1).records()[0]._replace(host=f"h{i}", ports=tuple(p)) for i, p in enumerate(ports)]
    answer = rails(records, [Listing("odd", tuple(cables), (), ())], patterns)
    assert {f.rule for f in answer.faults} <= {"RAIL001", "RAIL002", "RAIL004"}
    assert (answer.why_none is None) == bool(answer.pods)
