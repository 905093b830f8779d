"""`uname -r` and `uname -a`: kernel release, with -a also host name and architecture.

Linux gpu01 6.8.0-60-generic #63-Ubuntu SMP PREEMPT_DYNAMIC Tue Apr 15 19:04:15 UTC 2025 x86_64 GNU/Linux
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from topocheck.facts import Fact, Host
from topocheck.probes.lines import lines, sniffed

INPUT = "uname -r"
COMMANDS: tuple[str, ...] = ("uname -r",)
PATHS: tuple[str, ...] = ()
NAME = r"uname"

_RELEASE = r"\d{1,2}\.\d{1,3}\.\d{1,4}[\w.+~-]{0,80}"
_ALL = re.compile(rf"Linux (\S{{1,253}}) ({_RELEASE}) #\S.*?(?:\b(x86_64|aarch64|ppc64le|riscv64)\b.*)?$")
_ALONE = re.compile(_RELEASE)
_SNIFF_ALL = re.compile(rf"^[^\S\n]*Linux \S{{1,253}} {_RELEASE} #", re.MULTILINE)


def sniff(text: str) -> bool:
    """Whether a line is what `uname -a` prints, or the text is a release and nothing else."""
    return sniffed(_SNIFF_ALL, text) or (len(text) < 200 and _ALONE.fullmatch(text.strip()) is not None)


def parse(text: str) -> Iterable[Fact]:
    """The host's kernel."""
    for line in lines(text):
        if match := _ALL.match(line.text):
            hostname, release, arch = match.groups()
            yield Host(INPUT, hostname=hostname, kernel=release, arch=arch, line=line.evidence(INPUT))
            return
        if _ALONE.fullmatch(line.text):
            yield Host(INPUT, kernel=line.text, line=line.evidence(INPUT))
            return
