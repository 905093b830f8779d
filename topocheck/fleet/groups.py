"""Findings of all nodes by rule and device position: one row for a bad batch or slot, however many nodes have it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from topocheck.fleet.record import RANK, Fault, NodeRecord
from topocheck.fleet.report import Group


def groups(nodes: Sequence[NodeRecord], left_out: frozenset[tuple[str, str]] = frozenset()) -> tuple[Group, ...]:
    """Worst first, then the most nodes. `left_out`: (host, rule) pairs that are said elsewhere, with more evidence."""
    found: dict[tuple[str, str, str], list[tuple[str, Fault]]] = defaultdict(list)
    for node in nodes:
        for fault in node.faults:
            if (node.host, fault.rule) not in left_out:
                found[fault.rule, fault.severity, fault.bdf or fault.device].append((node.host, fault))
    return tuple(sorted((_group(entries) for entries in found.values()), key=_order))


def states(nodes: Iterable[NodeRecord]) -> dict[str, dict[str, str]]:
    """Host → rule → the worst severity, of hosts that have findings."""
    found: dict[str, dict[str, str]] = {}
    for node in nodes:
        for fault in sorted(node.faults, key=lambda f: -RANK[f.severity]):
            found.setdefault(node.host, {})[fault.rule] = fault.severity
    return found


def _group(entries: list[tuple[str, Fault]]) -> Group:
    worst = max((fault for _, fault in entries), key=lambda f: (f.loss or 0.0, -len(f.message), f.message))
    losses = [fault.loss for _, fault in entries if fault.loss is not None]
    names = Counter(fault.device for _, fault in entries)
    return Group(
        rule=worst.rule,
        name=worst.name,
        severity=worst.severity,
        device=min(names, key=lambda name: (-names[name], name)),
        bdf=worst.bdf,
        hosts=tuple(sorted({host for host, _ in entries})),
        worst_loss=max(losses, default=None),
        message=worst.message,
        effect=worst.effect,
    )


def _order(group: Group) -> tuple[int, float, int, str, str]:
    return RANK[group.severity], -(group.worst_loss or 0.0), -len(group.hosts), group.rule, group.bdf or group.device
