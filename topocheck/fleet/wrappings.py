"""What other programs put around reports: a label, a time or both before each, its node's name above it, JSON of their
own around it."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from typing import Any

from topocheck.fleet.hosts import short_name
from topocheck.fleet.pieces import LABEL, START

_PREFIX_BYTES = 1024
_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}(?:Z|[+-]\d\d:\d\d) ")
_OBJECT = rb'\{\s*(?:["}]|\Z)'
_STARTED = re.compile(rb"\[?\s*" + _OBJECT)
_REPORTS = re.compile(rb"(?:[\w.-]{1,255}: )?(?:\[\s*)?(?:" + _OBJECT + rb"|\Z)")
_HEADING_BYTES = 300
_FRAME = re.compile(rb"[-=]{3,}")  # clush -b, dshbak, xcoll
# ansible's: "gpu017 | SUCCESS => {", "ok: [gpu017] => {"
_TASK = re.compile(rb"(?:[\w.-]{1,255} \| [A-Z]{4,16}!?|[a-z]{2,10}: \[[^\]]{1,255}\][^{]{0,60}) => (?=\{)")
_MARK = re.compile(rb"[^a-z]*|rc=\d+")  # "|", "CHANGED", "[SUCCESS]", "12:00:59"


def begins_reports(head: bytes) -> bool:
    """Whether the first line of this is a report, or JSON at least."""
    return _REPORTS.match(head) is not None


def is_frame(line: bytes) -> bool:
    """Whether it only parts what nodes say."""
    return _FRAME.fullmatch(line) is not None


def opens_indented(line: bytes) -> bool:
    """Whether its last brace begins JSON over several lines."""
    task = _TASK.match(line)
    return task is not None and line[task.end() :] == b"{"


def report_in(line: bytes) -> tuple[bytes, str | None]:
    """What of a line is JSON, empty if nothing is, and its label.

    >>> report_in(b'gpu017: {"a":1}')
    (b'{"a":1}', 'gpu017')
    >>> report_in(b'[pod/topocheck-x7k2p/node] 2026-11-20T03:04:05Z {"schema":"topocheck.node/1"}')
    (b'{"schema":"topocheck.node/1"}', None)
    """
    if _STARTED.match(line):
        return line, None
    if task := _TASK.match(line):
        return line[task.end() :], None
    label = LABEL.match(line)
    if label and _STARTED.match(line, label.end()):
        return line[label.end() :], label[1].decode("ascii", "replace")
    at = line.find(START, 0, _PREFIX_BYTES)
    if at > 0 and _STAMP.search(line, 0, at):
        return _STAMP.sub(b"", line[at:]), None  # kubectl logs --timestamps has one every 16 KB
    return (line[at:] if at > 0 else b""), None


def heads(line: bytes, host: str) -> bool:
    """Whether a line above the report of a host only names it; another word in small letters is a message.

    >>> heads(b"gpu017 | CHANGED | rc=0 >>", "gpu017"), heads(b"gpu017: connection lost", "gpu017")
    (True, False)
    """
    short = short_name(host).encode("utf-8", "replace")
    name = re.compile(rb"(?<![\w-])" + re.escape(short) + rb"(?![\w-])")
    words = line.split() if short and len(line) <= _HEADING_BYTES else []
    naming = [word for word in words if name.search(word)]
    return bool(naming) and all(word in naming or _MARK.fullmatch(word) for word in words)


def inside(data: object) -> Iterator[dict[str, Any]]:
    """The documents of ours in another program's JSON, as objects or as text; the same text once, for ansible has it
    as stdout and as stdout_lines."""
    ahead = deque([data])
    told: set[str] = set()
    while ahead:
        entry = ahead.popleft()
        if isinstance(entry, dict):
            if str(entry.get("schema")).startswith("topocheck."):
                yield entry
            else:
                ahead.extend(entry.values())
        elif isinstance(entry, list):
            ahead.extend(entry)
        elif isinstance(entry, str) and '{"schema"' in entry:
            texts = dict.fromkeys(text for text in map(str.strip, entry.split("\n")) if text not in told)
            told.update(texts)
            ahead.extend(found for text in texts if (found := _parsed(text)) is not None)


def _parsed(text: str) -> object:
    at = text.find('{"schema"', 0, _PREFIX_BYTES)
    try:
        return json.loads(text[at:]) if at >= 0 else None
    except (ValueError, RecursionError):
        return None
