"""Properties over random nodes (tests/nodesim): healthy ones are silent, a fault is told where it is, a repair helps.

TOPOCHECK_SOAK=1 runs more of them (`make soak`), TOPOCHECK_MUTANT=1 a third and shrinks nothing (tests/mutate.py).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from diagnosis import Diagnosis, diagnose, judge
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from nodesim import INPUTS, capture, facts, faults_gpus, faults_links, faults_nics, oracle, place, shapes
from nodesim.faults import Fault
from nodesim.layout import Layout
from nodesim.spec import Node

from topocheck.check import check
from topocheck.finding import SEVERITIES, Finding
from topocheck.model import Scenario, bandwidth
from topocheck.patches import patched
from topocheck.rules import ALL

SOAK = os.environ.get("TOPOCHECK_SOAK") == "1"
MUTANT = os.environ.get("TOPOCHECK_MUTANT") == "1"
BUILT = {rule.ID for rule in ALL}
MAKERS = {maker.__name__: maker for module in (faults_links, faults_gpus, faults_nics) for maker in module.MAKERS}


def some(soak: int, test: int):
    """Settings: how many nodes in the soak, how many in a plain run."""
    return settings(
        max_examples=soak if SOAK else test // 3 if MUTANT else test,
        phases=(Phase.explicit, Phase.generate) if MUTANT else tuple(Phase),
        derandomize=not SOAK,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


@st.composite
def some_inputs(draw: st.DrawFn, node: Node) -> frozenset[str]:
    """Mostly all inputs, else some are missing; kinds of NICs must be told apart by ports or by device ids."""
    if draw(st.integers(0, 2)):
        return INPUTS
    chosen = frozenset(draw(st.sets(st.sampled_from(sorted(INPUTS)), min_size=1)))
    kinds = {(n.intent, n.part.device_id) for n in node.nics}
    alike = len({intent for intent, _ in kinds}) > len({device for _, device in kinds})
    unnamed = "lspci" not in chosen and len(kinds) > 1
    return chosen | {"rdma"} if alike or unnamed else chosen


@st.composite
def faulty(draw: st.DrawFn, makers: tuple[str, ...] = tuple(MAKERS)) -> tuple[Node, Fault]:
    """A healthy node and a fault it can have."""
    node = draw(shapes.nodes())
    first = draw(st.integers(0, len(makers) - 1))
    for name in (*makers[first:], *makers[:first]):
        fault = MAKERS[name](draw, node)
        if fault is not None and (not fault.rules or BUILT & set(fault.rules)):
            return node, fault
    assume(False)
    raise AssertionError


def numbered(draw, node: Node) -> Layout:
    return place(node, draw(shapes.numberings(node)))


def uids(layout: Layout, finding: Finding) -> frozenset[str]:
    """The subjects of a finding, by uid."""
    return frozenset(layout.uids.get(subject, subject) for subject in finding.subjects)


def tells(layout: Layout, finding: Finding, fault: Fault) -> bool:
    return finding.rule in fault.rules and all(uids(layout, finding) & wanted for wanted in fault.subjects)


def followed(layout: Layout, finding: Finding, fault: Fault) -> bool:
    """Whether the finding brings the fault along in `follows`."""
    for entry in finding.follows:
        rule, *subjects = entry.split()
        found = {layout.uids.get(subject, subject) for subject in subjects}
        if rule in fault.rules and all(found & wanted for wanted in fault.subjects):
            return True
    return False


def explained(layout: Layout, finding: Finding, fault: Fault) -> bool:
    """Whether a fault accounts for a finding: its own rule on what it touches, or a rule that may stand besides."""
    touched = uids(layout, finding) & fault.touches or not finding.subjects or not fault.touches
    return finding.rule in fault.also or (finding.rule in fault.rules and bool(touched))


def said(diagnosis: Diagnosis) -> list[str]:
    return [f"{f.rule} {f.severity} {f.subjects} {f.message} <- {f.follows}" for f in diagnosis.findings]


@some(2000, 300)
@given(st.data())
def test_healthy_nodes_are_silent(data):
    node = data.draw(shapes.nodes())
    diagnosis = diagnose(facts(numbered(data.draw, node), data.draw(some_inputs(node))))
    assert [f"{f.rule} {f.severity} {f.subjects} {f.message}" for f in diagnosis.grave] == []


@some(2000, 300)
@given(st.data())
def test_one_fault_is_told_where_it_is_and_nothing_else(data):
    node, fault = data.draw(faulty())
    given_inputs = data.draw(some_inputs(node))
    layout = numbered(data.draw, fault.apply(node))
    diagnosis = diagnose(facts(layout, given_inputs))
    least = SEVERITIES.index(fault.told_as)
    loud = [f for f in diagnosis.findings if SEVERITIES.index(f.severity) >= least]
    told = [f for f in loud if tells(layout, f, fault)]
    if fault.rules and fault.suffices(given_inputs):
        assert told or any(followed(layout, f, fault) for f in loud), said(diagnosis)
    if fault.hidden(given_inputs):
        assert not told
    if fault.blind(given_inputs):
        assert not any(diagnosis.ran(rule) for rule in fault.rules if rule in BUILT)
    for finding in told:
        assert SEVERITIES.index(finding.severity) <= SEVERITIES.index(fault.gravest(given_inputs)), said(diagnosis)
        assert finding.evidence
    others = [f for f in diagnosis.grave if not explained(layout, f, fault)]
    assert not others, said(diagnosis)


@some(600, 100)
@given(st.data())
def test_two_faults_are_both_told(data):
    node, first = data.draw(faulty())
    second = data.draw(second_fault(node, first))
    layout = numbered(data.draw, second.apply(first.apply(node)))
    diagnosis = diagnose(facts(layout))
    for fault in (first, second):
        if fault.rules and fault.suffices(INPUTS):
            found = [f for f in diagnosis.findings if tells(layout, f, fault) or followed(layout, f, fault)]
            assert found, (fault.name, said(diagnosis))
    others = [f for f in diagnosis.grave if not any(explained(layout, f, fault) for fault in (first, second))]
    assert not others, said(diagnosis)


@st.composite
def second_fault(draw: st.DrawFn, node: Node, first: Fault) -> Fault:
    """A fault of the same node that touches nothing the first one touches; of two, one at most moves cards."""
    name = draw(st.sampled_from(tuple(MAKERS)))
    fault = MAKERS[name](draw, node)
    assume(fault is not None and (not fault.rules or BUILT & set(fault.rules)))
    assert fault is not None
    assume(not fault.touches & first.touches and fault.name != first.name)
    for one, other in ((fault, first), (first, fault)):  # a card more or less may change the roles of all cards
        assume(not (one.moves and (other.moves or any(uid.startswith("n") for uid in other.touches))))
    return fault


def verdict(layout: Layout, diagnosis: Diagnosis, groups: dict[str, str]) -> set[tuple[str, str, frozenset[str]]]:
    """Rule, severity and subjects by uid; devices that are alike to their group by the group's name."""
    return {(f.rule, f.severity, frozenset(groups.get(uid, uid) for uid in uids(layout, f))) for f in diagnosis.grave}


