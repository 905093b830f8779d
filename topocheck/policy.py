"""The policy file: what a site judges otherwise, what it has accepted, what must have been seen (docs/policy.md).

Options of the command line win over it. Every mistake in it is a UsageError that names file, line and key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from topocheck.errors import UsageError
from topocheck.exits import FAIL_ON, FailOn
from topocheck.finding import SEVERITIES, Severity
from topocheck.names import NameSet
from topocheck.pricing import MIN_LOSS
from topocheck.rules import ALL
from topocheck.toml_file import TomlFile

SCHEMA = 1
EVIDENCE = ("pcie-links", "nvlink", "nic-ports")


@dataclass(frozen=True)
class Waiver:
    """A fault that was accepted, on these devices of these hosts (None: all), through a day (UTC)."""

    rule: str
    device: NameSet
    reason: str
    expires: date
    hosts: NameSet | None = None


@dataclass(frozen=True)
class Policy:
    """The file's keys by their own names, and what holds where it is silent."""

    schema: int = SCHEMA
    fail_on: FailOn = "error"
    min_loss: float = MIN_LOSS  # share of a scenario that an error must cost
    job_without_gres: Literal["pass", "whole-node"] = "pass"
    on_hang: Literal["pass", "fail"] = "pass"
    require: tuple[str, ...] | None = None  # None: all of EVIDENCE of a live node, nothing of other inputs
    select: tuple[str, ...] = ()  # (): all
    ignore: tuple[str, ...] = ()
    baseline: Path | None = None
    job_opt_out: str | None = None
    compute_nics: tuple[NameSet, ...] = ()
    rails: tuple[NameSet, ...] = ()  # the leaf switches of rail 0, rail 1, …
    severity: Mapping[str, Severity] = field(default_factory=dict)
    waiver: tuple[Waiver, ...] = ()

    def evidence(self, *, live: bool) -> tuple[str, ...]:
        """What must have been seen for a verdict: what the file says, else everything of a live node."""
        if self.require is not None:
            return self.require
        return EVIDENCE if live else ()


def load(name: str) -> Policy:
    """The policy that a file states; paths in it are relative to its folder."""
    file = TomlFile(name)
    severities, waivers = file.table.pop("severity", {}), file.table.pop("waiver", [])
    values = _values(file, file.table, _READERS, "")
    if "baseline" in values:
        values["baseline"] = Path(name).parent / values["baseline"]
    return Policy(**values, severity=_severities(file, severities), waiver=_waivers(file, waivers))


def known_rules(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Rule ids and globs in upper case. UsageError for one that fits no rule."""
    for pattern in patterns:
        if not any(fnmatchcase(rule.ID, pattern.upper()) for rule in ALL):
            raise UsageError(f"{pattern}: no such rule: `topocheck rules` lists them")
    return tuple(pattern.upper() for pattern in patterns)


def _values(
    file: TomlFile, table: Mapping[str, Any], readers: Mapping[str, Callable[[Any], Any]], header: str, place: int = 0
) -> dict[str, Any]:
    values = {}
    for key, value in table.items():
        if key not in readers:
            raise file.wrong(f"no such key: there are {', '.join(readers)}", key, header, place)
        try:
            values[key] = readers[key](value)
        except (ValueError, UsageError) as error:
            raise file.wrong(str(error), key, header, place) from None
    return values


def _severities(file: TomlFile, table: object) -> dict[str, Severity]:
    if not isinstance(table, dict):
        raise file.wrong("a table is needed: [severity] and a line a rule", "severity")
    for key in table:
        if key not in {rule.ID for rule in ALL}:
            raise file.wrong("no such rule: `topocheck rules` lists them", key, "severity")
    return _values(file, table, dict.fromkeys(table, _one_of(*SEVERITIES)), "severity")


def _waivers(file: TomlFile, tables: object) -> tuple[Waiver, ...]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise file.wrong("tables are needed: [[waiver]]", "waiver")
    waivers = []
    for place, table in enumerate(tables):
        values = _values(file, table, _WAIVER_READERS, "waiver", place)
        if missing := [key for key in _WAIVER_READERS if key not in values and key != "hosts"]:
            raise file.wrong("a waiver needs it", missing[0], "waiver", place)
        waivers.append(Waiver(**values))
    return tuple(waivers)


def _one_of(*words: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in words:
            raise ValueError(f"one of {', '.join(words)} is needed")
        return str(value)

    return read


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text is needed")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("a list of texts is needed")
    return tuple(_text(entry) for entry in value)


def _some(value: object) -> tuple[str, ...]:
    if value == []:
        raise ValueError("the list is empty")
    return _texts(value)


def _schema(value: object) -> int:
    if value != SCHEMA or isinstance(value, bool):
        raise ValueError(f"this release reads schema {SCHEMA}")
    return SCHEMA


def _share(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("a number from 0 to 1 is needed")
    return float(value)


def _day(value: object) -> date:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise ValueError("a date is needed, without quotes: 2027-03-31")
    return value


def _rule(value: object) -> str:
    rule = _text(value).upper()
    if rule not in {rule.ID for rule in ALL}:
        raise ValueError(f"{value}: no such rule: `topocheck rules` lists them")
    return rule


def _names(value: object) -> NameSet:
    return NameSet.parsed(_text(value))


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "schema": _schema,
    "fail_on": _one_of(*FAIL_ON),
    "min_loss": _share,
    "job_without_gres": _one_of("pass", "whole-node"),
    "on_hang": _one_of("pass", "fail"),
    "require": lambda value: tuple(_one_of(*EVIDENCE)(word) for word in _texts(value)),
    "select": lambda value: known_rules(_some(value)),
    "ignore": lambda value: known_rules(_texts(value)),
    "baseline": _text,
    "job_opt_out": _text,
    "compute_nics": lambda value: tuple(_names(entry) for entry in _some(value)),
    "rails": lambda value: tuple(_names(entry) for entry in _some(value)),
}
_WAIVER_READERS: Mapping[str, Callable[[Any], Any]] = {
    "rule": _rule,
    "device": _names,
    "hosts": _names,
    "reason": _text,
    "expires": _day,
}
