"""A thousand nodes, and all that comes with their reports: few are bad, and exactly those are named; what is no report
costs itself and is counted. TOPOCHECK_SOAK=1: ten thousand."""

import json
import os
import re

import fleetsim
import pytest
from costs import cost

from topocheck.cli import run
from topocheck.fleet.hosts import expand

SOAK = os.environ.get("TOPOCHECK_SOAK") == "1"
COUNT = 10_000 if SOAK else 1_000
SEEDS = range(4) if SOAK else (8,)


@pytest.fixture
def ask(tmp_path):
    """The document of `topocheck fleet … --format json`."""

    def asked(*words):
        out = tmp_path / "answer.json"
        run(["fleet", "--format", "json", "--output", str(out), *map(str, words)])
        return json.loads(out.read_text())

    return asked


def hosts(text):
    return set(expand(text)) if text else set()


def accused(document):
    """Every host about which something is said that is more than a note."""
    found = {h for g in document["groups"] if g["severity"] != "info" for h in hosts(g["hosts"])}
    found |= {h for u in document["unlike"] if u["accused"] for o in u["others"] for h in hosts(o["hosts"])}
    found |= {end["host"] for fault in document["rails"]["faults"] for end in fault["ends"]}
    found |= hosts(document["missing"]) | hosts(document["exclude"]) | hosts(document["unexpected"])
    return found | hosts(document["hosts"]["failed"]) | hosts(document["hosts"]["degraded"])


def told(document, fault):
    """Whether what must be said of a fault is said of its host; of cabling with the ports by name."""
    if fault.said == "missing":
        return fault.host in hosts(document["missing"])
    if fault.said == "unlike":
        others = [other for u in document["unlike"] if u["accused"] for other in u["others"]]
        return any(fault.host in hosts(other["hosts"]) for other in others)
    if fault.said.startswith("RAIL00") and fault.said != "RAIL003":
        faults = [f for f in document["rails"]["faults"] if f["rule"] == fault.said]
        return any({e["host"] for e in f["ends"]} == {fault.host} and names(f) >= set(fault.subjects) for f in faults)
    rows = [g for g in document["groups"] if g["rule"] == fault.said and g["severity"] == fault.severity]
    return any(fault.host in hosts(g["hosts"]) for g in rows)


def names(fault):
    """The NICs that a cabling fault speaks of."""
    return set(re.findall(r"mlx5_\d+", fault["message"])) | {end["nic"] for end in fault["ends"]}


def check(ask, folder, fleet):
    """What was injected is told, and of nobody else anything."""
    (folder / "fabric").write_text(fleet.listing())
    document = ask(fleet.write(folder / "nodes.jsonl"), folder / "fabric", "--expect", ",".join(fleet.hosts))
    assert [fault for fault in fleet.injected if not told(document, fault)] == []
    assert accused(document) == fleet.accused
    assert document["nodes"] == len(fleet.hosts) - sum(fault.said == "missing" for fault in fleet.injected)
    assert sum(document["unread"].values()) == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_three_random_faults_are_found_and_nobody_else_is_accused(ask, tmp_path, seed):
    check(ask, tmp_path, fleetsim.simulate(COUNT, faults=3, seed=seed))


def test_many_faults_are_found_and_nobody_else_is_accused(ask, tmp_path):
    """One node in twelve has one, of nearly every kind there is."""
    check(ask, tmp_path, fleetsim.simulate(3_600 if SOAK else 240, faults=300 if SOAK else 20, seed=5))


def test_a_fleet_between_two_versions_accuses_nobody(ask, tmp_path):
    """Three nodes in ten have the new driver and firmware already, in every platform but that of three nodes."""
    lines = list(fleetsim.simulate(300).lines())
    upgraded = [number for number in range(len(lines)) if number % 10 < 3]
    for number in upgraded:
        changed = lines[number].replace('"driver":"580.95.05"', '"driver":"590.44.01"')
        lines[number] = changed.replace('"firmware":"28.43.2026"', '"firmware":"28.47.1088"')
    (tmp_path / "nodes").write_text("".join(lines))
    document = ask(tmp_path / "nodes")
    assert (document["verdict"], accused(document)) == ("healthy", set())
    shown = {u["field"]: u["share"] for u in document["unlike"]}
    assert shown["driver"] == pytest.approx(0.7, abs=0.02), "it is shown, nobody is accused"


def test_what_it_costs(tmp_path):
    """The issue's limits: 6 s for 1,000 nodes, 60 s and 1 GB for 10,000; of CPU time, since others are at work, too."""
    fleet = fleetsim.simulate(COUNT, faults=3, seed=1)
    (tmp_path / "fabric").write_text(fleet.listing())
    reports = fleet.write(tmp_path / "nodes.jsonl")
    taken = cost("fleet", reports, "--fabric", tmp_path / "fabric", "--expect", ",".join(fleet.hosts))
    assert taken.cpu_s < 6 * COUNT / 1_000
    assert taken.peak_mb < 1024 * COUNT / 10_000, "streaming: nothing of a report is kept but a small record"
