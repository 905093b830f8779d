"""One file, or standard input: the output of one tool, or of several one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import PurePath

from topocheck.sources.base import Manifest, Missing, Raw
from topocheck.sources.reading import archive_error, printable, text_or_gaps

_HEAD_CHARS = 1 << 16
_KINDS = (("nccl-xml", re.compile(r"<system\s[^>]{0,200}version=")), ("hwloc-xml", re.compile(r"<topology[\s>]")))


class TextSource:
    """Hands out one text. It has no tree of the machine."""

    manifest = Manifest()

    def __init__(self, name: str, data: bytes, cut: bool, gaps: Sequence[Missing] = ()) -> None:
        archive_error(name, data)
        self.name = printable(name)
        text, more = text_or_gaps(self.name, data, cut)
        raw = [] if text is None else [Raw(PurePath(self.name).name, text, self.name)]
        self.kind = _kind(text or "")
        self._texts: list[Raw | Missing] = [*raw, *gaps, *more]

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


def _kind(text: str) -> str:
    """What a document calls itself; "text" for everything else."""
    return next((kind for kind, opening in _KINDS if opening.search(text, 0, _HEAD_CHARS)), "text")
