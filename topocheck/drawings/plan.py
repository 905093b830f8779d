"""What a drawing shows: the machine as nested parts, each with the link above it and the worst finding on it.

Bridges with one part below are no part of their own: a switch is drawn once, not as its four kinds of port.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

from topocheck.finding import SEVERITIES, Finding, Severity
from topocheck.formats.text_table import UNKNOWN, link_words, ports_words
from topocheck.graph import Device, Numa, PcieLink, Topology
from topocheck.model import link_capacity_gb_per_s

Kind = Literal["host", "socket", "numa", "root", "switch", "card", "gpu", "nic"]


class Mark(NamedTuple):
    """The findings on a part or link: the worst severity, the rules, what they say."""

    severity: Severity | None = None
    rules: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()


NO_MARK = Mark()


class Link(NamedTuple):
    """The PCIe link above a part; GB/s achievable one direction, None where it was not read."""

    words: str
    capacity_gb_per_s: float | None
    mark: Mark
    witness: str


@dataclass(frozen=True, slots=True)
class Part:
    """A box of the drawing: `name` as in the report, `lines` what stands in it, `details` what a look closer shows."""

    kind: Kind
    name: str
    title: str
    lines: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    link: Link | None = None
    mark: Mark = NO_MARK


class Marks:
    """Asks for the findings on something by any of its names; a waived one is no mark."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self._by_subject: dict[str, list[Finding]] = {}
        for finding in findings:
            for subject in () if finding.waived or finding.severity == "info" else finding.subjects:
                self._by_subject.setdefault(subject, []).append(finding)

    def of(self, names: Iterable[str | None], *, links: bool | None = None) -> Mark:
        """The mark of what has these names; `links`: only findings on its PCIe link, or (False) all others."""
        found = [f for name in dict.fromkeys(names) for f in self._by_subject.get(name or "", ())]
        if links is not None:
            found = [f for f in found if f.rule.startswith("PCI") == links]
        worst = max((f.severity for f in found), key=SEVERITIES.index, default=None)
        return Mark(worst, tuple(dict.fromkeys(f.rule for f in found)), tuple(dict.fromkeys(f.message for f in found)))


def plan_of(node: Topology, findings: Iterable[Finding]) -> Part:
    """The whole machine."""
    marks = Marks(findings)
    below: dict[str, dict[str, None]] = {}
    seats: dict[int | None, dict[str, None]] = {}
    for device in (*node.gpus, *node.nics):
        chain = list(node.climb(_at(node, device)))
        for lower, upper in pairwise(chain):
            below.setdefault(upper, {})[lower] = None
        top = chain[-1]
        seats.setdefault(_seat(node, top, device, seats), {})[top] = None
    devices = {_at(node, d): d for d in (*node.gpus, *node.nics)}
    grower = _Grower(node, marks, below, devices)
    numa = {n.id: n for n in node.numa_nodes}
    rooms = [
        _room(numa.get(seat) if seat is not None else None, seat, tuple(grower.part(top) for top in tops), marks)
        for seat, tops in sorted(seats.items(), key=lambda item: (item[0] is None, item[0] or 0))
    ]
    return Part("host", "host", node.machine.hostname or "host", parts=tuple(_sockets(rooms, numa)))


def _at(node: Topology, device: Device) -> str:
    """Where a device hangs in the tree."""
    return device.bdf if device.bdf and device.bdf in node.parents else device.id


def _seat(node: Topology, top: str, device: Device, seats: dict[int | None, dict[str, None]]) -> int | None:
    """The NUMA node of a root: where it was put before, its own, else that of the device."""
    known = next((seat for seat, tops in seats.items() if top in tops), None)
    return known if known is not None else node.root_numa.get(top, device.numa_node)


