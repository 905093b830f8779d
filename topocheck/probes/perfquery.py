"""`perfquery`, plain or `-x`: the counters of one port, or of several one after the other.

The port is named by LID: a switch's as well as a node's. A second block of the same port is a later reading.

    # Port extended counters: Lid 12 port 1 (CapMask: 0x5300 CapMask2: 0x0000002)
    PortXmitData:....................178791657177235
    SymbolErrorCounter:..............0
    PortXmitWait:....................41864608
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from topocheck.facts import Evidence, Fact, Host, PortCounters
from topocheck.probes.lines import lines, sniffed

INPUT = "perfquery"
COMMANDS: tuple[str, ...] = ()
PATHS: tuple[str, ...] = ()
NAME = r"perfquery"

_SNIFF = re.compile(r"^[^\S\n]*# Port (?:extended )?counters: Lid \d", re.MULTILINE)
_PORT = re.compile(r"# Port (?:extended )?counters: Lid (\d{1,5}) port (\d{1,3})\b")
_COUNTER = re.compile(r"(\w{1,40}):\.*(\d{1,20})$")
# perfquery's names → those of /sys/class/infiniband/*/ports/*/counters.
_NAMES = {
    "SymbolErrorCounter": "symbol_error",
    "LinkErrorRecoveryCounter": "link_error_recovery",
    "LinkDownedCounter": "link_downed",
    "PortRcvErrors": "port_rcv_errors",
    "PortXmitDiscards": "port_xmit_discards",
    "PortXmitWait": "port_xmit_wait",
    "PortXmitData": "port_xmit_data",
    "LocalLinkIntegrityErrors": "local_link_integrity_errors",
}


def sniff(text: str) -> bool:
    """Whether the heading of a port's counters is there."""
    return sniffed(_SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """A bare Host, which says that the input was there, and one fact a block."""
    if sniffed(_SNIFF, text):
        yield Host(INPUT)
    yield from _blocks(text)


def _blocks(text: str) -> Iterator[PortCounters]:
    at: tuple[int, int] | None = None
    values: dict[str, int] = {}
    shown: dict[str, Evidence] = {}
    for line in lines(text):
        if match := _PORT.match(line.text):
            if at and values:
                yield PortCounters(INPUT, *at, tuple(values.items()), shown)
            at, values, shown = (int(match[1]), int(match[2])), {}, {}
        elif at and (match := _COUNTER.match(line.text)) and match[1] in _NAMES:
            values[_NAMES[match[1]]] = int(match[2])
            shown[_NAMES[match[1]]] = line.evidence(INPUT)
    if at and values:
        yield PortCounters(INPUT, *at, tuple(values.items()), shown)
