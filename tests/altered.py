"""Simulated nodes whose facts are changed one by one, and what a single rule answers: for the boundaries of rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nodesim import INPUTS, Numbering, place
from nodesim import facts as told
from nodesim.spec import Child, Gpu, HostBridge, Link, Nic, Node, Switch

from topocheck.build import build
from topocheck.facts import Evidence, Fact, GpuState, Host, PciFunction, RdmaDevice
from topocheck.finding import Answer, Finding, NotApplicable, Skip
from topocheck.graph import Topology
from topocheck.patches import patched
from topocheck.rules import ALL

RULES = {rule.ID: rule for rule in ALL}
Pick = Callable[[Fact], bool]


def is_gpu(fact: Fact) -> bool:
    """A GPU in lspci."""
    return isinstance(fact, PciFunction) and fact.class_id in ("0300", "0302")


def is_nic(fact: Fact) -> bool:
    """A NIC in lspci."""
    return isinstance(fact, PciFunction) and fact.class_id in ("0200", "0207")


def is_downstream(fact: Fact) -> bool:
    """A switch's downstream port in lspci."""
    return isinstance(fact, PciFunction) and fact.port_type == "downstream"


def is_state(fact: Fact) -> bool:
    """A GPU in nvidia-smi -q."""
    return isinstance(fact, GpuState)


def is_rdma(fact: Fact) -> bool:
    """A NIC in ibstat."""
    return isinstance(fact, RdmaDevice)


def facts_of(node: Node, *without: str) -> list[Fact]:
    """What all inputs but some say of a node."""
    return told(place(node, Numbering()), INPUTS - set(without))


def alter(facts: list[Fact], pick: Pick, changes: Mapping[int, Mapping[str, Any]]) -> list[Fact]:
    """The facts with the n-th that `pick` takes changed."""
    places = [i for i, fact in enumerate(facts) if pick(fact)]
    changed = list(facts)
    for number, values in changes.items():
        fact: Any = changed[places[number]]
        changed[places[number]] = replace(fact, **values)
    return changed


def each(numbers: range | list[int], **values: Any) -> dict[int, dict[str, Any]]:
    """The same change of several."""
    return dict.fromkeys(numbers, values)


def answers(node: Topology | list[Fact], rule: str) -> list[Answer]:
    """What one rule answers."""
    return list(RULES[rule].check(node if isinstance(node, Topology) else build(node)))


def found(node: Topology | list[Fact], rule: str) -> list[Finding]:
    """Its findings."""
    return [answer for answer in answers(node, rule) if isinstance(answer, Finding)]


def silence(node: Topology | list[Fact], rule: str) -> list[tuple[str, bool | None]]:
    """Why it did not look: the reason and whether it looked at some; None: there is nothing here it could speak of."""
    return [
        (a.reason, a.partial if isinstance(a, Skip) else None)
        for a in answers(node, rule)
        if isinstance(a, (Skip, NotApplicable))
    ]


def levels(node: Topology | list[Fact], rule: str) -> dict[str, str]:
    """Severity by subject."""
    return {subject: f.severity for f in found(node, rule) for subject in f.subjects}


def repaired(facts: list[Fact], rule: str) -> list[Finding]:
    """What the rule still finds once all its repairs are made."""
    node = build(facts)
    return found(patched(node, tuple(p for f in found(node, rule) for p in f.patches)), rule)


def texts(finding: Finding) -> list[str]:
    """The lines that show it."""
    return [line.text for line in finding.evidence]


def line(text: str, number: int = 1, source: str = "test") -> Evidence:
    """A line of an input."""
    return Evidence(source, number, text)


def virtual(facts: list[Fact]) -> list[Fact]:
    """The same machine as a VM."""
    return alter(facts, lambda f: isinstance(f, Host) and f.virtual is not None, {0: {"virtual": True}})


def on_switch(*children: Child, acs: bool = False, **values: Any) -> Node:
    """One PCIe switch on one socket."""
    return Node(bridges=(HostBridge("b0", 0, (Switch("s0", children, Link(), acs=acs),)),), **values)


def cards(count: int, part: str = "l40s", nics: int = 0, **values: Any) -> Node:
    """Cards, and NICs, on one switch."""
    gen = 5 if part.startswith("h") else 4
    gpus = tuple(Gpu(f"g{i}", part, Link(gen)) for i in range(count))
    return on_switch(*gpus, *(Nic(f"n{i}", "cx7-ndr", Link()) for i in range(nics)), **values)


def board(count: int = 8, nic: str = "cx7-ndr", **values: Any) -> Node:
    """H100 on NVSwitches, each with a NIC on a switch of its own, half of them on each socket."""
    bridges = tuple(
        HostBridge(
            f"b{i}",
            2 * i // count,
            (Switch(f"s{i}", (Gpu(f"g{i}", "h100", Link()), Nic(f"n{i}", nic, Link())), Link()),),
        )
        for i in range(count)
    )
    return Node(bridges=bridges, fabric="nvswitch", **values)
