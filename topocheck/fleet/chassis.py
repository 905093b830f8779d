"""Nodes of one chassis and fabric: most of their GPUs and NICs stand at the same PCI addresses, and their compute
ports speak one language.

One platform name covers many makers' chassis, and a node without a name is known by its GPUs alone: what differs
between two chassis is no fault. A few nodes at other addresses may be a chassis of their own as well as nodes whose
buses were numbered anew: their hardware is compared with nobody's, their versions and numbering are. One chassis may
stand in an InfiniBand and in an Ethernet cluster; a few nodes of another fabric are more likely set up wrongly.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from topocheck.fleet.record import NodeRecord

ENOUGH_NODES = 5
_NUMBERINGS = ("GPU numbering", "NIC numbering")
_MOST = 32  # chassis looked for among nodes of one platform; a cloud may give every VM its own addresses
Layout = frozenset[str]


class Crowd(NamedTuple):
    """Nodes to be compared with each other, and those of which only versions and numbering are."""

    nodes: list[NodeRecord]
    strangers: list[NodeRecord]


def crowds(nodes: Sequence[NodeRecord]) -> list[Crowd]:
    """The largest first, with the strangers; a chassis of five nodes or more stands for itself. Addresses that were
    not read are no reason to think of another chassis."""
    chassis = sorted(_by_chassis(nodes), key=lambda group: (-len(group), group[0].host))
    if not chassis:
        return []
    strangers = [node for group in chassis[1:] if len(group) < ENOUGH_NODES for node in group]
    own = [chassis[0], *(group for group in chassis[1:] if len(group) >= ENOUGH_NODES)]
    first, *others = [part for group in own for part in _by_fabric(group)]
    return [Crowd(first, strangers), *(Crowd(group, []) for group in others)]


def _by_fabric(nodes: Sequence[NodeRecord]) -> list[list[NodeRecord]]:
    """The nodes of each fabric that at least five are in; whoever else is with the most."""
    layers: dict[str, list[NodeRecord]] = defaultdict(list)
    for node in nodes:
        said = {port.link_layer for port in node.ports if port.link_layer}
        layers[said.pop() if len(said) == 1 else ""].append(node)
    main, *others = sorted(layers, key=lambda layer: (not layer, -len(layers[layer]), layer))
    apart = [layer for layer in others if layer and len(layers[layer]) >= ENOUGH_NODES]
    with_most = [node for layer in (main, *others) if layer not in apart for node in layers[layer]]
    return [with_most, *(layers[layer] for layer in apart)]


def _by_chassis(nodes: Sequence[NodeRecord]) -> list[list[NodeRecord]]:
    by_layout = _by_layout(nodes)
    unread = by_layout.pop(frozenset(), [])
    groups: list[list[NodeRecord]] = []
    sizes: list[int] = []
    at: dict[str, list[int]] = defaultdict(list)  # PCI address → chassis that have a device there
    for layout in sorted(by_layout, key=lambda found: (-len(by_layout[found]), min(found))):
        shared = Counter(chassis for address in layout for chassis in at[address])
        best, count = min(shared.items(), key=lambda item: (-item[1], item[0]), default=(None, 0))
        if best is not None and 2 * count >= min(len(layout), sizes[best]):
            groups[best] += by_layout[layout]
            continue
        if len(groups) < _MOST:
            for address in layout:
                at[address].append(len(groups))
        groups.append(list(by_layout[layout]))
        sizes.append(len(layout))
    if not groups:
        return [unread] if unread else []
    groups[0] += unread
    return groups


def _by_layout(nodes: Iterable[NodeRecord]) -> dict[Layout, list[NodeRecord]]:
    known: dict[int, Layout] = {}  # of the values' object: sisters share one
    found: dict[Layout, list[NodeRecord]] = defaultdict(list)
    for node in nodes:
        layout = known.get(id(node.values))
        if layout is None:
            layout = known[id(node.values)] = _layout(node)
        found[layout].append(node)
    return found


def _layout(node: NodeRecord) -> Layout:
    """The addresses of its GPUs and NICs, by the numbering: "gpu0 0000:19:00.0, gpu1 0000:3b:00.0"."""
    said = [value for field, value in node.values if field in _NUMBERINGS]
    return frozenset(part.rpartition(" ")[2] for value in said for part in value.split(", "))
