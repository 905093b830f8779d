"""`ibnetdiscover`, whole or `-p`: which switch port each CA port of the fabric is cabled to.

The devices in it are other nodes' too, so it states no device: build ties a cable to a port of this node by GUID.

    Switch  41 "S-a088c20300ab1200"         # "MF0;leaf01:MQM9700/U1" enhanced port 0 lid 73 lmc 0
    [1]     "H-a088c20300ab1300"[1](a088c20300ab1301)         # "gpu01 mlx5_0" lid 12 4xNDR

    Ca      1 "H-a088c20300ab1300"          # "gpu01 mlx5_0"
    [1](a088c20300ab1301)   "S-a088c20300ab1200"[1]         # lid 12 lmc 0 "MF0;leaf01:MQM9700/U1" lid 73 4xNDR

    CA    12  1 0xa088c20300ab1301 4x NDR - SW    73  1 0xa088c20300ab1200 ( 'gpu01 mlx5_0' - 'MF0;leaf01:MQM9700/U1' )
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from topocheck.facts import Cabling, Fact, Gap, Host, LeafPort
from topocheck.probes import rdma_draft as rdma
from topocheck.probes.lines import Line, lines, sniffed

INPUT = "ibnetdiscover"
COMMANDS: tuple[str, ...] = ()
PATHS: tuple[str, ...] = ()
NAME = r"ibnetdiscover"

_SNIFF = re.compile(
    r'^[^\S\n]*(?:(?:Switch|Ca|Rt)[^\S\n]{1,20}\d{1,4} "[SHR]-[0-9a-f]{8,16}"|(?:switch|ca)guid=0x[0-9a-f]{8}'
    r"|(?:CA|SW|RT)[^\S\n]{1,9}\d{1,5}[^\S\n]{1,9}\d{1,3} 0x[0-9a-f]{16} \d{1,2}x )",
    re.MULTILINE,
)
_SWITCH = re.compile(r'Switch\s+\d{1,4}\s+"S-([0-9a-f]{8,16})"\s*#\s*"([^"]{0,200})"')
_CA = re.compile(r'Ca\s+\d{1,3}\s+"H-[0-9a-f]{8,16}"\s*#\s*"([^"]{0,200})"')
_EXTERNAL = r"(?:\[[^\]]{0,20}\])?"  # of a modular switch: [1][ext 1]
_CA_ON_SWITCH = re.compile(
    rf'\[(\d{{1,3}})\]{_EXTERNAL}\s+"H-[0-9a-f]{{8,16}}"\[\d{{1,3}}\](?:\(([0-9a-f]{{1,16}})\))?\s*'
    r'#\s*"([^"]{0,200})"\s+lid\s+(\d{1,5})'
)
_SWITCH_ON_CA = re.compile(
    rf'\[\d{{1,3}}\]\(([0-9a-f]{{1,16}})\)\s+"S-([0-9a-f]{{8,16}})"\[(\d{{1,3}})\]{_EXTERNAL}\s*'
    r'#\s*lid\s+(\d{1,5})\s+lmc\s+\d{1,2}\s+"([^"]{0,200})"'
)
_END = r"(CA|SW)\s+(\d{1,5})\s+(\d{1,3}) 0x([0-9a-f]{16})"
_PAIR = re.compile(rf"{_END}\s+\S{{1,8}}\s+\S{{1,12}}\s+-\s+{_END}\s+\( ?'([^']{{0,200}})' - '([^']{{0,200}})' ?\)")


MOST_CABLES = 100_000  # the largest fabrics have some ten thousand nodes


class Cable(NamedTuple):
    """One cable between a switch and a CA, as printed."""

    switch_guid: str
    switch_name: str
    switch_port: str
    ca_guid: str | None
    ca_lid: int
    ca_name: str
    line: Line


def sniff(text: str) -> bool:
    """Whether a record of the topology file or a line of the -p form is there."""
    return sniffed(_SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """A bare Host, which says that the input was there, and one fact a cable of a CA."""
    if sniffed(_SNIFF, text):
        yield Host(INPUT)
    yield from cablings(_cables(text), INPUT)


def cablings(found: Iterable[Cable], witness: str) -> Iterator[Cabling | Gap]:
    """The cables as facts; a switch whose name is not its own (a factory name) goes by its GUID."""
    cables = list(islice(found, MOST_CABLES + 1))
    if len(cables) > MOST_CABLES:
        cables.pop()
        yield Gap(witness, f"more than {MOST_CABLES} cables of CAs: the rest was not read")
    guids: dict[str, set[str]] = {}
    for cable in cables:
        guids.setdefault(cable.switch_name, set()).add(cable.switch_guid)
    for cable in cables:
        named = cable.switch_name and len(guids[cable.switch_name]) == 1
        name = switch_name(cable.switch_name) if named else f"0x{cable.switch_guid.zfill(16)}"
        leaf = LeafPort(name, cable.switch_port, witness, cable.line.evidence(witness))
        guid = rdma.guid(cable.ca_guid) if cable.ca_guid else None
        yield Cabling(witness, leaf, guid, cable.ca_lid or None, " ".join(cable.ca_name.split()) or None)


def switch_name(description: str) -> str:
    """A switch's own name out of its node description.

    >>> switch_name("MF0;leaf01:MQM9700/U1"), switch_name("MF0;core:MCS8500/L01/U1"), switch_name(" leaf2 ")
    ('leaf01', 'core/L01/U1', 'leaf2')
    """
    name = description.strip().removeprefix("MF0;")
    name, _, model = name.partition(":")
    _, _, board = model.partition("/")
    return f"{name}/{board}" if "/" in board else name


def _cables(text: str) -> Iterator[Cable]:
    switch: tuple[str, str] | None = None
    ca = ""
    for line in lines(text):
        if match := _SWITCH.match(line.text):
            switch = (match[1], match[2])
        elif match := _CA.match(line.text):
            switch, ca = None, match[1]
        elif switch and (match := _CA_ON_SWITCH.match(line.text)):
            yield Cable(*switch, match[1], match[2], int(match[4]), match[3], line)
        elif not switch and (match := _SWITCH_ON_CA.match(line.text)):
            yield Cable(match[2], match[5], match[3], match[1], int(match[4]), ca, line)
        elif match := _PAIR.match(line.text):
            yield from _pair(match, line)


def _pair(match: re.Match[str], line: Line) -> Iterator[Cable]:
    kind, lid, port, guid, other_kind, other_lid, other_port, other_guid, name, other_name = match.groups()
    if (kind, other_kind) == ("CA", "SW"):
        yield Cable(other_guid, other_name, other_port, guid, int(lid), name, line)
    elif (kind, other_kind) == ("SW", "CA"):
        yield Cable(guid, name, port, other_guid, int(other_lid), other_name, line)
