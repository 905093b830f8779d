"""`nvidia-smi -q`: what the driver says of each GPU.

==============NVSMI LOG==============

Driver Version                            : 570.86.15

Attached GPUs                             : 1
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    MIG Mode
        Current                           : Disabled
    GPU UUID                              : GPU-11111111-2222-3333-4444-555555555555
    Minor Number                          : 3
    PCI
        Device Id                         : 0x233010DE
        Bus Id                            : 00000000:1B:00.0
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 5
            Link Width
                Max                       : 16x
                Current                   : 8x
    Performance State                     : P0
    Fabric
        State                             : Completed
        Status                            : Success
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from topocheck.facts import Evidence, Fact, Gap, GpuState, Host
from topocheck.probes.lines import Line, is_prompt, lines, sniffed
from topocheck.probes.smi_errors import errors
from topocheck.probes.smi_gpu import MAX_GPUS, SECTION_OF_KEY, Value, state, time_s

INPUT = "nvidia-smi -q"
COMMANDS = ()
PATHS = ()
NAME = r"nvidia[-_]?smi[\W_]*q(?:uery)?(?![a-z])(?!-[a-z])(?!.*(?:-x(?![a-z])|xml))"

_BDF = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
_EXCERPTS = {"Fabric": "State", "Remapped Rows": "Correctable Error", "GPU Link Info": "PCIe Generation",
             "ECC Errors": "Volatile", "Retired Pages": "Single Bit ECC"}  # fmt: skip
_EXCERPT = "|".join(rf"{name}[ \t]*\r?\n[ \t]*{first}\b" for name, first in _EXCERPTS.items())
_LOOKS = re.compile(rf"^[ \t]*(?:Attached GPUs[ \t]*:|GPU {_BDF}[ \t]*\r?$|{_EXCERPT})", re.MULTILINE)
_HEADING = re.compile(rf"GPU ({_BDF})")
_ID = re.compile(r"\bnvidia-smi\b.{0,80}?\s(?:-i|--id)[ =]?(\d{1,3})(?!\S)")
_KEY = re.compile(r"([^:]{1,80}?)[ \t]*:(?:[ \t]+(.*)|$)")
_WORDS = ("Completed", "In Progress", "Not Supported", "Success", "N/A", "Enabled", "Disabled", "Active", "Not Active")


@dataclass
class _Gpu:
    """One GPU being read."""

    bdf: str
    line: Line
    values: list[Value] = field(default_factory=list)
    indent: int | None = None  # of what stands below it
    vgpu_indent: int | None = None  # of "vGPU ID": what is further in is that of a VM's slice

    def has_end_of(self, line: Line) -> bool:
        """Whether a line is the end of one that a margin broke: it begins further left than what stands below."""
        if self.indent is None and line.indent > self.line.indent:
            self.indent = line.indent
        return self.indent is not None and line.indent < self.indent


@dataclass
class _Log:
    """One listing: the number of GPUs it announces, and those it holds."""

    attached: int | None = None
    read_at_s: float | None = None
    asked: int | None = None  # the number in the command above it
    gpus: list[_Gpu] = field(default_factory=list)


def sniff(text: str) -> bool:
    """Whether the text holds the heading of the list or of a GPU in it, or a section that `grep -A` left of it."""
    return sniffed(_LOOKS, text)


def parse(text: str) -> Iterable[Fact]:
    """The driver's version, one state a GPU, and what nvidia-smi says of GPUs it cannot open."""
    facts: list[Fact] = []
    logs = [_Log()]
    sections: list[tuple[int, str]] = []
    read_at_s: float | None = None
    asked: int | None = None
    for line in lines(text):
        if heading := _HEADING.fullmatch(line.text):
            if sum(len(log.gpus) for log in logs) >= MAX_GPUS:
                break
            logs[-1].gpus.append(_Gpu(heading[1], line))
            sections = []
        elif command := _ID.search(line.text):
            asked = int(command[1])
        elif not line.text[:1].isalpha():  # "=====", or a pager's "--More--"
            continue
        elif not (pair := _KEY.match(line.text)):
            if logs[-1].gpus and logs[-1].gpus[-1].has_end_of(line):
                continue
            sections = [s for s in sections if s[0] < line.indent] + [(line.indent, line.text)]
        elif pair[1] in ("Driver Version", "KMD Version"):
            facts.append(Host(INPUT, driver=pair[2], line=_evidence(line)))
        elif pair[1] == "Attached GPUs":
            logs.append(_Log(int(pair[2]) if (pair[2] or "").isdecimal() else None, read_at_s, asked))
            asked = None
        elif pair[1] == "Timestamp":
            read_at_s = time_s(pair[2] or "")
        elif logs[-1].gpus and not logs[-1].gpus[-1].has_end_of(line):
            _take(logs[-1].gpus[-1], line, sections, pair[1], pair[2] or "")
    _drop_torn_value([gpu for log in logs for gpu in log.gpus], text.count("\n") + 1)
    facts += [fact for log in logs for fact in _states(log)]
    facts += _excerpts(text, any(log.gpus for log in logs))
    facts += errors(text, INPUT)
    return facts or [Gap(INPUT, "no GPU in it")]


