"""Simulated nodes as facts, changed one field at a time: what the tests of limits (test_limits_*) ask rules about."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from nodesim import Numbering, facts, place
from nodesim.layout import Layout
from nodesim.parts import GPUS
from nodesim.spec import Gpu, HostBridge, Link, Nic, Node, Switch

from topocheck.build import build
from topocheck.check import ask
from topocheck.facts import Evidence, Fact, GpuState, Host, NvlinkGpu, PciFunction, RdmaDevice
from topocheck.finding import Finding
from topocheck.graph import Topology
from topocheck.names import NameSet
from topocheck.rules import ALL

RULES = {rule.ID: rule for rule in ALL}


@dataclass(frozen=True)
class Board:
    """A node's layout and its facts; devices are named by uid ("g0", "n3") or by address. Every
    change makes another."""

    layout: Layout
    facts: tuple[Fact, ...]
    compute_nics: str = ""  # as a policy names them

    def id(self, uid: str) -> str:
        """topocheck's id of a device: its RDMA name or GPU number."""
        return self.layout.ids[uid]

    def bdf(self, uid: str) -> str:
        """Its address; "n0^" is the port above "n0"."""
        return next((f.bdf for f in self.layout.functions if f.uid == uid), uid)

    def changed(self, change: Callable[[Fact], Fact]) -> Board:
        """Every fact put through a change."""
        return replace(self, facts=tuple(map(change, self.facts)))

    def pci(self, uid: str, **values: Any) -> Board:
        """The PCI function with other fields."""
        bdf = self.bdf(uid)
        return self.changed(lambda f: replace(f, **values) if isinstance(f, PciFunction) and f.bdf == bdf else f)

    def device(self, uid: str, **values: Any) -> Board:
        """The RDMA device with other fields."""
        name = self.id(uid)
        return self.changed(lambda f: replace(f, **values) if isinstance(f, RdmaDevice) and f.name == name else f)

    def rdma(self, uid: str) -> RdmaDevice:
        """The RDMA device as it is."""
        return next(f for f in self.facts if isinstance(f, RdmaDevice) and f.name == self.id(uid))

    def port(self, uid: str, **values: Any) -> Board:
        """Its port with other fields."""
        first, *others = self.rdma(uid).ports
        return self.device(uid, ports=(replace(first, **values), *others))

    def ports(self, uids: Iterable[str], **values: Any) -> Board:
        """The ports of several."""
        board = self
        for uid in uids:
            board = board.port(uid, **values)
        return board

    def state(self, uid: str, **values: Any) -> Board:
        """What nvidia-smi -q says of the GPU, with other fields."""
        bdf = self.bdf(uid)
        return self.changed(lambda f: replace(f, **values) if isinstance(f, GpuState) and f.bdf == bdf else f)

    def nvlinks(self, uid: str, change: Callable[[NvlinkGpu], NvlinkGpu]) -> Board:
        """What nvidia-smi nvlink says of the GPU, changed."""
        number = int(self.id(uid).removeprefix("gpu"))
        return self.changed(lambda f: change(f) if isinstance(f, NvlinkGpu) and f.index == number else f)

    def plus(self, *more: Fact) -> Board:
        """With more facts."""
        return replace(self, facts=(*self.facts, *more))

    def without(self, kind: type) -> Board:
        """Without the facts of a kind."""
        return replace(self, facts=tuple(f for f in self.facts if not isinstance(f, kind)))

    def host(self, **values: Any) -> Board:
        """With another word on the machine, which comes before the others."""
        return replace(self, facts=(Host("said first", **values), *self.facts))

    @property
    def topology(self) -> Topology:
        """The node that the facts describe."""
        named = (NameSet.parsed(self.compute_nics),) if self.compute_nics else ()
        return build(self.facts, compute_nics=named)

    def said(self, rule: str) -> list[Finding]:
        """A rule's findings, as it gives them: before prices, waivers and one cause, one finding."""
        return said(self.topology, rule)

    def unsaid(self, rule: str) -> str:
        """Why the rule did not look: "skipped", "in part", "not applicable", "" for neither."""
        return unsaid(self.topology, rule)

    def reasons(self, rule: str) -> list[str]:
        """Why the rule was skipped, in its words."""
        return [s.reason for s in ask(self.topology, {rule: RULES[rule]}).skipped]

    def levels(self, rule: str) -> dict[str, str]:
        """Severity by the first subject's uid."""
        uids = {value: key for key, value in self.layout.ids.items()}
        return {uids.get(f.subjects[0], f.subjects[0]) if f.subjects else "": f.severity for f in self.said(rule)}


