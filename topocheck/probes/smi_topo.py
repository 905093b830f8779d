"""`nvidia-smi topo -m` and `-mp`: which way any two of the node's GPUs and NICs reach each other.

        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV4     PIX     0-15,32-47      0               N/A
GPU1    NV4      X      SYS     16-31,48-63     1               N/A
NIC0    PIX     SYS      X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from topocheck.facts import Evidence, Fact, Gap, Matrix
from topocheck.probes.lines import Line, lines, sniffed
from topocheck.probes.smi_errors import errors
from topocheck.probes.smi_topo_affinity import COLUMNS, affinity
from topocheck.probes.smi_topo_rows import (
    Header,
    Row,
    cells_of,
    header,
    is_p2p_row,
    is_torn,
    legend_entries,
    parted,
    plain,
    row,
)

INPUT = "nvidia-smi topo -m"
INPUT_MP = "nvidia-smi topo -mp"
COMMANDS = ("nvidia-smi topo -m",)
PATHS = ()
NAME = r"nvidia[-_]?smi[\W_]*topo(?![\W_]*p2p)"

_MAX_MATRICES = 64
_MAX_NAMES = 512  # 16 GPUs and 63 NICs were seen; more rows than this are no matrix
_MAX_FOREIGN_LINES = 200  # of another program, between two halves of a row

_LOOKS = re.compile(
    r"GPU\d+[ \t]+X[ \t]*(?:[\r\n]|[ \t](?![ \t]*(?:OK|[GCT]?NS|DR|U)\b))|GPU\d+[ \t]*CPU Affinity"
    r"|\|[ \t*`]*GPU0[ \t*`]*\|[ \t*`]*X[ \t*`]*\|"
    r"|= Connection traversing PCIe as well as"
)
_COMMAND = re.compile(r"topo[ \t]+(?:(-mp|--matrix_pci)|-m|--matrix)(?![a-z_])")
_AFFINITY_ONLY = re.compile(r"[\d,-]*[ \t]*(?:[\d,-]+|N/?A?)?[ \t]*(?:\d+|N/?A?)?")


@dataclass
class _Entry:
    """A row being read: the line it began on, its tokens so far, the text behind them."""

    line: Line
    cells: tuple[str, ...]
    rest: str


@dataclass
class _Draft:
    """A matrix being read."""

    command: str
    header: Header | None = None
    header_text: str = ""
    rows: dict[str, _Entry] = field(default_factory=dict)
    legend: dict[str, str | None] = field(default_factory=dict)
    p2p: bool = False


def sniff(text: str) -> bool:
    """Whether the text holds a row, a header or the legend of a matrix."""
    return sniffed(_LOOKS, text)


def parse(text: str, command: str = INPUT) -> Iterable[Fact]:
    """Every matrix in the text, each with the gaps it has. `command` says which form the text is, unless a command
    line in it says otherwise."""
    command = INPUT_MP if re.search(r"topo\W+mp", command) else INPUT
    facts = [fact for draft in islice(_drafts(text, command), _MAX_MATRICES) for fact in _facts(draft)]
    return [*facts, *errors(text, command)] or [Gap(command, "no matrix in it")]


def _drafts(text: str, command: str) -> Iterator[_Draft]:
    draft, last = _Draft(command), 0
    for line in (piece for whole in lines(text) for piece in _pieces(whole)):
        words = plain(line.text)
        if match := _COMMAND.search(words):
            command = INPUT_MP if match[1] else INPUT
        if found := row(words):
            if found.name in draft.rows or len(draft.rows) >= _MAX_NAMES:
                yield draft
                draft = _Draft(command)
            _add(draft, found, line)
            last = line.number
        elif line.number == last + 1 and not draft.rows and _widen(draft, (" " if line.indent else "") + words):
            last = line.number
        elif (top := header(words)) and not (draft.rows and not top.whole and not top.columns):
            if draft.rows:
                yield draft
            draft, last = _Draft(command, top, words), line.number
        elif not _note(draft, words) and draft.rows and line.number - last <= _MAX_FOREIGN_LINES:
            last = line.number if _continue(draft, line._replace(text=words), last) else last
    yield draft


def _pieces(line: Line) -> Iterator[Line]:
    """The line, or what it holds of a matrix where its line ends were lost."""
    for text in parted(line.text):
        yield line if text == line.text else line._replace(text=text, indent=0)


def _add(draft: _Draft, found: Row, line: Line) -> None:
    draft.rows[found.name] = _Entry(line._replace(text=plain(line.text)), found.cells, found.rest)


def _widen(draft: _Draft, words: str) -> bool:
    """Takes a line as the rest of a header that was wrapped, if both together hold more than the header."""
    joined = header(draft.header_text + words) if draft.header else None
    if joined is None or draft.header is None or _extent(joined) <= _extent(draft.header):
        return False
    draft.header, draft.header_text = joined, draft.header_text + words
    return True


def _extent(top: Header) -> tuple[int, int, bool]:
    return len(top.names), len(top.columns), top.whole


def _note(draft: _Draft, words: str) -> bool:
    """Takes a line of the legends; False if it is none."""
    _, equals, meaning = (part.strip() for part in words.partition("="))
    if equals and re.match("Self|Connection|Status|Not supported|Chipset", meaning):
        draft.p2p |= meaning.startswith("Status")
        return True
    if is_p2p_row(words):
        draft.p2p = True
        return True
    entries = legend_entries(words)
    draft.legend.update(entries)
    return bool(entries)


def _continue(draft: _Draft, line: Line, last: int) -> bool:
    """Takes a line as the rest of the last row, if that was torn and the line goes on where it ends."""
    entry = next(reversed(draft.rows.values()))
    if line.number == last + 1 and not line.indent:
        _reopen_count(draft, entry, line.text)
    missing = _width(draft) - len(entry.cells)
    if missing > 0 and is_torn(entry.rest):
        cells, rest = cells_of(entry.rest.rstrip() + (" " if line.indent else "") + line.text)
        complete = len(cells) == missing and _AFFINITY_ONLY.fullmatch(rest.strip())
        if cells and (complete or (len(cells) < missing and is_torn(rest))):
            entry.cells, entry.rest = entry.cells + cells, rest
            return True
    elif line.number == last + 1 and line.text:
        between = " " if line.indent else ""
        joined = entry.rest + between + line.text
        if _AFFINITY_ONLY.fullmatch(joined.strip()):
            doubtful = not between and entry.rest[-1:].isdigit() and line.text[0].isdigit()  # one number, or two
            entry.rest = "" if doubtful else joined
            return True
    return False


def _reopen_count(draft: _Draft, entry: _Entry, text: str) -> None:
    """Takes a row's last cell for text again where the next line's first digit makes it a count that others have:
    "NV1" and "8" of "NV18"."""
    digit = re.match(r"\d(?=[ \t]|$)", text)
    if digit and entry.cells and not entry.rest:
        others = {cell for row in draft.rows.values() for cell in row.cells}
        if entry.cells[-1].startswith("NV") and entry.cells[-1] + digit[0] in others:
            entry.cells, entry.rest = entry.cells[:-1], entry.cells[-1]


def _width(draft: _Draft) -> int:
    """How many cells a whole row has."""
    return max([len(entry.cells) for entry in draft.rows.values()] + [len(draft.header.names) if draft.header else 0])


def _facts(draft: _Draft) -> Iterator[Fact]:
    only_x = all(set(entry.cells) <= {"X"} for entry in draft.rows.values())
    if not draft.rows or (draft.p2p and only_x):
        if draft.header and not draft.p2p and (len(draft.header.names) > 1 or draft.header.columns):
            yield Gap(draft.command, "the matrix ends after its header line")
        return
    _drop_torn_name(draft.legend)
    names = _names(draft)
    _drop_torn_counts(draft, len(names))
    gaps = list(_header_gaps(draft, names))
    sound = {name: entry for name, entry in draft.rows.items() if name in names and _is_sound(name, entry, names)}
    gaps += _row_gaps(draft, names, sound)
    gaps += _legend_gaps(draft, names)
    cells = {
        (name, other): cell
        for name, entry in sound.items()
        for other, cell in zip(names, entry.cells, strict=False)
        if other != name
    }
    rests = {name: e.rest for name, e in sound.items() if name.startswith("GPU") and len(e.cells) == len(names)}
    columns = draft.header.columns if draft.header else COLUMNS if any(r.strip() for r in rests.values()) else ()
    yield Matrix(
        witness=INPUT if any(cell.startswith("NV") for cell in cells.values()) else draft.command,
        names=names,
        cells=cells,
        rows=affinity(rests, columns),
        legend={nic: name for nic, name in draft.legend.items() if name and nic in names},
        lines={name: Evidence(draft.command, e.line.number, e.line.text.strip()) for name, e in sound.items()},
        cut=len(cells) < len(names) * (len(names) - 1),
    )
    yield from gaps


def _drop_torn_name(legend: dict[str, str | None]) -> None:
    """The legend's last name, where it is the beginning of another's, or another's: "mlx5_1" of "mlx5_10"."""
    *others, last = legend.items() or [("", None)]
    if last[1] and any(name and name.startswith(last[1]) for _, name in others):
        legend[last[0]] = None


