"""The plain `nvidia-smi` table: driver, and of each GPU its model, address, performance state, memory, MIG mode.

+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-PCIE-40GB          Off |   00000000:17:00.0 Off |                    0 |
| N/A   38C    P0             32W /  250W |       1MiB /  40960MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from topocheck.facts import Evidence, Fact, Gap, GpuState, Host, full_bdf
from topocheck.probes.lines import Line, lines, sniffed
from topocheck.probes.smi_errors import SNIFF, errors
from topocheck.probes.smi_gpu import MAX_GPUS, MIB, enabled, vgpu_profile, word

INPUT = "nvidia-smi"
COMMANDS = ()
PATHS = ()
NAME = r"nvidia[-_]?smi(?:\.(?:txt|out|log|\d+))?$"

_ROW = r"\| +\d{1,3} +\S[^|\n]{3,60} (?:On|Off|N/A) +\| +[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d +(?:On|Off|N/A) *\|"
_LOOKS = re.compile(rf"\| NVIDIA-SMI \d|{_ROW}|{SNIFF.pattern}")
_DRIVER = re.compile(r"\| NVIDIA-SMI \d\S*.*?(?:Driver|KMD) Version: (\d[\d.]*)")
_FIRST = re.compile(r" *(\d{1,3})  ?(\S.*?) +(?:On|Off|N/A|ERR!) *")
_MEMORY = re.compile(r" *\d+ ?MiB +/ +(\d{1,9}) ?MiB *")
_PSTATE = re.compile(r"(?<!\S)P\d{1,2}(?!\S)")
_CAP = re.compile(r"/ +(\d{1,5})W *$")
_LIMIT_OF_ITS_MODEL = re.compile(
    r"(?!.*\bGeForce\b).*[^.]"
)  # GeForce: each board's maker sets another; a cut name is many


def sniff(text: str) -> bool:
    """Whether the text holds the table's title, a GPU's row, or what nvidia-smi prints instead of the table."""
    return sniffed(_LOOKS, text)


def parse(text: str) -> Iterable[Fact]:
    """The driver's version, one state a GPU (two or three lines of the table each), and nvidia-smi's own errors."""
    hosts: list[Host] = []
    gpus: list[GpuState] = []
    inside = False  # the lines of a GPU go on
    for line in lines(text):
        if driver := _DRIVER.match(line.text):
            hosts.append(Host(INPUT, driver=driver[1], line=Evidence(INPUT, line.number, line.text)))
        cells = line.text.split("|", 5) if line.text.startswith("|") else []
        if len(cells) != 5 or len(gpus) > MAX_GPUS:
            inside = False
        elif first := _first(cells, line):
            gpus.append(first)
            inside = True
        elif inside:
            gpus[-1] = _more(gpus[-1], cells, Evidence(INPUT, line.number, line.text))
    return [*hosts, *gpus, *_still(errors(text, INPUT), gpus)] or [Gap(INPUT, "no table in it")]


def _still(found: Iterable[Host | GpuState], gpus: list[GpuState]) -> Iterator[Host | GpuState]:
    """Without the driver's error above a table of the same text: it was mended there."""
    last = max((gpu.lines["bdf"].line or 0 for gpu in gpus), default=0)
    return (fact for fact in found if not (isinstance(fact, Host) and fact.line and (fact.line.line or 0) < last))


def _first(cells: list[str], line: Line) -> GpuState | None:
    """The line with index, model and address; a GPU that has fallen off shows ERR! in their place."""
    match = _FIRST.fullmatch(cells[1])
    bdf = full_bdf(cells[2].split()[0]) if cells[2].split() else None
    if match is None or not (bdf or "ERR!" in cells[2]):
        return None
    evidence = Evidence(INPUT, line.number, line.text)
    model = word(match[2])
    gpu = GpuState(
        INPUT, int(match[1]), bdf, model=model, vgpu=vgpu_profile(model), lines={"bdf": evidence, "model": evidence}
    )
    return _unsound(gpu, cells[3].strip(), evidence) if bdf and model else _lost(gpu, evidence)


def _unsound(gpu: GpuState, errors_counted: str, evidence: Evidence) -> GpuState:
    """With the column "Volatile Uncorr. ECC" where it counts any; 0 says nothing of rows that were remapped in vain."""
    if not re.fullmatch(r"[1-9]\d{0,17}", errors_counted):
        return gpu
    lines_of_it = {**gpu.lines, "ecc_uncorrectable": evidence}
    return replace(gpu, ecc_uncorrectable=int(errors_counted), lines=lines_of_it)


def _more(gpu: GpuState, cells: list[str], evidence: Evidence) -> GpuState:
    """The line with performance state and memory, or that with the MIG mode."""
    if memory := _MEMORY.fullmatch(cells[2]):
        gpu = replace(gpu, memory_bytes=int(memory[1]) * MIB, lines={**gpu.lines, "memory_bytes": evidence})
    if (cap := _CAP.search(cells[1])) and _LIMIT_OF_ITS_MODEL.fullmatch(gpu.model or ""):
        gpu = replace(gpu, power_limit_w=float(cap[1]), lines={**gpu.lines, "power_limit_w": evidence})
    if pstate := _PSTATE.search(cells[1]):
        return replace(gpu, pstate=pstate[0], lines={**gpu.lines, "pstate": evidence})
    if cells[1].count("ERR!") > 1:  # one alone is a sensor: a fan, a power draw
        return _lost(gpu, evidence)
    mig = enabled(cells[3].strip())
    if mig is not None and not cells[1].strip():
        return replace(gpu, mig=mig, lines={**gpu.lines, "mig": evidence})
    return gpu


def _lost(gpu: GpuState, evidence: Evidence) -> GpuState:
    return replace(gpu, lost="ERR!", lines={**gpu.lines, "lost": evidence})
