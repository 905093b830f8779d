"""The affinity columns of `nvidia-smi topo -m`, from the text that follows the cells of each GPU row.

A terminal's margin runs the CPU list and the NUMA node together: "0-47,96-1430 N/A" is 0-47,96-143 on node 0. One row
cannot tell that from a list with a blank NUMA cell. All rows of a matrix can: CPU lists of two rows are equal or have
no CPU in common, and the hyper-thread ranges of one list are of one length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from topocheck.facts import MatrixRow

COLUMNS = ("cpus", "numa", "gpu_numa")
_MAX_NODE = 255
_MAX_RANGES = 64  # of one list, and rows of one matrix: beyond, it is no output of nvidia-smi

_RANGES = re.compile(r"\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?)*")
_LIST = re.compile(r"\d[\d,-]*")


class _Cells(NamedTuple):
    """What a row says when read one way; `numa` None is a blank cell."""

    cpus: str | None
    numa: str | None
    gpu_numa: str | None


class _Reading(NamedTuple):
    """A row read as printed, the other way to read it if its list may be run together, and whether tab stops speak
    for a blank cell."""

    printed: _Cells
    split: _Cells | None
    blank_by_tabs: bool


def affinity(rests: Mapping[str, str], columns: Sequence[str]) -> dict[str, MatrixRow]:
    """The affinity part of each row, `rests` being what follows its cells, `columns` those of the header."""
    readings = {name: _read(rest, columns) for name, rest in rests.items()}
    chosen = _choose(list(readings.values()))
    return {name: _row(cells) for name, cells in zip(readings, chosen, strict=True)}


def _row(cells: _Cells) -> MatrixRow:
    cpus = cells.cpus if cells.cpus and _LIST.fullmatch(cells.cpus) else None
    return MatrixRow(cpus, cells.numa or None, cells.gpu_numa or None)


def _read(rest: str, columns: Sequence[str]) -> _Reading:
    if not columns:
        return _Reading(_Cells(None, None, None), None, False)
    if "cpus" not in columns:
        words = _words(rest)
        return _Reading(_Cells(None, words[0] if words else None, None), None, False)
    if (by_tabs := _by_tabs(rest, columns)) is not None:
        return _Reading(by_tabs, None, False)
    words = _words(rest)
    columns = COLUMNS[: max(len(columns), len(words))]  # the header may have lost its end
    if 0 < len(words) == len(columns) - 1 and not _spans(words[0]) and (apart := _split(words[0])):
        words[:1] = apart  # no list of CPUs: it goes down in its middle
    lists, missing = [w for w in words if w != "N/A"], [w for w in words if w == "N/A"]
    if len(words) >= len(columns) or len(lists) >= 2:
        return _Reading(_named(words, columns), None, False)
    if not lists:  # blank cells leave only the last column's N/A, unless both NUMA columns say it
        named = _Cells(None, "N/A" if len(missing) > 1 or "gpu_numa" not in columns else None, "N/A")
        return _Reading(named if missing else _Cells(None, None, None), None, False)
    gpu_numa = "N/A" if missing else None
    split = _split(lists[0])
    return _Reading(
        _Cells(lists[0], None, gpu_numa), split and _Cells(*split, gpu_numa), bool(missing) and _blank_by_tabs(rest)
    )


def _by_tabs(rest: str, columns: Sequence[str]) -> _Cells | None:
    """The raw output's own separators; two tabs stand before the GPU's NUMA node. None if tabs were lost."""
    if "\t" not in rest:
        return None
    first, *fields = (field.strip() for field in rest.split("\t"))
    if first or any(field and field != "N/A" and not _RANGES.fullmatch(field) for field in fields):
        return None
    cpus, numa, *others = [*fields, "", ""]
    last = next((field for field in reversed(others) if field), "")
    if "numa" in columns and "gpu_numa" not in columns:
        return _Cells(cpus, numa or last, None)
    return _Cells(cpus, numa, last)


def _words(rest: str) -> list[str]:
    """The cells that stand apart, as far as they are cells; N/A runs into its neighbours too."""
    words = []
    for word in rest.replace("N/A", " N/A ").split():
        if word != "N/A" and not _LIST.fullmatch(word):
            break
        words.append(word)
    return words


def _named(words: Sequence[str], columns: Sequence[str]) -> _Cells:
    cells = dict(zip(columns, words, strict=False))
    return _Cells(cells.get("cpus"), cells.get("numa"), cells.get("gpu_numa"))


def _split(text: str) -> tuple[str, str] | None:
    """A CPU list and the NUMA nodes run on to it, the shortest that leave two sound lists; several nodes (Grace) only
    where there is no other way to read it.

    >>> _split("48-95,144-1911"), _split("7"), _split("0-710,3-9,11-17")
    (('48-95,144-191', '1'), None, ('0-71', '0,3-9,11-17'))
    """
    for at in range(len(text) - 1, max(len(text) - 8, 0) if _spans(text) else 0, -1):
        cpus, numa = text[:at], text[at:]
        if _spans(cpus) and (nodes := _spans(numa)) and nodes[-1][1] <= _MAX_NODE and not numa.startswith("00"):
            return cpus, numa
    return None


def _spans(text: str) -> list[tuple[int, int]]:
    """The ranges of a list, [] if they do not ascend."""
    if text.count(",") >= _MAX_RANGES or not _RANGES.fullmatch(text):
        return []
    spans = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        spans.append((int(first), int(last or first)))
    ascending = all(a <= b for a, b in spans) and all(x[1] < y[0] for x, y in pairwise(spans))
    return spans if ascending else []


def _blank_by_tabs(rest: str) -> bool:
    """Whether list and N/A stand two tab stops apart, as a blank cell between them leaves it."""
    match = re.match(r"[ \t]*(\d[\d,-]*)( +)N/A", rest)
    return match is not None and len(match[2]) > 8 and (len(match[1]) + len(match[2])) % 8 == 0


def _choose(readings: Sequence[_Reading]) -> list[_Cells]:
    """Reads all doubtful rows one way: whichever contradicts the others less."""
    printed = [reading.printed for reading in readings]
    if len(readings) > _MAX_RANGES or not any(reading.split for reading in readings):
        return printed
    split = [reading.split or reading.printed for reading in readings]
    against_printed, against_split = _contradictions(printed), _contradictions(split)
    if against_split < against_printed:
        return split
    if against_printed < against_split or all(r.blank_by_tabs for r in readings if r.split):
        return printed
    unknown = _Cells(None, None, None)
    return [r.printed if r.split is None else unknown._replace(gpu_numa=r.printed.gpu_numa) for r in readings]


def _contradictions(rows: Sequence[_Cells]) -> int:
    """Lists that share only some CPUs, ranges of unlike length in one list, unsound lists, nodes with two lists."""
    spans = {cells.cpus: _spans(cells.cpus) for cells in rows if cells.cpus}
    lists = sorted(spans.values())
    count = sum(not found for found in lists)
    count += sum(len({last - first for first, last in found}) > 1 for found in lists)
    count += sum(_overlap(a, b) for i, a in enumerate(lists) for b in lists[i + 1 :])
    numas = {(cells.cpus, cells.numa) for cells in rows if cells.numa and cells.numa.isdigit()}
    return count + len(numas) - len({numa for _, numa in numas})


def _overlap(a: Sequence[tuple[int, int]], b: Sequence[tuple[int, int]]) -> bool:
    return any(x[0] <= y[1] and y[0] <= x[1] for x in a for y in b)
