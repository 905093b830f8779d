"""Config space in hex: `lspci -xxx` and `-xxxx`, and the dump of sysfs that nvidia-bug-report.sh makes without lspci.

0000:1b:00.0 030200: Vendor 10de Device 2330 (rev a1)
00: de 10 30 23 07 04 10 00 a1 00 02 03 00 00 00 00
10: 0c 00 00 c8 20 20 00 00 00 00 00 00 00 00 00 00

From 256 bytes on it states the link, from 4096 ACS and AER: what bug reports of drivers 390 to 520 say of a GPU's link
stands nowhere else in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from topocheck.facts import Evidence, Fact, PciFunction, PciListing, full_bdf
from topocheck.probes.lines import lines, sniffed
from topocheck.probes.lspci_header import BDF
from topocheck.probes.pci_config import decode

INPUT = "lspci -xxx"
COMMANDS: tuple[str, ...] = ()
PATHS: tuple[str, ...] = ()
NAME = r"(?:sudo_)?lspci_-[a-zA-Z]*x{3,4}"

_DEVICE = re.compile(rf"({BDF})[ \t]+\S")
_HEX = re.compile(r"([0-9a-f]{2,3}): ((?:[0-9a-f]{2} ){15}[0-9a-f]{2})")
_LOOKS = re.compile(
    rf"^{BDF}[ \t][^\n]{{1,300}}\n(?:[ \t][^\n]{{0,300}}\n){{0,80}}00: (?:[0-9a-f]{{2}} ){{15}}", re.MULTILINE
)
_SIZES = (64, 256, 4096)
_LINKS = {
    "LnkCap": ("max_speed_gts", "max_width"),
    "LnkSta": ("speed_gts", "width"),
    "LnkCtl2": ("target_speed_gts",),
    "DevCtl": ("payload_bytes", "read_request_bytes", "relaxed_ordering"),
}


def sniff(text: str) -> bool:
    """Whether a device with its config space occurs."""
    return sniffed(_LOOKS, text)


def parse(text: str) -> Iterable[Fact]:
    """One function for each config space that is whole to a usual size, and whether bridges are among them."""
    functions = [_function(bdf, line, config) for bdf, line, config in _spaces(text)]
    if not functions:
        return []
    whole = any(function.port_type == "root" or function.class_id == "0600" for function in functions)
    return [*functions, PciListing(INPUT, whole)]


def _spaces(text: str) -> Iterator[tuple[str, Evidence, bytes]]:
    """Address, its line, and the bytes in order; a line that is missing ends a space."""
    bdf, header, config = "", Evidence(INPUT, None, ""), bytearray()
    for line in lines(text):
        if match := _HEX.fullmatch(line.text):
            if int(match[1], 16) == len(config):
                config += bytes.fromhex(match[2])
        elif line.indent == 0 and (match := _DEVICE.match(line.text)):
            yield from _whole(bdf, header, config)
            bdf, header, config = full_bdf(match[1]) or "", line.evidence(INPUT), bytearray()
    yield from _whole(bdf, header, config)


def _whole(bdf: str, header: Evidence, config: bytearray) -> Iterator[tuple[str, Evidence, bytes]]:
    size = max((size for size in _SIZES if size <= len(config)), default=0)
    if bdf and size:
        yield bdf, header, bytes(config[:size])


def _function(bdf: str, header: Evidence, config: bytes) -> PciFunction:
    values: dict[str, Any] = decode(config)
    lines_of = {"header": header}
    for key, names in _LINKS.items():
        said = [f"{name} {values[name]}" for name in names if values.get(name) is not None]
        if said:
            lines_of[key] = Evidence(INPUT, None, f"config space of {bdf}: {', '.join(said)}")
    return PciFunction(bdf, INPUT, lines=lines_of, **values)
