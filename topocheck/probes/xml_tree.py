"""One XML document inside a text → its elements, read safely: no entity is expanded, nothing is fetched; depth, size
and number of elements are bounded. A document that is cut yields what stands before the cut; what is open there lacks
some of its children."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from topocheck.facts import Evidence

MAX_CHARS = 16 << 20  # hwloc writes 340 KB for 2,000 CPUs
MAX_DEPTH = 64
MAX_ELEMENTS = 100_000
_PIECE_CHARS = 1 << 16


@dataclass(slots=True)
class Element:
    """One element: `line` counts from 1 in the text as read; `closed`, its end was reached."""

    name: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    closed: bool = False

    def get(self, name: str) -> str:
        """An attribute, stripped, "" if there is none."""
        return self.attributes.get(name, "").strip()

    def named(self, *names: str) -> Iterator[Element]:
        """The children of these names."""
        return (child for child in self.children if child.name in names)

    def evidence(self, source: str) -> Evidence:
        """The element's own line, as it would be written."""
        written = " ".join(f'{name}="{value}"' for name, value in self.attributes.items())
        return Evidence(source, self.line, f"<{self.name} {written}>"[:400])


class _RefusedError(Exception):
    """Something that the tools which write such documents never write."""


class _Builder:
    """Takes expat's events; every element hangs on the one it stands in."""

    def __init__(self, first_line: int) -> None:
        self.root: Element | None = None
        self._open: list[Element] = []
        self._count = 0
        self._first_line = first_line

    def start(self, name: str, attributes: dict[str, str], line: int) -> None:
        """An element opens."""
        self._count += 1
        if len(self._open) >= MAX_DEPTH or self._count > MAX_ELEMENTS:
            raise _RefusedError(f"more than {MAX_DEPTH} elements in each other, or {MAX_ELEMENTS} in all")
        element = Element(name, attributes, self._first_line + line)
        if self._open:
            self._open[-1].children.append(element)
        elif self.root is None:
            self.root = element
        self._open.append(element)

    def end(self) -> bool:
        """An element closes; whether it was the outermost."""
        self._open.pop().closed = True
        return not self._open


def read_xml(text: str, opening: re.Pattern[str], name: str) -> tuple[Element | None, str | None]:
    """The document whose outermost element `opening` finds and `name` names, and what is wrong with it."""
    match = opening.search(text)
    if match is None:
        return None, "no such document in it"
    start = match.start()
    if (doctype := text.rfind("<!DOCTYPE", max(0, start - _PIECE_CHARS), start)) >= 0:
        start = doctype  # whatever it declares is looked at, and refused
    end = text.find(f"</{name}>", match.start(), match.start() + MAX_CHARS)
    stop = end + len(name) + 3 if end >= 0 else match.start() + MAX_CHARS
    builder = _Builder(text.count("\n", 0, start))
    problem = _parse(text[start:stop], builder)
    return builder.root, problem


def _parse(document: str, builder: _Builder) -> str | None:
    from xml.parsers import expat

    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = lambda name, attributes: builder.start(name, attributes, parser.CurrentLineNumber)
    parser.EndElementHandler = lambda _name: builder.end()
    parser.EntityDeclHandler = _refuse
    try:
        for start in range(0, len(document), _PIECE_CHARS):
            parser.Parse(document[start : start + _PIECE_CHARS].encode(errors="replace"), False)
        parser.Parse(b"", True)
    except _RefusedError as error:
        builder.root = None
        return f"not read: {error}"
    except expat.ExpatError as error:
        return f"the document is cut or damaged: {error}"
    return None


def _refuse(*_declaration: object) -> None:
    raise _RefusedError("it declares entities, which no such tool does")