def _drop_torn_counts(draft: _Draft, width: int) -> None:
    """The last cell of a row that is cut, where it is the beginning of another's count: "NV1" of "NV18"."""
    counts = {cell for entry in draft.rows.values() for cell in entry.cells if cell.startswith("NV")}
    goes_on = len(draft.rows) < width or any(entry.rest.strip() for entry in draft.rows.values())
    for entry in draft.rows.values():
        cut = not entry.rest and (len(entry.cells) < width or goes_on)
        last = entry.cells[-1] if entry.cells and cut else ""
        if any(count != last and count.startswith(last) for count in counts if last.startswith("NV")):
            entry.cells = entry.cells[:-1]


def _names(draft: _Draft) -> tuple[str, ...]:
    """The header's names, then the rows' where the header lacks them, then numbers for columns nobody names; last those
    whose columns a margin cut off: rows without their own X, and NICs of the legend."""
    names = list(draft.header.names if draft.header else ())
    width = _width(draft)
    names += [name for name in draft.rows if name not in names][: width - len(names)]
    names += [f"GPU{i}" for i in range(len(names), width) if _is_gpus(draft, i)]
    taken = sum(name.startswith("NIC") for name in names)
    names += [f"NIC{taken + i}" for i in range(width - len(names))]
    beyond = [name for name, entry in draft.rows.items() if "X" not in entry.cells]
    beyond += [nic for nic, name in draft.legend.items() if name and draft.header]
    return tuple(dict.fromkeys(names + beyond))


