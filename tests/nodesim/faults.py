"""Faults to put into a healthy node, each with what rules.md says must be told of it.

A maker takes hypothesis's `draw` and a healthy node and gives a Fault, or None where this node cannot have it. The
makers by subject stand in faults_links, faults_gpus and faults_nics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from nodesim.spec import Node

Change = Callable[[Node], Node]
WITHOUT_NIC = (
    "NET001",
    "NET005",
    "RAIL003",
    "AFF001",
    "AFF002",
    "AFF003",
)  # one chain: the first that holds is printed


@dataclass(frozen=True, repr=False)
class Fault:
    """One fault.

    rules: one of them must be told; empty: nothing may be. subjects: each set must share a uid with the finding's.
    worst: the gravest severity allowed; graver_without: where one of these inputs is missing it may be an error.
    seen_by: any of these sets of inputs suffices. shown_by: without all of these nothing shows it, so nothing may be
    told. blind_without (default: shown_by): without all of these its rules cannot run. unless: inputs that show an
    exemption: with them nothing may be told. also: rules that may stand besides. surely: rules.md decides; otherwise
    it may be told or not. moves: changes what is plugged where. told_as: the least severity that is looked for.
    """

    name: str
    apply: Change
    rules: tuple[str, ...] = ()
    subjects: tuple[frozenset[str], ...] = ()
    worst: str = "error"
    seen_by: tuple[frozenset[str], ...] = ()
    shown_by: frozenset[str] = frozenset()
    blind_without: frozenset[str] = frozenset()
    also: frozenset[str] = frozenset()
    surely: bool = True
    touches: frozenset[str] = frozenset()
    moves: bool = False
    unless: frozenset[str] = frozenset()
    graver_without: frozenset[str] = frozenset()
    told_as: str = "warning"

    def __repr__(self) -> str:
        return f"<{self.name}: {'/'.join(self.rules) or 'nothing'}>"

    def suffices(self, inputs: Iterable[str]) -> bool:
        """Whether the inputs show enough of it."""
        given = frozenset(inputs)
        return self.surely and not self.exempt(given) and any(need <= given for need in self.seen_by)

    def exempt(self, inputs: Iterable[str]) -> bool:
        """Whether the inputs show that it is none."""
        return bool(self.unless) and self.unless <= frozenset(inputs)

    def hidden(self, inputs: Iterable[str]) -> bool:
        """Whether no input shows anything of it."""
        return bool(self.rules) and (self.exempt(inputs) or not self.shown_by & frozenset(inputs))

    def gravest(self, inputs: Iterable[str]) -> str:
        """The gravest severity allowed by what the inputs tell."""
        return self.worst if self.graver_without <= frozenset(inputs) else "error"

    def blind(self, inputs: Iterable[str]) -> bool:
        """Whether its rules have nothing to look at."""
        return bool(self.rules) and not (self.blind_without or self.shown_by) & frozenset(inputs)


def changing(uid: str, **values: Any) -> Change:
    """Sets fields of one child."""
    return lambda node: node.changed(uid, lambda child: replace(child, **values))


def relinked(uid: str, **values: Any) -> Change:
    """Sets fields of one child's link."""
    return lambda node: node.changed(uid, lambda child: replace(child, link=replace(child.link, **values)))


def inputs(*sets: str) -> tuple[frozenset[str], ...]:
    """ "lspci rdma", "query" → the two sets."""
    return tuple(frozenset(names.split()) for names in sets)
