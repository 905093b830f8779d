"""Sets of names as operators write them, folded as in ClusterShell and Slurm, or as globs: `gpu[001-016],login*`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_SPLIT = re.compile(r",(?![^\[]*\])")  # the commas that stand in no bracket
_BRACKET = re.compile(r"\[([^\[\]]+)\]")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?:/([0-9]{1,9}))?)?")


@dataclass(frozen=True)
class NameSet:
    """Names by pattern, in any case. ValueError from `parsed` for a bracket that is not closed or not ascending."""

    text: str

    @classmethod
    def parsed(cls, text: str) -> NameSet:
        """The set that `text` describes, looked at now, so that a mistake is told where it is made."""
        names = cls(text)
        if not names._patterns:
            raise ValueError("names nothing")
        return names

    def __contains__(self, name: object) -> bool:
        """Whether one of the patterns fits the whole name."""
        return isinstance(name, str) and any(pattern.holds(name) for pattern in self._patterns)

    @cached_property
    def _patterns(self) -> tuple[_Pattern, ...]:
        return tuple(_pattern(part.strip()) for part in _SPLIT.split(self.text) if part.strip())


@dataclass(frozen=True)
class _Range:
    """001-016/2: `digits` is how many a number has at least, padded with zeros."""

    first: int
    last: int
    step: int
    digits: int

    def holds(self, text: str) -> bool:
        number = int(text)
        as_written = f"{number:0{self.digits}d}" == text
        return as_written and self.first <= number <= self.last and (number - self.first) % self.step == 0


@dataclass(frozen=True)
class _Pattern:
    shape: re.Pattern[str]
    ranges: tuple[tuple[_Range, ...], ...]  # by group of the shape

    def holds(self, name: str) -> bool:
        match = self.shape.fullmatch(name)
        numbers = match.groups() if match else ()
        return match is not None and all(
            any(span.holds(number) for span in spans) for spans, number in zip(self.ranges, numbers, strict=True)
        )


def _pattern(text: str) -> _Pattern:
    shape, ranges = "", []
    for place, piece in enumerate(_BRACKET.split(text)):
        if place % 2 == 0:
            if "[" in piece or "]" in piece:
                raise ValueError("a bracket is not closed")
            shape += re.escape(piece).replace(r"\*", ".*").replace(r"\?", ".")
        elif all(_RANGE.fullmatch(word) for word in piece.split(",")):
            shape += "([0-9]{1,9})"
            ranges.append(tuple(_range(word) for word in piece.split(",")))
        else:
            shape += _letters(piece)
    return _Pattern(_compiled(shape), tuple(ranges))


def _range(word: str) -> _Range:
    match = _RANGE.fullmatch(word)
    assert match is not None, word
    first, last, step = match[1], match[2] or match[1], int(match[3] or 1)
    if int(last) < int(first) or step < 1:
        raise ValueError(f"[{word}] does not ascend")
    return _Range(int(first), int(last), step, len(first) if first.startswith("0") else 1)


def _letters(piece: str) -> str:
    """[ab] and [!ab] of a glob."""
    negated = piece.startswith("!")
    letters = re.sub(r"([\\^])", r"\\\1", piece[negated:])
    return f"[{'^' * negated}{letters}]"


def _compiled(shape: str) -> re.Pattern[str]:
    try:
        return re.compile(shape, re.IGNORECASE)
    except re.error:
        raise ValueError("a bracket holds what is no range") from None
