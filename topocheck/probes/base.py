"""What a probe is: one module a tool.

A *text probe* has

    INPUT     the command or path its evidence names ("nvidia-smi topo -m")
    COMMANDS  what a live source runs, without a shell
    PATHS     files a live source reads
    NAME      a regular expression for the file names people and sosreport give to this output (matched at the start)
    sniff     whether a text looks like this output, when its name says nothing
    parse     text → facts; pure, never raises on odd text, one bad line costs one line

A *tree probe* reads files of the machine's own tree (`/sys/…`) through the source and has `read(source)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from topocheck.facts import Fact
from topocheck.sources.base import Source


class TextProbe(Protocol):
    """A module that reads one tool's output."""

    INPUT: str
    COMMANDS: tuple[str, ...]
    PATHS: tuple[str, ...]
    NAME: str

    def sniff(self, text: str) -> bool:
        """Whether the text holds this tool's output."""

    def parse(self, text: str) -> Iterable[Fact]:
        """The facts the text states, and gaps for what was lost."""


class TreeProbe(Protocol):
    """A module that reads the machine's file tree."""

    INPUT: str

    def read(self, source: Source) -> Iterable[Fact]:
        """The facts the tree states; nothing where there is no such tree."""
