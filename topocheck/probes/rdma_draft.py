"""An RDMA device while its lines are being read, and the words of the RDMA tools in one spelling.

ibstat says "Active", ibstatus "4: ACTIVE", ibv_devinfo "PORT_ACTIVE (4)", rdma "ACTIVE"; a GUID comes as
0xb83fd203000ac116 or b83f:d203:000a:c116. The first word on a field stands: what follows in a pasted text is another
tool's, or a second run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import Any

from topocheck.facts import Evidence, Gap, Gid, RdmaDevice, RdmaPort
from topocheck.probes.lines import TWO_NODES

MOST_DEVICES = 2048  # ten cards with 127 virtual functions each have 1,280
_NUMBERING = re.compile(r"^\d+:|\(\d+\)$")
_STATES = {"initialize": "init", "initializing": "init", "nop": "down"}
_KNOWN_STATES = frozenset({"active", "down", "init", "armed"})
_SOFTWARE = re.compile(r"(?:rxe|siw)[\w-]*")
# What verbs call vendor_id: NVIDIA's cards give their IEEE number instead of the PCI vendor.
_PCI_VENDORS = {"02c9": "15b3"}


@dataclass
class PortDraft:
    """One port, by the names of RdmaPort's fields."""

    number: int
    fields: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, Evidence] = field(default_factory=dict)
    gids: dict[int, Gid] = field(default_factory=dict)

    def put(self, name: str, value: Any, line: Evidence | None = None) -> None:  # noqa: ANN401
        """Note a field unless it is known or nothing was said."""
        if value is not None and name not in self.fields:
            self.fields[name] = value
            if line is not None:
                self.lines[name] = line

    def add_gid(self, number: int, gid: str, version: str | None, line: Evidence) -> None:
        """Add an entry of the GID table; one of zeros is an empty place."""
        if gid.strip("0:"):
            self.gids.setdefault(number, Gid(number, gid, version))
            self.lines.setdefault("gids", line)

    def finished(self) -> RdmaPort:
        """The port as a fact has it."""
        return RdmaPort(self.number, gids=tuple(self.gids.values()), lines=self.lines, **self.fields)


@dataclass
class DeviceDraft:
    """One device, by the names of RdmaDevice's fields."""

    name: str
    line: Evidence | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    ports: dict[int, PortDraft] = field(default_factory=dict)
    of_two_nodes: bool = False  # another device of that name was read

    def put(self, name: str, value: Any) -> None:  # noqa: ANN401
        """Note a field unless it is known or nothing was said."""
        if value is not None:
            known = self.fields.setdefault(name, value)
            self.of_two_nodes |= name == "node_guid" and known != value

    def port(self, number: int) -> PortDraft:
        """The port of that number, begun if it is new."""
        return self.ports.setdefault(number, PortDraft(number))

    def finished(self, witness: str) -> RdmaDevice:
        """The fact."""
        ports = tuple(port.finished() for _, port in sorted(self.ports.items()))
        self.put("software", _SOFTWARE.fullmatch(self.name) is not None)
        return RdmaDevice(witness, self.name, ports=ports, line=self.line, **self.fields)


@dataclass
class UnnumberedPorts:
    """The ports of a device in a text without the lines that number them (`ibstat | grep -e CA -e State`): one begins
    where a field comes again."""

    number: int = 0
    fields: set[str] = field(default_factory=set)

    def port(self, device: DeviceDraft, name: str) -> PortDraft:
        """The port that the field is of."""
        if not self.number or name in self.fields:
            self.number += 1
            self.fields.clear()
        self.fields.add(name)
        return device.port(self.number)


