"""One file, or standard input: the output of one tool, or of several one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from topocheck.errors import SourceError
from topocheck.sources.base import Manifest, Missing, Raw
from topocheck.sources.reading import (
    archive_error,
    printable,
    read_fd,
    read_file,
    reason_of,
    text_or_gaps,
)

STDIN = "stdin"


class TextSource:
    """Hands out one text. It has no tree of the machine."""

    kind = "text"
    manifest = Manifest()

    def __init__(self, name: str, data: bytes, cut: bool, input_: str | None = None) -> None:
        archive_error(name, data)
        self.name = printable(name)
        text, gaps = text_or_gaps(self.name, data, cut)
        raw = [] if text is None else [Raw(input_ or Path(self.name).name, text, self.name)]
        self._texts: list[Raw | Missing] = [*raw, *gaps]

    def texts(self, commands: Sequence[str], paths: Sequence[str]) -> list[Raw | Missing]:
        """The one text, or why there is none."""
        return self._texts

    def read(self, path: str) -> str | None:
        """Nothing: one text is no tree."""
        return None

    def read_bytes(self, path: str) -> bytes | None:
        """Nothing: one text is no tree."""
        return None

    def glob(self, pattern: str) -> list[str]:
        """Nothing: one text is no tree."""
        return []

    def sampled(self, paths: Sequence[str], rank: Callable[[str], float]) -> dict[str, str]:
        """Nothing: one text is no tree."""
        return {}

    def realpath(self, path: str) -> str | None:
        """Nothing: one text is no tree."""
        return None


def open_file(path: str) -> TextSource:
    """The source for one file; SourceError where it cannot be read or is no plain file."""
    try:
        data, cut = read_file(path)
    except OSError as error:
        raise SourceError(
            f"{path}: {reason_of(error)}: give a plain file or a folder, or pipe it to --from -"
        ) from None
    return TextSource(path, data, cut)


def open_stdin() -> TextSource:
    """The source for standard input, read to its end or to the limit; SourceError for a terminal."""
    try:
        if os.isatty(0):
            raise SourceError("standard input is a terminal: pipe a tool's output into it, or give a file or folder")
        data, cut = read_fd(0)
    except OSError as error:
        raise SourceError(f"standard input: {reason_of(error)}: pipe a tool's output into it") from None
    return TextSource(STDIN, data, cut)
