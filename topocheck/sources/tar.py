"""A tar archive, member after member, from a stream: ustar, GNU and pax headers (tar(5)).

Own code, not `tarfile`: nothing a header says (sizes, names, links) may cost more than the bytes that are there, and a
million members must not take minutes. Nothing is written anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from topocheck.sources.unpack import Reader

BLOCK = 512
_MAX_HEADER_BYTES = 1 << 20  # of long names and pax records
_CHUNK_BYTES = 1 << 20
_FILE, _HARD, _SOFT, _FOLDER = "file", "hard link", "link", "folder"
_TYPES = {
    b"0": _FILE, b"\0": _FILE, b"7": _FILE, b"1": _HARD, b"2": _SOFT, b"5": _FOLDER,
    b"3": "a character device", b"4": "a block device", b"6": "a named pipe", b"S": "a sparse file",
}  # fmt: skip


class DamagedTarError(Exception):
    """What stands here is no header of a tar archive."""


class Member(NamedTuple):
    """One member; `kind` is file, folder, link, hard link, or what else it is in words; `read` gives its bytes."""

    name: str
    kind: str
    target: str
    size: int
    read: Callable[[int], bytes]


def is_tar(head: bytes) -> bool:
    """Whether the bytes begin with a header: by its magic, or, where it has none (tar of 1979), by its sum."""
    if len(head) < BLOCK or not head.strip(b"\0"):
        return False
    return head[257:262] == b"ustar" or (head[:1] not in b"\0" and _sum_agrees(head[:BLOCK]))


@dataclass
class _Next:
    """What extra headers say of the member that follows."""

    name: str | None = None
    target: str | None = None
    size: int | None = None
    everywhere: dict[str, str] = field(default_factory=dict)  # of pax "g" headers


def members(stream: Reader) -> Iterator[Member]:
    """Every member in order; what is not read of one is passed over. DamagedTarError where the archive breaks off."""
    known = _Next()
    while (header := _exactly(stream, BLOCK)).strip(b"\0"):
        if not _sum_agrees(header):
            raise DamagedTarError("no tar header where one should be")
        kind, size = header[156:157], _number(header[124:136])
        if kind in b"LKxg" and kind:
            _read_extra(kind, stream, size, known)
            continue
        size = known.size if known.size is not None else size
        word = _TYPES.get(kind, "no kind of file we know")
        left = _Left(stream, size if word in (_FILE, "a sparse file", "no kind of file we know") else 0)
        yield Member(known.name or _name(header), word, known.target or _text(header[157:257]), size, left.read)
        left.skip()
        known = _Next(everywhere=known.everywhere)


class _Left:
    """What is left of one member's bytes."""

    def __init__(self, stream: Reader, size: int) -> None:
        self._stream, self._size, self._padding = stream, size, -size % BLOCK

    def read(self, size: int) -> bytes:
        """At most so many bytes of the member, none at its end."""
        if not self._size:
            return b""
        data = self._stream.read(min(size, self._size))
        if not data:
            raise DamagedTarError("it ends in the middle of a file")
        self._size -= len(data)
        return data

    def skip(self) -> None:
        """Go on to the next header."""
        self._size += self._padding
        self._padding = 0
        while self._size:
            self.read(_CHUNK_BYTES)


def _exactly(stream: Reader, size: int) -> bytes:
    """So many bytes; at the end of the stream as many as there are, filled up with NULs if there are none."""
    data = b""
    while len(data) < size:
        more = stream.read(size - len(data))
        if not more:
            if data:
                raise DamagedTarError("it ends in the middle of a header")
            raise DamagedTarError("it ends without an end mark")
        data += more
    return data


def _sum_agrees(header: bytes) -> bool:
    try:
        said = int(header[148:156].rstrip(b"\0 ").lstrip() or b"-", 8)
    except ValueError:
        return False
    return said == sum(header) - sum(header[148:156]) + 8 * 0x20


def _number(data: bytes) -> int:
    """Octal digits, or (GNU) a binary number after a set first bit."""
    if data[0] == 0x80:
        return int.from_bytes(data[1:], "big")
    try:
        return int(data.rstrip(b"\0 ").lstrip() or b"0", 8)
    except ValueError:
        raise DamagedTarError("a size that is no number") from None


def _name(header: bytes) -> str:
    prefix = _text(header[345:500]) if header[257:263] == b"ustar\0" else ""
    return f"{prefix}/{_text(header[:100])}" if prefix else _text(header[:100])


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "replace")


def _read_extra(kind: bytes, stream: Reader, size: int, known: _Next) -> None:
    if size > _MAX_HEADER_BYTES:
        raise DamagedTarError("a header larger than any tar writes")
    data = _exactly(stream, size + -size % BLOCK)[:size]
    if kind == b"L":
        known.name = _text(data)
    elif kind == b"K":
        known.target = _text(data)
    elif kind == b"g":
        known.everywhere |= _pax(data)
    else:
        _take_pax(known, known.everywhere | _pax(data))


def _take_pax(known: _Next, records: Mapping[str, str]) -> None:
    known.name = records.get("path", known.name)
    known.target = records.get("linkpath", known.target)
    if (size := records.get("size", "")).isdecimal() and len(size) < 20:
        known.size = int(size)


def _pax(data: bytes) -> dict[str, str]:
    """Records "LENGTH KEY=VALUE\\n"; from a damaged one on there are none."""
    records: dict[str, str] = {}
    while data:
        length, _, _ = data[:20].partition(b" ")
        if not length.isdigit() or not len(length) < int(length) <= len(data):
            break
        key, _, value = data[len(length) + 1 : int(length) - 1].partition(b"=")
        records[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
        data = data[int(length) :]
    return records
