"""`iblinkinfo`, in blocks or `-l`: the links of the fabric, from the CAs' and from the switches' side.

Blocks name the far end by LID and description, so a switch's block gives no GUID of the CA.

    CA: gpu01 mlx5_0:
          0xa088c20300ab1301     12    1[  ] ==( 4X       106.25 Gbps Active/  LinkUp)==>      73    1[  ] "leaf01" ( )
    Switch: 0xa088c20300ab1200 leaf01:
              73    1[  ] ==( 4X       106.25 Gbps Active/  LinkUp)==>      12    1[  ] "gpu01 mlx5_0" ( )
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from topocheck.facts import Fact, Host
from topocheck.probes.ibnetdiscover import Cable, cablings
from topocheck.probes.lines import Line, lines, sniffed

INPUT = "iblinkinfo"
COMMANDS: tuple[str, ...] = ()
PATHS: tuple[str, ...] = ()
NAME = r"iblinkinfo"

_SNIFF = re.compile(
    r"^[^\S\n]*(?:(?:CA|Switch|Router): (?:0x[0-9a-f]{16} )?[^\n]{1,80}:$|0x[0-9a-f]{16} [^\n]{0,120}==\()",
    re.MULTILINE,
)
_BLOCK = re.compile(r"(CA|Switch|Router): (?:0x([0-9a-f]{16}) )?(.{1,200}):$")
_END = r'(?:0x([0-9a-f]{16})\s+)?(?:"([^"]{0,200})"\s+)?(\d{1,5})\s+(\d{1,3})\[[^\]]{0,20}\]'
_LINK = re.compile(rf'{_END}\s+==\([^)]{{0,120}}\)==>\s+{_END}\s+"([^"]{{0,200}})"')


def sniff(text: str) -> bool:
    """Whether a block of a CA or switch, or a line of -l, is there."""
    return sniffed(_SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """A bare Host, which says that the input was there, and one fact a cable of a CA."""
    if sniffed(_SNIFF, text):
        yield Host(INPUT)
    yield from cablings(_cables(text), INPUT)


def _cables(text: str) -> Iterator[Cable]:
    kind, guid, name = "", "", ""
    for line in lines(text):
        if match := _BLOCK.match(line.text):
            kind, guid, name = match[1], match[2] or "", match[3].strip()
        elif match := _LINK.match(line.text):
            yield from _cable(kind, guid, name, match, line)


def _cable(kind: str, guid: str, name: str, match: re.Match[str], line: Line) -> Iterator[Cable]:
    """A CA's line gives its port's GUID; a line of -l gives both, and either end may be the switch."""
    own_guid, own_name, own_lid, own_port, far_guid, _, far_lid, far_port, far_name = match.groups()
    if own_name is not None:
        yield Cable(far_guid or far_lid, far_name, far_port, own_guid, int(own_lid), own_name, line)
        yield Cable(own_guid, own_name, own_port, far_guid, int(far_lid), far_name, line)
    elif kind == "CA":
        yield Cable(far_guid or far_lid, far_name, far_port, own_guid, int(own_lid), name, line)
    elif kind == "Switch":
        yield Cable(guid, name, own_port, None, int(far_lid), far_name, line)
