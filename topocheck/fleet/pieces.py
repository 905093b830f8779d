"""Lines in pieces put together again. `srun -l` cuts what a task prints into pieces of a kilobyte and writes its label
before each; those of all tasks come mixed: "3: {…", "0: {…", "3: …}". Without -l they cannot be told apart. A pod's log
file has pieces of 16 KB, "2026-11-20T03:04:05.6Z stdout P {…" and the last one with F; Open MPI's --tag-output has them
of 4 KB, "[1,3]<stdout>:{…", with or without a line's end behind each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

LABEL = re.compile(rb"\s{0,16}([\w.-]{1,255}): ")
_LOGGED = re.compile(rb"\S{20,40} stdout ([PF]) ")
_TAGGED = re.compile(rb"(\[\d{1,9},\d{1,9}\]<stdout>:)")
_TAGGED_BYTES = 4096
_PIECE_BYTES = 1024
START = b'{"schema"'  # what a report begins with
_Line = tuple[int, bytes | None]


class _Begun:
    """A line whose end has not been seen."""

    def __init__(self, number: int, line: bytes, text: bytes) -> None:
        self.number, self.first = number, len(text)
        self._parts = [line]
        self._size = len(line)

    def add(self, text: bytes, most: int) -> None:
        """The next piece; of a line that is too long none is kept."""
        self._size += len(text)
        if self._size <= most:
            self._parts.append(text)
        else:
            self._parts = []

    def line(self) -> _Line:
        """What there is of it, with its label; None if it is too long."""
        return self.number, b"".join(self._parts) if self._parts else None


def joined(lines: Iterable[_Line], most: int) -> Iterator[_Line]:
    """Numbered lines, those in pieces as one line with the number of its first piece; None for more than `most` bytes.

    >>> list(joined(enumerate([b'0: {"a":', b'1: {"schema"', b"0: 1}", b"a note", b"1: }"]), 99))
    [(0, b'0: {"a":1}'), (3, b'a note'), (1, b'1: {"schema"}')]
    """
    begun: dict[bytes, _Begun] = {}
    for number, line in _tagged(_logged(lines, most), most):
        label = LABEL.match(line) if line and line[:1] != b"{" else None
        if label is None or line is None:
            yield number, line
            continue
        name, text = label[1], line[label.end() :].rstrip(b"\r")
        open_ = begun.get(name)
        if open_ is not None and not text.startswith(START):
            open_.add(text, most)
            if len(text) < open_.first:
                yield begun.pop(name).line()
        else:
            if open_ is not None:
                yield begun.pop(name).line()
            if text[:1] == b"{" and (len(text) == _PIECE_BYTES or not text.endswith(b"}")):
                begun[name] = _Begun(number, line, text)
            else:
                yield number, line
    yield from (one.line() for one in begun.values())


def _logged(lines: Iterable[_Line], most: int) -> Iterator[_Line]:
    """Those of a pod's log file without what its runtime writes before them, the others as they are."""
    begun: _Begun | None = None
    for number, line in lines:
        match = _LOGGED.match(line) if line and b" stdout " in line[:48] else None
        if match is None or line is None:
            yield number, line
            continue
        text = line[match.end() :]
        if begun is None:
            begun = _Begun(number, text, text)
        else:
            begun.add(text, most)
        if match[1] == b"F":
            yield begun.line()
            begun = None
    if begun is not None:
        yield begun.line()


def _tagged(lines: Iterable[_Line], most: int) -> Iterator[_Line]:
    """Those that Open MPI tagged without the tag, one a line of a process; the others as they are."""
    begun: dict[bytes, _Begun] = {}
    for number, line in lines:
        if line is None or not _TAGGED.match(line):
            yield number, line
            continue
        _, *parts = _TAGGED.split(line)
        for tag, text in zip(parts[::2], parts[1::2], strict=True):
            if tag in begun:
                begun[tag].add(text, most)
            else:
                begun[tag] = _Begun(number, text, text)
        if len(text) != _TAGGED_BYTES:
            yield begun.pop(tag).line()
    yield from (one.line() for one in begun.values())