def said(node: Topology, rule: str) -> list[Finding]:
    """A rule's findings of a node."""
    return ask(node, {rule: RULES[rule]}).findings


def unsaid(node: Topology, rule: str) -> str:
    """Why a rule did not look at a node, or not at all of it."""
    answers = ask(node, {rule: RULES[rule]})
    assert len(answers.skipped) <= 1, "it says it once"
    if answers.skipped:
        return "in part" if answers.skipped[0].partial else "skipped"
    return "not applicable" if rule in {r for r, why in answers.not_applicable if why != "not selected"} else ""


def placed(node: Node) -> Board:
    """The board of a node."""
    layout = place(node, Numbering())
    return Board(layout, tuple(facts(layout)))


def hgx(
    count: int = 8, *, nic: str | None = "cx7-ndr", gpu: str = "h100", fabric: str = "nvswitch", **nic_values: Any
) -> Board:
    """So many GPUs on NVLink, half of them a socket, each on a switch with a NIC of its own: g0 and n0 on s0 …"""
    return placed(hgx_node(count, nic=nic, gpu=gpu, fabric=fabric, **nic_values))


def hgx_node(
    count: int = 8, *, nic: str | None = "cx7-ndr", gpu: str = "h100", fabric: str = "nvswitch", **nic_values: Any
) -> Node:
    """The same before it is placed."""
    bridges = []
    for i in range(count):
        children: tuple[Any, ...] = (Gpu(f"g{i}", gpu, Link()),)
        if nic:
            children += (Nic(f"n{i}", nic, **{"link": Link(), **nic_values}),)
        bridges.append(HostBridge(f"b{i}", 2 * i // count, (Switch(f"s{i}", children, Link()),)))
    return Node(bridges=tuple(bridges), fabric=fabric)


def pair_of_cards(count: int = 4, gpu: str = "l40s", nic: str | None = None, **node: Any) -> Node:
    """Cards without NVLink, two a switch, a NIC on each switch where asked."""
    bridges = []
    for i in range(0, count, 2):
        children: tuple[Any, ...] = tuple(Gpu(f"g{k}", gpu, Link(GPUS[gpu].gen)) for k in (i, i + 1))
        if nic:
            children += (Nic(f"n{i // 2}", nic, Link()),)
        bridges.append(HostBridge(f"b{i}", 2 * i // count, (Switch(f"s{i // 2}", children, Link()),)))
    return Node(bridges=tuple(bridges), **node)


DOWN = {"state": "down", "physical": "polling"}


def gpus(count: int) -> list[str]:
    """The uids of all."""
    return [f"g{i}" for i in range(count)]


def nics(*numbers: int) -> list[str]:
    """Their uids."""
    return [f"n{i}" for i in numbers]


def two_ports(board: Board, count: int, uid: str = "", **second: object) -> Board:
    """The NICs with a second port each, which is down; that of one as given."""
    for name in nics(*range(count)):
        (first,) = board.rdma(name).ports
        board = board.device(name, ports=(first, replace(first, port=2, **(second if uid == name else DOWN))))
    return board


def counted(board: Board, uid: str, *readings: dict[str, int]) -> Board:
    """So many readings of the counters of a NIC's port, and a line for each counter."""
    names = dict.fromkeys(name for reading in readings for name in reading)
    lines = {name: Evidence("perfquery", 1, name) for name in names}
    return board.port(uid, readings=tuple(tuple(r.items()) for r in readings), lines=lines)