@some(600, 100)
@given(st.data())
def test_numbers_and_names_change_nothing(data):
    node, fault = data.draw(faulty())
    ill = fault.apply(node)
    groups = (
        {uid: f"beside {min(oracle.beside(node, uid))}" for uid in [g.uid for g in node.gpus]} if fault.moves else {}
    )
    one, other = (numbered(data.draw, ill) for _ in range(2))
    shuffled = data.draw(st.permutations(facts(other)))
    first, second = diagnose(facts(one)), diagnose(shuffled)
    assert verdict(one, first, groups) == verdict(other, second, groups), (said(first), said(second))


def scenarios(topology) -> list[Scenario]:
    """Every scenario whose bandwidth a repair must not lower."""
    found = [Scenario("node-nics"), Scenario("ring")]
    found += [Scenario(kind, gpu.id) for gpu in topology.gpus for kind in ("gpu-nic", "gpu-host", "nvlink")]
    return found + [Scenario("nic-host", nic.id) for nic in topology.compute_nics]


@some(600, 100)
@given(st.data())
def test_a_repair_silences_its_finding_and_slows_nothing(data):
    node, fault = data.draw(faulty())
    layout = numbered(data.draw, fault.apply(node))
    diagnosis = diagnose(facts(layout))
    for finding in diagnosis.grave:
        if not finding.patches:
            continue
        repaired = patched(diagnosis.topology, finding.patches)
        again = [f for f in judge(repaired).grave if f.rule == finding.rule and set(f.subjects) & set(finding.subjects)]
        assert not again, (finding.patches, said(diagnosis))
        for scenario in scenarios(diagnosis.topology):
            before, after = bandwidth(diagnosis.topology, scenario), bandwidth(repaired, scenario)
            if before is None or after is None:
                continue
            assert after.slowest_gb_per_s >= before.slowest_gb_per_s * 0.999, (scenario, finding.patches)
            if scenario.kind in ("node-nics", "ring"):
                assert after.gb_per_s >= before.gb_per_s * 0.999, (scenario, finding.patches)


@some(150, 15)
@given(st.data())
def test_rendered_text_says_what_the_facts_say(data):
    only_in_sysfs = ("numa_unknown", "translating")  # lspci prints neither -1 nor the type of an IOMMU group
    makers = tuple(name for name in MAKERS if name not in only_in_sysfs)
    node, fault = data.draw(faulty(makers))
    ill = data.draw(st.sampled_from((node, fault.apply(node))))
    layout = numbered(data.draw, ill)
    by_facts = diagnose(facts(layout))
    with tempfile.TemporaryDirectory() as folder:
        checked = check(str(capture(layout, Path(folder) / "capture")))
    assert not checked.report.gaps
    assert verdict(layout, by_facts, {}) == {
        (f.rule, f.severity, uids(layout, f)) for f in checked.report.findings if f.severity != "info"
    }, [f"{f.rule} {f.severity} {f.subjects} {f.message}" for f in checked.report.findings] + said(by_facts)
    if ill is node:
        assert checked.report.verdict == "healthy"
