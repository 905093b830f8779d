"""Text made fit for a terminal: a capture is hostile input, the name of a device may hold an escape sequence."""

from __future__ import annotations

import unicodedata

# What our own words and the tools use beyond ASCII, for terminals that have no more.
_SPELLINGS = {
    "–": "-", "—": "-", "−": "-", "·": "|", "…": "...", "→": "->", "×": "x", "≥": ">=", "≤": "<=", "≈": "~", "µ": "u",
    "“": '"', "”": '"', "„": '"', "‘": "'", "’": "'",
}  # fmt: skip
_ASCII = str.maketrans(_SPELLINGS)


def printable(text: str, *, ascii: bool = False) -> str:  # noqa: A002 (the screen's own word)
    r"""One line without control characters: blanks stand for tabs and line ends, `\x1b` is spelled out.

    >>> printable("a\tb\x1b[2J"), printable("26.9 GB/s (−45 %)", ascii=True)
    ('a b\\x1b[2J', '26.9 GB/s (-45 %)')
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " if c.isspace() else _spelled(c) for c in text)
    if ascii and not text.isascii():
        text = unicodedata.normalize("NFKD", text.translate(_ASCII)).encode("ascii", "replace").decode()
    return text


def _spelled(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")
