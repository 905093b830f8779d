"""What the user named → the source that reads it."""

from __future__ import annotations

import stat
from pathlib import Path

from topocheck.errors import SourceError
from topocheck.sources.base import Source
from topocheck.sources.reading import printable, reason_of


def open_source(
    spec: str | None, *, root: str | None = None, budget_s: float = 20.0, tools: str | None = None
) -> Source:
    """The source for a path, "-" for standard input, None for this machine. SourceError if it cannot be opened.

    `root`, `budget_s` and `tools` are the live source's: where its files lie, how long its commands may take together,
    and the only folder they are looked up in.
    """
    if spec is None:
        from topocheck.sources.live import LiveSource

        if root is not None and not Path(root).is_dir():
            raise SourceError(f"{root}: no such folder: give the one this machine's /sys and /proc lie in")
        if tools is not None and not Path(tools).is_dir():
            raise SourceError(f"{tools}: no such folder: give the one the commands lie in")
        return LiveSource(root=root or "/", budget_s=budget_s, tools=tools and str(Path(tools).resolve()))
    from topocheck.sources.text import open_file, open_stdin

    if spec in ("-", "/dev/stdin"):
        return open_stdin()
    if stat.S_ISDIR(_mode(spec)):
        from topocheck.sources.folder import FolderSource

        return FolderSource(spec)
    return open_file(spec)


def _mode(path: str) -> int:
    """The kind of file a path leads to; SourceError if it leads nowhere."""
    if not path:  # pathlib would take it for the current folder
        raise SourceError("the name of the input is empty: give a folder, a file, or - for standard input")
    try:
        return Path(path).stat().st_mode
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "no such file"
        raise SourceError(f"{printable(path)}: {reason}: give a folder, a file, or - for standard input") from None
