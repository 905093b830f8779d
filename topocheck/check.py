"""The engine: source → probes → build → rules → price → Report. It knows no tool, no fault and no format."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timezone
from fnmatch import fnmatchcase
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
from topocheck.build import build
from topocheck.errors import UsageError
from topocheck.finding import SEVERITIES, Finding, NotApplicable, Rule, Skip
from topocheck.follows import fold
from topocheck.graph import Topology
from topocheck.pricing import MIN_LOSS, priced, together
from topocheck.probes.gather import gather, recognised
from topocheck.report import Coverage, Report, Skipped, SourceLabel
from topocheck.rules import ALL
from topocheck.sources.base import Source
from topocheck.sources.open import open_source


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
    spec: str | None = None,
    *,
    select: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
    root: str | None = None,
    budget_s: float = 20.0,
) -> Checked:
    """Diagnose what `spec` names: a path, "-" for standard input, None for this machine.

    Raises SourceError when the input cannot be opened, UsageError for an unknown rule in `select` or `ignore`.
    """
    started = time.monotonic()
    chosen = _chosen(select, ignore)
    source = open_source(spec, root=root, budget_s=budget_s)
    facts = gather(source)
    node = build(facts)
    answers = ask(node, chosen)
    findings = tuple(sorted((judged(node, f) for f in fold(answers.findings)), key=_order))
    return Checked(_report(source, node, answers, findings, recognised(facts), time.monotonic() - started), node)


def ask(node: Topology, rules: dict[str, Rule]) -> Answers:
    """Every rule's answers, sorted into findings, skips and what does not apply; `ALL` in its order."""
    answers = Answers([], [], [])
    for rule in ALL:
        if rule.ID not in rules:
            answers.not_applicable.append((rule.ID, "not selected"))
            continue
        found = list(rule.check(node))
        answers.findings.extend(a for a in found if isinstance(a, Finding))
        ran = any(isinstance(a, Finding) for a in found)
        for answer in found:
            if isinstance(answer, Skip):
                answers.skipped.append(Skipped(rule.ID, answer.partial or ran, answer.reason))
            elif isinstance(answer, NotApplicable) and not ran:
                answers.not_applicable.append((rule.ID, answer.reason))
    return answers


def judged(node: Topology, finding: Finding) -> Finding:
    """The finding with its price; an error that only slows, by less than `MIN_LOSS`, is a warning."""
    finding = priced(node, finding)
    price = finding.price
    small = price is not None and price.worst_loss is not None and price.worst_loss < MIN_LOSS
    if finding.severity == "error" and finding.effect == "slows" and small:
        return replace(finding, severity="warning")
    return finding


def _order(finding: Finding) -> tuple[int, float, str, tuple[str, ...]]:
    price = finding.price
    loss = (price.loss or max(price.range or (0.0,))) if price else 0.0
    return -SEVERITIES.index(finding.severity), -loss, finding.rule, finding.subjects


def _chosen(select: tuple[str, ...], ignore: tuple[str, ...]) -> dict[str, Rule]:
    """The rules asked for; ids and globs, in any case."""
    for pattern in (*select, *ignore):
        if not any(fnmatchcase(rule.ID, pattern.upper()) for rule in ALL):
            raise UsageError(f"{pattern}: no such rule: `topocheck rules` lists them")
    return {
        rule.ID: rule
        for rule in ALL
        if (not select or any(fnmatchcase(rule.ID, p.upper()) for p in select))
        and not any(fnmatchcase(rule.ID, p.upper()) for p in ignore)
    }


def _report(
    source: Source, node: Topology, answers: Answers, findings: tuple[Finding, ...], known: bool, seconds: float
) -> Report:
    not_applicable = len({rule for rule, _ in answers.not_applicable})
    skipped = len({s.rule for s in answers.skipped if not s.partial})
    coverage = Coverage(len(ALL) - skipped - not_applicable, skipped, not_applicable)
    verdict, reason = verdict_of(node, findings, coverage, missing_evidence(node) if source.kind == "live" else None)
    machine, manifest = node.machine, source.manifest
    return Report(
        version=__version__,
        host=manifest.host or machine.hostname,
        time=manifest.time or datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        duration_s=round(seconds, 3),
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
        together=together(node, list(findings)),
        skipped=tuple(answers.skipped),
        gaps=node.gaps,
        disagreements=node.disagreements,
        assumptions=assumptions_of(node),
        rows=rows_of(node),
        sockets=machine.sockets,
        recognised=known,
        not_applicable=tuple(answers.not_applicable),
    )
