"""Outputs that describe the fabric, not this node: ibnetdiscover, iblinkinfo, perfquery and their like.

The devices in them are other nodes' too, so they state no device. Which leaf a port reaches could be read here; this
version recognises the file and says that it does not judge it.

    Switch  41 "S-a088c20300ab1200"         # "MF0;leaf01:MQM9700/U1" enhanced port 0 lid 73 lmc 0
    [1]     "H-a088c20300ab1300"[1](a088c20300ab1300)         # "gpu01 mlx5_0" lid 12 4xNDR
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from topocheck.facts import Fact, Gap, Host
from topocheck.probes.lines import sniffed

INPUT = "ibnetdiscover"
COMMANDS: tuple[str, ...] = ()
PATHS: tuple[str, ...] = ()
NAME = r"ibnetdiscover|iblinkinfo|perfquery|ibqueryerrors|ibswitches|ibhosts|sminfo"

_TOOLS = {
    "ibnetdiscover": re.compile(
        r'^[^\S\n]*(?:(?:Switch|Ca|Rt)[^\S\n]{1,20}\d{1,4} "[SHR]-[0-9a-f]{8,16}"|(?:switch|ca)guid=0x[0-9a-f]{8}'
        r"|(?:CA|SW|RT)[^\S\n]{1,9}\d{1,5}[^\S\n]{1,9}\d{1,3} 0x[0-9a-f]{16} \d{1,2}x )",
        re.MULTILINE,
    ),
    "iblinkinfo": re.compile(
        r"^[^\S\n]*(?:(?:CA|Switch|Router): (?:0x[0-9a-f]{16} )?[^\n]{1,80}:$|0x[0-9a-f]{16} [^\n]{0,120}==\()",
        re.MULTILINE,
    ),
    "perfquery": re.compile(r"^[^\S\n]*# Port (?:extended )?counters: Lid \d", re.MULTILINE),
    "ibhosts": re.compile(r"^[^\S\n]*Ca\t: 0x[0-9a-f]{16} ports \d", re.MULTILINE),
    "ibswitches": re.compile(r"^[^\S\n]*Switch\t: 0x[0-9a-f]{16} ports \d", re.MULTILINE),
    "sminfo": re.compile(r"^[^\S\n]*sminfo: sm lid \d", re.MULTILINE),
    "ibqueryerrors": re.compile(r'^Errors for (?:0x[0-9a-f]{8}|")', re.MULTILINE),
}


def sniff(text: str) -> bool:
    """Whether one of the tools wrote it."""
    return any(sniffed(pattern, text) for pattern in _TOOLS.values())


def parse(text: str) -> Iterable[Fact]:
    """A bare Host, which says that the input was there, and a gap that says it was not used."""
    for tool, pattern in _TOOLS.items():
        if sniffed(pattern, text):
            yield Host(tool)
            yield Gap(tool, "input read; leaf and fabric evidence is not judged by this version")
