"""Rail nodes: the cables of a node by rail, with rails counted alike on all nodes of a species."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

UNREPORTED = "known from a listing alone"
COMMON = 3  # nodes that make an order of NICs one of its own
_LAYOUTS = 16  # the commonest ones, in which a node's missing NIC is looked for


class Cable(NamedTuple):
    """A port of a rail and what it reaches; `at`: the leaf or the subnet."""

    host: str
    nic: str
    bdf: str | None
    guid: str | None
    port: int
    rail: int
    at: str
    at_port: str | None
    rate_gbit_per_s: float | None = None

    @property
    def position(self) -> str:
        """Its NIC's PCI address; the name where there is no report."""
        return self.bdf or self.nic

    @property
    def key(self) -> tuple[int, int]:
        """The place that is the same on all nodes: the rail, and the port of its NIC."""
        return self.rail, self.port


class RailNode(NamedTuple):
    """A node's cables. Only nodes of one species (platform and GPU model, or known from a listing alone) and one number
    of NICs are compared. `order`: the NICs' PCI addresses, or their names where there is no report, by rail."""

    host: str
    species: str
    order: tuple[str, ...]
    cables: tuple[Cable, ...]

    @property
    def kind(self) -> tuple[str, int]:
        """What makes nodes comparable."""
        return self.species, len(self.order)

    @property
    def reported(self) -> bool:
        """Whether there is a report of it, so that its NICs are known by PCI position."""
        return not self.species.startswith(UNREPORTED)

    def ordered(self, order: tuple[str, ...]) -> RailNode:
        """The same with its rails counted in another order; a NIC that is not in it is left out."""
        place = {position: rail for rail, position in enumerate(order)}
        moved = ((place.get(c.position), c) for c in self.cables)
        return self._replace(order=order, cables=tuple(c._replace(rail=r) for r, c in moved if r is not None))


def aligned(nodes: Iterable[RailNode]) -> Iterator[RailNode]:
    """A node that lacks a NIC keeps the rails of its sisters: its order is part of a commoner one. One that has another
    number of NICs than most, in an order that few have, cannot be compared."""
    nodes = list(nodes)
    layouts: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    sizes: dict[str, Counter[int]] = defaultdict(Counter)
    for node in nodes:
        layouts[node.species][node.order] += 1
        sizes[node.species][len(node.order)] += 1
    known = {species: [_Layout(*entry) for entry in c.most_common(_LAYOUTS)] for species, c in layouts.items()}
    usual = {species: max(c, key=lambda size: (c[size], size)) for species, c in sizes.items()}
    for node in nodes:
        count = layouts[node.species][node.order]
        if order := _commoner(node, count, known[node.species]):
            yield node.ordered(order)
        elif count >= COMMON or len(node.order) == usual[node.species]:
            yield node


class _Layout(NamedTuple):
    order: tuple[str, ...]
    nodes: int


def _commoner(node: RailNode, count: int, layouts: Iterable[_Layout]) -> tuple[str, ...] | None:
    size = len(node.order)
    return next(
        (
            layout.order
            for layout in layouts
            if layout.nodes >= count and size < len(layout.order) < 2 * size and set(node.order).issubset(layout.order)
        ),
        None,
    )
