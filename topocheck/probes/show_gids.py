"""`show_gids`: the GID table. It names devices, ports and interfaces; a v2 or an IPv4 entry shows RoCE, thus Ethernet.

The IPv4 column may be blank.

    DEV     PORT  INDEX  GID                                      IPv4         VER   DEV
    ---     ----  -----  ---                                      ------------ ---   ---
    mlx5_0  1     0      fe80:0000:0000:0000:a288:c2ff:feab:1200               v1    eth0
    mlx5_0  1     3      0000:0000:0000:0000:0000:ffff:0a3e:ba20  10.62.186.32 v2    eth0
    n_gids_found=2
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from topocheck.facts import Fact
from topocheck.probes import rdma_draft as rdma
from topocheck.probes.lines import lines, sniffed

INPUT = "show_gids"
COMMANDS: tuple[str, ...] = ()
PATHS: tuple[str, ...] = ()
NAME = r"show_gids"

_GID = r"(?:[0-9a-f]{4}:){7}[0-9a-f]{4}"
_ROW = re.compile(
    rf"([A-Za-z][\w.-]{{0,63}})\s+(\d{{1,3}})\s+(?P<number>\d{{1,4}})\s+(?P<gid>{_GID})"
    r"(?:\s+(?P<ipv4>[\d.]{7,15}))?(?:\s+(?P<version>v[12]))?(?:\s+(?P<netdev>[\w.:-]{1,32}))?$"
)
_SNIFF = re.compile(
    rf"^[^\S\n]*(?:DEV[^\S\n]{{1,20}}PORT[^\S\n]{{1,20}}INDEX"
    rf"|[A-Za-z][\w.-]{{0,63}}[^\S\n]{{1,20}}\d{{1,3}}[^\S\n]{{1,20}}\d{{1,4}}[^\S\n]{{1,20}}{_GID})",
    re.MULTILINE,
)


def sniff(text: str) -> bool:
    """Whether the heading or a row of the GID table is there."""
    return sniffed(_SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """One device a name, with its ports. Where the line that counts the GIDs is missing, the table is cut: those of
    the last port are not all."""
    devices = rdma.Devices()
    port: rdma.PortDraft | None = None
    counted = False
    for line in lines(text):
        counted |= line.text.startswith("n_gids_found")
        if match := _ROW.match(line.text):
            evidence = line.evidence(INPUT)
            device = devices.named(match[1], evidence)
            port = device.port(int(match[2]))
            port.put("netdev", match["netdev"], evidence)
            port.add_gid(int(match["number"]), match["gid"], match["version"], evidence)
            if match["ipv4"] or match["version"] == "v2":
                port.put("link_layer", "ethernet", evidence)
    if port is not None and not counted:
        port.gids.clear()
    yield from devices.finished(INPUT)
