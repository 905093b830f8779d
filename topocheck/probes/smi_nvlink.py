"""`nvidia-smi nvlink -s`, `-e`, `-c`, `-R`, `-p`: the NVLinks of each GPU, their rate, errors and far ends.

GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-11111111-2222-3333-4444-555555555555)
         Link 0: 25 GB/s
         Link 1: <inactive>
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbbbbbb-2222-3333-4444-555555555555)
NVML: Unable to retrieve NVLink information as all links are inActive
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from topocheck.facts import Evidence, Fact, Gap, NvlinkGpu, NvlinkPort, full_bdf
from topocheck.probes.lines import SNIFF_CHARS, TWO_NODES, Line, lines, sniffed
from topocheck.probes.smi_errors import errors

INPUT = "nvidia-smi nvlink -s"
COMMANDS = ("nvidia-smi nvlink -s", "nvidia-smi nvlink -e", "nvidia-smi nvlink -R")
PATHS = ()
NAME = r"(?:nvidia[-_]?smi[\W_]*)?nvlink"

_MAX_LINKS = 4096  # of all GPUs together; 16 × 18 were seen
_ALL_INACTIVE = re.compile(r"NVLink information as all links are inactive", re.IGNORECASE)
_UNSUPPORTED = re.compile(r"does not (?:have or )?support NVLink", re.IGNORECASE)
_LOOKS = re.compile(
    r"Link \d+: (?:<inactive>|[\d.]+ GB/s|Remote Device|[A-Z][\w ]{1,40} Errors: \d)|Link \d+, P2P is supported"
    rf"|{_ALL_INACTIVE.pattern}|{_UNSUPPORTED.pattern}",
    re.IGNORECASE,
)
_GPU = re.compile(r"GPU (\d{1,3}): (.{1,120}?)(?: \(UUID:(?: (GPU-[0-9a-fA-F-]{4,60})\)|.*))?")
_LINK = re.compile(r"Link (\d{1,3})([:,]) ?(.*)")
_RATE = re.compile(r"(\d{1,5}(?:\.\d{1,6})?) GB/s")
# "CRC Errors"; from Blackwell on "Rx Errors", "Link recovery failed events", "Tx discards". "FEC Errors - 0" are the
# codewords that came, "Raw Errors Lane 0" what FEC has to do on any link, and a sum is nothing of its own.
_ERRORS = re.compile(r"(?!Total )([^\s:].{0,60}?)(?: Errors?| events|(?<=Tx discards)): (\d{1,20})", re.IGNORECASE)
_REMOTE = re.compile(r"(?:Remote Device )?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])(?::.*)?")
_SUPPORTED = re.compile(r"P2P is supported: (true|false)", re.IGNORECASE)
_LEFT_OUT = re.compile(r"\[?(?:\.{2,}|…)\]?")  # what posters write for lines they cut
_OPTION = re.compile(r"nvlink[ _]+(-[a-zA-Z]|--[a-z]+)")
_ID = re.compile(r"nvlink.*[ _](?:-i|--id)[ _=]*(\d{1,3})(?!\d)")


@dataclass
class _Port:
    """One link being read."""

    line: Evidence
    active: bool | None = None
    rate_gb_per_s: float | None = None
    remote_bdf: str | None = None
    supported: bool | None = None
    errors: dict[str, int] = field(default_factory=dict)
    error_line: Evidence | None = None


@dataclass
class _Gpu:
    """One GPU being read."""

    model: str | None = None
    uuid: str | None = None
    line: Evidence | None = None
    all_inactive: bool = False
    unsupported: bool = False
    cut: bool = False
    ports: dict[int, _Port] = field(default_factory=dict)


def sniff(text: str) -> bool:
    """Whether the text holds a line about a link, or the driver's word that there is none."""
    return sniffed(_LOOKS, text)


