"""`lldpctl` as text and as `-f keyvalue`.

Interface:    eth2, via: LLDP, RID: 1, Time: 0 day, 00:01:02
  Chassis:
    ChassisID:    mac 02:00:00:00:02:00
    SysName:      leaf-rail0
  Port:
    PortID:       ifname swp1
    PortDescr:    swp1

lldp.eth2.via=LLDP
lldp.eth2.chassis.name=leaf-rail0
lldp.eth2.port.ifname=swp1
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from topocheck.facts import LeafPort
from topocheck.probes.lines import Line, lines

_INPUT = "lldpctl"
SNIFF = re.compile(r"^[^\S\n]*(?:Interface:[^\S\n]{1,20}\S{1,60}, via: |lldp\.\S{1,60}\.via=)", re.MULTILINE)
_NEXT = re.compile(r"Interface:\s+(\S{1,60}), via: |lldp\.(\S{1,60}?)\.via=")
_ID = re.compile(r"(ChassisID|PortID):\s+(\w{1,16})\s+(.+)")
_TEXT = re.compile(r"(SysName|PortDescr):\s+(.+)")
_KEY = re.compile(r"lldp\.\S{1,60}?\.(chassis|port)\.(name|descr|ifname|ifalias|local|mac|ip)=(.+)")


@dataclass
class _Heard:
    """What one neighbour says; `ids` of its chassis and port: kind and value."""

    interface: str
    line: Line
    texts: dict[str, str] = field(default_factory=dict)
    ids: dict[str, tuple[str, str]] = field(default_factory=dict)

    def leaf(self) -> LeafPort | None:
        """The neighbour; its chassis' id where it has no name."""
        switch = self.texts.get("SysName") or self.ids.get("ChassisID", ("", ""))[1]
        kind, value = self.ids.get("PortID", ("", None))
        where = port(kind, value, self.texts.get("PortDescr"))
        return LeafPort(switch, where, "lldp", self.line.evidence(_INPUT)) if switch else None

    def add(self, text: str) -> None:
        """A line of it."""
        if match := _ID.match(text):
            self.ids.setdefault(match[1], (match[2], match[3]))
        elif match := _TEXT.match(text):
            self.texts.setdefault(match[1], match[2])
        elif match := _KEY.match(text):
            of, key, value = match.groups()
            if key in ("name", "descr"):
                self.texts.setdefault({"chassisname": "SysName", "portdescr": "PortDescr"}.get(of + key, ""), value)
            else:
                self.ids.setdefault("ChassisID" if of == "chassis" else "PortID", (key, value))


def neighbours(text: str) -> Iterator[tuple[str, LeafPort]]:
    """(interface, neighbour), one each that is heard."""
    heard: _Heard | None = None
    for line in lines(text):
        if match := _NEXT.match(line.text):
            if heard and (leaf := heard.leaf()):
                yield heard.interface, leaf
            heard = _Heard(match[1] or match[2], line)
        elif heard:
            heard.add(line.text)
    if heard and (leaf := heard.leaf()):
        yield heard.interface, leaf


def port(kind: str, value: str | None, description: str | None) -> str | None:
    """The port's own name; an id that is only a MAC address says less than the description."""
    return description if kind not in ("ifname", "local", "ifalias") and description else value
