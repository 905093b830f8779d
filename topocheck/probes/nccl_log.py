"""NCCL's log (NCCL_DEBUG=INFO; the tree and the distances with NCCL_DEBUG_SUBSYS=GRAPH).

node-a:100:200 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:192.0.2.1<0>
node-a:100:200 [0] NCCL INFO === System : maxBw 48.0 totalBw 370.8 ===
node-a:100:200 [0] NCCL INFO CPU/0-0 (1/1/2)
node-a:100:200 [0] NCCL INFO + PCI[48.0] - PCI/0-17000 (1000c0301000100b)
node-a:100:200 [0] NCCL INFO               + PCI[48.0] - GPU/0-1b000 (0)
node-a:100:200 [0] NCCL INFO               + PCI[48.0] - NIC/0-1c000
node-a:100:200 [0] NCCL INFO                             + NET[50.0] - NET/0-0 (0/1/1/50.000000)
node-a:100:200 [0] NCCL INFO GPU/0-1b000 :GPU/0-1b000 (0/5000.0/LOC) NET/0-0 (4/48.0/PIX) CPU/0-0 (2/48.0/PHB)

Every rank prints all of its node: the first one that does is read. Bandwidths are NCCL's own figures for what a link
could do, not readings. PHB is what NCCL calls all that meets at one CPU; a path through another GPU (PXN) and NVLink
say nothing of PCIe distance. Newer versions put `DEV/0-1b000 (10de233010de16c1)` where the GPU stood, and the GPU below
it (`+ LOC[5000.0] - GPU/0-1b000`). Ports that NCCL uses as one stand in braces: `[0]={[0] mlx5_0:1/IB, [1] …}`. RCCL
prints the same of AMD's GPUs, with XGMI for NVLink.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from topocheck.facts import (
    Evidence,
    Fact,
    Gap,
    GpuState,
    Host,
    Matrix,
    PciFunction,
    RdmaDevice,
    RdmaPort,
)
from topocheck.probes.lines import Line, lines_with, sniffed

INPUT = "NCCL log"
COMMANDS = ()
PATHS = ()
NAME = r"nccl[\w.-]{0,60}\.(?:log|txt|out)$"

_MARK = "NCCL INFO "
_RANK = re.compile(r"(?:([\w.-]{1,80}):\d{1,10}(?::\d{1,10})? |^)(?:\[-?\d{1,3}\] )?$")
_LOOKS = re.compile(r"\[-?\d{1,3}\] NCCL INFO |^NCCL INFO === System :", re.MULTILINE)
_TREE = re.compile(
    r"( *)(\+ \w{2,4}\[\d{1,5}(?:\.\d{1,2})?\] - )"
    r"(PCI|GPU|DEV|NIC|NET|CPU|NVS)/([0-9a-fA-F-]{1,24})(?: \((.{1,200})\))?"
)
_CPU = re.compile(r"CPU/([0-9a-fA-F-]{1,24})(?: \(.{1,60}\))?")
_PATHS_OF = re.compile(r"GPU/([0-9a-fA-F-]{1,24}) :")
_PATH = re.compile(r"(GPU|NET)/([0-9a-fA-F-]{1,24}) \(\d{1,3}/\d{1,6}(?:\.\d{1,6})?/([A-Z0-9]{2,4})\)")
_DEVICE = re.compile(r"\[(\d{1,3})\]([\w+-]{1,60}?):(\d{1,2})/(IB|RoCE|IW)?")
_IN_BRACES = re.compile(r"\[\d{1,3}\] ([\w+-]{1,60}?):(\d{1,2})/(IB|RoCE|IW)?")
_RCCL = ("RCCL version", "ROCr version")
_COMM = re.compile(r"nvmlDev (\d{1,3}) busId ([0-9a-fA-F]{1,12})\b")
_CLASSES = frozenset({"PIX", "PXB", "PHB", "SYS"})
_LAYERS = {"IB": "infiniband", "RoCE": "ethernet", "IW": "iwarp"}
_MAX_GPUS = 64
_MAX_RANKS = 1024  # of a job's log; a node has some ten
_MAX_LINES = 200_000  # every rank prints all of its node at the beginning
_BITS_PER_BYTE = 8
_SOCKET_GUID = 4  # digits
_AMD = "1002"


class _Net(NamedTuple):
    """One port of a NIC as the tree has it; a socket's GUID is a small number."""

    bdf: str | None
    port: int | None
    rate_gbit_per_s: float | None
    guid: str
    line: Evidence

    @property
    def is_rdma(self) -> bool:
        return self.bdf is not None and len(self.guid) > _SOCKET_GUID


