"""What the user named → the source that reads it: by what it is, whatever it is called."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

from topocheck.errors import SourceError
from topocheck.sources.base import MAX_TEXT_BYTES, Missing, Source
from topocheck.sources.reading import printable, read_all, reason_of, special_kind

STDIN = "stdin"
_HEAD_BYTES = 1 << 19  # of a packed file: enough to unpack the beginning of what is in it


def open_source(
    spec: str | None, *, root: str | None = None, budget_s: float = 20.0, tools: str | None = None
) -> Source:
    """The source for a path, "-" for standard input, None for this machine. SourceError if it cannot be opened.

    `root`, `budget_s` and `tools` are the live source's: where its files lie, how long its commands may take together,
    and the only folder they are looked up in.
    """
    if spec is None:
        from topocheck.sources.live import open_live

        return open_live(root=root, budget_s=budget_s, tools=tools)
    if spec in ("-", "/dev/stdin"):
        return _open_stdin()
    mode = mode_of(spec)
    if stat.S_ISDIR(mode):
        from topocheck.sources.folder import FolderSource

        return FolderSource(spec)
    return _open_file(spec, special_kind(mode))


def _open_file(path: str, special: str | None) -> Source:
    try:
        if special is not None:  # before opening: to open a device may do something
            raise OSError(f"is {special}")
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return _source_of(path, fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise SourceError(
            f"{printable(path)}: {reason_of(error)}: give a plain file or a folder, or pipe it to --from -"
        ) from None


def _open_stdin() -> Source:
    try:
        if os.isatty(0):
            raise SourceError("standard input is a terminal: pipe a tool's output into it, or give a file or folder")
        return _source_of(STDIN, 0)
    except OSError as error:
        raise SourceError(f"standard input: {reason_of(error)}: pipe a tool's output into it") from None


class _Peeked:
    """An open file whose beginning was looked at."""

    def __init__(self, fd: int) -> None:
        self._fd, self.head = fd, b""
        while len(self.head) < _HEAD_BYTES and (more := os.read(fd, _HEAD_BYTES - len(self.head))):
            self.head += more
        self._ahead = io.BytesIO(self.head)

    def read(self, size: int, /) -> bytes:
        """At most so many bytes, none at the end."""
        return self._ahead.read(size) or os.read(self._fd, size)


def _source_of(name: str, fd: int) -> Source:
    """A tar archive, a bug report or one text, packed or not."""
    from topocheck.sources import bug_report, tar, unpack

    stream = _Peeked(fd)
    packing = unpack.packing_of(stream.head)
    head = unpack.head_of(stream.head, bug_report.HEAD_BYTES)
    if tar.is_tar(head):
        from topocheck.sources.archive import read_archive
        from topocheck.sources.folder import FolderSource

        files, gaps = read_archive(unpack.opened(stream, packing), printable(name))
        return FolderSource(name, files, gaps)
    if bug_report.begins(head):
        return bug_report.BugReport(name, unpack.opened(stream, packing, bug_report.MAX_BYTES))
    return _one_text(name, stream, packing)


def _one_text(name: str, stream: _Peeked, packing: str | None) -> Source:
    from topocheck.sources import unpack
    from topocheck.sources.text import TextSource

    if packing is None:
        return TextSource(name, *read_all(stream.read, MAX_TEXT_BYTES))
    unpacked = unpack.Unpacked(stream, packing)
    data, cut = read_all(unpacked.read, MAX_TEXT_BYTES)
    if unpacked.problem and not data:
        raise SourceError(f"{printable(name)}: {unpacked.problem}")
    return TextSource(name, data, cut, [Missing(printable(name), unpacked.problem)] if unpacked.problem else [])


def mode_of(path: str, *, give: str = "a folder, a file, or - for standard input") -> int:
    """The kind of file a path leads to; SourceError if it leads nowhere, with what to give instead."""
    if not path:  # pathlib would take it for the current folder
        raise SourceError(f"the name of the input is empty; give {give}")
    try:
        return Path(path).stat().st_mode
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "no such file"
        raise SourceError(f"{printable(path)}: {reason}; give {give}") from None
