"""Reports of a fleet as somebody hands them over, and what `topocheck fleet` makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fleetsim

from topocheck.cli import run

CLEAN = {"torn": 0, "duplicate": 0, "schema": 0, "foreign": 0}


def twelve_lines() -> list[bytes]:
    """Twelve healthy reports, a line each without its end."""
    return [line.rstrip("\n").encode() for line in fleetsim.simulate(12).lines()]


def answer(folder: Path, *given: bytes | Path | str) -> Any:
    """The JSON answer to bytes, each a file of its own in `folder`, or to what is named."""
    names = []
    for number, entry in enumerate(given):
        name = folder / f"given{number}"
        if isinstance(entry, bytes):
            name.write_bytes(entry)
        names.append(str(name if isinstance(entry, bytes) else entry))
    out = folder / "answer.json"
    run(["fleet", "--format", "json", "--output", str(out), *names])
    return json.loads(out.read_text())


def edited(line: bytes, **values: Any) -> bytes:
    """A report with other values of some keys."""
    return json.dumps({**json.loads(line), **values}).encode()


def unread(**counts: int) -> dict[str, int]:
    """What was not read, by kind."""
    return {**CLEAN, **counts}