@dataclass
class _Rank:
    """What one rank printed."""

    host: str
    functions: dict[str, PciFunction] = field(default_factory=dict)
    nets: dict[int, _Net] = field(default_factory=dict)
    names: dict[int, RdmaDevice] = field(default_factory=dict)
    merged: list[RdmaDevice] = field(default_factory=list)  # ports that NCCL uses as one, by no number of their own
    paths: dict[str, tuple[Evidence, dict[tuple[str, str], str]]] = field(default_factory=dict)
    stack: list[tuple[int, str]] = field(default_factory=list)  # column of what hangs on it, address or ""
    numa: int | None = None
    broken: bool = False  # the tree's indentation is lost
    ended: bool = False  # the line below the tree was printed
    foreign: bool = False  # its GPUs are AMD's


def sniff(text: str) -> bool:
    """Whether the text holds lines of NCCL's."""
    return sniffed(_LOOKS, text)


def parse(text: str) -> Iterable[Fact]:
    """GPUs, NICs and distances of the first host that the log shows."""
    ranks: dict[str, _Rank] = {}
    numbers: dict[str, dict[str, int]] = {}  # by host: GPU address → NVML's number
    for line in islice(lines_with(text, (_MARK,)), _MAX_LINES):
        before, _, said = line.text.partition(_MARK)
        match = _RANK.search(before)
        if match is None or (match[0] not in ranks and len(ranks) >= _MAX_RANKS):
            continue
        rank = ranks.setdefault(match[0], _Rank(match[1] or ""))
        _read(rank, said, line)
        if found := _COMM.search(said):
            numbers.setdefault(rank.host, {})[_bdf(found[2])] = int(found[1])
    if not ranks:
        return [Gap(INPUT, "no line of NCCL's in it")]
    hosts = list(dict.fromkeys(rank.host for rank in ranks.values() if rank.host)) or [""]
    own = [rank for rank in ranks.values() if rank.host == hosts[0]]
    rank = max(own, key=lambda r: (bool(r.paths), r.ended, bool(r.functions)))
    rank.foreign = any(r.foreign for r in own)
    rank.names = rank.names or next((r.names for r in own if r.names), {})
    rank.merged = rank.merged or next((r.merged for r in own if r.merged), [])
    facts = [Host(INPUT, hostname=hosts[0] or None), *_facts(rank, numbers.get(hosts[0], {}))]
    if len(hosts) > 1:
        facts.append(Gap(INPUT, f"{len(hosts)} hosts in one log: only {hosts[0]} is read"))
    return facts


def _read(rank: _Rank, said: str, line: Line) -> None:
    if said.startswith("NET/IB : Using "):
        used = said.partition(";")[0]
        for number, name, port, layer in _DEVICE.findall(used):
            rank.names[int(number)] = _named(name, int(port), layer, line)
        rank.merged += [_named(name, int(port), layer, line) for name, port, layer in _IN_BRACES.findall(used)]
    elif (match := _PATHS_OF.match(said)) and len(rank.paths) < _MAX_GPUS:
        cells = {(kind, end): word for kind, end, word in _PATH.findall(said[match.end() :])}
        rank.paths[_bdf(match[1])] = (line.evidence(INPUT), cells)
    elif match := _CPU.fullmatch(said.rstrip()):
        rank.numa, rank.stack = _number(match[1]), [(0, "")]
    elif rank.stack and (match := _TREE.fullmatch(said.rstrip())):
        _add_branch(rank, match, line)
    elif said.startswith("==="):
        rank.ended, rank.stack = rank.ended or bool(rank.stack), []
    elif said.startswith(_RCCL):
        rank.foreign = True


