"""`/proc/modules` or `lsmod`: the loaded kernel modules.

Only a whole list says that a module is not loaded, so what grep has left of one says nothing.

    nvidia_peermem 16384 0 - Live 0x0000000000000000 (O)
    nvidia 56823808 573 nvidia_uvm,nvidia_peermem, Live 0x0000000000000000 (O)
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from topocheck.facts import Fact, Gap, Host
from topocheck.probes.lines import lines, sniffed

INPUT = "/proc/modules"
COMMANDS: tuple[str, ...] = ()
PATHS: tuple[str, ...] = (INPUT,)
NAME = r"lsmod|(?:proc[._])?modules(?:\.txt)?$"

FEWEST = 10  # a kernel with fewer modules and a GPU driver among them has not been seen; a grep has

_PROC_ROW = re.compile(r"(\w{1,64}) \d{1,12} -?\d{1,6} \S{1,2000} (?:Live|Loading|Unloading) 0x")
_LSMOD_HEADER = re.compile(r"Module\s+Size\s+Used by")
_LSMOD_ROW = re.compile(r"(\w{1,64})\s+\d{1,12}\s+-?\d{1,6}(?:\s|$)")
_SNIFF = re.compile(rf"^[^\S\n]*(?:{_PROC_ROW.pattern}|Module[^\S\n]{{1,60}}Size[^\S\n]{{1,20}}Used by)", re.MULTILINE)


def sniff(text: str) -> bool:
    """Whether the list is there in either form."""
    return sniffed(_SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """The names of the modules, or a gap where the list is an excerpt."""
    names: set[str] = set()
    in_lsmod = False
    for line in lines(text):
        if match := _PROC_ROW.match(line.text):
            names.add(match[1])
        elif _LSMOD_HEADER.match(line.text):
            in_lsmod = True
        elif in_lsmod:
            match = _LSMOD_ROW.match(line.text)
            in_lsmod = match is not None
            names |= {match[1]} if match else set()
    if len(names) >= FEWEST:
        yield Host(INPUT, modules=frozenset(names))
    elif names:
        yield Gap(INPUT, f"only {len(names)} modules are listed: an excerpt does not tell what is not loaded")
