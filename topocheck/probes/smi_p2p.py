"""`nvidia-smi topo -p2p r|w|n|a|p`: whether the driver lets each pair of GPUs reach each other's memory.

$ nvidia-smi topo -p2p r
        GPU0	GPU1
 GPU0	X	OK
 GPU1	OK	X

Legend:

  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
  GNS  = GPU not supported
  TNS  = Topology not supported
  NS   = Not supported
  DR   = Disabled by regkey
  U    = Unknown
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from topocheck.facts import Evidence, Fact, Gap, P2pMatrix
from topocheck.probes.lines import Line, lines, sniffed
from topocheck.probes.smi_errors import errors
from topocheck.probes.smi_topo_rows import header, plain

INPUT = "nvidia-smi topo -p2p"
COMMANDS = ("nvidia-smi topo -p2p r", "nvidia-smi topo -p2p w", "nvidia-smi topo -p2p n")
PATHS = ()
NAME = r"nvidia[-_]?smi[\W_]*topo[\W_]*p2p"

_MAX_MATRICES = 64
_MAX_ROWS = 512
_CELL = r"OK|GNS|CNS|TNS|NS|DR|U|X"
_ROW = re.compile(rf"(?<!\S)(GPU\d{{1,3}})[ \t]+((?:(?:{_CELL})[ \t]*)+)$")
_LOOKS = re.compile(r"GPU\d+[ \t]+(?:(?:OK|[GCT]?NS|DR|U)[ \t]+)*X[ \t]*(?:[ \t](?:OK|[GCT]?NS|DR|U)\b|\r?\n)")
_STATUS = re.compile(r"(?:OK|[GCT]NS) +=|[\t ](?:OK|[GCT]?NS)[\t\r\n ]")
_COMMAND = re.compile(r"(?:-p2p|--p2pstatus)[ _]+(rw|[rwnap])(?![a-z])")


@dataclass
class _Draft:
    """A matrix being read; `capability` is the letter of the last command line above it."""

    capability: str | None
    names: tuple[str, ...] = ()
    rows: dict[str, tuple[Line, list[str]]] = field(default_factory=dict)


def sniff(text: str) -> bool:
    """Whether the text holds a row of such a matrix, and a status in it or in its legend."""
    return sniffed(_LOOKS, text) and sniffed(_STATUS, text)


def parse(text: str, command: str = INPUT) -> Iterable[Fact]:
    """Every matrix in the text. `command` names the capability, unless a command line in the text does."""
    asked = _COMMAND.search(command)
    drafts = islice(_drafts(text, asked[1] if asked else None), _MAX_MATRICES)
    facts = [fact for draft in drafts for fact in _facts(draft)]
    return facts or [*errors(text, INPUT)] or [Gap(INPUT, "no matrix in it")]


def _drafts(text: str, capability: str | None) -> Iterator[_Draft]:
    draft = _Draft(capability)
    for line in lines(text):
        words = plain(line.text)
        if match := _COMMAND.search(words):
            capability = match[1]
        if found := _ROW.search(words):
            if found[1] in draft.rows or len(draft.rows) >= _MAX_ROWS:
                yield draft
                draft = _Draft(capability)
            draft.rows[found[1]] = (line, re.findall(_CELL, found[2]))
        elif (top := header(words)) and top.whole and not top.columns:
            if draft.rows:
                yield draft
            draft = _Draft(capability, top.names)
    yield draft


def _facts(draft: _Draft) -> Iterator[Fact]:
    if not any(cell != "X" for _, cells in draft.rows.values() for cell in cells):
        return
    names = draft.names or tuple(draft.rows)
    witness = f"{INPUT} {draft.capability}" if draft.capability else INPUT
    sound = {
        name: (line, cells)
        for name, (line, cells) in draft.rows.items()
        if name in names and [i for i, cell in enumerate(cells) if cell == "X"] == [names.index(name)]
    }
    yield P2pMatrix(
        witness,
        draft.capability,
        names,
        {
            (name, other): cell
            for name, (_, cells) in sound.items()
            for other, cell in zip(names, cells, strict=False)
            if other != name
        },
        {name: Evidence(witness, line.number, plain(line.text)) for name, (line, _) in sound.items()},
    )
    lost = [name for name in names if name not in sound or len(sound[name][1]) != len(names)]
    if lost:
        yield Gap(witness, f"rows missing, cut short or not fitting their columns: {' '.join(lost)}")