def _named(name: str, port: int, layer: str, line: Line) -> RdmaDevice:
    evidence = line.evidence(INPUT)
    read = RdmaPort(port, state="active", link_layer=_LAYERS.get(layer), lines={"state": evidence})
    return RdmaDevice(INPUT, name, ports=(read,), line=evidence)


def _add_branch(rank: _Rank, match: re.Match[str], line: Line) -> None:
    """One branch of the tree; it hangs on the last one whose own branches stand in its column."""
    column, kind, ends = len(match[1]), match[3], _column_of(match)
    while rank.stack and rank.stack[-1][0] > column:
        rank.stack.pop()
    if not rank.stack or rank.stack[-1][0] != column:
        rank.broken, rank.stack = True, []
        return
    above = rank.stack[-1][1]
    if kind == "NET":
        rank.nets[_number(match[4]) or 0] = _net(above or None, match[5] or "", line)
    elif match[2].startswith("+ XGMI"):
        rank.foreign = True
    elif match[2].startswith("+ PCI") and kind not in ("CPU", "NVS") and len(rank.functions) < _MAX_GPUS * 16:
        bdf = _bdf(match[4])
        rank.functions[bdf] = _function(bdf, kind, match[5] or "", above, rank.numa, line)
        rank.stack.append((ends, bdf))


def _net(bdf: str | None, bracket: str, line: Line) -> _Net:
    """What the bracket behind a network says: (device/)GUID/port/GB/s."""
    guid, port, rate = ["", "", "", *bracket.split("/")][-3:]
    gbit_per_s = float(rate) * _BITS_PER_BYTE if re.fullmatch(r"\d{1,4}\.\d{1,6}", rate) else None
    return _Net(bdf, int(port) if re.fullmatch(r"\d{1,2}", port) else None, gbit_per_s, guid, line.evidence(INPUT))


def _is_broken(rank: _Rank) -> bool:
    """Whether blanks were lost: then switches hold nothing and networks hang on a CPU, which NCCL never prints; the
    last switch of a tree that is cut may."""
    holding = {function.parent for function in rank.functions.values()}
    drawn = list(rank.functions.items())[: None if rank.ended else -1]
    empty = any(function.is_bridge and bdf not in holding for bdf, function in drawn)
    return rank.broken or empty or any(net.bdf is None for net in rank.nets.values())


def _is_behind_cut(rank: _Rank, bdf: str) -> bool:
    """Whether it is below the switch that a cut tree ends in: its NIC or GPU may be behind the cut."""
    open_switch = rank.stack[1][1] if len(rank.stack) > 1 else None
    at: str | None = bdf
    while at and at != open_switch:
        at = rank.functions[at].parent if at in rank.functions else None
    return bool(at)


def _column_of(match: re.Match[str]) -> int:
    """The column in which the branches of this one begin: below the end of its own connection."""
    return len(match[1]) + len(match[2])


def _function(bdf: str, kind: str, ids: str, above: str, numa: int | None, line: Line) -> PciFunction:
    function = PciFunction(
        bdf, INPUT, numa_node=numa, parent=above, root=None if above else f"cpu{numa}",
        lines={"header": line.evidence(INPUT)},
    )  # fmt: skip
    named = re.fullmatch(r"[0-9a-f]{16}", ids)
    vendor, device = (ids[:4], ids[4:8]) if named else (None, None)
    if kind == "PCI":
        return replace(
            function, class_id="0604", is_bridge=True, port_type="upstream", vendor_id=vendor, device_id=device
        )
    if kind in ("GPU", "DEV"):
        return replace(function, class_id="0302", vendor_id=vendor or "10de", device_id=device)
    return function


