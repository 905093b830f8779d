"""`ibstat`: the CAs, their ports, state, rate and link layer.

The indent is a tab, blanks, or lost; a port begins at "Port N:". The rate of a port that is down is a placeholder, and
the rate the card could run is not shown.

    CA 'mlx5_0'
            CA type: MT4129
            Number of ports: 1
            Firmware version: 28.39.1002
            Hardware version: 0
            Node GUID: 0xa088c20300ab1200
            System image GUID: 0xa088c20300ab1200
            Port 1:
                    State: Active
                    Physical state: LinkUp
                    Rate: 400
                    Base lid: 12
                    LMC: 0
                    SM lid: 1
                    Capability mask: 0xa751e848
                    Port GUID: 0xa088c20300ab1200
                    Link layer: InfiniBand
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from topocheck.facts import Fact, Gap
from topocheck.probes import rdma_draft as rdma
from topocheck.probes.lines import Line, is_prompt, lines, sniffed

INPUT = "ibstat"
COMMANDS: tuple[str, ...] = ("ibstat",)
PATHS: tuple[str, ...] = ()
NAME = r"ibstat(?!us)"

_CA = re.compile(r"CA:? '([\w.-]{1,64})'$")
_PORT = re.compile(r"Port (\d{1,3}):$")
_HEADER = re.compile(r"^[^\S\n]*CA:? '[\w.-]{1,64}'[^\S\n]*$", re.MULTILINE)

Field = tuple[str, Callable[[str], Any]]
_DEVICE: dict[str, Field] = {
    "CA type": ("model", rdma.said),
    "Firmware version": ("firmware", rdma.said),
    "Node GUID": ("node_guid", rdma.guid),
    "System image GUID": ("sys_image_guid", rdma.guid),
}
_PORT_FIELDS: dict[str, Field] = {
    "State": ("state", rdma.state),
    "Physical state": ("physical", rdma.word),
    "Rate": ("rate_gbit_per_s", rdma.rate),
    "Base lid": ("lid", rdma.number),
    "SM lid": ("sm_lid", rdma.number),
    "Port GUID": ("guid", rdma.guid),
    "Link layer": ("link_layer", rdma.layer),
}
_CUT_SHORT = ("Rate:", "CA type:")  # what a half of says something else


def sniff(text: str) -> bool:
    """Whether a line opens a CA as ibstat does."""
    return sniffed(_HEADER, text)


def parse(text: str) -> Iterable[Fact]:
    """One device a CA; a gap where ibstat itself gave up ("ibpanic")."""
    devices = rdma.Devices()
    gaps: list[Gap] = []
    device: rdma.DeviceDraft | None = None
    port: rdma.PortDraft | None = None
    unnumbered = rdma.UnnumberedPorts()
    end = text.count("\n") + 1  # the number of a last line without its end, which may be cut in its middle
    for line in lines(text):
        if match := _CA.match(line.text):
            device = devices.named(match[1], line.evidence(INPUT))
            port, unnumbered = None, rdma.UnnumberedPorts()
        elif match := _PORT.match(line.text):
            port = device.port(int(match[1])) if device else None
        elif line.text.startswith("ibpanic:"):
            gaps.append(Gap(INPUT, f"ibstat stopped: {line.text[:200]}"))
        elif is_prompt(line.text):
            device = port = None
        elif device is not None and not (line.number == end and line.text.startswith(_CUT_SHORT)):
            _read(line, device, port, unnumbered)
    yield from devices.finished(INPUT)
    yield from gaps


def _read(line: Line, device: rdma.DeviceDraft, port: rdma.PortDraft | None, unnumbered: rdma.UnnumberedPorts) -> None:
    key, _, value = line.text.partition(":")
    if port is None and key in _DEVICE:
        name, read = _DEVICE[key]
        device.put(name, read(value.strip()))
    elif key in _PORT_FIELDS:
        name, read = _PORT_FIELDS[key]
        if (found := read(value)) is not None:
            (port or unnumbered.port(device, name)).put(name, found, line.evidence(INPUT))
