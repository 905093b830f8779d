"""`ibv_devinfo`, plain or `-v`: devices and ports as verbs see them.

Tabs, or padding of any width: a line is split at its first colon. The plain form shows no rate; `-v` shows width and
speed, whose product it is. A VF may give a sys_image_guid of zeros: not known.

    hca_id: mlx5_2
            transport:                      InfiniBand (0)
            fw_ver:                         28.39.1002
            node_guid:                      a088:c203:00ab:1200
            sys_image_guid:                 a088:c203:00ab:1200
            vendor_id:                      0x02c9
            vendor_part_id:                 4129
            hw_ver:                         0x0
            board_id:                       MT_0000000838
            phys_port_cnt:                  1
                    port:   1
                            state:                  PORT_ACTIVE (4)
                            max_mtu:                4096 (5)
                            active_mtu:             4096 (5)
                            sm_lid:                 1
                            port_lid:               12
                            port_lmc:               0x00
                            link_layer:             InfiniBand
                            active_width:           4X (2)
                            active_speed:           100.0 Gbps (128)
                            phys_state:             LINK_UP (5)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from topocheck.facts import Fact, Host
from topocheck.probes import rdma_draft as rdma
from topocheck.probes.lines import Line, is_prompt, lines, sniffed
from topocheck.probes.silence import NO_RDMA_DEVICE

INPUT = "ibv_devinfo -v"
COMMANDS: tuple[str, ...] = ("ibv_devinfo -v",)
PATHS: tuple[str, ...] = ()
NAME = r"ibv_devinfo"

_HEADER = re.compile(rf"^[^\S\n]*hca_id:[^\S\n]{{0,80}}[\w.-]{{1,64}}[^\S\n]*$|^{NO_RDMA_DEVICE}$", re.MULTILINE)
_GID = re.compile(r"GID\[ *(\d{1,4})\]")
_VERSION = re.compile(r", (?:IB/)?RoCE (v[12])$")
_NVIDIA, _AMAZON = "15b3", "1d0f"

Field = tuple[str, Callable[[str], Any]]
_DEVICE: dict[str, Field] = {
    "fw_ver": ("firmware", rdma.said),
    "node_guid": ("node_guid", rdma.guid),
    "sys_image_guid": ("sys_image_guid", rdma.guid),
    "vendor_id": ("vendor_id", rdma.vendor),
    "board_id": ("board_id", rdma.said),
    "transport": ("transport", lambda text: text.partition("(")[0].strip() or None),
}
_PORT: dict[str, Field] = {
    "state": ("state", rdma.state),
    "phys_state": ("physical", rdma.word),
    "max_mtu": ("max_mtu", rdma.number),
    "active_mtu": ("mtu", rdma.number),
    "sm_lid": ("sm_lid", rdma.number),
    "port_lid": ("lid", rdma.number),
    "link_layer": ("link_layer", rdma.layer),
}
# of which a half is another
_CUT_SHORT = ("vendor_part_id", "board_id", "max_mtu", "active_mtu", "active_width", "active_speed")


def sniff(text: str) -> bool:
    """Whether a line opens a device as ibv_devinfo does, or says that there is none."""
    return sniffed(_HEADER, text)


def parse(text: str) -> Iterable[Fact]:
    """One device a "hca_id:" line."""
    devices = rdma.Devices()
    device: rdma.DeviceDraft | None = None
    port: rdma.PortDraft | None = None
    unnumbered = rdma.UnnumberedPorts()
    lanes: int | None = None
    end = text.count("\n") + 1  # the number of a last line without its end, which may be cut in its middle
    for line in lines(text):
        key, _, rest = line.text.partition(":")
        value = "" if line.number == end and key in _CUT_SHORT else rest.strip()
        if key == "hca_id" and value:
            device = devices.named(value, line.evidence(INPUT))
            port, lanes, unnumbered = None, None, rdma.UnnumberedPorts()
        elif device is None:
            if line.text == NO_RDMA_DEVICE:
                yield Host(INPUT, no_rdma_device=True, line=line.evidence(INPUT))
        elif key == "port" and value.isdecimal():
            port, lanes = device.port(int(value[:4])), None
        elif is_prompt(line.text):
            device = port = None
        elif port is None:
            _read_device(line, key, value, device, unnumbered)
        elif key == "active_width":
            lanes = rdma.number(value)
        elif key == "active_speed":
            _read_rate(line, value, lanes, port)
        else:
            _read_port(line, key, value, port)
    for draft in devices.values():
        _mark_efa(draft)
    yield from devices.finished(INPUT)


def _read_device(line: Line, key: str, value: str, device: rdma.DeviceDraft, unnumbered: rdma.UnnumberedPorts) -> None:
    if key in _DEVICE:
        name, read = _DEVICE[key]
        device.put(name, read(value))
    elif key in _PORT and _PORT[key][1](value) is not None:
        _read_port(line, key, value, unnumbered.port(device, key))
    elif key == "vendor_part_id" and device.fields.get("vendor_id") == _NVIDIA and value.isdecimal():
        device.put("model", f"MT{value}")


def _read_port(line: Line, key: str, value: str, port: rdma.PortDraft) -> None:
    if key in _PORT:
        name, read = _PORT[key]
        port.put(name, read(value), line.evidence(INPUT))
    elif match := _GID.fullmatch(key):
        _read_gid(line, int(match[1]), value, port)


def _read_gid(line: Line, number: int, value: str, port: rdma.PortDraft) -> None:
    """InfiniBand: the subnet is the prefix of GID 0. RoCE, with newer tools: the address and the version."""
    if port.fields.get("link_layer") == "infiniband" and number == 0:
        port.put("subnet", rdma.gid_prefix(value), line.evidence(INPUT))
    version = _VERSION.search(value)
    gid = rdma.gid(value.partition(",")[0]) if version else None
    if version and gid:
        port.add_gid(number, gid, version[1], line.evidence(INPUT))


def _read_rate(line: Line, value: str, lanes: int | None, port: rdma.PortDraft) -> None:
    """Gb/s of the port: lanes times the rate of a lane; a name like "invalid speed" gives none."""
    lane_gbit_per_s = rdma.rate(value)
    if lanes and lane_gbit_per_s:
        port.put("rate_gbit_per_s", lanes * lane_gbit_per_s, line.evidence(INPUT))


def _mark_efa(draft: rdma.DeviceDraft) -> None:
    if draft.fields.get("vendor_id") == _AMAZON:
        draft.put("efa", True)
        for port in draft.ports.values():
            port.put("link_layer", "efa")
