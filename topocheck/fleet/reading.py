"""Streams of bytes → reports and fabric listings. A line that is no report costs that line, and is counted.

A report is a line of JSON, alone in its file or among others, with what srun, clush, ansible or kubectl put around it
(wrappings.py), or a file of indented JSON.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from topocheck.fleet.pieces import joined
from topocheck.fleet.report import Unread
from topocheck.fleet.streams import Stream, streams
from topocheck.fleet.wrappings import begins_reports, heads, inside, is_frame, opens_indented, report_in
from topocheck.formats.json import SCHEMA
from topocheck.sources.pasted import unpasted
from topocheck.sources.reading import decode, printable

if TYPE_CHECKING:
    from topocheck.fleet.fabric import Listing

_CHUNK_BYTES = 1 << 20
_LINE_BYTES = 16 << 20  # a report of 8 GPUs and 32 NICs has 160 KB
_LISTING_BYTES = 256 << 20  # 10,000 nodes of 8 ports take 40 MB
_MOST_EXAMPLES = 10
_BLANK = b"\xef\xbb\xbf \t\r\n"
_ENDS = {b"{": b"}", b"[": b"]"}  # of indented JSON: what it begins with, what its last line is
_UTF16 = (b"\xff\xfe", b"\xfe\xff")  # what PowerShell's > writes


class Document(NamedTuple):
    """A report; `host` is what its node goes by if it names none."""

    origin: str
    host: str
    data: dict[str, Any]


class Reading:
    """Reads once; afterwards `listings` holds the fabric listings and `unread` what was no report."""

    def __init__(self) -> None:
        self.listings: list[Listing] = []
        self._counts = dict.fromkeys(("torn", "duplicate", "schema", "foreign"), 0)
        self._examples: list[str] = []
        self._above: tuple[str, bytes] | None = None  # where, and what: no report, perhaps the heading of the next

    @property
    def unread(self) -> Unread:
        """The counts, and the first of each in words."""
        return Unread(**self._counts, examples=tuple(self._examples))

    def count(self, what: str, origin: str, why: str) -> None:
        """One line or file more that was no report."""
        self._settle()
        self._counts[what] += 1
        if what == "schema":  # ours, so the reason helps most
            self._examples.insert(0, f"{origin}: {why}")
        elif len(self._examples) < _MOST_EXAMPLES:
            self._examples.append(f"{origin}: {why}")
        del self._examples[_MOST_EXAMPLES:]

    def documents(self, names: Sequence[str]) -> Iterator[Document]:
        """Every report in what was named, in order."""
        for stream in streams(names, lambda name, why: self.count("foreign", printable(name), why)):
            head = _Head(stream)
            if not head.bytes:
                self.count("torn", stream.origin, "empty")
            elif head.binary:
                self.count("foreign", stream.origin, "binary, not text")
            elif not self._is_listing(head, stream.origin):
                yield from self._of_lines(head, stream)
            self._settle()

    def _settle(self, host: str | None = None) -> None:
        """The line above is counted, unless it is the heading of this host's report."""
        if self._above is not None:
            (where, text), self._above = self._above, None
            if host is None or not heads(text, host):
                self.count("foreign", where, f"no report: {_shown(text)}")

    def _is_listing(self, head: _Head, origin: str) -> bool:
        """Takes it if it is one."""
        if begins_reports(head.bytes.lstrip(_BLANK)):
            return False
        from topocheck.fleet.fabric import is_listing, listing

        text = decode(head.bytes) or ""
        if not is_listing(text) and not is_listing(unpasted(text)):
            return False
        text = decode(head.rest(_LISTING_BYTES)) or ""
        found = listing(text, origin)
        self.listings.append(found if found.cables or found.trunks else listing(unpasted(text), origin))
        return True

    def _of_lines(self, head: _Head, stream: Stream) -> Iterator[Document]:
        indented: list[bytes] = []  # lines of a report that is written over several
        size, end = 0, b""
        for number, line in joined(enumerate(_lines(head.read), 1), _LINE_BYTES):
            where = f"{stream.origin}:{number}"
            text = (line or b"").strip(_BLANK)
            if indented and end == b"}" and line and line.startswith(b'{"'):  # the indented one was cut off
                yield from self._read(b"\n".join(indented), stream.origin, stream.stem)
                indented = []
            if line is None:
                self.count("torn", where, f"longer than {_LINE_BYTES >> 20} MB")
            elif indented or text in _ENDS or opens_indented(text):
                end = end if indented else _ENDS[text[-1:]]
                size = size + len(line) if indented else len(line)
                indented.append(line if indented else text)
                if line.rstrip(_BLANK) == end or size > _LINE_BYTES:
                    yield from self._read(b"\n".join(indented), stream.origin, stream.stem)
                    indented = []
            elif text and not is_frame(text):
                yield from self._read(text, where, f"{stream.stem}:{number}" if number > 1 else stream.stem)
        if indented:
            yield from self._read(b"\n".join(indented), stream.origin, stream.stem)

    def _read(self, line: bytes, where: str, host: str) -> Iterator[Document]:
        text, label = report_in(line)
        if not text:
            self._settle()
            self._above = where, line
            return
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            self.count("torn", where, f"cut off or damaged JSON ({error})")
            return
        host = host if label is None or label.isdigit() else label
        others = []
        for entry in data if isinstance(data, list) else [data]:
            found = list(inside(entry))
            for document in found:
                if _ours(document):
                    self._settle(str(document.get("host") or host))
                    yield Document(where, host, document)
            others += [document for document in found or [entry] if not _ours(document)]
        if others:
            self._not_ours(others[0], where, "" if text is line else f": {_shown(line)}")

    def _not_ours(self, entry: object, where: str, said: str) -> None:
        schema = entry.get("schema") if isinstance(entry, dict) else None
        if not isinstance(schema, str) or not schema.startswith("topocheck."):
            self.count("foreign", where, f"JSON, but no topocheck report{said}")
        elif schema.startswith("topocheck.capture/"):
            self.count("schema", where, "a capture: run `topocheck node --from` on it, --format json")
        else:
            self.count("schema", where, f"{_shown(schema.encode())}: this version reads {SCHEMA}")


