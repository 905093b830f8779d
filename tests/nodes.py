"""Our own nodes (fixtures/nodes): a healthy capture each, and the small edits that make one fault of it.

An edit is text on text, so that a fault is readable where it is written: `edits.toml` says which file, from which line
on (`at`, a regular expression), and what is put there. Nothing is guessed: a text that is not found is an error.
"""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NODES = Path(__file__).parent.parent / "fixtures" / "nodes"


@dataclass(frozen=True)
class Change:
    """One change of one file: `replace` by `by`; or `paragraph`, the lines from `at` to the next blank one; or `text`,
    the whole file."""

    file: str
    at: str | None = None
    replace: str | None = None
    by: str = ""
    paragraph: str | None = None
    text: str | None = None

    def of(self, text: str) -> str:
        """The text with the change made; LookupError if there is nothing to change."""
        start = 0
        if self.at is not None:
            found = re.search(self.at, text, re.MULTILINE)
            if found is None:
                raise LookupError(f"{self.file}: no line matches {self.at!r}")
            start = found.start()
        if self.paragraph is not None:
            end = text.find("\n\n", start)
            return text[:start] + self.paragraph + (text[end:] if end >= 0 else "\n")
        assert self.replace, f"{self.file}: an edit needs replace, paragraph or text"
        place = text.find(self.replace, start)
        if place < 0:
            raise LookupError(f"{self.file}: {self.replace!r} not found after {self.at!r}")
        return text[:place] + self.by + text[place + len(self.replace) :]


@dataclass(frozen=True)
class Expect:
    """What must be said: `loss` one figure, `range` a typical price; None: not looked at; rule "none": nothing."""

    rule: str
    severity: str
    subjects: tuple[str, ...] | None = None
    evidence: str | None = None
    loss: float | None = None
    range: tuple[float, float] | None = None
    effect: str | None = None
    arithmetic: str | None = None
    verdict: str | None = None


@dataclass(frozen=True)
class Edit:
    """One fault: its changes, the files it takes away, and what must be said."""

    node: str
    name: str
    about: str
    changes: tuple[Change, ...]
    drop: tuple[str, ...]
    expect: Expect


def names() -> list[str]:
    """Every node, in order."""
    return sorted(path.parent.name for path in NODES.glob("*/about.toml"))


def healthy(name: str) -> Path:
    """The healthy capture of a node."""
    path = NODES / name / "capture"
    assert path.is_dir(), f"no capture of {name}"
    return path


def edits(name: str) -> list[Edit]:
    """The faults written down for a node."""
    with (NODES / name / "edits.toml").open("rb") as file:
        return [_edit(name, entry) for entry in tomllib.load(file)["edit"]]


def edit(name: str, fault: str) -> Edit:
    """One fault of a node by its name."""
    return next(entry for entry in edits(name) if entry.name == fault)


def apply(name: str, fault: Edit, folder: Path) -> Path:
    """A copy of the node's capture in `folder` with the fault in it."""
    capture = folder / "capture"
    shutil.copytree(healthy(name), capture)
    for change in fault.changes:
        file = capture / change.file
        if change.text is not None:  # may be a file the healthy capture has not
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(change.text)
        else:
            file.write_text(change.of(file.read_text()))
    for gone in fault.drop:
        dropped = sorted(capture.glob(gone))
        assert dropped, f"{fault.name}: no file {gone} to drop"
        for file in dropped:
            file.unlink()
    return capture


_CHANGE_KEYS = {"in": "file", "at": "at", "replace": "replace", "by": "by", "paragraph": "paragraph", "text": "text"}


def _edit(node: str, entry: dict[str, Any]) -> Edit:
    steps = ([entry] if "in" in entry else []) + entry.get("change", [])
    known = {*_CHANGE_KEYS, "name", "about", "change", "drop", "expect"}
    unknown = {key for step in [entry, *steps] for key in step} - known
    assert not unknown, f"{node}: {entry['name']}: unknown keys {sorted(unknown)}"
    changes = tuple(Change(**{_CHANGE_KEYS[key]: step[key] for key in _CHANGE_KEYS if key in step}) for step in steps)
    expect: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in entry["expect"].items()
    }
    return Edit(node, entry["name"], entry["about"], changes, tuple(entry.get("drop", ())), Expect(**expect))