def _is_gpus(draft: _Draft, column: int) -> bool:
    """Whether a column has an NVLink in it."""
    return any(cell.startswith("NV") for entry in draft.rows.values() for cell in entry.cells[column : column + 1])


def _is_sound(name: str, entry: _Entry, names: tuple[str, ...]) -> bool:
    """Whether the row's own X stands in its own column, as far as the row goes."""
    at = names.index(name)
    return [i for i, cell in enumerate(entry.cells) if cell == "X"] == ([at] if at < len(entry.cells) else [])


def _header_gaps(draft: _Draft, names: tuple[str, ...]) -> Iterator[Gap]:
    if draft.header is None:
        yield Gap(draft.command, "the header line is missing: columns are named after the rows")
    elif len(names) > len(draft.header.names):
        yield Gap(draft.command, f"the header line names {len(draft.header.names)} of {len(names)} columns")


def _row_gaps(draft: _Draft, names: tuple[str, ...], sound: dict[str, _Entry]) -> Iterator[Gap]:
    missing = [name for name in names if name not in draft.rows]
    cut = [name for name, entry in sound.items() if len(entry.cells) < len(names)]
    mixed = [name for name in draft.rows if name not in sound]
    if missing:
        yield Gap(draft.command, f"rows missing: {' '.join(missing)}")
    if cut:
        yield Gap(draft.command, f"rows cut short: {' '.join(cut)}")
    if mixed:
        yield Gap(draft.command, f"rows that do not fit their columns, left out: {' '.join(mixed)}")


def _legend_gaps(draft: _Draft, names: tuple[str, ...]) -> Iterator[Gap]:
    numbered = [name for name in names if name.startswith("NIC")]
    corrupt = [nic for nic in numbered if nic in draft.legend and draft.legend[nic] is None]
    absent = [nic for nic in numbered if nic not in draft.legend]
    if corrupt:
        yield Gap(draft.command, f"the NIC legend is corrupt, RDMA names unknown: {' '.join(corrupt)}")
    if absent:
        which = "the NIC legend is missing" if absent == numbered else f"not in the NIC legend: {' '.join(absent)}"
        yield Gap(draft.command, f"{which}, RDMA names unknown")
