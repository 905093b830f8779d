"""The policy applied: which rules speak, what is expected, what a finding weighs, and what was accepted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase

from topocheck import baseline
from topocheck.expected import Expected
from topocheck.facts import Gap
from topocheck.finding import SEVERITIES, Finding, Rule
from topocheck.follows import fold
from topocheck.graph import Topology
from topocheck.policy import Policy, Waiver, known_rules
from topocheck.pricing import priced
from topocheck.rules import ALL


def chosen(policy: Policy, select: tuple[str, ...], ignore: tuple[str, ...]) -> dict[str, Rule]:
    """The rules asked for, by id and glob. `select` sets aside both lists of the policy, `ignore` its own there."""
    wanted = known_rules(select) or policy.select or ("*",)
    unwanted = known_rules(ignore) or (() if select else policy.ignore)
    return {
        rule.ID: rule
        for rule in ALL
        if any(fnmatchcase(rule.ID, p) for p in wanted) and not any(fnmatchcase(rule.ID, p) for p in unwanted)
    }


def expecting(node: Topology, policy: Policy, host: str | None) -> Topology:
    """The node with what the policy and its baseline expect of it. UsageError for a baseline that is none."""
    earlier = baseline.read(policy.baseline, host) if policy.baseline else None
    return replace(node, expected=Expected(earlier, policy.rails), gaps=(*node.gaps, *_unfit(node, policy)))


def _unfit(node: Topology, policy: Policy) -> Iterator[Gap]:
    """What the policy says of some NICs and this node has no use for."""
    if policy.compute_nics and node.nics and not any(nic.role_from == "policy" for nic in node.nics):
        yield Gap("policy compute_nics", "names no NIC of this node: roles were found out")
    rails, nics = len(policy.rails), len(node.compute_nics)
    if rails and nics and rails != nics:
        yield Gap("policy rails", f"{rails} rails, {nics} compute NICs: which is which rail is not known")


def judged(
    node: Topology, findings: Iterable[Finding], policy: Policy, host: str | None, today: date
) -> tuple[Finding, ...]:
    """What stands, priced, at its severity, accepted or not; worst first, what was accepted last."""
    waivers = [waiver for waiver in policy.waiver if _is_for(host, waiver)]
    marked = [_with_waiver(node, finding, waivers, today) for finding in findings]
    return tuple(sorted((_weighed(node, finding, policy) for finding in fold(marked)), key=_order))


def _weighed(node: Topology, finding: Finding, policy: Policy) -> Finding:
    """The finding with its price. An error that only slows, by less than `min_loss`, is a warning; the policy's own
    severity for the rule has the last word."""
    finding = priced(node, finding, policy.min_loss)
    price = finding.price
    small = price is not None and price.worst_loss is not None and price.worst_loss < policy.min_loss
    if finding.severity == "error" and finding.effect == "slows" and small:
        finding = finding.at("warning")
    finding = finding.at(policy.severity.get(finding.rule, finding.severity))
    expired = finding.waiver and not finding.waived
    return replace(finding, message=f"{finding.message} (waiver {finding.waiver})") if expired else finding


def _is_for(host: str | None, waiver: Waiver) -> bool:
    """A waiver for some hosts says nothing of one whose name is not known; the domain may be left out."""
    if waiver.hosts is None:
        return True
    return host is not None and (host in waiver.hosts or host.partition(".")[0] in waiver.hosts)


def _with_waiver(node: Topology, finding: Finding, waivers: list[Waiver], today: date) -> Finding:
    """Accepted if waivers that still hold cover all its subjects; else, if those that ran out did, it says so."""
    of_rule = [w for w in waivers if w.rule == finding.rule]
    if used := _cover(node, finding, [w for w in of_rule if w.expires >= today]):
        return replace(finding, waived=True, waiver="; ".join(f"until {w.expires}: {w.reason}" for w in used))
    if used := _cover(node, finding, of_rule):
        return replace(finding, waiver=f"expired {max(w.expires for w in used if w.expires < today)}")
    return finding


def _cover(node: Topology, finding: Finding, waivers: list[Waiver]) -> list[Waiver]:
    """The waivers that cover all subjects of a finding together, each by id or BDF; [] if they do not. A finding
    about the node as a whole is covered by "*"."""
    used: list[Waiver] = []
    for subject in finding.subjects or ("",):
        device = node.by_id.get(subject)
        names = {subject, device.id, device.bdf} if device else {subject}
        waiver = next((w for w in waivers if any(name in w.device for name in names)), None)
        if waiver is None:
            return []
        used.append(waiver)
    return list(dict.fromkeys(used))


def _order(finding: Finding) -> tuple[bool, int, float, str, tuple[str, ...]]:
    price = finding.price
    loss = (price.loss or max(price.range or (0.0,))) if price else 0.0
    return finding.waived, -SEVERITIES.index(finding.severity), -loss, finding.rule, finding.subjects
