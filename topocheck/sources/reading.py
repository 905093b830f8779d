"""Bytes to text, with a limit: one file or standard input at a time."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Callable
from pathlib import Path

from topocheck.errors import SourceError
from topocheck.sources.base import MAX_TEXT_BYTES, Missing
from topocheck.sources.hosts import of_one_host
from topocheck.sources.pasted import unpasted

_CHUNK_BYTES = 1 << 20
_PAGE_BYTES = 4096
_LARGE_BYTES = 8 << 20  # what tools print of one node has a tenth of that
_SNIFF_CHARS = 8192  # a NUL among the first 8 KB makes a file binary
_ARCHIVES = (
    (b"\x1f\x8b", "a gzip file"),
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ\x00", "an xz file"),
    (b"PK\x03\x04", "a zip file"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
)
_BINARIES = (
    (b"\x89PNG", "a picture: give the text itself"),
    (b"\xff\xd8\xff", "a picture: give the text itself"),
    (b"\x85", "encrypted (gpg): decrypt it first"),
    (b"\x8c\x0d", "encrypted (gpg): decrypt it first"),
)
_KINDS = (
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def read_all(read: Callable[[int], bytes], limit: int = MAX_TEXT_BYTES) -> tuple[bytes, bool]:
    """At most `limit` bytes of what `read` gives piece by piece, and whether there was more."""
    data = bytearray()
    while len(data) <= limit:
        chunk = read(min(_CHUNK_BYTES, limit + 1 - len(data)))
        if not chunk:
            return bytes(data), False
        data += chunk
        if len(data) == len(chunk) and archive_kind(data) is None and b"\0\0\0\0" in data[:_SNIFF_CHARS]:
            break  # binary for certain (no UTF-16 text holds four NULs in a row): the rest would be read in vain
    del data[limit:]
    return bytes(data), True


def read_fd(fd: int, limit: int = MAX_TEXT_BYTES) -> tuple[bytes, bool]:
    """At most `limit` bytes of an open file, and whether there was more."""
    return read_all(lambda size: os.read(fd, size), limit)


def read_file(path: str | Path, limit: int = MAX_TEXT_BYTES) -> tuple[bytes, bool]:
    """The same by name. Never blocks on a pipe; OSError where it cannot be read or is no plain file."""
    mode = os.stat(path).st_mode  # noqa: PTH116 (thousands of small files: a Path each would double the time)
    kind = special_kind(mode)  # before opening: to open a device may do something
    if kind is not None:
        raise OSError(f"is {kind}")
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return read_fd(fd, limit)
    finally:
        os.close(fd)


def read_value(path: str, limit: int) -> bytes:
    """At most `limit` bytes of a file of sysfs, which gives a page at a time: less than that is all there is. OSError
    (ELOOP) for a link."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        data = os.read(fd, _PAGE_BYTES)
        return data if len(data) < _PAGE_BYTES else data + read_fd(fd, limit - _PAGE_BYTES)[0]
    finally:
        os.close(fd)


def special_kind(mode: int) -> str | None:
    """What a file is when it is neither a plain file nor a folder."""
    if stat.S_ISREG(mode):
        return None
    return next((word for test, word in _KINDS if test(mode)), None)


def archive_kind(data: bytes | bytearray) -> str | None:
    """Which archive the bytes are, None for none."""
    if data[257:262] == b"ustar":
        return "a tar file"
    return next((word for magic, word in _ARCHIVES if data.startswith(magic)), None)


def decode(data: bytes) -> str | None:
    """The bytes as text, None if they are no text.

    UTF-8 with replacement; UTF-16, which PowerShell's `>` writes, by its mark; line ends as Unix writes them.
    """
    if len(data) < _SNIFF_CHARS and data.isascii() and b"\0" not in data and b"\r" not in data:
        return data.decode("ascii")  # a value of /sys: of thousands
    utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    if not utf16 and b"\0" in data[:_SNIFF_CHARS]:
        return None
    if len(data) > _LARGE_BYTES and not data.isascii():
        text = _decoded_narrow(data, "utf-16" if utf16 else "utf-8")
    else:
        text = data.decode("utf-16" if utf16 else "utf-8", errors="replace")
    text = text.removeprefix("\ufeff")
    if "\0" in text[:_SNIFF_CHARS]:
        return None
    return text.replace("\r\n", "\n") if "\r\n" in text else text


def _decoded_narrow(data: bytes, encoding: str) -> str:
    """The same piece by piece, every character beyond Latin-1 a question mark: a single one of them would make each
    character of the text take up to four bytes."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    pieces = (data[start : start + _CHUNK_BYTES] for start in range(0, len(data), _CHUNK_BYTES))
    narrow = [decoder.decode(piece).encode("latin-1", "replace") for piece in pieces]
    return b"".join(narrow).decode("latin-1").removeprefix("?" if data.startswith(codecs.BOM_UTF8) else "")


def text_or_gaps(input_: str, data: bytes, cut: bool, *, pasted: bool = True) -> tuple[str | None, list[Missing]]:
    """The text of one input, None if it has none, and what there is to say of it. `pasted`: people had it in their
    hands; what we have a machine print needs no cleaning, which takes time that a live run may not have."""
    if not data:
        return None, [Missing(input_, "empty")]
    archive = archive_kind(data)
    if archive is not None:
        return None, [Missing(input_, f"{archive}: not read here; unpack it")]
    text = decode(data)
    binary = next((word for magic, word in _BINARIES if data.startswith(magic)), None)
    if text is None or binary:
        return None, [Missing(input_, binary or "binary, not text")]
    if not text or text.isspace():
        return None, [Missing(input_, "empty")]
    text, other = of_one_host(unpasted(text)) if pasted else (text, None)
    gaps = [Missing(input_, other)] if other else []
    if cut:
        gaps.append(Missing(input_, f"only the first {len(data) >> 20} MB were read"))
    return text, gaps


def reason_of(error: OSError) -> str:
    """The system's words for why a file could not be read, in lower case."""
    words = error.strerror or str(error)
    return words[:1].lower() + words[1:]


def printable(name: str) -> str:
    """A file's name as it may be shown: what is no character of a line of text becomes a question mark."""
    return name if name.isprintable() else "".join(char if char.isprintable() else "?" for char in name)


def archive_error(name: str, data: bytes) -> None:
    """SourceError if the bytes are an archive of a kind that is not read."""
    archive = archive_kind(data)
    if archive is not None:
        raise SourceError(f"{name}: {archive}: this kind is not read: unpack it and give the folder or file")