def _facts(rank: _Rank, numbers: dict[str, int]) -> Iterator[Fact]:
    broken = _is_broken(rank)
    if not rank.ended and rank.stack and not broken:
        rank.functions = {bdf: f for bdf, f in rank.functions.items() if not _is_behind_cut(rank, bdf)}
        rank.nets = {number: net for number, net in rank.nets.items() if net.bdf in rank.functions}
        yield Gap(INPUT, "the tree is cut: the switch it ends in is left out")
    drawn = {bdf for bdf, f in rank.functions.items() if f.class_id == "0302"}
    gpus = sorted(drawn.union(rank.paths))[:_MAX_GPUS]
    foreign = {bdf for bdf in gpus if rank.foreign or _vendor(rank, bdf) != "10de"}
    if broken:
        yield Gap(INPUT, "the tree's indentation was lost on the way: only the distances are read")
    else:
        yield from (f for bdf, f in rank.functions.items() if bdf not in foreign)
    numbered = all(bdf in numbers for bdf in gpus)
    index = {bdf: numbers[bdf] if numbered else i for i, bdf in enumerate(gpus) if bdf not in foreign}
    for bdf in index:
        line = rank.paths[bdf][0] if bdf in rank.paths else rank.functions[bdf].lines["header"]
        yield GpuState(INPUT, index[bdf], bdf=bdf, lines={"bdf": line})
    named = rank.names or ({} if broken or rank.merged else _by_address(rank))
    for number, device in named.items():
        net = rank.nets.get(number)
        port = replace(device.ports[0], rate_gbit_per_s=net.rate_gbit_per_s if net else None)
        yield replace(device, bdf=net.bdf if net and not broken else None, ports=(port,))
    yield from rank.merged
    yield from _matrix(rank, index, named)
    if foreign:
        yield Gap(INPUT, f"{len(foreign)} GPUs that are not NVIDIA's: not read")
    elif not gpus:
        yield Gap(INPUT, "no tree and no distances in it (NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH prints them)")


def _vendor(rank: _Rank, bdf: str) -> str | None:
    """The GPU's maker; AMD's cards have a switch of theirs above the GPU."""
    if bdf not in rank.functions:
        return "10de"
    above = rank.functions.get(rank.functions[bdf].parent or "")
    return above.vendor_id if above and above.vendor_id == _AMD else rank.functions[bdf].vendor_id


def _by_address(rank: _Rank) -> dict[int, RdmaDevice]:
    """The RDMA ports of a tree without the line that names them, under their addresses."""
    found = {}
    for number, net in rank.nets.items():
        if net.bdf and net.is_rdma:
            port = RdmaPort(net.port or 1, state="active", lines={"state": net.line})
            found[number] = RdmaDevice(INPUT, net.bdf, ports=(port,), line=net.line)
    return found


def _matrix(rank: _Rank, index: dict[str, int], named: dict[int, RdmaDevice]) -> Iterator[Fact]:
    """The distances as a matrix of GPUs and NICs; those that NVLink or another GPU's NIC hide are left out."""
    nics = {number: device.name for number, device in named.items()}
    cells: dict[tuple[str, str], str] = {}
    lines: dict[str, Evidence] = {}
    for bdf, (line, paths) in rank.paths.items():
        if bdf not in index:
            continue
        row = f"GPU{index[bdf]}"
        lines[row] = line
        for (kind, end), word in paths.items():
            column = nics.get(_number(end) or 0) if kind == "NET" else _gpu_name(index, end)
            if column and column != row and word in _CLASSES:
                cells[(row, column)] = word
                if kind == "NET":
                    cells[(column, row)] = word
    if cells:
        gpus = (f"GPU{number}" for number in index.values())
        names = (*sorted(gpus), *dict.fromkeys(nics.values()))
        yield Matrix(INPUT, names, cells, {}, {}, lines=lines, cut=len(lines) < len(index))


def _gpu_name(index: dict[str, int], end: str) -> str | None:
    number = index.get(_bdf(end))
    return None if number is None else f"GPU{number}"


def _bdf(identifier: str) -> str:
    """ "0-1b000", "1B000" or "0-100001b000": domain, bus, device and function in one number, behind the system's."""
    packed = int(identifier.rpartition("-")[2] or "0", 16)
    return f"{packed >> 20:04x}:{packed >> 12 & 0xFF:02x}:{packed >> 4 & 0xFF:02x}.{packed & 0xF & 7}"


def _number(identifier: str) -> int | None:
    digits = identifier.rpartition("-")[2]
    return int(digits, 16) if digits else None