def _drop_torn_value(gpus: list[_Gpu], end: int) -> None:
    """The value of a last line without its end, where it is the beginning of a word, or of another GPU's value."""
    if gpus and gpus[-1].values and gpus[-1].values[-1].line.line == end:
        *_, last = gpus[-1].values
        others = {value.text for gpu in gpus for value in gpu.values if value.path == last.path and value is not last}
        if any(word != last.text and word.startswith(last.text) for word in (*_WORDS, *others)):
            gpus[-1].values.pop()


def _take(gpu: _Gpu, line: Line, sections: list[tuple[int, str]], key: str, value: str) -> None:
    """Files a value under the section it is indented below; where the indent was lost, under its only one, else the
    last."""
    inside = [name for indent, name in sections if indent < line.indent]
    if line.indent == gpu.line.indent and sections and key != "Processes":
        inside = [SECTION_OF_KEY.get(key, sections[-1][1])]
    if gpu.vgpu_indent is not None and line.indent > gpu.vgpu_indent:
        return
    gpu.vgpu_indent = line.indent if key == "vGPU ID" else None
    if "MIG Devices" in inside:
        return
    if len(inside) > 1 and inside[-1] in ("Single Bit", "Double Bit"):  # of ECC errors, before the A100
        inside = [" ".join(inside[-2:])]
    evidence = _evidence(line)
    gpu.values.append(Value((inside[-1] if inside else "", key), value.strip(), evidence))


def _states(log: _Log) -> Iterator[GpuState]:
    """One GPU out of several attached is the answer to -i: its number is known from the command alone."""
    alone = len(log.gpus) == 1 and (log.attached or 1) > 1
    for position, gpu in enumerate(log.gpus):
        found = state(INPUT, log.asked if alone else position, gpu.bdf, _evidence(gpu.line), gpu.values)
        yield replace(found, read_at_s=log.read_at_s)


def _excerpts(text: str, has_headings: bool) -> Iterator[GpuState]:
    """Of each GPU in order what `nvidia-smi -q | grep -A 2 Fabric` shows, or of the one that -i asks for."""
    if has_headings or not re.search(_EXCERPT, text):
        return
    gpus: dict[int, _Gpu] = {}
    times: Counter[str] = Counter()
    sections: list[tuple[int, str]] = []
    asked: int | None = None
    gpu: _Gpu | None = None  # whose section it is
    for line in lines(text):
        pair = _KEY.match(line.text)
        if is_prompt(line.text):
            command = _ID.search(line.text)
            by_address = MAX_GPUS if re.search(r" (?:-i|--id)\b", line.text) else None  # whose number is not known
            times, gpu, asked = Counter(), None, int(command[1]) if command else by_address
        elif line.text in _EXCERPTS:
            number = times[line.text] if asked is None else asked
            gpu = gpus.setdefault(number, _Gpu("", line)) if number < MAX_GPUS else None
            times[line.text] += 1
            sections = [(line.indent, line.text)]
        elif gpu and (line.indent <= sections[0][0] or not line.text[:1].isalpha()):
            gpu = None
        elif gpu and pair:
            _take(gpu, line, sections, pair[1], pair[2] or "")
        elif gpu:
            sections = [s for s in sections if s[0] < line.indent] + [(line.indent, line.text)]
    for number, found in gpus.items():
        if found.values:
            yield state(INPUT, number, "", _evidence(found.line), found.values)


def _evidence(line: Line) -> Evidence:
    return Evidence(INPUT, line.number, line.text)
