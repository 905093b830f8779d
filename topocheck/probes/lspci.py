"""`lspci -vv` and its kin (`-v`, `-nn`, `-n`, `-k`, plain): PCI functions, their links, BARs, ACS, drivers.

    1b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
            NUMA node: 0
            Region 1: Memory at 21000000000 (64-bit, prefetchable) [size=128G]
            Capabilities: [60] Express (v2) Endpoint, MSI 00
                    DevCap: MaxPayload 256 bytes, PhantFunc 0
                    DevCtl: CorrErr- NonFatalErr+ FatalErr+ UnsupReq-
                            RlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop-
                            MaxPayload 256 bytes, MaxReadReq 512 bytes
                    LnkCap: Port #0, Speed 32GT/s, Width x16, ASPM not supported
                    LnkSta: Speed 16GT/s (downgraded), Width x8 (downgraded)
            Kernel driver in use: nvidia

The indentation is not trusted: it gets lost, or turned to blanks, on the way through terminals and mail. What a line
belongs to is told by the device line above it and by the line's own first words; the first of a kind counts, since a
`grep` keeps lines of devices whose device line it dropped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from topocheck.facts import Evidence, Fact, Gap, PciFunction, PciListing, full_bdf
from topocheck.hardware.pci_ids import NVIDIA
from topocheck.probes.lines import MOST_FUNCTIONS, SNIFF_CHARS, lines_with
from topocheck.probes.lspci_caps import BARE, FIELDS, LINK_FIELDS, WRAPPED, capability
from topocheck.probes.lspci_header import (
    BDF,
    INDENT,
    NO_BREAK_SPACE,
    header_values,
    header_within,
    match_header,
    unwrapped,
)

INPUT = "lspci -vv"
COMMANDS = ("lspci -D -nn -vv",)
PATHS: tuple[str, ...] = ()
NAME = r"(?:sudo_)?lspci(?:_-[nvxkmbDs]+)*(?:_-[sd]_[\w.:-]+)?(?:_-[nvxk]+)*(?:_grep_.*)?(?:[._](?:txt|log|out))?$"

# Values of the lines that PciFunction holds in another form.
_GPU_DRIVERS = ("nvidia", "nouveau", "vfio")
_OWN_NAMES = frozenset({"UESta", "CESta", "vf_offset", "vf_stride", "vf_count", "region1_bytes", "region2_bytes"})
_MAX_LINE = 4096  # characters of a line that are looked at
_HEX = frozenset("0123456789abcdefABCDEF")
_HEADER_LINE = re.compile(rf"\n[ \t>\u00a0]{{0,40}}{BDF}[ \t\u00a0]+[^\s:\"][^:\n\"]{{1,80}}:[ \t\u00a0]+\S")
_FIELD_LINE = re.compile(r"\n[ \t>\u00a0]{0,40}(?:LnkSta|LnkCap|ACSCtl|ACSCap|DevCtl):[ \t]")
_BEFORE_FIELD = re.compile(rf"({BDF}):?[ \t]+({'|'.join(sorted(LINK_FIELDS))}):")
_STATUS = re.compile(r"(?<=[ \t|,;])LnkSta: .+")
_ALONE = re.compile(rf"({BDF}):?\s{{0,20}}")
_COMMAND = re.compile(rf"\blspci\b.{{0,200}}?\s-[a-zA-Z]*s\s*({BDF})(?:\s|$)")


def sniff(text: str) -> bool:
    """Whether device lines or capability lines of lspci occur."""
    head = "\n" + text[:_MAX_LINE]
    if any(pattern.match(head) or pattern.search(text) for pattern in (_HEADER_LINE, _FIELD_LINE)):
        return True
    return any(header_within(line.text) for line in lines_with(text[:SNIFF_CHARS], (" controller",)))


class _Entry:
    """One function while its lines are read."""

    __slots__ = ("bdf", "cut", "in_capabilities", "lines", "shows_driver", "values")

    def __init__(self, bdf: str) -> None:
        self.bdf = bdf
        self.values: dict[str, Any] = {}
        self.lines: dict[str, Evidence] = {}
        self.in_capabilities = False  # Regions and Flags from here on are not the function's own
        self.shows_driver = False
        self.cut = False  # lines have been left out by hand


def parse(text: str) -> Iterator[Fact]:
    """The functions in the text, how whole the listing is, and lines that belong to no device."""
    entries, orphans = _read(text.replace(NO_BREAK_SPACE, " ").split("\n"))
    entries = [entry for entry in entries if entry.lines]
    if orphans:
        fields = ", ".join(sorted(orphans))
        yield Gap(INPUT, f"{orphans.total()} lines ({fields}) without the device line they belong to")
    if not entries:
        return
    shows_drivers = any(entry.shows_driver for entry in entries)
    owners = _virtual_functions(entries)
    functions = [
        _function(entry, shows_drivers and entry is not entries[-1], owners.get(entry.bdf)) for entry in entries
    ]
    yield from functions
    yield PciListing(INPUT, any(map(_is_top, functions)), _leading_beyond(functions, text.endswith("\n")))


def _leading_beyond(functions: list[PciFunction], ends_whole: bool) -> tuple[str, ...]:
    """The bridges to a bus behind the last one in the listing, which goes in order of addresses; to the last one too,
    where its lines may be cut."""
    last: dict[str, int] = {}
    for f in functions:
        last[f.bdf[:-8]] = max(last.get(f.bdf[:-8], 0), int(f.bdf[-7:-5], 16) + ends_whole)
    return tuple(f.bdf for f in functions if f.secondary_bus and f.secondary_bus >= last[f.bdf[:-8]])


def _read(lines: list[str]) -> tuple[list[_Entry], Counter[str]]:
    """One pass over the lines: the functions, and how many lines of each field had no device line above them."""
    entries: list[_Entry] = []
    orphans: Counter[str] = Counter()
    entry: _Entry | None = None
    for index, raw in enumerate(lines):
        if not raw:
            continue
        line = (raw if len(raw) <= _MAX_LINE else raw[:_MAX_LINE]).lstrip(INDENT)
        key = line[: line.find(":")]
        if key in FIELDS:
            if (entry is None or not _take(entry, key, lines, index)) and key in LINK_FIELDS:
                orphans[key] += 1
        elif key == "Capabilities":
            if entry is not None:
                entry.in_capabilities = True
                entry.values.update(capability(line))
        elif (opened := _opened(lines, index, line)) or "lspci" in line:
            entry = opened
            if opened is not None:
                entries.append(opened)
            if len(entries) > MOST_FUNCTIONS:
                break
        elif entry is not None:
            _take_other(entry, line, index + 1)
    return entries, orphans


def _opened(lines: list[str], index: int, line: str) -> _Entry | None:
    """The function that begins here: with a device line, with the command that asked for it alone, or, as scripts print
    it, with its address before or above one of its fields."""
    if line[:1] in _HEX and (field := _BEFORE_FIELD.match(line)):
        entry = _Entry(full_bdf(field.group(1)) or "")
        _take(entry, field.group(2), lines, index)
        return entry
    match = match_header(line) if line[:1] in _HEX else None
    match = match_header(unwrapped(lines, index, line.rstrip())) if match else header_within(line)
    if match:
        entry = _Entry(full_bdf(match.group(1)) or "")
        entry.lines["header"] = Evidence(INPUT, index + 1, line.rstrip())
        entry.values.update(header_values(match))
        return entry
    if "lspci" in line:
        command = _COMMAND.search(line)
        return _Entry(full_bdf(command.group(1)) or "") if command else None
    if line[:1] in _HEX and (alone := _ALONE.fullmatch(line)) and index + 1 < len(lines):
        after = lines[index + 1][:_MAX_LINE].lstrip(INDENT)
        if after.startswith("Lnk") or after[: after.find(":")] in FIELDS:
            return _Entry(full_bdf(alone.group(1)) or "")
    return None


def _take(entry: _Entry, key: str, lines: list[str], index: int) -> bool:
    """Takes the line of a field; False if the function has had such a line."""
    if entry.in_capabilities and key.startswith(("Region", "Flags")):
        return True
    if key in entry.lines:
        return False
    line = lines[index][:_MAX_LINE].strip(INDENT + "\r")
    entry.lines[key] = Evidence(INPUT, index + 1, line)
    after = lines[index + 1][:_MAX_LINE].strip(INDENT + "\r") if key in WRAPPED and index + 1 < len(lines) else ""
    if key == "LnkCap" and (status := _STATUS.search(line)):  # of a script that prints both on one line
        entry.lines["LnkSta"] = entry.lines[key]
        entry.values.update(FIELDS["LnkSta"](status[0]))
        line, after = line[: status.start()], ":"
    entry.values.update(FIELDS[key](line if ":" in after else f"{line} {after}".rstrip()))
    entry.shows_driver = entry.shows_driver or (key == "Kernel driver in use" and "driver" in entry.values)
    if key == "Flags" and "numa_node" in entry.values:
        entry.lines["NUMA node"] = entry.lines[key]
    return True


def _take_other(entry: _Entry, line: str, number: int) -> None:
    """Takes a line that no field begins; of the BARs of `-v` the first, or the first that has no address."""
    if line.startswith(("MaxPayload", "RlxdOrd")) or (line.startswith("Memory at") and not entry.in_capabilities):
        for start, key, reader in BARE:
            values = reader(line) if line.startswith(start) else {}
            says_more = "bars_unassigned" in values and "bars_unassigned" not in entry.values
            if line.startswith(start) and (key not in entry.lines or says_more):
                entry.lines[key] = Evidence(INPUT, number, line.rstrip())
                entry.values.update(values)
    elif line.startswith("Kernel modules:"):
        entry.shows_driver = True
    elif line.startswith("!!! Unknown header type"):
        entry.values["dead"] = True
    elif line.startswith(("[...", "[snip", "...")):
        entry.cut = True


def _virtual_functions(entries: list[_Entry]) -> dict[str, str]:
    """The physical function of every virtual one that an SR-IOV capability places: routing id + offset + n × stride."""
    owners = {}
    for entry in entries:
        offset, stride = entry.values.get("vf_offset", 0), entry.values.get("vf_stride", 0)
        domain, bus, place = entry.bdf.rsplit(":", 2)
        routing_id = int(bus, 16) << 8 | int(place[:2], 16) << 3 | int(place[3])
        for n in range(min(entry.values.get("vf_count", 0), 256) if offset else 0):
            virtual = routing_id + offset + n * stride
            owners[f"{domain}:{virtual >> 8:02x}:{virtual >> 3 & 31:02x}.{virtual & 7}"] = entry.bdf
    return owners


def _function(entry: _Entry, shows_drivers: bool, vf_of: str | None) -> PciFunction:
    """The finished fact. No driver is a statement only where its line would have been printed: the listing shows
    drivers, nothing was cut out, and it is not the last function, whose end may be missing."""
    has_body = len(entry.lines) > 1 or entry.in_capabilities
    driver_shown = entry.shows_driver or (shows_drivers and has_body and not entry.cut)
    if entry.cut and _is_gpu(entry) and not (entry.values.get("driver") or "").startswith(_GPU_DRIVERS):
        entry.values.pop("driver", None)  # of another function, whose beginning was cut out
        driver_shown = False
    bar1_bytes = _bar1_bytes(entry)
    values = {name: value for name, value in entry.values.items() if name not in _OWN_NAMES}
    aer = tuple((key, entry.values[key]) for key in ("UESta", "CESta") if key in entry.values)
    return PciFunction(
        entry.bdf,
        INPUT,
        lines=entry.lines,
        aer=aer,
        bar1_bytes=bar1_bytes,
        driver_shown=driver_shown,
        vf_of=vf_of,
        **values,
    )


def _is_gpu(entry: _Entry) -> bool:
    return entry.values.get("vendor_id") == NVIDIA and entry.values.get("class_id") in ("0300", "0302")


def _bar1_bytes(entry: _Entry) -> int | None:
    """NVIDIA's BAR1 is the second memory BAR: Region 1, or Region 2 where the first has 64 bits (H100 and later)."""
    if not _is_gpu(entry):
        return None
    if "Region 1" not in entry.lines and "Region 2" in entry.lines:
        entry.lines["Region 1"] = entry.lines["Region 2"]
        return entry.values.get("region2_bytes")
    return entry.values.get("region1_bytes")


def _is_top(function: PciFunction) -> bool:
    """A host bridge or a root port: a bridge on bus 0 is one whatever else is not shown."""
    on_bus_0 = function.class_id == "0604" and function.bdf.rsplit(":", 2)[1] == "00"
    return function.class_id == "0600" or function.port_type == "root" or on_bus_0
