"""`lspci -tv`, `-t`, `-nntv`: what hangs under what.

    -+-[0000:c0]---01.1-[c1]----00.0  NVIDIA Corporation GH100 [H100 PCIe]
     \\-[0000:80]-+-01.1-[81-84]----00.0-[82-84]--+-00.0-[83]----00.0  NVIDIA Corporation GH100 [H100 PCIe]
                 |                               \\-01.0-[84]----00.0  Mellanox Technologies MT2910 Family [ConnectX-7]
                 \\-03.0  Advanced Micro Devices, Inc. [AMD] Device 149f

A line continues the branch whose column its `+-` or `\\-` stands in. Where columns have shifted (names replaced, blanks
lost), the bars tell it: each outer branch that is not yet closed by `\\-` prints one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from topocheck.facts import Evidence, Fact, Gap, PciFunction, PciListing
from topocheck.probes.lines import MOST_FUNCTIONS, TWO_NODES
from topocheck.probes.lspci_header import NO_BREAK_SPACE, device_values, goes_on

INPUT = "lspci -tv"
COMMANDS: tuple[str, ...] = ()  # live, sysfs gives the tree
PATHS: tuple[str, ...] = ()
NAME = r"(?:sudo_)?lspci(?:_-[a-zA-Z]+)*_-[a-zA-Z]*t[a-zA-Z]*(?:_-[a-zA-Z]+)*(?:[._](?:txt|log|out))?$"

_MAX_LINE = 4096
_ROOT_LINE = re.compile(r"\n[ \t>|#\u00a0]{0,80}(?:-\+-|[-+\\]-|-)\[(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}\]-")
_QUOTE = re.compile(r"(?:> ?)+|[ \t]{0,20}# (?=[ \t|]*(?:-\+-|[+\\]-|-\[))")  # a comment too, but no prompt
_START = re.compile(r"([ \t|]*)(-\+-|[+\\]-|-(?=\[))")
_ROOT = re.compile(r"\[(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2})\]-*(\+-)?")
_DEVICE = re.compile(r"([01][0-9a-fA-F]\.[0-7])(?![0-9a-zA-Z])")
_BRIDGE = re.compile(r"-\[(?:[0-9a-fA-F]{4,8}:)?([0-9a-fA-F]{2})(?:-([0-9a-fA-F]{2}))?\]-*(\+-)?")


def sniff(text: str) -> bool:
    """Whether the line of a root, `-[0000:00]-`, occurs."""
    return bool(_ROOT_LINE.match("\n" + text[:_MAX_LINE]) or _ROOT_LINE.search(text))


@dataclass
class _Branch:
    """A `+` whose further children stand below it, on the first of `buses`, which the bridge `parent` leads to; the
    list of roots has no buses."""

    column: int
    root: str
    buses: range
    parent: str


@dataclass
class _Node:
    """One function of the tree."""

    bdf: str
    root: str
    parent: str
    line: Evidence
    name: str = ""
    secondary: int | None = None
    subordinate: int | None = None


class _Tree:
    """What has been read so far: the functions, and the branches that may still get children."""

    def __init__(self) -> None:
        self.nodes: list[_Node] = []
        self.open: list[_Branch] = []
        self.starts: list[int] = []  # where in `nodes` each tree begins
        self.starts_whole = False
        self.unplaced = 0

    def read(self, line: str, number: int) -> bool:
        """Takes one line; False if it is none of a tree."""
        start = _START.match(line)
        if start is None:
            return False
        root = _ROOT.match(line, start.end())
        evidence = Evidence(INPUT, number, line.strip())
        if root is not None:
            self._open_root(start, root, evidence)
        elif _DEVICE.match(line, start.end()) is None:
            return False
        elif (branch := self._branch(start)) is None:
            self.unplaced += 1
        else:
            self._chain(line, start.end(), branch, evidence)
        return True

    def _open_root(self, start: re.Match[str], root: re.Match[str], evidence: Evidence) -> None:
        connector = start.group(2)
        if connector.startswith("-"):
            self.starts_whole, self.unplaced = not self.nodes, 0
            self.starts.append(len(self.nodes))
        domain, bus, has_branch = root.groups()
        name = f"{int(domain or '0', 16):04x}:{bus.lower()}"
        self.open = [_Branch(start.start(2) + connector.find("+"), name, range(0), "")] if "+" in connector else []
        branch = _Branch(root.start(3), name, range(int(bus, 16), 256), "")
        if has_branch:
            self.open.append(branch)
        self._chain(root.string, root.end(), branch, evidence)

    def _branch(self, start: re.Match[str]) -> _Branch | None:
        """The branch that a line continues; those inside it are done, and so is itself after its last child."""
        bars, column = start.group(1).count("|"), start.start(2)
        places = [place for place, branch in enumerate(self.open) if branch.column == column and branch.buses]
        place = places[-1] if places else bars
        if place >= len(self.open) or not self.open[place].buses:
            return None
        branch = self.open[place]
        del self.open[place + (start.group(2) == "+-") :]
        return branch

    def _chain(self, line: str, at: int, branch: _Branch, evidence: Evidence) -> None:
        """The functions of one line, each on the bus of the one before it, and the name of the last."""
        node: _Node | None = None
        while device := _DEVICE.match(line, at):
            bridge = _BRIDGE.match(line, device.end())
            secondary = int(bridge.group(1), 16) if bridge else 0
            if secondary and secondary not in branch.buses:
                self.unplaced += 1  # lines have been left out: it is a child of another bridge
                return
            domain = branch.root.split(":")[0]
            bdf = f"{domain}:{branch.buses[0]:02x}:{device.group(1).lower()}"
            node = _Node(bdf, branch.root, branch.parent, evidence)
            self.nodes.append(node)
            at = bridge.end() if bridge else device.end()
            if bridge is None:
                break
            node.secondary, node.subordinate = secondary, max(secondary, int(bridge.group(2) or "0", 16))
            branch = _Branch(bridge.start(3), branch.root, range(secondary, node.subordinate + 1), node.bdf)
            if bridge.group(3):
                self.open.append(branch)
        if node is not None:
            node.name = line[at:].strip()

    def name_on(self, before: str, line: str) -> None:
        """A line between two of the tree: the rest of the last name, where a mail program has broken it."""
        node = self.nodes[-1] if self.nodes else None
        if (
            node is not None
            and node.secondary is None
            and goes_on(before if node.name else before.ljust(_MAX_LINE), line)
        ):
            node.name = f"{node.name} {line}".strip()


def parse(text: str) -> Iterator[Fact]:
    """The functions of the tree, and whether all of it is there."""
    tree = _Tree()
    before: str | None = None
    for number, raw in enumerate(text.replace(NO_BREAK_SPACE, " ").split("\n"), 1):
        if not raw:
            continue
        quote = _QUOTE.match(raw, 0, _MAX_LINE)
        line = raw[quote.end() if quote else 0 : _MAX_LINE].rstrip()
        if len(tree.nodes) > MOST_FUNCTIONS:
            break
        if tree.read(line, number):
            before = line
        elif before is not None:
            tree.name_on(before, line.strip())
            before = None
    if tree.unplaced:
        yield Gap(INPUT, f"{tree.unplaced} lines of the tree without the branch they belong to")
    nodes, is_one = _of_first(tree)
    if not is_one:
        yield Gap(INPUT, TWO_NODES)
    if nodes:
        yield from map(_function, nodes)
        whole = tree.starts_whole and not tree.open and not tree.unplaced
        in_line = not text.endswith("\n")  # the last line may be cut
        cut = [branch.parent for branch in tree.open] + [nodes[-1].parent] * in_line
        yield PciListing(INPUT, whole, tuple(filter(None, cut)))


def _of_first(tree: _Tree) -> tuple[list[_Node], bool]:
    """The functions of the first tree and of those that do not contradict it, where several were posted; whether all
    are of one machine: another has other buses behind its bridges."""
    kept: list[_Node] = []
    behind: dict[str, int | None] = {}
    is_one = True
    for start, end in pairwise([0, *(start for start in tree.starts if start), len(tree.nodes)]):
        nodes = tree.nodes[start:end]
        if all(behind.get(node.bdf, node.secondary) == node.secondary for node in nodes):
            kept += nodes
            behind.update((node.bdf, node.secondary) for node in nodes)
        else:
            is_one = False
    return kept, is_one


def _function(node: _Node) -> PciFunction:
    return PciFunction(
        node.bdf,
        INPUT,
        is_bridge=node.secondary is not None,
        secondary_bus=node.secondary,
        parent=node.parent,
        root=node.root,
        lines={"header": node.line},
        **device_values(node.name),
    )
