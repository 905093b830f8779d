"""What topocheck says of facts: the engine's own steps, without a source and a report."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

from topocheck.build import build
from topocheck.check import Answers, ask
from topocheck.facts import Fact
from topocheck.finding import Finding
from topocheck.graph import Topology
from topocheck.judgement import chosen, judged
from topocheck.policy import Policy

TODAY = date(2026, 11, 29)


class Diagnosis(NamedTuple):
    """The node, every rule's answer, and the findings that stand."""

    topology: Topology
    answers: Answers
    findings: tuple[Finding, ...]

    @property
    def grave(self) -> list[Finding]:
        """Those at warning or above."""
        return [f for f in self.findings if f.severity != "info"]

    def ran(self, rule: str) -> bool:
        """Whether a rule ran whole: neither skipped, not even partly, nor not applicable."""
        return all(s.rule != rule for s in self.answers.skipped) and all(
            r != rule for r, _ in self.answers.not_applicable
        )


def diagnose(facts: Iterable[Fact]) -> Diagnosis:
    """Build, every rule, one cause one finding, prices and severities by the default policy."""
    return judge(build(facts))


def judge(topology: Topology) -> Diagnosis:
    """The same of a node that is built already."""
    policy = Policy()
    answers = ask(topology, chosen(policy, (), ()))
    return Diagnosis(topology, answers, tuple(judged(topology, answers.findings, policy, None, TODAY)))
