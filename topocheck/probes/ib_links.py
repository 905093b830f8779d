"""The cables of an InfiniBand fabric as its listings give them: one entry a line, so most are told from both ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from topocheck.facts import Cabling, Gap, LeafPort
from topocheck.probes import rdma_draft as rdma
from topocheck.probes.lines import Line

MOST_CABLES = 100_000  # of CAs: the largest fabrics have some ten thousand nodes


class End(NamedTuple):
    """One end of a cable. `guid`: 16 hex digits, a switch's own or a CA port's, "" where not told; so is a `lid` of 0.
    `name` is the node description without blanks around it."""

    kind: str  # CA, SW, "" where the line does not tell
    guid: str
    lid: int
    port: int
    name: str


class Link(NamedTuple):
    """A cable as it is printed in the record of its `own` end; width in lanes, speed as "HDR". `able`: the width and
    speed that both ends support, where the listing says that it is more; `model`: the own end's device id, "0x1017"."""

    own: End
    far: End
    width: int | None
    speed: str | None
    line: Line
    able: tuple[int | None, str | None] | None = None
    model: str | None = None

    def ca_and_switch(self) -> Iterator[tuple[End, End]]:
        """The cable, if it is one of a CA; both ways round where the line does not tell which is which."""
        for ca, switch in ((self.own, self.far), (self.far, self.own)):
            if ca.kind in ("CA", "") and switch.kind in ("SW", ""):
                yield ca, switch


def end(kind: str, guid: str | None, lid: str | None, port: str, name: str) -> End:
    """An end from its printed parts."""
    return End(kind, guid.zfill(16) if guid else "", int(lid or 0), int(port), name.strip())


def cablings(found: Iterable[Link], witness: str) -> Iterator[Cabling | Gap]:
    """The cables of CAs as facts."""
    links = ((*cable, link) for link in found for cable in link.ca_and_switch())
    cables = list(islice(links, MOST_CABLES + 1))
    if len(cables) > MOST_CABLES:
        cables.pop()
        yield Gap(witness, f"more than {MOST_CABLES} cables of CAs: the rest was not read")
    names = SwitchNames(switch for _, switch, _ in cables)
    for ca, switch, link in cables:
        leaf = LeafPort(names.of(switch), str(switch.port), witness, link.line.evidence(witness))
        guid = rdma.guid(ca.guid) if ca.guid else None
        yield Cabling(witness, leaf, guid, ca.lid or None, " ".join(ca.name.split()) or None, able=link.able)


class SwitchNames:
    """What switches go by: their own names; where several have the same, with the chip of the box; where they have
    none but a factory's, their GUIDs."""

    def __init__(self, switches: Iterable[End]) -> None:
        self._ids: dict[str, set[str]] = {}
        for switch in switches:
            for name in _names(switch):
                self._ids.setdefault(name, set()).add(_id(switch))

    def of(self, switch: End) -> str:
        """One of those that were given."""
        return next((name for name in _names(switch) if name and len(self._ids[name]) == 1), _id(switch))


def _names(switch: End) -> tuple[str, str]:
    """The name, and with the chip of a box that has several: "spine1", "spine1/U2" of a Q3400."""
    name = switch_name(switch.name)
    _, slash, chip = switch.name.rpartition("/")
    return name, f"{name}/{chip}" if slash and not name.endswith(f"/{chip}") else name


def _id(switch: End) -> str:
    return f"0x{switch.guid}" if switch.guid else f"LID {switch.lid}"


def switch_name(description: str) -> str:
    """A switch's own name out of its node description.

    >>> switch_name("MF0;leaf01:MQM9700/U1"), switch_name("MF0;core:MCS8500/L01/U1"), switch_name(" leaf2 ")
    ('leaf01', 'core/L01/U1', 'leaf2')
    """
    name = description.strip().removeprefix("MF0;")
    name, _, model = name.partition(":")
    _, _, board = model.partition("/")
    return f"{name}/{board}" if "/" in board else name
