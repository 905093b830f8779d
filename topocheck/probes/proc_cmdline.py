"""`/proc/cmdline`: the kernel's command line.

BOOT_IMAGE=/vmlinuz-6.8.0-60-generic root=UUID=0 ro quiet iommu=pt intel_iommu=on
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from topocheck.facts import Fact, Host
from topocheck.probes.lines import is_prompt, lines, sniffed

INPUT = "/proc/cmdline"
COMMANDS: tuple[str, ...] = ()
PATHS: tuple[str, ...] = (INPUT,)
NAME = r"(?:proc[._])?cmdline"

_LINE = r"(?:BOOT_IMAGE=\S|(?:[\w.-]{1,40}(?:=\S{0,200})? ){0,20}root=\S)"
_SNIFF = re.compile(rf"^[^\S\n]*{_LINE}", re.MULTILINE)
_BOOT = re.compile(_LINE)


def sniff(text: str) -> bool:
    """Whether a line begins as a command line of the kernel does."""
    return sniffed(_SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """The command line: the line that looks like one, else the only line there is."""
    candidates = [line for line in lines(text[:65536]) if line.text and not is_prompt(line.text)]
    chosen = next((line for line in candidates if _BOOT.match(line.text)), None)
    if chosen is None and len(candidates) == 1:
        chosen = candidates[0]
    if chosen:
        yield Host(INPUT, cmdline=chosen.text, line=chosen.evidence(INPUT))