class _Grower:
    """Grows the parts below one host bridge."""

    def __init__(
        self, node: Topology, marks: Marks, below: dict[str, dict[str, None]], devices: dict[str, Device]
    ) -> None:
        self._node, self._marks, self._below, self._devices = node, marks, below, devices

    def part(self, at: str) -> Part:
        """The part at a place of the tree with all below it."""
        device = self._devices.get(at)
        if device is not None:
            return self._device(device)
        parts = tuple(self.part(child) for child in self._below.get(at, ()))
        link = self._link(at, [at])
        if len(parts) == 1:
            return replace(parts[0], link=_narrower(parts[0].link, link))
        kind, title = self._bridge(at, parts)
        if kind == "card":  # one slot, whose link each function shows as its own
            for part in parts:
                link = _narrower(part.link, link)
            parts = tuple(replace(part, link=None) for part in parts)
        mark = self._marks.of([at], links=False)
        return Part(kind, at, title, details=(at.removeprefix("root:"),), parts=parts, link=link, mark=mark)

    def _bridge(self, at: str, parts: tuple[Part, ...]) -> tuple[Kind, str]:
        buses = {d.bdf.rsplit(".", 1)[0] for d in map(self._device_of, parts) if d and d.bdf}
        if len(buses) == 1 and all(part.kind == "nic" for part in parts):
            return "card", f"card {_short(buses.pop())}"
        if at.startswith("root:") or at not in (*self._node.functions, *self._node.inferred):
            return "root", "host bridge" + (
                f" {_short(at.removeprefix('root:'))}" if at not in self._node.inferred else ""
            )
        if at in self._node.inferred:
            return "switch", "PCIe switch (by the matrix)"
        port = self._node.functions[at].port_type
        return ("root", f"root port {_short(at)}") if port == "root" else ("switch", f"PCIe switch {_short(at)}")

    def _device_of(self, part: Part) -> Device | None:
        return self._node.by_id.get(part.name)

    def _device(self, device: Device) -> Part:
        names = [device.id, device.bdf]
        lines = _gpu_lines(device) if device.kind == "gpu" else _nic_lines(device)
        details = [device.model, device.bdf, f"firmware {device.firmware}" if device.firmware else None]
        details.append(f"NUMA node {device.numa_node}" if device.numa_node is not None else None)
        kind: Kind = "gpu" if device.kind == "gpu" else "nic"
        return Part(
            kind,
            device.id,
            device.id,
            tuple(lines),
            tuple(d for d in details if d),
            link=self._link(device.bdf or device.id, names),
            mark=self._marks.of(names),
        )

    def _link(self, lower_end: str, names: list[str | None]) -> Link | None:
        link = self._node.links.get(lower_end)
        if link is None:
            return None
        mark = self._marks.of(names, links=True)
        if (words := link_words(link)) == UNKNOWN:
            most = replace(
                link, speed_gts=link.can_speed_gts or link.max_speed_gts, width=link.can_width or link.max_width
            )
            return (
                None
                if link_words(most) == UNKNOWN
                else Link(f"PCIe max {_spaced(link_words(most))}", None, mark, link.witness)
            )
        capacity = link_capacity_gb_per_s(link)
        known = None if capacity == float("inf") else capacity
        return Link(f"PCIe {_spaced(words)}{_of(link)}", known, mark, link.witness)


def _spaced(words: str) -> str:
    return words.replace("x", " x", 1)


def _of(link: PcieLink) -> str:
    """How many lanes both ends can, where fewer run."""
    return f" of x{link.can_width}" if link.width and link.can_width and link.width < link.can_width else ""


def _narrower(a: Link | None, b: Link | None) -> Link | None:
    """Of two links in a row the one that binds, with the worse mark of both."""
    if a is None or b is None:
        return a or b
    capacities = [link.capacity_gb_per_s or float("inf") for link in (a, b)]
    slower, other = (b, a) if capacities[1] < capacities[0] else (a, b)
    return slower if slower.mark.severity or not other.mark.severity else slower._replace(mark=other.mark)


def _gpu_lines(gpu: Device) -> list[str]:
    model = (gpu.model or "").removeprefix("NVIDIA ").removeprefix("Corporation ")
    if model.endswith("]"):
        model = model.split("[")[-1].rstrip("]")
    return [model or "GPU", _short(gpu.bdf) if gpu.bdf else "", *(["MIG"] if gpu.mig else [])]


def _nic_lines(nic: Device) -> list[str]:
    ports = ports_words((nic,)).replace(" Active", " Gb/s")
    rail = f" rail {nic.rail}" if nic.rail is not None else f" {nic.role}" if nic.role not in (None, "unknown") else ""
    return [f"{'' if ports == UNKNOWN else ports}{rail}".strip() or "NIC", _short(nic.bdf) if nic.bdf else ""]


def _short(bdf: str) -> str:
    return bdf.removeprefix("0000:")


def _room(numa: Numa | None, seat: int | None, parts: tuple[Part, ...], marks: Marks) -> Part:
    """A NUMA node; a host bridge that is its only one is not drawn."""
    if len(parts) == 1 and parts[0].kind == "root" and not parts[0].link and not parts[0].mark.severity:
        parts = parts[0].parts
    if seat is None:
        return Part("numa", "numa?", "NUMA node not known", parts=parts)
    cpus = f"CPUs {numa.cpus}" if numa and numa.cpus else ""
    return Part(
        "numa", f"numa{seat}", f"NUMA node {seat}", (cpus,) if cpus else (), parts=parts, mark=marks.of([f"numa{seat}"])
    )


def _sockets(rooms: list[Part], numa: dict[int, Numa]) -> Iterable[Part]:
    """NUMA nodes by socket; one that fills its socket is told with it."""
    sockets: dict[int | None, list[Part]] = {}
    for room in rooms:
        node = numa.get(int(room.name[4:])) if room.name != "numa?" else None
        sockets.setdefault(node.socket if node else None, []).append(room)
    for socket, within in sockets.items():
        if socket is None:
            yield from within
        elif len(within) == 1:
            yield replace(within[0], title=f"socket {socket}, {within[0].title}")
        else:
            yield Part("socket", f"socket{socket}", f"socket {socket}", parts=tuple(within))
