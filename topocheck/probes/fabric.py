"""Outputs that describe the fabric and name no leaf of this node: ibqueryerrors, ibswitches, ibhosts, sminfo.

The devices in them are other nodes' too, so they state no device; they are recognised and said not to be judged.

    Ca	: 0xa088c20300ab1300 ports 1 "gpu01 mlx5_0"
    sminfo: sm lid 1 sm guid 0xa088c20300ab1200, activity count 5 priority 14 state 3 SMINFO_MASTER
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from topocheck.facts import Fact, Gap, Host
from topocheck.probes.lines import sniffed

INPUT = "ibqueryerrors"
COMMANDS: tuple[str, ...] = ()
PATHS: tuple[str, ...] = ()
NAME = r"ibqueryerrors|ibswitches|ibhosts|sminfo"

_TOOLS = {
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
            yield Gap(tool, "input read; it names no leaf of this node and is not judged")
