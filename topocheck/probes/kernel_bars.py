"""What the kernel log says of a BAR that found no room: the function's driver cannot be used.

    [    2.831120] pci 0000:01:00.0: BAR 1 [mem size 0x10000000 64bit pref]: failed to assign
    [    2.831120] pci 0000:01:00.0: BAR 1: failed to assign [mem size 0x10000000 64bit pref]

Each BAR counts as its last line says, so not one that a second try gave room. Not read is what a driver prints that
tries to make a BAR larger: it keeps the one it has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from topocheck.facts import full_bdf
from topocheck.probes.lines import Line, lines_with, start_of_last

_FAILED, _GIVEN = "failed to assign", "assigned"
_MOST = 30_000  # lines of either kind: the last ones
_BAR = re.compile(
    r"\bpci ((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): BAR ([0-3])"
    r"(?: \[mem [^\]]{1,60}\]: (failed to assign|assigned)|: (failed to assign|assigned) \[mem )"
)


def without_room(text: str, first_line: int) -> Iterator[tuple[str, Line]]:
    """The functions with a memory BAR that found no room, from a line on, each with the first line about its last."""
    if _FAILED not in text:
        return
    last: dict[tuple[str, str], tuple[bool, Line]] = {}
    words = (_FAILED, f": {_GIVEN}")
    for line in lines_with(text, words, {word: start_of_last(text, word, _MOST) for word in words}):
        if line.number >= first_line and (match := _BAR.search(line.text)) and (bdf := full_bdf(match[1])):
            last[bdf, match[2]] = (match[3] or match[4]) == _FAILED, line
    failed = {bdf: line for (bdf, _), (is_failed, line) in reversed(last.items()) if is_failed}
    yield from failed.items()
