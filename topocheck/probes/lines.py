"""The lines of a text: numbered from 1, cut where no tool writes that much, in linear time whatever the text is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from topocheck.facts import Evidence

MAX_LINE_CHARS = 4096  # the longest honest line is a kernel command line
MAX_LINES = 400_000  # the longest output of a tool, lspci -vvxxxx of a host with virtual functions, has 300,000
MOST_FUNCTIONS = 8192  # of PCI: ten cards with 256 virtual functions each have 2,570
SNIFF_CHARS = 1 << 20  # how much of a text is looked at to tell which tool wrote it
TWO_NODES = "outputs of two nodes: only the first is read; give the other's by itself"
NO_STARTS: Mapping[str, int] = {}

_PROMPT = re.compile(r"[\w@.:~/\-\[\]() ]{0,80}[#$%>] ?[A-Za-z./]")


class Line(NamedTuple):
    """One line, stripped; `number` counts from 1 in the text as read, `indent` is the blanks and tabs before it."""

    number: int
    text: str
    indent: int

    def evidence(self, source: str) -> Evidence:
        """The line as evidence; `source` is the command or path it stands in."""
        return Evidence(source, self.number, self.text)


def lines(text: str) -> Iterator[Line]:
    """Every line of the text that is not blank."""
    start, number = 0, 0
    while start < len(text):
        number += 1
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if end > start and (line := _line(text, start, end, number)).text:
            yield line
        start = end + 1


def first_lines(text: str, most: int = MAX_LINES) -> str:
    """The text up to the end of so many lines; the text itself if it has no more."""
    end = -1
    for _ in range(most):
        end = text.find("\n", end + 1)
        if end < 0:
            return text
    return text if end + 1 == len(text) else text[: end + 1]


def start_of_last(text: str, word: str, most: int) -> int:
    """From where on a word occurs so many times; 0 if it does not occur more often in all of the text."""
    start = len(text)
    for _ in range(most):
        start = text.rfind(word, 0, start)
        if start < 0:
            return 0
    return start if text.find(word, 0, start) >= 0 else 0


def lines_with(text: str, words: Sequence[str], starts: Mapping[str, int] = NO_STARTS) -> Iterator[Line]:
    """The lines that hold one of the words, found without looking at the others (a kernel log has millions). `starts`
    is where to begin to look for a word, if not at the text's beginning."""
    ahead = [(at, word) for word in words if (at := text.find(word, starts.get(word, 0))) >= 0]
    heapify(ahead)
    counted_to, number = 0, 1
    while ahead:
        at = ahead[0][0]
        start = max(text.rfind("\n", counted_to, at) + 1, counted_to)
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        number += text.count("\n", counted_to, start)
        yield _line(text, start, end, number)
        counted_to = start
        while ahead and ahead[0][0] < end:
            word = ahead[0][1]
            at = text.find(word, end)
            heapreplace(ahead, (at, word)) if at >= 0 else heappop(ahead)


def sniffed(pattern: re.Pattern[str], text: str) -> bool:
    """Whether the pattern occurs in the part of a text that is looked at to recognise it."""
    return pattern.search(text, 0, SNIFF_CHARS) is not None


def is_prompt(line: str) -> bool:
    """Whether a line looks like a shell prompt with a command behind it: what was printed before has ended.

    >>> is_prompt("[root@gpu01 ~]# ibstat"), is_prompt("State: Active")
    (True, False)
    """
    return _PROMPT.match(line) is not None


def _line(text: str, start: int, end: int, number: int) -> Line:
    cut = text[start : min(end, start + MAX_LINE_CHARS)].rstrip()
    stripped = cut.lstrip()
    return Line(number, stripped, len(cut) - len(stripped))
