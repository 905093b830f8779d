"""The kernel log: `dmesg`, `journalctl -k`, kern.log, whatever stands before the message.

Read are the "available PCIe bandwidth" lines (both wordings; printed at boot, so a witness that yields to a present
reading), Xid and AER lines, IOMMU faults, the driver's loading, and what the kernel says of the machine. Of a log that
holds several boots only the last counts; of lines that repeat, the last few. A virtual function without a link of its
own says x255, "Unknown speed" or 0.000 Gb/s, which means nothing.

    [    0.000000] Linux version 6.8.0-60-generic (buildd@builder) (gcc 13.3.0) #63-Ubuntu SMP
    [    0.000000] Command line: BOOT_IMAGE=/vmlinuz-6.8.0-60-generic root=UUID=0 ro iommu=pt
    [    0.000000] DMI: Example Inc. GPU Server 9/0ABCDE, BIOS 1.2.3 01/02/2025
    [    9.100000] nvidia 0000:1b:00.0: 252.048 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x16 link at \
0000:15:01.0 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)
    [   20.000000] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build
    [  900.500000] NVRM: Xid (PCI:0000:1b:00): 79, pid=4711, name=python, GPU has fallen off the bus.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from topocheck.facts import BandwidthLimit, Fact, Gap, Host, LogEvent, PciFunction, full_bdf
from topocheck.hardware.pci_ids import is_gpu
from topocheck.probes.kernel_bars import without_room
from topocheck.probes.lines import Line, lines_with, sniffed, start_of_last
from topocheck.probes.nvidia_version import banner

INPUT = "dmesg"
COMMANDS: tuple[str, ...] = ("dmesg",)
PATHS: tuple[str, ...] = ()
NAME = r"dmesg|journalctl|kern(?:el)?[._-]?log|messages|syslog"

KEPT = 20  # lines of one kind about one device: a flood of AER lines says no more than its last ones
MAX_SUBJECTS = 1024  # devices, times the kinds of lines about them; of more, those named first are dropped
MAX_OF_A_KIND = 30_000  # lines of one kind, whichever devices they are about: the last ones, all the rest is unread

_BDF = r"((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_LINK = r"(\d{1,3}(?:\.\d{1,3})?) GT/s(?: PCIe)? x(\d{1,3}) link"
_LIMITS = rf"limited by {_LINK} at {_BDF} \(capable of \d[\d.]{{0,9}} Gb/s with {_LINK}\)"
_LIMITED = re.compile(rf"{_BDF}: \d[\d.]{{0,9}} Gb/s available PCIe bandwidth, {_LIMITS}")
_UNLIMITED = re.compile(rf"{_BDF}: \d[\d.]{{0,9}} Gb/s available PCIe bandwidth \({_LINK}\)")
# What mails and consoles make of that line; what a log begins its own next line with is no part of it.
_BROKEN = re.compile(
    r"\d Gb/s(?:(?!link\)|Gb/s)[^\n]){0,160}(?:\n(?![\[<\n]|[^\n]{0,80} kernel: )[^\n]{0,160}?){1,2}link\)"
)
_WHOLE = re.compile(rf"\d Gb/s available PCIe bandwidth, {_LIMITS}")
_BROKEN_AER = re.compile(
    r"(PCIe Bus Error:|error (?:message )?received(?::| from)|[0-9a-f]\.[0-7]:(?=[ \t]*\n[> \t]{0,20}(?:AER|PCIe Bus)))"
    r"[ \t]*\n[> \t]{0,20}([0-9a-fsAP][^\n]{0,200})"
)
_BROKEN_NVRM = re.compile(
    r"(NVRM:(?: Xid(?: \([\w:.]{7,24}\):)?| GPU(?: (?:at )?(?:PCI:)?[\da-f:]{7,16}(?:\.\d)?:?)?)?"
    r"(?: (?:GPU(?: has(?: fallen(?: off(?: the)?)?)?)?|RmInitAdapter))?)"
    r"[ \t]*\n[> \t]{0,20}(?!NVRM)([^\n\[>][^\n]{0,200})"
)
_BROKEN_BAR = re.compile(
    r"(: BAR \d\b[^\n]{0,70}?)[ \t]*\n[> \t]{0,20}((?![^\n]{0,80}: BAR)[^\n]{0,60}\bassign(?:ed)?\b[^\n]{0,80})"
)
_BROKEN_IN_CHARS = 1 << 20  # of a pasted text
_END_CHARS = 8192  # of a log, where its last lines are
_FABRIC_MANAGER = re.compile(
    r"NVIDIA GPU driver interface version (\d{3}(?:\.\d{1,4}){1,2}) do\S{2,6} match with driver"
)
_FOUND = re.compile(rf"{_BDF}: \[([0-9a-f]{{4}}):([0-9a-f]{{4}})\] type [0-9a-f]{{2}} class 0x([0-9a-f]{{4}})")
_WIDTHS = range(1, 33)  # x255 is what a function without a link says
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?[^)]{0,40}\): (\d{1,4})"
)
_AER = re.compile(
    rf"{_BDF}: (?:AER: )?PCIe Bus Error: severity=|{_BDF}: AER: aer_status: 0x"
    r"|AER: (?:Multiple )?(?:Unc|C)orrect(?:ed|able)(?: \([\w-]{1,20}\))? error (?:message )?received(?::| from) "
    rf"{_BDF}"
)
_INIT_FAILED = re.compile(rf"NVRM: (?:GPU {_BDF}: )?RmInitAdapter failed!")
_PROBE_FAILED = re.compile(rf"\bnvidia(?:: probe of {_BDF}| {_BDF}: probe with driver nvidia) failed with error")
_NO_BAR = re.compile(r"NVRM: BAR\d is 0M @ 0x0 \(PCI:([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})")
_OFF_BUS = "fallen off the bus and is not responding"
_NO_ROOM = "no-bar"  # becomes "gpu-no-bar" where the kernel found a GPU there
_LOST = re.compile(rf"NVRM: GPU (?:at )?(?:PCI:)?{_BDF}:? (?:GPU )?has fallen off the bus")
_NAMED = "gpu-named"  # becomes "gpu-off-bus" or nothing
_OFF_BUS_LINES = 3  # over which the driver spreads its words
_DMAR = re.compile(
    r"DMAR: ?\[DMA (?:Read|Write)[^\]]{0,40}\] Request device "
    r"\[((?:[0-9a-f]{4}:)?)(?:0x)?([0-9a-f]{2}):(?:0x)?([0-9a-f]{2}\.[0-7])\]"
)
_AMD_FAULT = re.compile(rf"(?:{_BDF}: )?AMD-Vi: [^\[]{{0,20}}\[?IO_PAGE_FAULT (?:device={_BDF})?")
_COMMAND_LINE = re.compile(r"(?:^|\] |kernel: )(?:Kernel c|C)ommand line: (.+)")
_DMI = re.compile(r"\bDMI: (.{1,200}?), BIOS ")
_TIME = re.compile(r"\[ *(\d{1,9}\.\d{3,9})\]")
_SNIFF = re.compile(
    r"^[ \t>]{0,20}(?:<\d{1,3}>)?\[ {0,6}\+?\d{1,7}[.,]\d{6}\] |^[^\n]{0,80} kernel: |^kern {0,4}:\w{1,8} {0,4}: "
    r"|^[ \t>]{0,20}\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\] "
    rf"|Gb/s available PCIe bandwidth|NVRM: (?:Xid \(|GPU {_BDF}: |RmInitAdapter failed)"
    r"|^(?:pci|pcieport|pci_bus|mlx[45]_core) [0-9a-f]{4}:"
    r"|^dmesg: read kernel buffer failed",
    re.MULTILINE,
)


def sniff(text: str) -> bool:
    """Whether lines look like the kernel's."""
    return sniffed(_SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """What the last boot in the log says, in the order of its lines; first a Host that says only that the log was there
    to read, and when it ends."""
    text = _mended(text) if len(text) <= _BROKEN_IN_CHARS else text
    kept: dict[object, deque[tuple[int, Fact]]] = {}
    starts = {marker: start_of_last(text, marker, MAX_OF_A_KIND) for marker in _READERS}
    boot = 0
    for line in lines_with(text, tuple(_READERS), starts):
        if _begins_boot(line):
            kept.clear()
            boot = line.number
        read = next((read for marker, read in _READERS.items() if marker in line.text), None)
        for fact in read(line) if read else ():
            subject = (read, getattr(fact, "bdf", None), getattr(fact, "number", None))
            kept.setdefault(subject, deque(maxlen=KEPT)).append((line.number, fact))
        if len(kept) > MAX_SUBJECTS:
            kept.pop(next(iter(kept)))
    if kept or sniff(text):
        yield Host(INPUT, least_uptime_s=_last_time_s(text))
    told = sorted((entry for group in kept.values() for entry in group), key=lambda entry: entry[0])
    bars = [_event(_NO_ROOM, line, bdf) for bdf, line in without_room(text, boot)][:MAX_SUBJECTS]
    yield from _with_kinds([*_addressed(told), *bars], text)
    for marker in (marker for marker, start in starts.items() if start):
        yield Gap(INPUT, f'of the lines with "{marker.strip()}" only the last {MAX_OF_A_KIND:,} were read')


def _addressed(told: list[tuple[int, Fact]]) -> list[Fact]:
    """The facts; those of a GPU off the bus with the address that stood a line or two before."""
    facts: list[Fact] = []
    named: tuple[int, str | None] = (-_OFF_BUS_LINES, None)
    for number, fact in told:
        if isinstance(fact, LogEvent) and fact.kind == _NAMED:
            named = number, fact.bdf
            continue
        if isinstance(fact, LogEvent) and fact.kind == "gpu-off-bus" and fact.bdf is None:
            if number - named[0] >= _OFF_BUS_LINES:
                continue
            fact = replace(fact, bdf=named[1])
        facts.append(fact)
    return facts


def _with_kinds(told: list[Fact], text: str) -> list[Fact]:
    """The facts, those of bandwidth and of BARs with what the kernel found at the address."""
    wanted = {f.bdf for f in told if isinstance(f, BandwidthLimit) or (isinstance(f, LogEvent) and f.kind == _NO_ROOM)}
    kinds: dict[str | None, dict[str, Any]] = {}
    for line in lines_with(text, ("] type 0",)) if wanted else ():
        if (match := _FOUND.search(line.text)) and (bdf := full_bdf(match[1])) in wanted:
            kinds[bdf] = {"vendor_id": match[2], "device_id": match[3], "class_id": match[4]}
    return [_with_kind(fact, kinds.get(getattr(fact, "bdf", None), {})) for fact in told]


def _with_kind(fact: Fact, kind: dict[str, Any]) -> Fact:
    if isinstance(fact, BandwidthLimit):
        return replace(fact, **kind)
    if isinstance(fact, LogEvent) and fact.kind == _NO_ROOM and kind:
        of_gpu = is_gpu(PciFunction(fact.bdf or "", INPUT, **kind))
        return replace(fact, kind="gpu-no-bar") if of_gpu else fact
    return fact


def _mended(text: str) -> str:
    """The text with each broken line about bandwidth, an error or a GPU whole; its lines stay as many."""
    text = _BROKEN.sub(lambda match: _joined(match[0]) + "\n" * match[0].count("\n"), text)
    text = _BROKEN_AER.sub(r"\1 \2\n", text) if "AER" in text else text
    text = _BROKEN_NVRM.sub(r"\1 \2\n", text) if "NVRM:" in text else text
    return _BROKEN_BAR.sub(r"\1 \2\n", text) if "assign" in text else text


def _joined(broken: str) -> str:
    """The line whole, broken between its words or amid one."""
    amid = broken.replace("\n", "")
    return amid if _WHOLE.fullmatch(amid) else " ".join(broken.split())


def _begins_boot(line: Line) -> bool:
    """The kernel's first line: not the same words out of /proc/version in the middle of a pasted text."""
    return "Linux version " in line.text and (_time_s(line) == 0 or " kernel: " in line.text)


def _last_time_s(text: str) -> float | None:
    """That of the last line that has one."""
    times = _TIME.findall(text, max(0, len(text) - _END_CHARS))
    return float(times[-1]) if times else None


def _time_s(line: Line) -> float | None:
    match = _TIME.search(line.text[:160])
    return float(match[1]) if match else None


def _event(kind: str, line: Line, bdf: str | None, number: int | None = None) -> LogEvent:
    return LogEvent(kind, full_bdf(bdf or ""), number, _time_s(line), line.evidence(INPUT))


def _bandwidth(line: Line) -> Iterator[Fact]:
    evidence = line.evidence(INPUT)
    if match := _LIMITED.search(line.text):
        bdf, speed, width, limit, capable_speed, capable_width = match.groups()
    elif match := _UNLIMITED.search(line.text):
        # Nothing limits the device, so the link it can have is the link it has.
        bdf, speed, width = match.groups()
        limit, capable_speed, capable_width = None, speed, width
    else:
        return
    device = full_bdf(bdf)
    if device and int(width) in _WIDTHS and int(capable_width) in _WIDTHS:
        yield BandwidthLimit(
            device,
            full_bdf(limit or ""),
            float(speed),
            int(width),
            float(capable_speed),
            int(capable_width),
            evidence,
            driver=_printed_by(line.text, bdf),
        )


def _xid(line: Line) -> Iterator[Fact]:
    if match := _XID.search(line.text):
        yield _event("xid", line, f"{match[1]}.0", int(match[2]))


def _aer(line: Line) -> Iterator[Fact]:
    if match := _AER.search(line.text):
        yield _event("aer", line, next(filter(None, match.groups()), None))


def _init_failed(line: Line) -> Iterator[Fact]:
    if match := _INIT_FAILED.search(line.text):
        yield _event("gpu-init-failed", line, match[1])


def _probe_failed(line: Line) -> Iterator[Fact]:
    if match := _PROBE_FAILED.search(line.text):
        yield _event("gpu-probe-failed", line, match[1] or match[2])


def _no_bar(line: Line) -> Iterator[Fact]:
    if match := _NO_BAR.search(line.text):
        yield _event("gpu-no-bar", line, f"{match[1]}.0")


def _named(line: Line) -> Iterator[Fact]:
    """The first of the lines that say what is wrong with a GPU."""
    if match := re.search(rf"NVRM: The NVIDIA GPU {_BDF}", line.text):
        yield _event("gpu-off-bus" if _OFF_BUS in line.text else _NAMED, line, match[1])


def _mismatch(line: Line) -> Iterator[Fact]:
    yield _event("driver-mismatch", line, None)


def _taken(line: Line) -> Iterator[Fact]:
    yield _event("gpu-taken", line, None)


def _passed(line: Line) -> Iterator[Fact]:
    yield _event("gpu-passed-through", line, None)


def _lost(line: Line) -> Iterator[Fact]:
    if match := _LOST.search(line.text):
        yield _event("gpu-lost", line, match[1])


def _off_bus(line: Line) -> Iterator[Fact]:
    yield _event("gpu-off-bus", line, None)


def _iommu_fault(line: Line) -> Iterator[Fact]:
    if match := _DMAR.search(line.text):
        yield _event("iommu-fault", line, f"{match[1]}{match[2]}:{match[3]}")
    elif match := _AMD_FAULT.search(line.text):
        yield _event("iommu-fault", line, match[1] or match[2])


def _printed_by(text: str, bdf: str) -> str | None:
    """ "mlx5_core" of "mlx5_core 0000:9c:00.0: …"; None where the line begins with the address."""
    before = text[: text.find(bdf)].split()
    return before[-1] if before and re.fullmatch(r"[a-z][\w-]*", before[-1]) else None


def _driver(line: Line) -> Iterator[Fact]:
    yield _event("driver-load", line, None)
    if found := banner(line.text):
        yield Host(INPUT, driver=found.driver, open_driver=found.is_open, line=line.evidence(INPUT))


def _fabric_manager(line: Line) -> Iterator[Fact]:
    """In the system's log, not the kernel's: it ends where the loaded driver is of another version."""
    if match := _FABRIC_MANAGER.search(line.text):
        yield Host(INPUT, fabric_manager=match[1], line=line.evidence(INPUT))


def _hypervisor(line: Line) -> Iterator[Fact]:
    name = line.text.partition("Hypervisor detected:")[2].strip()
    yield Host(INPUT, hypervisor=name or None, virtual=True, line=line.evidence(INPUT))


def _command_line(line: Line) -> Iterator[Fact]:
    if match := _COMMAND_LINE.search(line.text):
        yield Host(INPUT, cmdline=match[1], line=line.evidence(INPUT))


def _kernel(line: Line) -> Iterator[Fact]:
    if match := re.search(r"Linux version (\d\S{0,100})", line.text):
        yield Host(INPUT, kernel=match[1], line=line.evidence(INPUT))


def _product(line: Line) -> Iterator[Fact]:
    """Vendor and product, without the board's name behind the slash."""
    if match := _DMI.search(line.text):
        yield Host(INPUT, product=match[1].rpartition("/")[0] or match[1], line=line.evidence(INPUT))


def _denied(line: Line) -> Iterator[Fact]:
    yield Gap(INPUT, f"the kernel log was not readable: {line.text[:200]}")


_READERS: dict[str, Callable[[Line], Iterator[Fact]]] = {
    "Linux version ": _kernel,
    "available PCIe bandwidth": _bandwidth,
    "NVRM: Xid (": _xid,
    "DMAR": _iommu_fault,
    "IO_PAGE_FAULT": _iommu_fault,
    "AER: ": _aer,
    "PCIe Bus Error: severity=": _aer,
    "RmInitAdapter failed!": _init_failed,
    " failed with error -": _probe_failed,
    "NVRM: BAR": _no_bar,
    "NVRM: The NVIDIA GPU ": _named,
    _OFF_BUS: _off_bus,
    "has fallen off the bus": _lost,
    "NVRM: API mismatch: ": _mismatch,
    "NVRM: The NVIDIA probe routine was not called": _taken,
    "is already bound to vfio-pci": _passed,
    "NVRM: loading NVIDIA UNIX": _driver,
    "NVIDIA GPU driver interface version": _fabric_manager,
    "Hypervisor detected:": _hypervisor,
    "ommand line: ": _command_line,
    "DMI: ": _product,
    "dmesg: read kernel buffer failed": _denied,
}
