"""The probes, and what tells their inputs apart.

The table repeats each module's NAME, COMMANDS and PATHS, so that only the modules whose input is there are imported
(a test compares the two). Of two names that match, the longer match wins.
"""

from __future__ import annotations

from typing import NamedTuple


class TextEntry(NamedTuple):
    """A text probe: its module, and what it says of its input."""

    module: str
    name: str  # regular expression, matched at the start of a file's name
    commands: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    takes_command: bool = False  # parse() wants the command line, as far as the input's name gives it away


TEXT_PROBES: tuple[TextEntry, ...] = (
    TextEntry("ibstat", r"ibstat(?!us)", ("ibstat",)),
    TextEntry("ibv_devinfo", r"ibv_devinfo", ("ibv_devinfo -v",)),
    TextEntry("lscpu", r"lscpu", ("lscpu",)),
    TextEntry(
        "lspci",
        r"(?:sudo_)?lspci(?:_-[nvxkmbDs]+)*(?:_-[sd]_[\w.:-]+)?(?:_-[nvxk]+)*(?:_grep_.*)?(?:[._](?:txt|log|out))?$",
        ("lspci -D -nn -vv",),
    ),
    TextEntry("numactl", r"numactl(?!.{0,40}-{1,2}s(?:how)?\b)", ("numactl -H",)),
)
TREE_PROBES: tuple[str, ...] = ()
