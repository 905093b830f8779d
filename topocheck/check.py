"""The engine: source → probes → build → rules → price → Report. It knows no tool, no fault and no format."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timezone
from threading import Thread
from typing import NamedTuple

from topocheck import __version__
from topocheck.assemble import (
    assumptions_of,
    missing_evidence,
    nearest_nics,
    nvlink_bundles,
    pairs_of,
    rows_of,
    verdict_of,
)
from topocheck.build import build, preload
from topocheck.finding import Answer, Finding, NotApplicable, Rule, Skip
from topocheck.graph import Topology
from topocheck.judgement import chosen, expecting, judged
from topocheck.nccl import summary
from topocheck.policy import Policy
from topocheck.pricing import together
from topocheck.probes.gather import gather, recognised
from topocheck.report import Coverage, Report, Skipped, SourceLabel
from topocheck.rules import ALL
from topocheck.sources.base import Source
from topocheck.sources.open import open_source

NOTHING: Mapping[str, Answer] = {}


class Checked(NamedTuple):
    """The report, and the node it speaks of."""

    report: Report
    topology: Topology


class Answers(NamedTuple):
    """What all rules said."""

    findings: list[Finding]
    skipped: list[Skipped]
    not_applicable: list[tuple[str, str]]


def check(
    spec: str | Source | None = None,
    *,
    policy: Policy | None = None,
    select: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
    root: str | None = None,
    tools: str | None = None,
    budget_s: float = 20.0,
) -> Checked:
    """Diagnose what `spec` names: a path, "-" for standard input, None for this machine; or an open source.

    `select` and `ignore` win over those of the policy. Raises SourceError when the input cannot be opened, UsageError
    for an unknown rule or a baseline that cannot be read.
    """
    started = time.monotonic()
    policy = policy or Policy()
    rules = chosen(policy, select, ignore)
    if spec is None or isinstance(spec, str):
        source = open_source(spec, root=root, budget_s=budget_s, tools=tools)
    else:
        source = spec
    return examine(source, rules, policy, started)


def examine(
    source: Source,
    rules: dict[str, Rule],
    policy: Policy,
    started: float,
    *,
    set_aside: Mapping[str, Answer] = NOTHING,
) -> Checked:
    """Diagnose what a source says. `set_aside`: rules that are not asked, and what is said for them; `started` by
    time.monotonic()."""
    if source.kind == "live":
        Thread(target=preload, daemon=True).start()
    facts = gather(source)
    node = build(facts, compute_nics=policy.compute_nics)
    host = source.manifest.host or node.machine.hostname
    node = expecting(node, policy, host)
    answers = ask(node, rules, set_aside)
    findings = judged(node, answers.findings, policy, host, datetime.now(timezone.utc).date())
    missing = missing_evidence(node, policy.evidence(live=source.kind == "live"))
    return Checked(_report(source, node, answers, findings, missing, recognised(facts), started), node)


def ask(node: Topology, rules: dict[str, Rule], set_aside: Mapping[str, Answer] = NOTHING) -> Answers:
    """Every rule's answers, sorted into findings, skips and what does not apply; `ALL` in its order."""
    answers = Answers([], [], [])
    for rule in ALL:
        if rule.ID not in rules:
            answers.not_applicable.append((rule.ID, "not selected"))
            continue
        found = [set_aside[rule.ID]] if rule.ID in set_aside else list(rule.check(node))
        answers.findings.extend(a for a in found if isinstance(a, Finding))
        ran = any(isinstance(a, Finding) for a in found)
        for answer in found:
            if isinstance(answer, Skip):
                answers.skipped.append(Skipped(rule.ID, answer.partial or ran, answer.reason))
            elif isinstance(answer, NotApplicable) and not ran:
                answers.not_applicable.append((rule.ID, answer.reason))
    return answers


def _report(
    source: Source,
    node: Topology,
    answers: Answers,
    findings: tuple[Finding, ...],
    missing: str | None,
    known: bool,
    started: float,
) -> Report:
    not_applicable = len({rule for rule, _ in answers.not_applicable})
    skipped = len({s.rule for s in answers.skipped if not s.partial})
    coverage = Coverage(len(ALL) - skipped - not_applicable, skipped, not_applicable)
    verdict, reason = verdict_of(node, findings, coverage, missing)
    machine, manifest = node.machine, source.manifest
    return Report(
        version=__version__,
        host=manifest.host or machine.hostname,
        time=manifest.time or datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        duration_s=round(time.monotonic() - started, 3),
        privileged=manifest.privileged,
        boot_id=machine.boot_id,
        driver=machine.driver,
        kernel=machine.kernel,
        fabric_manager=machine.fabric_manager,
        source=SourceLabel(source.kind, source.name),
        verdict=verdict,
        verdict_reason=reason,
        coverage=coverage,
        platform=machine.platform,
        virtual=bool(machine.virtual),
        devices=node.devices,
        nearest_nics=nearest_nics(node),
        numa_nodes=node.numa_nodes,
        pairs=pairs_of(node),
        links=tuple(node.links.values()),
        nvlinks=nvlink_bundles(node),
        findings=findings,
        together=together(node, [finding for finding in findings if not finding.waived]),
        skipped=tuple(answers.skipped),
        gaps=node.gaps,
        disagreements=node.disagreements,
        assumptions=assumptions_of(node),
        rows=rows_of(node),
        sockets=machine.sockets,
        recognised=known,
        rules=tuple(rule.ID for rule in ALL),
        nccl=summary(node),
        not_applicable=tuple(answers.not_applicable),
    )
