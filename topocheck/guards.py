"""What rules of nearness and of rails say before anything else, where they cannot be asked."""

from __future__ import annotations

from topocheck.cabling import RailPort, no_rails, rail_ports
from topocheck.finding import NotApplicable, Skip
from topocheck.graph import Topology
from topocheck.nearness import no_distance, services

Silence = NotApplicable | Skip

_UNPLACED = Skip("no input places the GPUs and NICs: no lspci, no nvidia-smi topo -m")
_UNCABLED = Skip("cabling not seen: no LLDP or fabric listing tells which leaf a port reaches")


def unplaced(node: Topology, reason: str | None = None) -> Silence | None:
    """Why no distance between GPUs and compute NICs can be judged, or the rule's own reason; None if it can."""
    if why := no_distance(node) or reason:
        return NotApplicable(why)
    return None if services(node) else _UNPLACED


def placed_in_part(node: Topology) -> Skip | None:
    """What is to be said where the nearest NICs of some GPUs are not known: lost GPUs, a listing or row that is cut."""
    seen = len(services(node))
    reason = f"which NICs are near is known of {seen} of {len(node.gpus)} GPUs"
    return Skip(reason, partial=True) if seen < len(node.gpus) else None


def cabled(node: Topology) -> tuple[list[RailPort], Silence | None]:
    """The ports whose leaf is known, and why there is none."""
    if why := no_rails(node):
        return [], NotApplicable(why)
    ports = rail_ports(node)
    return ports, None if ports else _UNCABLED
