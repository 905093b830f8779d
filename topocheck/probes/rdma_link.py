"""`rdma link` of iproute2: ports with state, and the interface below; soft devices (rxe, siw) stand among the others.

An InfiniBand port has subnet prefix and LIDs, an Ethernet port its interface, unless that is in another namespace.

    link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 12 sm_lid 1 lmc 0 state ACTIVE physical_state LINK_UP
    link mlx5_3/1 state ACTIVE physical_state LINK_UP netdev ens3np0
    link rxe0/1 state DOWN physical_state DISABLED netdev eno1
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from topocheck.facts import Fact
from topocheck.probes import rdma_draft as rdma
from topocheck.probes.lines import Line, lines, sniffed

INPUT = "rdma link"
COMMANDS: tuple[str, ...] = ("rdma link",)
PATHS: tuple[str, ...] = ()
NAME = r"rdma[ _.-]?link"

_PORT = re.compile(r"(?:link|\d{1,5}/\d{1,5}:) ([A-Za-z][\w.-]{0,63})/(\d{1,3}):? (.*state .*)")
_SNIFF = re.compile(
    r"^[^\S\n]*(?:link|\d{1,5}/\d{1,5}:) [\w.-]{1,64}/\d{1,3}:? [^\n]{0,120}?\bstate [A-Z_]{2,20} physical_state",
    re.MULTILINE,
)


def sniff(text: str) -> bool:
    """Whether a line shows a port as rdma does."""
    return sniffed(_SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """One device a name, with its ports."""
    devices = rdma.Devices()
    for line in lines(text):
        if match := _PORT.match(line.text):
            device = devices.named(match[1], line.evidence(INPUT))
            _read(line, match[3].split(), device.port(int(match[2])))
    yield from devices.finished(INPUT)


def _read(line: Line, words: list[str], port: rdma.PortDraft) -> None:
    said = dict(zip(words[::2], words[1::2], strict=False))
    evidence = line.evidence(INPUT)
    port.put("state", rdma.state(said.get("state", "")), evidence)
    port.put("physical", rdma.word(said.get("physical_state", "")), evidence)
    port.put("netdev", said.get("netdev"), evidence)
    port.put("lid", rdma.number(said.get("lid", "")), evidence)
    port.put("sm_lid", rdma.number(said.get("sm_lid", "")), evidence)
    port.put("subnet", rdma.gid_prefix(said.get("subnet_prefix", "")), evidence)
    if "subnet_prefix" in said:
        port.put("link_layer", "infiniband", evidence)
    elif "netdev" in said:
        port.put("link_layer", "ethernet", evidence)
