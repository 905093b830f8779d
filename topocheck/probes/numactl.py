"""`numactl -H`: NUMA nodes, their CPUs, memory and distances.

CPUs are a list or ranges, wrapped over lines by a terminal, cut by "...", or none (memory-only nodes, GPU nodes 252-255
of a POWER9); node ids may have holes; the "available:" line may be lost. "MB" are MiB.

    available: 2 nodes (0-1)
    node 0 cpus: 0 1 2 3 8 9 10 11
    node 0 size: 257730 MB
    node 0 free: 1447 MB
    node 1 cpus: 4 5 6 7 12 13 14 15
    node 1 size: 256877 MB
    node 1 free: 256093 MB
    node distances:
    node   0   1
      0:  10  21
      1:  21  10
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from topocheck.facts import Fact, Gap, NumaNode
from topocheck.probes.cpu_list import MAX_NODE, kernel_form, parse_cpus
from topocheck.probes.lines import Line, lines, sniffed

INPUT = "numactl -H"
COMMANDS: tuple[str, ...] = ("numactl -H",)
PATHS: tuple[str, ...] = ()
NAME = r"numactl(?!.{0,40}-{1,2}s(?:how)?\b)"

_SNIFF = re.compile(
    r"^[^\S\n]*(?:available: \d{1,5} nodes? \(|node \d{1,4} (?:cpus:|size: \d)|node distances:)", re.MULTILINE
)
_AVAILABLE = re.compile(r"available: \d+ nodes? \(([\d,\- ]*)\)")
_NODE = re.compile(r"node (\d{1,4}) (cpus|size|free):\s*(.*)")
_HEADER = re.compile(r"node((?:\s+\d{1,5})+)$")
_ROW = re.compile(r"(\d{1,4}):((?:\s+\d{1,5})+)$")
_MORE_CPUS = re.compile(r"[\d\s,-]+(?:\.{3})?$")
_MORE_DISTANCES = re.compile(r"[\d\s]+$")


@dataclass
class _Node:
    cpus: list[str] | None = None  # as printed, a part a line; the blank before a part is kept
    memory_mib: float | None = None
    distances: list[int] = field(default_factory=list)


class _Reader:
    """Takes a line at a time; `open` is the node whose list the next line may go on with."""

    def __init__(self) -> None:
        self.nodes: dict[int, _Node] = {}
        self.order: list[int] = []
        self.open: _Node | None = None
        self.in_cpus = False

    def take(self, line: Line) -> None:
        if (match := _NODE.match(line.text)) and int(match[1]) <= MAX_NODE:
            self._field(self._node(int(match[1])), match[2], match[3])
        elif match := _AVAILABLE.match(line.text):
            for number in sorted(parse_cpus(match[1]) or ()):
                self._node(number)
            self.open = None
        elif match := _HEADER.match(line.text):
            self.order, self.open = [n for n in map(int, match[1].split()) if n <= MAX_NODE], None
        elif (match := _ROW.match(line.text)) and int(match[1]) in {*self.nodes, *self.order}:
            self.open, self.in_cpus = self._node(int(match[1])), False
            if len(self.open.distances) != len(self.order):  # not yet read, or of a table with fewer nodes
                self.open.distances = [int(n) for n in match[2].split()]
        else:
            self._more(line)

    def _node(self, number: int) -> _Node:
        return self.nodes.setdefault(number, _Node())

    def _field(self, node: _Node, name: str, value: str) -> None:
        self.open = None
        if name == "cpus" and node.cpus is None:
            node.cpus, self.open, self.in_cpus = [value], node, True
        elif name == "size" and node.memory_mib is None and (size := value.split()) and size[0].isdecimal():
            node.memory_mib = float(size[0][:12])

    def _more(self, line: Line) -> None:
        """A line that goes on with the list above it, else the end of that list."""
        text = line.text
        if self.open is None or not (_MORE_CPUS if self.in_cpus else _MORE_DISTANCES).match(text):
            self.open = None
        elif self.in_cpus and self.open.cpus is not None:
            self.open.cpus.append((" " if line.indent else "") + text)
        elif len(self.open.distances) < len(self.order):
            self.open.distances += [int(n) for n in text.split()]


def _joined(parts: list[str]) -> str:
    """A list that a margin broke, which may have gone through a number. CPUs ascend: halves that do not are one number,
    and what ascends neither way is not of the list.

    >>> _joined(["0 1 98 9", "9 100"]), _joined(["98 99", "100 101"]), _joined(["62 63", "0 1 2"])
    ('0 1 98 99 100', '98 99 100 101', '62 63')
    """
    whole = parts[0]
    for part in parts[1:]:
        half = re.search(r"\d*$", whole[-8:])
        before = whole[: len(whole) - len(half[0])] if half else whole
        if _ascends(whole, part):
            whole += f" {part.strip()}"
        elif half and part[:1].isdigit() and _ascends(before, half[0] + part):
            whole += part
        else:
            break
    return whole


def _ascends(before: str, after: str) -> bool:
    """Whether the last two numbers before a break and the first two behind it ascend; zero leads no number."""
    numbers = [*re.findall(r"\d+", before[-16:])[-2:], *re.findall(r"\d+", after[:24])[:2]]
    return all(int(a) < int(b) for a, b in pairwise(numbers)) and not any(n[0] == "0" for n in numbers[1:])


def sniff(text: str) -> bool:
    """Whether the text lists nodes as numactl does."""
    return sniffed(_SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """One fact a node, and a gap for a list of CPUs that was cut."""
    reader = _Reader()
    for line in lines(text):
        reader.take(line)
    order = reader.order or sorted(reader.nodes)
    for number, node in sorted(reader.nodes.items()):
        cpus = None if node.cpus is None else kernel_form(_joined(node.cpus))
        if node.cpus is not None and cpus is None:
            yield Gap(INPUT, f"the list of CPUs of node {number} is cut")
        distances = tuple(zip(order, node.distances, strict=True)) if len(node.distances) == len(order) else ()
        yield NumaNode(INPUT, number, cpus, node.memory_mib, distances=distances)
