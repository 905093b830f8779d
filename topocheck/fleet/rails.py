"""Rails across nodes: which leaf each rail has, whose cables are exchanged or on another leaf, whose subnets.

A rail is a set of ports, one (or k) of each node, meant to meet on one leaf. What it should reach is what most nodes of
its pod have, or what the policy says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from topocheck.fleet import report
from topocheck.fleet.fabric import Listing, distinct
from topocheck.fleet.pods import Pod, pods
from topocheck.fleet.rail_faults import faults
from topocheck.fleet.rail_nodes import COMMON
from topocheck.fleet.rail_ports import Cabling, addressed, cabled
from topocheck.fleet.rail_words import LEAVES, SUBNETS
from topocheck.fleet.record import RANK, NodeRecord
from topocheck.names import NameSet

_OTHER_PODS = 2


def rails(nodes: Sequence[NodeRecord], listings: Sequence[Listing], patterns: tuple[NameSet, ...] = ()) -> report.Rails:
    """What the cabling of these nodes says; `patterns`: the policy's leaf switches of rail 0, rail 1, …"""
    by_leaf, by_subnet = cabled(nodes, distinct(listings)), addressed(nodes)
    told, subnets = _told(by_leaf, patterns), _told(by_subnet)
    found = list(faults(told, LEAVES))
    said = {(end.host, end.nic, end.port) for fault in found for end in fault.ends}
    found += [
        fault
        for fault in faults(subnets, SUBNETS)
        if not fault.ends or not said.issuperset((end.host, end.nic, end.port) for end in fault.ends)
    ]
    seen = by_leaf if by_leaf.nodes else by_subnet
    return report.Rails(
        why_none=None if told or subnets else _why_none(nodes, seen),
        by=tuple(sorted({*by_leaf.by, *by_subnet.by})),
        pods=tuple(_pod(pod) for pod in told or subnets),
        notes=(*_unused(patterns, by_leaf), *by_leaf.notes, *(note for pod in told for note in _absent(pod))),
        faults=tuple(sorted(found, key=lambda f: (RANK[f.severity], f.rule, f.ends[0][:2] if f.ends else ("", "")))),
    )


def _told(cabling: Cabling, patterns: tuple[NameSet, ...] = ()) -> list[Pod]:
    """The pods in which there are rails, or of which the policy says so; the largest first. Few nodes that agree by
    chance alone are believed where two other pods of their kind have rails."""
    every = list(pods(cabling.nodes, patterns))
    sure = Counter(pod.nodes[0].kind for pod in every if pod.orderly)
    found = [p for p in every if p.allowed or p.orderly or (p.agreed and sure[p.nodes[0].kind] >= _OTHER_PODS)]
    return sorted(found, key=lambda pod: (-len(pod.nodes), pod.nodes[0].host))


def _unused(patterns: Sequence[NameSet], seen: Cabling) -> Iterator[str]:
    """A policy is for nodes with as many rails as it names."""
    counts = sorted({len(node.order) for node in seen.nodes})
    if patterns and counts and len(patterns) not in counts:
        having = " or ".join(map(str, counts))
        yield f"the policy's rails are not asked: it names {len(patterns)}, the nodes have {having}"


def _pod(pod: Pod) -> report.Pod:
    leaf_of = tuple((*key, expected) for key in sorted(pod.counts) if (expected := pod.expected(key)))
    return report.Pod(tuple(node.host for node in pod.nodes), leaf_of)


def _absent(pod: Pod) -> Iterator[str]:
    """Rails that no node of the pod has a cable at, though its NICs are there, or sisters elsewhere have them."""
    order = pod.nodes[0].order
    present = {rail for rail, _ in pod.counts}
    if lacking := [f"{rail} ({name})" for rail, name in enumerate(order) if rail not in present]:
        first, last = pod.nodes[0].host, pod.nodes[-1].host
        yield f"no cable seen at rail {', '.join(lacking)} on any of {len(pod.nodes)} nodes, {first} to {last}"


def _why_none(nodes: Sequence[NodeRecord], seen: Cabling) -> str:
    ports = [port for node in nodes for port in node.ports]
    if ports and all(port.link_layer == "efa" for port in ports):
        return "EFA has no rails"
    if ports and not seen.nodes and all(len({p.rail for p in n.ports}) < 2 for n in nodes):
        return "one compute NIC a node"
    if not seen.nodes:
        return "cabling not seen: no LLDP, no fabric listing and no RoCE subnet tells which leaf a port reaches"
    if all(len(node.order) < 2 for node in seen.nodes):
        return "one compute NIC a node"
    what, plain = (
        ("subnet", "there is no order of rails") if seen.by == ("subnet",) else ("leaf", "a plain tree has no rails")
    )
    reached = [{cable.at for cable in node.cables} for node in seen.nodes]
    if len(set().union(*reached)) == 1:
        return f"all ports are on one {'subnet' if what == 'subnet' else 'switch'}"
    if len(seen.nodes) < COMMON:
        return f"cabling seen of fewer than {COMMON} nodes: nothing to compare"
    if all(len(leaves) == 1 for leaves in reached):
        return f"each node's ports share one {what}: {plain}"
    return f"no {what} is one rail's on most nodes: {plain}"
