"""What the user named → streams of bytes, one a file: folders gone through, tars and packed files opened on the way."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from topocheck.errors import SourceError
from topocheck.sources.open import mode_of
from topocheck.sources.reading import printable, reason_of, special_kind
from topocheck.sources.tar import DamagedTarError, is_tar, members
from topocheck.sources.unpack import Limited, Reader, Unpacked, head_of, packing_of

_MOST_FILES = 200_000
_MOST_BYTES = 1 << 36  # of one input; what is read is not kept
_HEAD_BYTES = 1 << 16
_STDIN = ("-", "/dev/stdin")

Refused = Callable[[str, str], None]  # told the name of what could not be read, and why


class Stream(NamedTuple):
    """One file's bytes; `stem` is what its node goes by if its report names no host: "gpu017" of gpu017.json."""

    origin: str
    stem: str
    reader: Reader


def streams(names: Sequence[str], refused: Refused) -> Iterator[Stream]:
    """Every file of what was named, in order, each to be read before the next. SourceError for a name that leads
    nowhere; what lies deeper and cannot be read is told to `refused`."""
    for name in names:
        if name in _STDIN:
            yield from _stdin(refused)
        elif stat.S_ISDIR(mode_of(name, give="reports: files, folders, or - for standard input")):
            yield from _folder(name, refused)
        else:
            yield from _file(name, refused, named=True)


def origin_of(name: str) -> str:
    """What the origins of all that was named begin with."""
    return "stdin" if name in _STDIN else printable(name)


class _Peeked:
    """A stream whose beginning was looked at."""

    def __init__(self, stream: Reader) -> None:
        self._stream, self.head = stream, b""
        while len(self.head) < _HEAD_BYTES and (more := stream.read(_HEAD_BYTES - len(self.head))):
            self.head += more
        self._ahead = self.head

    def read(self, size: int, /) -> bytes:
        """At most so many bytes, none at the end."""
        if self._ahead:
            data, self._ahead = self._ahead[:size], self._ahead[size:]
            return data
        return self._stream.read(size)


class _Descriptor:
    """An open file by its number."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read(self, size: int, /) -> bytes:
        """At most so many bytes, none at the end."""
        return os.read(self._fd, size)


def _stdin(refused: Refused) -> Iterator[Stream]:
    try:
        if os.isatty(0):
            raise SourceError("standard input is a terminal: pipe reports into it, or name files or folders")
        yield from _opened(origin_of("-"), _Descriptor(0), refused)
    except OSError as error:
        raise SourceError(f"standard input: {reason_of(error)}: pipe reports into it") from None


def _folder(name: str, refused: Refused) -> Iterator[Stream]:
    """All files below, in the order of their names; hidden ones are reports that are still being written."""
    count = 0
    for folder, folders, files in os.walk(name, onerror=lambda e: refused(str(e.filename), reason_of(e))):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for link in (path for f in folders if os.path.islink(path := os.path.join(folder, f))):  # noqa: PTH114, PTH118
            refused(link, "a link to a folder, not followed: name the folder itself")
        for file in sorted(f for f in files if not f.startswith(".")):
            count += 1
            if count > _MOST_FILES:
                raise SourceError(f"{printable(name)}: more than {_MOST_FILES} files: give the reports' own folder")
            yield from _file(os.path.join(folder, file), refused, named=False)  # noqa: PTH118 (a Path each is slow)


def _file(path: str, refused: Refused, *, named: bool) -> Iterator[Stream]:
    try:
        kind = special_kind(os.stat(path).st_mode)  # noqa: PTH116 (before opening: to open a device may do something)
        if kind is not None:
            raise OSError(f"is {kind}")
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            yield from _opened(path, _Descriptor(fd), refused)
        finally:
            os.close(fd)
    except OSError as error:
        if named:
            raise SourceError(f"{printable(path)}: {reason_of(error)}: give plain files, folders or -") from None
        refused(path, reason_of(error))


def _opened(name: str, raw: Reader, refused: Refused) -> Iterator[Stream]:
    """The file itself, or the files of a tar, packed or not."""
    packed = _Peeked(raw)
    packing = packing_of(packed.head)
    stream: Limited | Unpacked = Limited(packed, _MOST_BYTES)
    if packing:
        stream = Unpacked(packed, packing, _MOST_BYTES, most_times=None)  # reports that are alike shrink to nothing
    if is_tar(head_of(packed.head, 512)):
        yield from _tar(name, stream, refused)
    else:
        yield Stream(printable(name), _stem(name), stream)
    if stream.problem:
        refused(name, stream.problem)


def _tar(name: str, stream: Reader, refused: Refused) -> Iterator[Stream]:
    try:
        for member in members(stream):
            base = member.name.rstrip("/").rpartition("/")[2]
            if member.kind == "file" and not base.startswith("."):
                yield Stream(printable(f"{name}:{member.name}"), _stem(base), _Member(member.read))
    except DamagedTarError as error:
        refused(name, f"damaged tar: {error}")


class _Member:
    """A file in a tar; what cuts it off is told where the next should begin."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read

    def read(self, size: int, /) -> bytes:
        """At most so many bytes, none at the end."""
        try:
            return self._read(size)
        except DamagedTarError:
            return b""


def _stem(name: str) -> str:
    base = Path(name).name
    for suffix in (".gz", ".bz2", ".xz", ".json", ".jsonl", ".ndjson", ".txt"):
        base = base.removesuffix(suffix)
    return printable(base)
