"""The lines of `nvidia-smi topo -m`: header, row, legend entry, as terminals, logs and chats leave them.

Nothing is read by column position: tabs stop at a terminal's margin and run cells together, posters strip the first
blanks, a header may be wrapped. A name is known by its form, a cell by being one of the tokens.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

_RDMA = (
    r"mlx\d_(?:bond_)?\d{1,3}|mlx\d_[\w.]*\d"
    r"|(?:ibp|roce|rdmap|ib|hfi1|bnxt_re|irdma|efa|qedr|siw|rxe|hns|erdma|mana)[\w.]*\d"
)
_NAME = rf"GPU\d{{1,3}}|NIC\d{{1,3}}|{_RDMA}"
# "NV40-35" is NV4 and a CPU list: a count is never followed by a dash or a comma.
_CELL = r"PXB|PIX|PHB|NODE|SYS|SOC|NV\d{1,2}(?![-,])|X"

_ESCAPE = re.compile(r"(?:\x1b|\ufffd|\^\[)\[[0-9;?]*[A-Za-z]")
_HEADER_START = re.compile(r"(?<![A-Za-z])GPU\d{1,3}")
_HEADER_NAME = re.compile(rf"[ \t]*({_NAME})")
_COLUMNS = re.compile(r"[ \t]*(CPU Affinity)?[ \t]*(NUMA Affinity|NUMA(?![ \t]+ID))?[ \t]*(GPU NUMA ID)?[ \t]*")
_COLUMN_KEYS = ("cpus", "numa", "gpu_numa")
_TORN = r"S|SY|SO|N|NO|NOD|NV\d?|P|PX|PI|PH"
_ROW = re.compile(rf"(?<![^\s|>`\"'*+-])({_NAME})[ \t]+(?={_CELL})")
_TORN_ROW = re.compile(rf"({_NAME})[ \t]+(?=(?:{_TORN})$)")
_NEXT_CELL = re.compile(rf"[ \t]*({_CELL})")
_TORN_CELL = re.compile(rf"[ \t]*(?:{_TORN})$")
_P2P = re.compile(r"[ \t]*(?:OK|[GCT]?NS|DR|U)(?![\w-])")
_P2P_ROW = re.compile(r"GPU\d{1,3}[ \t]+(?:X[ \t]+)?(?:OK|[GCT]?NS|DR|U)(?![\w-])")
_LEGEND = re.compile(r"(?<!\S)(NIC\d{1,3}):[ \t]*")
_LEGENDS = re.compile(r"(?:NIC )?Legend:")
_NOTE = re.compile(r"[ \t]+(?:->|=>|[(\[#,;|])")  # what people write behind a name
_RDMA_NAME = re.compile(r"(?=.*[a-z])[A-Za-z][\w.-]{1,62}\d|(?:mlx|ib|roce|rdma|efa|bnxt|hfi|irdma)[\w.-]*")

_CUT_NAME = re.compile(r"mlx\d?_?(?:bond_?)?")  # at the end of a paste


class Header(NamedTuple):
    """The names of the columns and which affinity columns follow; `whole` when nothing else stood on the line."""

    names: tuple[str, ...]
    columns: tuple[str, ...]  # of "cpus", "numa", "gpu_numa"
    whole: bool


class Row(NamedTuple):
    """One row: its tokens as far as they are whole, and the text behind them."""

    name: str
    cells: tuple[str, ...]
    rest: str


def plain(text: str) -> str:
    """A line without terminal escapes, whose first byte may have been lost to U+FFFD; a row of a Markdown table as
    nvidia-smi has it."""
    text = _ESCAPE.sub("", text) if "[" in text else text
    is_table_row = text.startswith("|") and text.endswith("|") and text.count("|") > 2
    return text.replace("|", "\t").replace("*", "").replace("`", "").strip() if is_table_row else text


def parted(line: str) -> list[str]:
    """The header, the rows and the legends of a line that holds several rows, its line ends having been lost.

    >>> parted("GPU0 GPU1 GPU0 X PIX 0-7 GPU1 PIX X 0-7 Legend: X = Self")
    ['GPU0 GPU1', 'GPU0 X PIX 0-7', 'GPU1 PIX X 0-7', 'Legend: X = Self']
    """
    starts = [match.start() for match in _ROW.finditer(line)] if line.count("X") > 1 else []
    if len(starts) < 2:
        return [line]
    starts += [match.start() for match in _LEGENDS.finditer(line, starts[-1])]
    return [line[a:b].strip() for a, b in pairwise([0, *starts, len(line)]) if line[a:b].strip()]


def header(line: str) -> Header | None:
    """The header on a line, wherever on it; None if it holds none."""
    start = _HEADER_START.search(line)
    if start is None or _LEGEND.match(line):
        return None
    names, at = [], start.start()
    while match := _HEADER_NAME.match(line, at):
        names.append(match[1])
        at = match.end()
    match = _COLUMNS.match(line, at)
    columns = tuple(key for key, group in zip(_COLUMN_KEYS, match.groups() if match else (), strict=False) if group)
    whole = (match.end() if match else at) == len(line)
    if at == len(line) and names[-1] in names[:-1]:  # "NIC1" of a "NIC11" wrapped in its middle
        names.pop()
        whole = False
    if len(set(names)) != len(names) or not (whole or columns or len(names) > 1) or _NEXT_CELL.match(line, at):
        return None
    return Header(tuple(names), columns, whole)


def row(line: str) -> Row | None:
    """The row on a line, behind any log prefix; None if it holds none, or is a row of `topo -p2p`."""
    match = _ROW.search(line) or _TORN_ROW.match(line)
    if match is None:
        return None
    cells, rest = cells_of(line[match.end() :])
    return None if _P2P.match(rest) else Row(match[1], cells, rest)


def is_p2p_row(line: str) -> bool:
    """Whether a line is a row of `topo -p2p`, whose header looks the same."""
    return _P2P_ROW.match(line) is not None


def cells_of(text: str) -> tuple[tuple[str, ...], str]:
    """The tokens a text begins with, SOC read as SYS, and what follows them.

    >>> cells_of("X  PIX  SYSNODE36-71  1")
    (('X', 'PIX', 'SYS', 'NODE'), '36-71  1')
    """
    cells, at = [], 0
    while match := _NEXT_CELL.match(text, at):
        cells.append("SYS" if match[1] == "SOC" else match[1])
        at = match.end()
    return tuple(cells), text[at:]


def is_torn(rest: str) -> bool:
    """Whether what follows the tokens is nothing, or the first letters of one more: the row goes on elsewhere."""
    return not rest.strip() or _TORN_CELL.match(rest) is not None


def legend_entries(line: str) -> list[tuple[str, str | None]]:
    """(NICn, RDMA name) of a legend line, or of several written on one, without notes behind the names; the name None
    where it is a scrap of the matrix (more than 40 NICs).

    >>> legend_entries("NIC3: mlx5_bond_2"), legend_entries("NIC1: MA ID")
    ([('NIC3', 'mlx5_bond_2')], [('NIC1', None)])
    >>> legend_entries("NIC0: rocep80s0 -> ens1np0 (rail 0)  NIC1: rocep81s0")
    [('NIC0', 'rocep80s0'), ('NIC1', 'rocep81s0')]
    """
    found = list(_LEGEND.finditer(line))
    ends = [match.start() for match in found[1:]] + [len(line)]
    entries = []
    for match, end in zip(found, ends, strict=False):
        name = _NOTE.split(line[match.end() : end].strip(), maxsplit=1)[0]
        entries.append((match[1], name if _RDMA_NAME.fullmatch(name) and not _CUT_NAME.fullmatch(name) else None))
    return entries
