"""Which leaf each rail's port is cabled to, and where it should be: the common ground of RAIL001 and RAIL002.

What should be is known from the policy's `rails`, from sister nodes of the same fabric file (the majority's leaf for a
NIC of the same name), or, on a node alone, from leaf names that count the rails ("leaf-rail0", "leaf-rail1", …).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from topocheck.facts import LeafPort, RdmaPort
from topocheck.graph import Device, Topology
from topocheck.nearness import flat_tree, why_not
from topocheck.patches import SetField

_LEAST_RAILS = 4  # fewer leaf names have no order to speak of


class RailPort(NamedTuple):
    """A compute NIC's port whose leaf is known; `expected`: the leaf it should reach, None where nothing tells."""

    nic: Device
    port: RdmaPort
    leaf: LeafPort
    expected: str | None
    expected_from: str | None

    @property
    def wrong(self) -> bool:
        """Whether it reaches another leaf than it should."""
        return self.expected is not None and self.expected != self.leaf.switch

    def repair(self, switch: str) -> SetField:
        """The cable in a port of another leaf."""
        return SetField(self.nic.id, "leaf", LeafPort(switch, None, self.leaf.by), self.port.port)


def no_rails(node: Topology) -> str | None:
    """Why there are no rails to speak of, None if there are."""
    reason = why_not(node) or ("one compute NIC" if len(node.compute_nics) < 2 else None)
    if reason or flat_tree(node) or all(n.efa for n in node.compute_nics):
        return reason or "no rails in this kind of node"
    return None


def rail_ports(node: Topology) -> list[RailPort]:
    """The cabled ports of the compute NICs in rail order."""
    nics = sorted((n for n in node.compute_nics if n.rail is not None), key=lambda n: n.rail or 0)
    cabled = [(n, p, p.leaf) for n in nics for p in n.ports if p.leaf is not None]
    told = {
        "policy": _by_policy(node, cabled),
        "sister nodes": _of_sisters(node, cabled),
        "order of leaf names": _by_names(cabled),
    }
    source, expected = next((item for item in told.items() if item[1]), (None, {}))
    return [RailPort(n, p, leaf, e := expected.get((n.id, p.port)), source if e else None) for n, p, leaf in cabled]


def crossed_ports(ports: list[RailPort]) -> list[RailPort]:
    """Ports on wrong leaves that are, taken together, each other's right ones."""
    wrong = [p for p in ports if p.wrong]
    reached = sorted(p.leaf.switch for p in wrong)
    return wrong if wrong and reached == sorted(p.expected or "" for p in wrong) else []


Cabled = list[tuple[Device, RdmaPort, LeafPort]]


def _by_policy(node: Topology, cabled: Cabled) -> dict[tuple[str, int], str]:
    """The policy's leaf for each rail: the one reached if it fits, else another that is seen here, else the pattern.
    With a NIC missing the rails cannot be counted."""
    rails = node.expected.rails
    if len(rails) != len(node.compute_nics):
        return {}
    seen = sorted({leaf.switch for _, _, leaf in cabled})
    expected = {}
    for nic, port, leaf in cabled:
        allowed = rails[nic.rail or 0]
        fitting = [switch for switch in (leaf.switch, *seen) if switch in allowed]
        expected[nic.id, port.port] = fitting[0] if fitting else allowed.text
    return expected


def _of_sisters(node: Topology, cabled: Cabled) -> dict[tuple[str, int], str]:
    """The leaf that most sisters have at the NIC of the same name; a sister shares at least half of our leaves."""
    ours = {leaf.switch for _, _, leaf in cabled}
    sisters = [s for s in node.sisters.values() if 2 * len(ours & {x.switch for x in s.values()}) >= len(ours) > 0]
    expected = {}
    for nic, port, _ in cabled:
        seen = [x.switch for s in sisters if (x := _leaf_of(s, nic.id))]
        (common, count), *_ = Counter(seen).most_common(1) or [("", 0)]
        if count >= 2 and 2 * count > len(seen) and len(nic.ports) == 1:
            expected[nic.id, port.port] = common
    return expected


def _leaf_of(sister: Mapping[str, LeafPort], nic: str) -> LeafPort | None:
    """By the device's name, or by the description the driver sets where nobody else did: HCA-1 is mlx5_0."""
    number = re.fullmatch(r"mlx\d_(\d{1,4})", nic)
    return sister.get(nic) or (sister.get(f"HCA-{int(number[1]) + 1}") if number else None)


def _by_names(cabled: Cabled) -> dict[tuple[str, int], str]:
    """Leaf names that differ in one number count the rails, if all but two rails agree with their order."""
    names = [leaf.switch for _, _, leaf in cabled]
    shapes = {re.sub(r"\d+", "#", name) for name in names}
    if len(set(names)) != len(names) or len(names) < _LEAST_RAILS or len(shapes) != 1:
        return {}
    ordered = sorted(names, key=lambda name: [int(d) for d in re.findall(r"\d+", name)])
    moved = sum(a != b for a, b in zip(names, ordered, strict=True))
    if moved > 2 or 2 * moved > len(names):
        return {}
    return {(nic.id, port.port): name for (nic, port, _), name in zip(cabled, ordered, strict=True)}
