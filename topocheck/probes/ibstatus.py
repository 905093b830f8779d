"""`ibstatus`: one block a port, read from sysfs by the tool; the default GID holds the subnet prefix.

Infiniband device 'mlx5_0' port 1 status:
        default gid:     fe80:0000:0000:0000:a088:c203:00ab:1200
        base lid:        0x33bf
        sm lid:          0x1
        state:           4: ACTIVE
        phys state:      5: LinkUp
        rate:            200 Gb/sec (4X HDR)
        link_layer:      InfiniBand
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from topocheck.facts import Fact
from topocheck.probes import rdma_draft as rdma
from topocheck.probes.lines import Line, is_prompt, lines, sniffed

INPUT = "ibstatus"
COMMANDS: tuple[str, ...] = ("ibstatus",)
PATHS: tuple[str, ...] = ()
NAME = r"ibstatus"

_BLOCK = re.compile(r"Infiniband device '([\w.-]{1,64})' port (\d{1,3}) status:")
_SNIFF = re.compile(rf"^[^\S\n]*{_BLOCK.pattern}", re.MULTILINE)
_PORT: dict[str, tuple[str, Callable[[str], Any]]] = {
    "base lid": ("lid", rdma.number),
    "sm lid": ("sm_lid", rdma.number),
    "state": ("state", rdma.state),
    "phys state": ("physical", rdma.word),
    "rate": ("rate_gbit_per_s", rdma.rate),
    "link_layer": ("link_layer", rdma.layer),
}


def sniff(text: str) -> bool:
    """Whether a line opens a port as ibstatus does."""
    return sniffed(_SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """One device a name, with its ports."""
    devices = rdma.Devices()
    port: rdma.PortDraft | None = None
    prefix: tuple[str, Line] | None = None
    for line in lines(text):
        key, _, value = line.text.partition(":")
        if match := _BLOCK.match(line.text):
            device = devices.named(match[1], line.evidence(INPUT))
            port, prefix = device.port(int(match[2])), None
        elif is_prompt(line.text):
            port = None
        elif port is None:
            continue
        elif key == "default gid" and (subnet := rdma.gid_prefix(value)):
            prefix = (subnet, line)
        elif key in _PORT:
            name, read = _PORT[key]
            port.put(name, read(value), line.evidence(INPUT))
            # A GID's prefix is a subnet on InfiniBand only, and the layer is told last.
            if prefix and port.fields.get("link_layer") == "infiniband":
                port.put("subnet", prefix[0], prefix[1].evidence(INPUT))
    yield from devices.finished(INPUT)