class Devices(dict[str, DeviceDraft]):
    """The devices of one text, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.has_more = False
        self._last: DeviceDraft | None = None
        self._of_two_nodes = False

    def named(self, name: str, line: Evidence) -> DeviceDraft:
        """The device of that name, begun if it is new; of too many, and of a second node, one that is not kept."""
        draft = self.get(name)
        self._of_two_nodes |= self._last is not None and self._last.of_two_nodes
        if draft is None:
            draft = DeviceDraft(name, line)
            if self._of_two_nodes:
                pass
            elif len(self) < MOST_DEVICES:
                self[name] = draft
            else:
                self.has_more = True
        self._last = draft
        return draft

    def finished(self, witness: str) -> Iterator[RdmaDevice | Gap]:
        """The facts, and a gap if there were too many, or those of two nodes."""
        yield from (draft.finished(witness) for draft in self.values())
        if any(draft.of_two_nodes for draft in self.values()):
            yield Gap(witness, TWO_NODES)
        if self.has_more:
            yield Gap(witness, f"more than {MOST_DEVICES:,} devices: the rest was not read")


def said(text: str) -> str | None:
    """The text, None where it is blank."""
    return text.strip() or None


def word(text: str) -> str | None:
    """A state or phase in lower case, without number, blanks and underscores.

    >>> word("5: LinkUp"), word("PORT_ACTIVE (4)"), word("LINK_UP"), word("DOWN  ")
    ('linkup', 'active', 'linkup', 'down')
    """
    bare = _NUMBERING.sub("", text.strip()).strip().lower().removeprefix("port_")
    return re.sub(r"[\s_]+", "", bare) or None


def state(text: str) -> str | None:
    """A port's state: active, down, init, armed; None for any other word, as the beginning of one that was cut.

    >>> state("4: ACTIVE"), state("PORT_ARMED (3)"), state("4"), state("ACTI")
    ('active', 'armed', None, None)
    """
    bare = word(text) or ""
    known = _STATES.get(bare, bare)
    return known if known in _KNOWN_STATES else None


def layer(text: str) -> str | None:
    """A link layer: infiniband (old tools: "IB"), ethernet; None for "Unspecified", which says nothing, and for a word
    that was cut."""
    bare = word(text)
    return "infiniband" if bare == "ib" else bare if bare in ("infiniband", "ethernet") else None


def number(text: str) -> int | None:
    """A whole number at the start, decimal or 0x…: "4096 (5)", "0x33bf"."""
    match = re.match(r"0[xX][0-9a-fA-F]{1,16}|\d{1,18}", text.strip())
    return None if match is None else int(match[0], 16 if match[0][:2].lower() == "0x" else 10)


def rate(text: str) -> float | None:
    """A rate in Gb/s at the start: "200 Gb/sec (4X HDR)", "14.0625"."""
    match = re.match(r"\d{1,6}(?:\.\d{1,6})?", text.strip())
    return None if match is None else float(match[0])


def guid(text: str) -> str | None:
    """A GUID as sysfs spells it, "b83f:d203:000a:c116"; None for one that is all zero, which a VF gives."""
    digits = re.sub(r"^0[xX]|:", "", text.strip()).lower()
    if not re.fullmatch(r"[0-9a-f]{1,16}", digits) or not digits.strip("0"):
        return None
    padded = digits.zfill(16)
    return ":".join(padded[i : i + 4] for i in range(0, 16, 4))


def gid_prefix(text: str) -> str | None:
    """The subnet prefix of a GID in full spelling, "fe80:0000:0000:0000"."""
    match = re.match(r"(?:[0-9a-fA-F]{4}:){3}[0-9a-fA-F]{4}(?=:|$)", text.strip())
    return match[0].lower() if match and match[0].strip("0:") else None


def gid(text: str) -> str | None:
    """A GID in full spelling, from any spelling of an IPv6 address.

    >>> gid("::ffff:10.62.186.32"), gid("fe80::1")
    ('0000:0000:0000:0000:0000:ffff:0a3e:ba20', 'fe80:0000:0000:0000:0000:0000:0000:0001')
    """
    try:
        return IPv6Address(text.strip()).exploded
    except ValueError:
        return None


def vendor(text: str) -> str | None:
    """A PCI vendor id, four hex digits, from what verbs or sysfs call the vendor: "0x02c9", "0x15b3"."""
    value = number(text)
    if value is None or not 0 < value <= 0xFFFF:
        return None
    return _PCI_VENDORS.get(f"{value:04x}", f"{value:04x}")
