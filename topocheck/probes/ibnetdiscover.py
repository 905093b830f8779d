"""`ibnetdiscover`, whole or `-p`: which switch port each CA port of the fabric is cabled to.

The devices in it are other nodes' too, so it states no device: build ties a cable to a port of this node by GUID.

    Switch  41 "S-a088c20300ab1200"         # "MF0;leaf01:MQM9700/U1" enhanced port 0 lid 73 lmc 0
    [1]     "H-a088c20300ab1300"[1](a088c20300ab1301)         # "gpu01 mlx5_0" lid 12 4xNDR

    Ca      1 "H-a088c20300ab1300"          # "gpu01 mlx5_0"
    [1](a088c20300ab1301)   "S-a088c20300ab1200"[1]         # lid 12 lmc 0 "MF0;leaf01:MQM9700/U1" lid 73 4xNDR

The device's id stands above its record, "devid=0x1021".

    CA    12  1 0xa088c20300ab1301 4x NDR - SW    73  1 0xa088c20300ab1200 ( 'gpu01 mlx5_0' - 'MF0;leaf01:MQM9700/U1' )
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from topocheck.facts import Fact, Host
from topocheck.probes.ib_links import Link, cablings, end
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
_PORT = rf"\[(\d{{1,3}})\]{_EXTERNAL}"
_SPEED = r"(\d{1,2})x(\S{1,8})"
_ON_SWITCH = re.compile(
    rf'{_PORT}\s+"([HS])-([0-9a-f]{{8,16}})"{_PORT}(?:\(([0-9a-f]{{1,16}})\))?\s*'
    rf'#\s*"([^"]{{0,200}})"\s+lid\s+(\d{{1,5}})(?:\s+{_SPEED})?'
)
_ON_CA = re.compile(
    rf'\[(\d{{1,3}})\]\(([0-9a-f]{{1,16}})\)\s+"S-([0-9a-f]{{8,16}})"{_PORT}\s*'
    rf'#\s*lid\s+(\d{{1,5}})\s+lmc\s+\d{{1,2}}\s+"([^"]{{0,200}})"(?:\s+lid\s+\d{{1,5}}\s+{_SPEED})?'
)
_NEXT = ("vendid=", "devid=", "sysimgguid=", "switchguid=", "caguid=", "rtguid=", "Switch", "Ca", "Rt")
_END = r"(CA|SW)\s+(\d{1,5})\s+(\d{1,3}) 0x([0-9a-f]{16})"
_PAIR = re.compile(
    rf"{_END}\s+(\d{{1,2}})x\s+(\S{{1,12}})\s+-\s+{_END}\s+\( ?'([^']{{0,200}})' - '([^']{{0,200}})' ?\)"
)


def sniff(text: str) -> bool:
    """Whether a record of the topology file or a line of the -p form is there."""
    return sniffed(_SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """A bare Host, which says that the input was there, and one fact a cable of a CA."""
    if sniffed(_SNIFF, text):
        yield Host(INPUT)
    yield from cablings(links(text), INPUT)


def links(text: str) -> Iterator[Link]:
    """Every line that is a cable between CA and switch or two switches; those of a record whose head is not there are
    nobody's."""
    switch: tuple[str, str] | None = None  # the record's GUID and name
    ca: str | None = None
    model: str | None = None
    for line in lines(text):
        if line.text[0] == "[":
            if switch and (match := _ON_SWITCH.match(line.text)):
                yield _on_switch(*switch, match, line)
            elif ca is not None and (match := _ON_CA.match(line.text)):
                yield _on_ca(ca, match, line)._replace(model=model)
        elif match := _SWITCH.match(line.text):
            switch, ca = (match[1], match[2]), None
        elif match := _CA.match(line.text):
            switch, ca = None, match[1]
        elif match := _PAIR.match(line.text):
            yield _pair(match, line)
        elif line.text.startswith(_NEXT):
            switch = ca = None
            if line.text.startswith("devid="):
                model = line.text[6:20]


def _on_switch(guid: str, name: str, match: re.Match[str], line: Line) -> Link:
    port, kind, far_guid, far_port, port_guid, far_name, far_lid, width, speed = match.groups()
    own = end("SW", guid, None, port, name)
    far = (
        end("CA", port_guid, far_lid, far_port, far_name)
        if kind == "H"
        else end("SW", far_guid, far_lid, far_port, far_name)
    )
    return Link(own, far, _width(width), speed, line)


def _on_ca(name: str, match: re.Match[str], line: Line) -> Link:
    port, guid, switch_guid, switch_port, lid, switch_name, width, speed = match.groups()
    own, far = end("CA", guid, lid, port, name), end("SW", switch_guid, None, switch_port, switch_name)
    return Link(own, far, _width(width), speed, line)


def _pair(match: re.Match[str], line: Line) -> Link:
    kind, lid, port, guid, width, speed, far_kind, far_lid, far_port, far_guid, name, far_name = match.groups()
    own, far = end(kind, guid, lid, port, name), end(far_kind, far_guid, far_lid, far_port, far_name)
    return Link(own, far, _width(width), speed, line)


def _width(text: str | None) -> int | None:
    return int(text) if text else None
