"""`/proc/driver/nvidia/version`: the loaded NVIDIA driver, and whether its kernel modules are the open ones.

NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22)
GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from topocheck.facts import Fact, Host
from topocheck.probes.lines import lines_with, sniffed

INPUT = "/proc/driver/nvidia/version"
COMMANDS: tuple[str, ...] = ()
PATHS: tuple[str, ...] = (INPUT,)
NAME = r"(?:proc[._])?(?:driver[._])?nvidia[._]version"

_BANNER = re.compile(
    r"NVIDIA UNIX (?:(Open) )?(?:[\w-]{1,20} )?Kernel Module(?: for [\w-]{1,20})?\s+(\d{3}(?:\.\d{1,4}){1,2})"
)
_SNIFF = re.compile(r"^[^\S\n]*NVRM version: NVIDIA UNIX ", re.MULTILINE)


class Banner(NamedTuple):
    """The driver's own line about itself, here and in the kernel log."""

    driver: str
    is_open: bool


def banner(text: str) -> Banner | None:
    """Version and kind of the kernel module.

    >>> banner("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023")
    Banner(driver='535.129.03', is_open=False)
    """
    match = _BANNER.search(text)
    return Banner(match[2], match[1] is not None) if match else None


def sniff(text: str) -> bool:
    """Whether the driver's own line is there."""
    return sniffed(_SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """The host's driver."""
    for line in lines_with(text, ("NVRM version:",)):
        if found := banner(line.text):
            yield Host(INPUT, driver=found.driver, open_driver=found.is_open, line=line.evidence(INPUT))
            return
