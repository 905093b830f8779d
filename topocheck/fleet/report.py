"""Fleet: everything a format of `topocheck fleet` shows, already decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from topocheck.fleet.record import Kind


class Group(NamedTuple):
    """One rule at one device position, over the nodes that have it: a bad batch or slot looks unlike a bad node."""

    rule: str
    name: str
    severity: str
    device: str  # the commonest name of the position, "" of the node as a whole
    bdf: str | None
    hosts: tuple[str, ...]
    worst_loss: float | None
    message: str  # of the worst
    effect: str


class Other(NamedTuple):
    """A minority's value. `follows`: rules that already say so on each of these nodes; then nothing is added."""

    value: str
    hosts: tuple[str, ...]
    follows: tuple[str, ...] = ()


class Unlike(NamedTuple):
    """A field in which nodes of one kind differ. Accused: at least five nodes, four fifths of them alike; below that
    the difference is only shown."""

    field: str
    severity: str  # warning: hardware that is not as its sisters'; info: versions, numbering
    kind: Kind
    nodes: int  # that have the field
    majority: str
    share: float  # of `nodes`
    accused: bool
    others: tuple[Other, ...]

    @property
    def unexplained(self) -> tuple[Other, ...]:
        """The others whom no finding of their own accounts for."""
        return tuple(other for other in self.others if not other.follows)


class RailEnd(NamedTuple):
    """One cable's two ends: a port of a host and the switch port it reaches, and the leaf it should reach."""

    host: str
    nic: str
    bdf: str | None
    guid: str | None
    port: int
    leaf: str | None
    leaf_port: str | None
    expected_leaf: str | None


class RailFault(NamedTuple):
    """A cabling fault; error where the majority of sisters tells what should be."""

    rule: str  # RAIL001, RAIL002, RAIL004, NET001 (no cable seen), NET002 (slow or narrow cable)
    severity: str
    ends: tuple[RailEnd, ...]
    message: str
    repair: str


class Leaf(NamedTuple):
    """A switch with hosts on it. Gb/s one direction, of links that are up."""

    switch: str
    hosts: int
    host_links: int
    host_gbit_per_s: float | None
    uplinks: int
    uplink_gbit_per_s: float | None

    @property
    def oversubscription(self) -> float | None:
        """What hosts can send for what the uplinks carry: 1.0 is non-blocking; None without uplinks or rates."""
        down, up = self.host_gbit_per_s, self.uplink_gbit_per_s
        return down / up if down and up else None


class Pod(NamedTuple):
    """Nodes that share their leaves: rail → leaf as most of them have it."""

    hosts: tuple[str, ...]
    leaf_of: tuple[tuple[int, int, str], ...]  # rail, port, leaf


@dataclass(frozen=True, slots=True)
class Rails:
    """What is known of cabling. `why_none`: why nothing could be said of rails, None if it could."""

    why_none: str | None
    by: tuple[str, ...] = ()  # lldp, ibnetdiscover, iblinkinfo, subnet
    pods: tuple[Pod, ...] = ()
    faults: tuple[RailFault, ...] = ()
    leaves: tuple[Leaf, ...] = ()
    bisection_gbit_per_s: float | None = None  # one direction, half of the hosts to the other half
    notes: tuple[str, ...] = ()


class Change(NamedTuple):
    """What is not as in the earlier reports: on these hosts this appeared, went, or became something else."""

    what: str  # "new PCI001 mlx5_3", "gone NET001 mlx5_0", "verdict healthy → failed", "driver 580.1 → 580.2"
    severity: str  # of a new finding its own; else info
    hosts: tuple[str, ...]


class Comparison(NamedTuple):
    """This fleet against earlier reports."""

    name: str  # the file or folder compared with
    nodes: int  # in both
    only_then: tuple[str, ...]  # hosts that have no report now
    only_now: tuple[str, ...]
    changes: tuple[Change, ...]


class LeftOut(NamedTuple):
    """A node that a job should not get."""

    host: str
    why: str


class Job(NamedTuple):
    """The nodes for a job of `wanted`. GB/s: all compute NICs of a node together, one direction; a collective over
    nodes runs at the pace of the slowest one chosen."""

    wanted: int
    chosen: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    slowest: str | None
    slowest_gb_per_s: float | None
    usual_gb_per_s: float | None  # what most nodes of the kind have
    enough: bool


class Unread(NamedTuple):
    """Lines and files that cost only themselves."""

    torn: int = 0
    duplicate: int = 0
    schema: int = 0
    foreign: int = 0
    examples: tuple[str, ...] = ()  # "nodes.jsonl:17: cut off after 4096 bytes"


@dataclass(frozen=True, slots=True)
class Fleet:
    """The answer over all nodes."""

    version: str
    time: str
    verdict: str  # healthy, degraded, failed, unknown
    reason: str
    hosts: tuple[str, ...]
    verdicts: dict[str, tuple[str, ...]]  # verdict → hosts
    kinds: tuple[tuple[Kind, int], ...]
    groups: tuple[Group, ...]  # worst first
    unlike: tuple[Unlike, ...]
    rails: Rails
    missing: tuple[str, ...]  # expected, no report
    unexpected: tuple[str, ...]  # reports of hosts that were not expected
    exclude: tuple[str, ...]
    unread: Unread
    comparisons: tuple[Comparison, ...] = ()
    job: Job | None = None
    states: dict[str, dict[str, str]] = field(default_factory=dict)  # host → rule → severity, hosts with findings only
    versions: tuple[str, ...] = ()  # of topocheck that wrote the reports
    skipped: tuple[tuple[str, int], ...] = ()  # rules that could not see, on how many nodes; the most first
    expected: tuple[str, ...] = ()  # hosts, as whoever asks spells them
    newest: str | None = None  # time of the newest report
    old: tuple[str, ...] = ()  # hosts whose report is a day older than that, or more: who wrote it may be gone

    @property
    def worst(self) -> str | None:
        """The severity of the worst that was found on any node, in the cabling, or by comparing sisters."""
        found = {group.severity for group in self.groups} | {fault.severity for fault in self.rails.faults}
        found |= {"warning" for odd in self.unlike if odd.accused and odd.severity == "warning" and odd.unexplained}
        return next((severity for severity in ("error", "warning", "info") if severity in found), None)