def parse(text: str, command: str = "nvidia-smi nvlink") -> Iterable[Fact]:
    """What the text says of each GPU's links. `command` names the GPU where the output does not (-i)."""
    option, asked = _OPTION.search(command), _ID.search(command)
    witness = f"nvidia-smi nvlink {option[1]}" if option else _witness(text)
    gpus: dict[int, _Gpu] = {}
    current = int(asked[1]) if asked else None
    links, orphans, of_two_nodes = 0, False, False
    for line in lines(text):
        if heading := _GPU.fullmatch(line.text):
            current = int(heading[1])
            gpu = gpus.setdefault(current, _Gpu(heading[2], heading[3]))
            if of_two_nodes := bool(gpu.uuid and heading[3] and gpu.uuid != heading[3]):
                break
            gpu.line = gpu.line or Evidence(witness, line.number, line.text)
        elif asked := _ID.search(line.text):
            current = int(asked[1])
        elif _LOOKS.search(line.text) or _LINK.match(line.text):
            links += 1
            if current is None or links > _MAX_LINKS * 8:
                orphans = True
                continue
            _take(gpus.setdefault(current, _Gpu()), line, witness)
        elif _LEFT_OUT.fullmatch(line.text) and current in gpus:
            gpus[current].cut = True
    facts: list[Fact] = list(_without_cut_lists(gpus, witness))
    facts += [_fact(witness, index, gpu) for index, gpu in gpus.items()]
    if of_two_nodes:
        facts.append(Gap(witness, TWO_NODES))
    if orphans:
        facts.append(Gap(witness, "links without the line that names their GPU were left out"))
    return [*facts, *errors(text, witness)] or [Gap(witness, "no link in it")]


def _witness(text: str) -> str:
    """The command by what the first line about a link says."""
    first = _LOOKS.search(text, 0, SNIFF_CHARS)
    said = first[0].lower() if first else ""
    options = {"remote device": "-R", "errors": "-e", "supported": "-c"}
    return f"nvidia-smi nvlink {next((option for word, option in options.items() if word in said), '-s')}"


def _take(gpu: _Gpu, line: Line, witness: str) -> None:
    evidence = Evidence(witness, line.number, line.text)
    match = _LINK.match(line.text)
    if match is None:
        gpu.all_inactive |= _ALL_INACTIVE.search(line.text) is not None
        gpu.unsupported |= _UNSUPPORTED.search(line.text) is not None
        gpu.line = evidence
        return
    port, said = gpu.ports.get(int(match[1]), _Port(evidence)), match[3].strip()
    if rate := _RATE.fullmatch(said):
        port.active, port.rate_gb_per_s, port.line = True, float(rate[1]), evidence
    elif said.strip("<>").lower() == "inactive":
        port.active, port.line = False, evidence
    elif remote := _REMOTE.fullmatch(said):
        port.remote_bdf = full_bdf(remote[1])
    elif counter := _ERRORS.fullmatch(said):
        if int(counter[2]) > max(port.errors.values(), default=0):
            port.error_line = evidence
        port.errors[counter[1]] = int(counter[2])
    elif supported := _SUPPORTED.fullmatch(said):
        port.supported = supported[1].lower() == "true"
    else:
        return  # a property of no concern here, or a line that was cut
    gpu.ports[int(match[1])] = port


def _without_cut_lists(gpus: dict[int, _Gpu], witness: str) -> Iterator[Gap]:
    """Forgets the list of a GPU that ends early: nvidia-smi prints every link, so a shorter list than its equals'
    without an inactive link in it, or one that a poster cut, does not say how many are up."""
    listed = {index: [n for n, p in gpu.ports.items() if p.active is not None] for index, gpu in gpus.items()}
    whole = {g.model: max(len(listed[i]) for i, o in gpus.items() if o.model == g.model) for g in gpus.values()}
    for index, gpu in gpus.items():
        links = sorted(listed[index])
        short = len(links) < whole[gpu.model]
        cut = gpu.cut and (len(gpus) == 1 or links != [*range(len(links))])
        if links and all(gpu.ports[n].active for n in links) and (short or cut):
            yield Gap(witness, f"the list of GPU {index}'s links ends early: {len(links)} were read")
            for port in gpu.ports.values():
                port.active = port.rate_gb_per_s = None


def _fact(witness: str, index: int, gpu: _Gpu) -> NvlinkGpu:
    ports = tuple(
        NvlinkPort(
            link,
            port.active,
            port.rate_gb_per_s,
            port.remote_bdf,
            tuple(port.errors.items()),
            port.supported,
            port.line,
            port.error_line,
        )
        for link, port in sorted(gpu.ports.items())
    )
    return NvlinkGpu(witness, index, gpu.model, gpu.uuid, ports, gpu.all_inactive, gpu.unsupported, gpu.line)
