"""`fi_info -p efa`, short, `-v` or filtered by grep: the EFA devices as libfabric sees them.

One device appears as -rdm and -dgrm endpoint, under one fabric name or two, and layered below other providers: the stem
of the domain name is the device. The name rdmap79s0 holds bus 79 = 4f and slot 0, in decimal; `-v` says the same in
fi_pci_attr. Entries of other providers and of speed 0 (Ethernet functions) are no EFA.

    provider: efa
        fabric: efa
        domain: rdmap79s0-rdm
        version: 200.0
        type: FI_EP_RDM
        protocol: FI_PROTO_EFA
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from topocheck.facts import Fact, Gap
from topocheck.probes import rdma_draft as rdma
from topocheck.probes.lines import Line, lines, lines_with, sniffed

INPUT = "fi_info -p efa"
COMMANDS: tuple[str, ...] = ("fi_info -p efa",)
PATHS: tuple[str, ...] = ()
NAME = r"fi_info"

_SNIFF = re.compile(
    r"^[^\S\n]*(?:provider: [\w;,]{1,40}[^\S\n]*$"
    r"|fi_info:[^\S\n]*$|fi_getinfo: -\d|domain: [\w-]{1,40}-(?:rdm|dgrm)\b)",
    re.MULTILINE,
)
_DOMAIN = re.compile(r"((?:rdma[pP]|efa)[\w.]{1,40})-(?:rdm|dgrm)")
_PCI_NAME = re.compile(r"rdma(?:P(\d{1,5}))?p(\d{1,3})s(\d{1,2})(?:f([0-7]))?")
_FAILED = re.compile(r"fi_getinfo: -\d+")
_BLOCK_ENDS = ("---", "fi_info:")
_LINK_STATES = {"FI_LINK_UP": "active", "FI_LINK_DOWN": "down"}
_BITS_PER_GBIT = 1_000_000_000


@dataclass
class _Entry:
    """One endpoint of one provider."""

    provider: str | None = None
    stem: str | None = None
    line: Line | None = None
    link: dict[str, Line] = field(default_factory=dict)  # "speed", "state"
    pci: dict[str, int] = field(default_factory=dict)  # "domain_id", "bus_id", …

    @property
    def is_efa(self) -> bool:
        return self.stem is not None and (self.provider is None or "efa" in self.provider)


def sniff(text: str) -> bool:
    """Whether entries of fi_info are there, or its own failure."""
    return sniffed(_SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """One device a stem; a gap where libfabric found no provider (-61: no EFA, or /dev/infiniband is not there)."""
    devices = rdma.Devices()
    for entry in _entries(text):
        if entry.is_efa and entry.stem and entry.line:
            evidence = entry.line.evidence(INPUT)
            _add(entry, devices.named(entry.stem, evidence))
    yield from devices.finished(INPUT)
    for line in () if devices else lines_with(text, ("fi_getinfo: ",)):
        if _FAILED.match(line.text):
            yield Gap(INPUT, f"libfabric found no EFA: {line.text[:200]}")
            return


def _entries(text: str) -> Iterator[_Entry]:
    """The entries in turn: a short one begins at "provider:", a verbose one after "---"."""
    entry = _Entry()
    in_pci = False
    for line in lines(text):
        key, colon, rest = line.text.partition(":")
        value = rest.strip()
        if line.text in _BLOCK_ENDS or key == "provider":
            yield entry
            entry, in_pci = _Entry(value or None), False
        elif key == "prov_name":
            entry.provider = entry.provider or value
        elif key in ("domain", "name") and (match := _DOMAIN.fullmatch(value)):
            if entry.stem not in (None, match[1]):  # grep left no "provider:" between two entries
                yield entry
                entry = _Entry(entry.provider)
            entry.stem, entry.line = match[1], line
        elif key in ("speed", "state"):
            entry.link[key] = line
        elif colon and not value:
            in_pci = key == "fi_pci_attr"
        elif in_pci and value.isdecimal():
            entry.pci.setdefault(key, int(value[:9]))
    yield entry


def _add(entry: _Entry, device: rdma.DeviceDraft) -> None:
    device.put("efa", True)
    device.put("vendor_id", "1d0f")
    device.put("bdf", _bdf(entry))
    port = device.port(1)
    port.put("link_layer", "efa", entry.line.evidence(INPUT) if entry.line else None)
    if line := entry.link.get("speed"):
        bits_per_s = rdma.number(line.text.partition(":")[2]) or 0
        port.put("rate_gbit_per_s", bits_per_s / _BITS_PER_GBIT if bits_per_s else None, line.evidence(INPUT))
    if line := entry.link.get("state"):
        port.put("state", _LINK_STATES.get(line.text.partition(":")[2].strip()), line.evidence(INPUT))


def _bdf(entry: _Entry) -> str | None:
    """The PCI address: as `-v` says it, else as the name holds it."""
    parts = [entry.pci.get(name) for name in ("domain_id", "bus_id", "device_id", "function_id")]
    if None in parts and (match := _PCI_NAME.fullmatch(entry.stem or "")):
        parts = [int(text or 0) for text in match.groups()]
    domain, bus, device, function = (-1 if part is None else part for part in parts)
    if not (0 <= domain <= 0xFFFFFFFF and 0 <= bus <= 0xFF and 0 <= device <= 0x1F and 0 <= function <= 7):
        return None
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"