def _ours(document: object) -> bool:
    return isinstance(document, dict) and document.get("schema") == SCHEMA


class _Head:
    """A stream's first bytes, and the whole stream after all; UTF-16 as UTF-8."""

    def __init__(self, stream: Stream) -> None:
        self._read: Callable[[int], bytes] = stream.reader.read
        self.bytes = self._read(_CHUNK_BYTES)
        if self.bytes.startswith(_UTF16):
            decoder = codecs.getincrementaldecoder("utf-16")("replace")
            self._read = lambda size: _recoded(stream.reader.read, size, decoder)
            self.bytes = decoder.decode(self.bytes).encode("utf-8", "replace")
        self._ahead = self.bytes
        self.binary = bool(self.bytes) and decode(self.bytes) is None

    def read(self, size: int) -> bytes:
        """At most so many bytes, none at the end."""
        if self._ahead:
            data, self._ahead = self._ahead, b""
            return data
        return self._read(size)

    def rest(self, limit: int) -> bytes:
        """All of it, as far as the limit."""
        data = bytearray()
        while len(data) < limit and (more := self.read(_CHUNK_BYTES)):
            data += more
        return bytes(data)


def _recoded(read: Callable[[int], bytes], size: int, decoder: codecs.IncrementalDecoder) -> bytes:
    while data := read(size):
        if text := decoder.decode(data):
            return text.encode("utf-8", "replace")
    return b""


def _lines(read: Callable[[int], bytes]) -> Iterator[bytes | None]:
    """Lines without their ends; None for one that is too long to be a report."""
    parts: list[bytes] = []
    size = 0
    while chunk := read(_CHUNK_BYTES):
        first, *others = chunk.split(b"\n")
        size += len(first)
        if size <= _LINE_BYTES:
            parts.append(first)
        for line in others:
            yield b"".join(parts) if size <= _LINE_BYTES else None
            parts, size = [line], len(line)
    if size:
        yield b"".join(parts) if size <= _LINE_BYTES else None


def _shown(text: bytes) -> str:
    shown = printable(text[:60].decode("utf-8", "replace"))
    return f"{shown}…" if len(text) > 60 else shown
