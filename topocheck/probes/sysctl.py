"""`sysctl -a`: of all the kernel's settings, NUMA balancing.

kernel.numa_balancing = 1
kernel.numa_balancing_promote_rate_limit_MBps = 65536
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from topocheck.facts import Fact, Gap, Host
from topocheck.probes.lines import lines_with, sniffed

INPUT = "sysctl -a"
COMMANDS: tuple[str, ...] = ()
PATHS: tuple[str, ...] = ()
NAME = r"sysctl"

_BALANCING = re.compile(r"kernel\.numa_balancing ?= ?(\d{1,3})")
_LOOKS = re.compile(r"^kernel\.[\w.]{2,60} = ", re.MULTILINE)


def sniff(text: str) -> bool:
    """Whether settings are listed as sysctl lists them."""
    return sniffed(_LOOKS, text)


def parse(text: str) -> Iterable[Fact]:
    """One fact, if the setting is among them."""
    for line in lines_with(text, ("kernel.numa_balancing",)):
        if match := _BALANCING.fullmatch(line.text):
            return [Host(INPUT, numa_balancing=int(match[1]), line=line.evidence(INPUT))]
    return [Gap(INPUT, "kernel.numa_balancing is not in it")]
