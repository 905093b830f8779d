"""`ibdiagnet2.lst`, which ibdiagnet leaves in its folder: a line a cable, numbers but the speed in hexadecimal.

{ CA Ports:01 SystemGUID:a088c20300ab1300 NodeGUID:a088c20300ab1300 PortGUID:a088c20300ab1301 VenID:000002C9
DevID:00001021 Rev:00000000 {gpu01 mlx5_0} LID:000C PN:01 } { SW Ports:41 SystemGUID:a088c20300ab1200
NodeGUID:a088c20300ab1200 PortGUID:a088c20300ab1200 VenID:000002C9 DevID:0000D2F2 Rev:000000A0
{MF0;leaf01:MQM9700/U1} LID:0049 PN:01 } PHY=4x LOG=ACT SPD=100
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from topocheck.probes.ib_links import End, Link, end
from topocheck.probes.lines import lines, sniffed

INPUT = "ibdiagnet"

_HEX = "[0-9A-Fa-f]"
_SNIFF = re.compile(rf"^[^\S\n]*\{{ (?:CA|SW|RT) Ports:{_HEX}{{1,4}} SystemGUID:{_HEX}{{8,16}} ", re.MULTILINE)
_END = (
    rf"\{{ (CA|SW) Ports:{_HEX}{{1,4}} SystemGUID:{_HEX}{{1,16}} NodeGUID:({_HEX}{{1,16}}) PortGUID:({_HEX}{{1,16}}) "
    rf"VenID:{_HEX}{{1,8}} DevID:({_HEX}{{1,8}}) Rev:{_HEX}{{1,8}}\s+(?:\{{([^{{}}]{{0,200}})\}}\s*)?"
    rf"LID:({_HEX}{{1,4}}) PN:({_HEX}{{1,3}})\s*\}}"
)
_CABLE = re.compile(rf"{_END}\s*{_END}\s+PHY=(\d{{1,2}})x LOG=(?:ACT|ARM|INI)(?:\s+SPD=(\S{{1,12}}))?")
_SPEEDS = {
    "2.5": "SDR", "5": "DDR", "10": "QDR", "FDR10": "FDR10", "FDR_10": "FDR10", "14": "FDR", "25": "EDR", "50": "HDR",
    "100": "NDR", "200": "XDR",
}  # fmt: skip


def sniff(text: str) -> bool:
    """Whether a line of it is there."""
    return sniffed(_SNIFF, text)


def links(text: str) -> Iterator[Link]:
    """Every line that is a cable of a switch."""
    for line in lines(text):
        if match := _CABLE.match(line.text):
            *ends, width, speed = match.groups()
            own, far = _end(*ends[:7]), _end(*ends[7:])
            yield Link(own, far, int(width), _SPEEDS.get(speed), line, model=f"0x{int(ends[3], 16):x}")


def _end(kind: str, node: str, port: str, _device: str, name: str | None, lid: str, number: str) -> End:
    guid = node if kind == "SW" else port
    return end(kind, guid.lower(), str(int(lid, 16)), str(int(number, 16)), name or "")
