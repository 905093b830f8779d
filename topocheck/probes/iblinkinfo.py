"""`iblinkinfo`, in blocks or `-l`: the links of the fabric, from the CAs' and from the switches' side.

Blocks name the far end by LID and description; whose LID that is tells the far end's own block. Lines of `-l` do not
say whether an end is a CA or a switch: one GUID on several ports is a switch. In the last brackets stands what both
ends support and the link does not run at: "Could be 4X", "Could be 106.25 Gbps", or both.

    CA: gpu01 mlx5_0:
          0xa088c20300ab1301     12    1[  ] ==( 4X       106.25 Gbps Active/  LinkUp)==>      73    1[  ] "leaf01" ( )
    Switch: 0xa088c20300ab1200 leaf01:
              73    1[  ] ==( 4X       106.25 Gbps Active/  LinkUp)==>      12    1[  ] "gpu01 mlx5_0" ( )
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from topocheck.facts import Fact, Host
from topocheck.probes.ib_links import End, Link, cablings, end
from topocheck.probes.lines import Line, lines, sniffed

INPUT = "iblinkinfo"
COMMANDS: tuple[str, ...] = ()
PATHS: tuple[str, ...] = ()
NAME = r"iblinkinfo"

_SNIFF = re.compile(
    r"^[^\S\n]*(?:(?:CA|Switch|Router): (?:0x[0-9a-f]{16} )?[^\n]{1,80}:$|Switch 0x[0-9a-f]{16} [^\n]{1,80}:$"
    r"|0x[0-9a-f]{16} [^\n]{0,120}==\()",
    re.MULTILINE,
)
_BLOCK = re.compile(r"(CA|Switch|Router)(?:: | (?=0x))(?:0x([0-9a-f]{16}) )?(.{1,200}):$")  # of 2008: no colon
_KINDS = {"CA": "CA", "Switch": "SW", "Router": "RT"}
_OWN = re.compile(
    r'(?:0x([0-9a-f]{16})\s+)?(?:"([^"]{0,200})"\s+)?(\d{1,5})\s+(\d{1,3})\[[^\]]{0,20}\]\s+==\(([^=]{0,120})\)==>\s+'
)
_FAR = re.compile(r'(?:0x([0-9a-f]{16})\s+)?(\d{1,5})\s+(\d{1,3})\[[^\]]{0,20}\]\s+"([^"]{0,200})"')
_RATE = re.compile(r"\s*(\d{1,2})X\s+(\d{1,3}\.\d{1,6}) Gbps")
_ABLE = re.compile(r"Could be (?:(\d{1,2})X|(\d{1,3}\.\d{1,6}) Gbps|(FDR10))")
_ABLE_CHARS = 120
_SPEEDS = {
    "2.5": "SDR", "5.0": "DDR", "10.0": "QDR", "14.0625": "FDR", "25.78125": "EDR", "53.125": "HDR", "106.25": "NDR",
    "212.5": "XDR",
}  # fmt: skip


def sniff(text: str) -> bool:
    """Whether a block of a CA or switch, or a line of -l, is there."""
    return sniffed(_SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """A bare Host, which says that the input was there, and one fact a cable of a CA."""
    if sniffed(_SNIFF, text):
        yield Host(INPUT)
    yield from cablings(links(text), INPUT)


def links(text: str) -> Iterator[Link]:
    """Every line that is a cable between CA and switch or two switches; the text is gone through twice."""
    known = _Known()
    for own, state, line in _ports(text):
        known.add(own)
        if match := _FAR.match(line.text, state.end()):
            known.see(end("", match[1], match[2], match[3], match[4]))
    for own, state, line in _ports(text):
        if match := _FAR.match(line.text, state.end()):
            guid, lid, port, name = match.groups()
            width, speed = _rate(state[5])
            able = _able(line.text[match.end() : match.end() + _ABLE_CHARS], width, speed)
            yield Link(*known.told(own, end("", guid, lid, port, name)), width, speed, line, able)


def _ports(text: str) -> Iterator[tuple[End, re.Match[str], Line]]:
    """Every port that is listed, also one with nothing on it."""
    kind, block_guid, block_name = "", None, ""
    for line in lines(text):
        if match := _OWN.match(line.text):
            guid, name, lid, port, _ = match.groups()
            if name is None:
                yield end(kind, guid or block_guid, lid, port, block_name), match, line
            else:
                yield end("", guid, lid, port, name), match, line
        elif match := _BLOCK.match(line.text):
            kind, block_guid, block_name = _KINDS[match[1]], match[2], match[3]


class _Known:
    """What the ports' own lines tell of who a LID or a GUID is."""

    def __init__(self) -> None:
        self._by_lid: dict[int, tuple[str, str]] = {}  # kind, GUID
        self._listed: set[str] = set()  # GUIDs with a line of their own
        self._port: dict[
            str | int, int
        ] = {}  # of a GUID, or a LID without, at either end of a line; -1 if it has several
        self._name: dict[int, str] = {}  # of a LID, which its own lines lack where they were picked out with grep

    def see(self, one: End) -> None:
        """An end of a line."""
        known = one.guid or one.lid
        if known and self._port.setdefault(known, one.port) != one.port:
            self._port[known] = -1
        if one.name:
            self._name.setdefault(one.lid, one.name)

    def add(self, own: End) -> None:
        """A port's own line."""
        self.see(own)
        if own.guid:
            self._listed.add(own.guid)
            if own.lid:
                self._by_lid[own.lid] = (own.kind, own.guid)

    def told(self, own: End, far: End) -> tuple[End, End]:
        """Both ends with what is known of them; on a switch, a port that has a line of its own is a CA's."""
        own, far = self._told(own), self._told(far)
        if far.kind == "SW" and not own.kind:
            own = own._replace(kind="CA")
        elif own.kind == "SW" and not far.kind and far.guid in self._listed:
            far = far._replace(kind="CA")
        return own, far

    def _told(self, one: End) -> End:
        kind, guid, name = one.kind, one.guid, one.name or self._name.get(one.lid, "")
        if not kind:
            kind, found = self._by_lid.get(one.lid, ("", ""))
            guid = guid or found
        if not kind and self._port.get(guid or one.lid) == -1:
            kind = "SW"
        return one if (kind, guid, name) == (*one[:2], one.name) else one._replace(kind=kind, guid=guid, name=name)


def _rate(state: str) -> tuple[int | None, str | None]:
    """ " 4X       106.25 Gbps Active/  LinkUp" → 4, "NDR"."""
    match = _RATE.match(state)
    if not match:
        return None, None
    return int(match[1]), "FDR10" if "FDR10" in state else _SPEEDS.get(match[2])


def _able(text: str, width: int | None, speed: str | None) -> tuple[int | None, str | None] | None:
    """ " ( Could be 4X Could be 106.25 Gbps)" → 4, "NDR"; what it does not name is as it is. Twelve lanes, which old
    ports and a simulator's claim to support, are no cable's in use."""
    said = [found for found in _ABLE.findall(text) if found[0] != "12"]
    for lanes, rate, name in said:
        width, speed = int(lanes or width or 0) or None, name or _SPEEDS.get(rate, speed)
    return (width, speed) if said else None
