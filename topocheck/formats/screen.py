"""A page of lines no wider than asked for, by rich: hanging indents, cut lines, styles that vanish when piped."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from typing import IO, TYPE_CHECKING

from topocheck.formats.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Span = str | tuple[str, str]  # plain, or text and rich style

MARKS = {"error": "x", "warning": "!", "info": "i"}
STYLES = {"error": "bold red", "warning": "bold yellow", "info": "cyan"}
VERDICT_STYLES = {"failed": "bold red", "degraded": "bold yellow", "unknown": "bold magenta", "healthy": "bold green"}
SEPARATOR = " · "


class Screen:
    """Lines in the order they are said; `text()` is the page. Nothing passes it that is not fit for a terminal."""

    def __init__(self, *, width: int, color: bool, ascii: bool) -> None:  # noqa: A002 (the caller's word)
        self.width = max(width, 20)
        self.ascii = ascii
        self._file = StringIO()
        self._console = _console(self._file, self.width, color=color)

    def cells(self, text: str) -> int:
        """How many columns a text takes as it will be printed."""
        return self._text([text]).cell_len

    def blank(self) -> None:
        """An empty line."""
        self._console.print()

    def line(self, *spans: Span) -> None:
        """One line, cut at the width."""
        text = self._text(spans)
        text.rstrip()
        self._put(self._cut(text, self.width))

    def wrapped(self, head: Span, *body: Span, most: int | None = None) -> None:
        """`body` in the columns after `head`, on as many lines as it takes, or cut after `most` lines."""
        first = self._text([head])
        indent = first.cell_len if first.cell_len <= self.width // 2 else min(10, self.width // 4)
        room = self.width - indent
        if first.cell_len > indent:
            self._put(self._cut(first, self.width))
            first = self._text([" " * indent])
        lines = list(self._text(body).wrap(self._console, room, overflow="fold"))
        if most is not None and len(lines) > most:
            rest = lines[most - 1].copy()
            rest.rstrip()
            rest.append(" ").append_text(lines[most])
            lines = [*lines[: most - 1], self._cut(rest, room, always=True)]
        for line in lines:
            self._put(first.append_text(line))
            first = self._text([" " * indent])

    def listed(self, head: Span, items: list[str], *, most: int) -> None:
        """Items one after the other on at most `most` lines; how many did not fit stands at the end."""
        shown = len(items)
        while shown > 1 and self._lines(head, _joined(items, shown)) > most:
            shown -= max(1, (shown - 1) // 8)
        self.wrapped(head, _joined(items, shown), most=most)

    def text(self) -> str:
        """Everything said so far."""
        return self._file.getvalue()

    def _lines(self, head: Span, body: str) -> int:
        room = self.width - self._text([head]).cell_len
        return len(self._text([body]).wrap(self._console, max(room, 8), overflow="fold"))

    def _text(self, spans: Iterable[Span]) -> Text:
        pairs = [(span, "") if isinstance(span, str) else span for span in spans]
        return _text([(printable(words, ascii=self.ascii), style) for words, style in pairs])

    def _cut(self, text: Text, room: int, *, always: bool = False) -> Text:
        """The text in `room` columns; dots say that something was cut."""
        dots = "..." if self.ascii else "…"
        if text.cell_len <= room and not always:
            return text
        kept = text.copy()
        kept.truncate(room - len(dots), overflow="crop")
        kept.rstrip()
        return kept.append(dots)

    def _put(self, text: Text) -> None:
        text.rstrip()
        self._console.print(text, no_wrap=True, overflow="ignore", crop=False)


def _console(file: IO[str], width: int, *, color: bool) -> Console:
    """rich's console with nothing left to its guesses or to the environment."""
    from rich.console import Console

    return Console(
        file=file,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        legacy_windows=False,
        force_jupyter=False,
        _environ={},
    )


def _text(pairs: list[tuple[str, str]]) -> Text:
    from rich.text import Text

    return Text.assemble(*pairs)


def counted(number: int, noun: str) -> str:
    """ "1 rule", "2 rules"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _joined(items: list[str], shown: int) -> str:
    rest = len(items) - shown
    return SEPARATOR.join(items[:shown]) + (f" +{rest}" if rest else "")
