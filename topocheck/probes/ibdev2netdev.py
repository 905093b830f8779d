"""`ibdev2netdev`, plain and `-v`: which network interface belongs to which RDMA port.

The word at the end is the *interface's* state. An Ethernet port is as up as its interface; an IPoIB interface that is
down says nothing of the InfiniBand port below it. The `-v` form has the port's own state in front, the PCI address, the
device number and the part number (NA for a VF).

    mlx5_0 port 1 ==> ens1f0np0 (Up)
    0000:1b:00.0 mlx5_1 (MT4129 - MCX75310AAS-NEAT) ConnectX-7 HHHL fw 28.39.1002 port 1 (ACTIVE) ==> ibp27s0 (Down)
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from topocheck.facts import Fact, full_bdf
from topocheck.probes import rdma_draft as rdma
from topocheck.probes.lines import lines, sniffed

INPUT = "ibdev2netdev"
COMMANDS: tuple[str, ...] = ("ibdev2netdev",)
PATHS: tuple[str, ...] = ()
NAME = r"ibdev2netdev"

_BDF = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
_ROW = re.compile(
    rf"(?:(?P<bdf>{_BDF}) )?"
    r"(?P<name>[A-Za-z][\w.-]{0,63}) (?:\((?P<model>[\w-]{1,20}) - (?P<part>[^()]{1,40})\) (?P<about>[^=]{0,200}))?"
    r"port (?P<port>\d{1,3}) (?:\((?P<state>[A-Za-z ]{1,20})\) )?==> (?P<netdev>[\w.:-]{1,32}) \((?P<up>Up|Down)\)"
)
_BEGINS = re.compile(rf"(?:{_BDF} )?[A-Za-z][\w.-]{{0,63}} (?:\(MT|port \d)")  # a row that a margin broke
_SNIFF = re.compile(r"port +\d{1,3} +(?:\([A-Za-z ]{1,20}\) +)?==> +[\w.:-]{1,32} +\((?:Up|Down)\)")
_FIRMWARE = re.compile(r"\bfw ([\d.]{3,20})")


def sniff(text: str) -> bool:
    """Whether a line maps a port to an interface with its arrow."""
    return sniffed(_SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """One device a name, with its ports."""
    devices = rdma.Devices()
    begun = ""
    for line in lines(text):
        words = " ".join(line.text.split())  # `column -t` pads it
        match = _ROW.match(words) or _ROW.match(f"{begun} {words}") or _ROW.match(begun + words)
        begun = words if match is None and _BEGINS.match(words) else ""
        if match is None:
            continue
        evidence = line.evidence(INPUT)
        device = devices.named(match["name"], evidence)
        device.put("bdf", full_bdf(match["bdf"] or ""))
        device.put("model", match["model"] if (match["model"] or "").startswith("MT") else None)
        firmware = _FIRMWARE.search(match["about"] or "")
        device.put("firmware", firmware[1] if firmware else None)
        port = device.port(int(match["port"]))
        port.put("state", _state(match), evidence)
        port.put("netdev", match["netdev"], evidence)
        port.put("link_layer", _layer(match["netdev"]), evidence)
    yield from devices.finished(INPUT)


def _state(match: re.Match[str]) -> str | None:
    if match["state"]:
        return rdma.state(match["state"])
    if match["up"] == "Up":
        return "active"
    return None if match["netdev"].startswith("ib") else "down"


def _layer(netdev: str) -> str | None:
    """systemd's prefixes: "ib" is IPoIB's, "en" (and the kernel's own "eth") Ethernet's; other names tell nothing."""
    if netdev.startswith("ib"):
        return "infiniband"
    return "ethernet" if netdev.startswith(("en", "eth")) else None
