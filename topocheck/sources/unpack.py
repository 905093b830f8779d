"""Packed bytes → the bytes they stand for, within limits: gzip, bzip2 and xz, stream after stream."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from topocheck.sources.base import MAX_TEXT_BYTES, Missing, Raw
from topocheck.sources.reading import archive_kind, read_all, text_or_gaps

MAX_UNPACKED_BYTES = 1 << 30  # of an archive
_CHUNK_BYTES = 1 << 18
_BOMB_FROM_BYTES = 64 << 20
_BOMB_RATIO = 400  # texts of tools shrink to a tenth, logs of one line over and over to a hundredth
_XZ_MEMORY_BYTES = 100 << 20  # xz -9 takes 65 MB
_SUFFIXES = (".gz", ".bz2", ".xz")


class Reader(Protocol):
    """Whatever bytes can be read from, in order."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes, none at the end."""


class Limited:
    """What is read as it is, to a limit: a pipe may never end. `problem` says so once the limit is reached."""

    def __init__(self, stream: Reader, limit: int = MAX_UNPACKED_BYTES) -> None:
        self.problem: str | None = None
        self._stream, self._limit, self._left = stream, limit, limit

    def read(self, size: int, /) -> bytes:
        """At most so many bytes, none at the end."""
        data = self._stream.read(min(size, self._left)) if self._left else b""
        self._left -= len(data)
        if not self._left:
            self.problem = f"only the first {self._limit >> 20} MB were read"
        return data


class Unpacked:
    """The bytes behind a packed stream. `read` never raises: `problem` says why there are no more. `most_times`: what
    unpacks to more than so many times its size is taken for a bomb; None where nothing that is read is kept."""

    def __init__(
        self, packed: Reader, kind: str, limit: int = MAX_UNPACKED_BYTES, most_times: int | None = _BOMB_RATIO
    ) -> None:
        self.problem: str | None = None
        self._kind, self._limit, self._most_times = kind, limit, most_times
        self._packed, self._packed_bytes, self._bytes = packed, 0, 0
        self._new = _DECODERS[kind]
        self._decoder = self._new()

    def read(self, size: int, /) -> bytes:
        """At most so many bytes, none at the end."""
        if self.problem is not None or not size:
            return b""
        try:
            data = self._next(min(size, _CHUNK_BYTES))
        except Exception as error:  # zlib, bz2 and lzma each have their own
            self.problem = f"{self._kind} that is cut or damaged ({error}): read up to there"
            return b""
        self._bytes += len(data)
        if self._bytes > self._limit:
            self.problem = f"unpacks to more than {self._limit >> 20} MB: the rest was not read"
        elif self._most_times and self._bytes > max(_BOMB_FROM_BYTES, self._most_times * self._packed_bytes):
            self.problem = f"unpacks to more than {self._most_times} times its size: the rest was not read"
        return data

    def _next(self, size: int) -> bytes:
        while True:
            if self._decoder.eof:
                rest = self._decoder.unused_data or self._more()
                if not rest.lstrip(b"\0"):  # padding
                    return b""
                if not _same_packing(rest.lstrip(b"\0"), self._kind):
                    return b""
                self._decoder, chunk = self._new(), rest.lstrip(b"\0")
            else:
                chunk = self._more() if self._decoder.needs_input else b""
            data: bytes = self._decoder.decompress(chunk, size)
            if data:
                return data
            if not chunk and not self._decoder.eof and self._decoder.needs_input:
                raise EOFError("it ends in the middle")

    def _more(self) -> bytes:
        chunk = self._packed.read(_CHUNK_BYTES)
        self._packed_bytes += len(chunk)
        return chunk


class _Gzip:
    """zlib's decoder in the manner of those of bz2 and lzma."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._decoder.unconsumed_tail

    def decompress(self, data: bytes, size: int) -> bytes:
        return self._decoder.decompress(self._decoder.unconsumed_tail + data, size)


def _bzip2() -> Any:  # noqa: ANN401 (three decoders without a common type)
    import bz2

    return bz2.BZ2Decompressor()


def _xz() -> Any:  # noqa: ANN401
    import lzma

    return lzma.LZMADecompressor(memlimit=_XZ_MEMORY_BYTES)


_DECODERS: dict[str, Callable[[], Any]] = {"a gzip file": _Gzip, "a bzip2 file": _bzip2, "an xz file": _xz}


def opened(stream: Reader, packing: str | None, limit: int = MAX_UNPACKED_BYTES) -> Unpacked | Limited:
    """The stream, unpacked if it is packed; never more than the limit."""
    return Limited(stream, limit) if packing is None else Unpacked(stream, packing, limit)


def _same_packing(data: bytes, kind: str) -> bool:
    return archive_kind(data) == kind or len(data) < 6


def packing_of(data: bytes) -> str | None:
    """The way the bytes are packed, None for none that is read."""
    kind = archive_kind(data)
    return kind if kind in _DECODERS else None


def head_of(data: bytes, size: int) -> bytes:
    """The first bytes behind what may be packed; what is damaged gives what stands before."""
    kind = packing_of(data)
    if kind is None:
        return data[:size]
    unpacked, head = Unpacked(io.BytesIO(data), kind), b""
    while len(head) < size and (more := unpacked.read(size)):
        head += more
    return head[:size]


class Asked(NamedTuple):
    """What is asked for, and which node's bug reports were handed out: two nodes are never joined."""

    commands: Sequence[str]
    paths: Sequence[str]
    hosts: list[str | None]


def texts_of(label: Raw, shown: str, data: bytes, cut: bool, asked: Asked) -> Iterator[Raw | Missing]:
    """The text of one file that may be packed, or of a bug report the texts asked for; `label` has the file's input and
    name, `shown` is its name in gaps."""
    from topocheck.sources import bug_report

    packing = packing_of(data)
    if bug_report.begins(head_of(data, bug_report.HEAD_BYTES)):
        stream = opened(io.BytesIO(data), packing, bug_report.MAX_BYTES)
        report = bug_report.BugReport(shown, stream)
        if asked.hosts and asked.hosts[0] != report.manifest.host:
            yield Missing(shown, f"a bug report of another node ({report.manifest.host}): not joined; give it itself")
            return
        asked.hosts.append(report.manifest.host)
        yield from report.texts(asked.commands, asked.paths)
        return
    if packing is not None:
        unpacked = Unpacked(io.BytesIO(data), packing)
        data, cut = read_all(unpacked.read, MAX_TEXT_BYTES)
        label = label._replace(input=_without_suffix(label.input))
        if unpacked.problem:
            yield Missing(shown, unpacked.problem)
            if not data:
                return
        if archive_kind(data) is not None:
            yield Missing(shown, f"{archive_kind(data)} in {packing}: not read here; give it itself")
            return
    text, gaps = text_or_gaps(shown, data, cut)
    if text is not None:
        yield label._replace(text=text)
    yield from gaps


def _without_suffix(name: str) -> str:
    suffix = next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), "")
    return name.removesuffix(suffix)
