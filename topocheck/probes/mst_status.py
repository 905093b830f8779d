"""`mst status -v`: PCI address, RDMA name, interface and NUMA node of NVIDIA's network devices.

NET is empty or a list; MST and DEVICE_TYPE are "NA" for VFs; NUMA may be -1. The plain form names no RDMA device.

    DEVICE_TYPE             MST                           PCI       RDMA            NET                       NUMA
    ConnectX7(rev:0)        /dev/mst/mt4129_pciconf0      1b:00.0   mlx5_0          net-ibp27s0               0
    ConnectX6DX(rev:0)      /dev/mst/mt4125_pciconf0.1    9c:00.1   mlx5_3                                    -1
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from topocheck.facts import Fact, Host, PciFunction, full_bdf
from topocheck.probes import rdma_draft as rdma
from topocheck.probes.lines import Line, lines, sniffed

INPUT = "mst status -v"
COMMANDS: tuple[str, ...] = ()
PATHS: tuple[str, ...] = ()
NAME = r"mst[ _.-]status"

_SNIFF = re.compile(r"^[^\S\n]*(?:MST modules:|DEVICE_TYPE[^\S\n]{1,80}MST[^\S\n])", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z]\w*\d[\w.-]*")
_DEVICE_NUMBER = re.compile(r"/dev/mst/mt(\d{3,6})_")
_NVIDIA = "15b3"


def sniff(text: str) -> bool:
    """Whether mst's headings are there."""
    return sniffed(_SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """A bare Host (mst was there), one RDMA device a row that names one, and the NUMA node of its PCI function."""
    if sniff(text):
        yield Host(INPUT)
    in_table = False
    for line in lines(text):
        if line.text.startswith("DEVICE_TYPE"):
            in_table = True
        elif in_table:
            yield from _row(line)


def _row(line: Line) -> Iterator[Fact]:
    cells = line.text.split()
    at = next((i for i, cell in enumerate(cells) if full_bdf(cell)), None)
    if at is None or not cells[at + 1 : at + 2] or not _is_name(cells[at + 1]):
        return
    bdf, name, rest = full_bdf(cells[at]), cells[at + 1], cells[at + 2 :]
    evidence = line.evidence(INPUT)
    draft = rdma.DeviceDraft(name, evidence)
    draft.put("bdf", bdf)
    draft.put("vendor_id", _NVIDIA)
    number = _DEVICE_NUMBER.match(cells[at - 1] if at else "")
    draft.put("model", f"MT{number[1]}" if number else None)
    port = draft.port(1)
    port.put("netdev", _interface(rest), evidence)
    yield draft.finished(INPUT)
    node = rest[-1] if rest else ""
    if bdf and re.fullmatch(r"-1|\d{1,4}", node):
        known = None if node == "-1" else int(node)
        lines_ = {"NUMA node": evidence}
        yield PciFunction(bdf, INPUT, vendor_id=_NVIDIA, numa_node=known, numa_unknown=known is None, lines=lines_)


def _is_name(cell: str) -> bool:
    return _NAME.fullmatch(cell) is not None and not cell.startswith("net-")


def _interface(cells: list[str]) -> str | None:
    """The first interface of "net-eth0,net-eth1"."""
    named = next((cell for cell in cells if cell.startswith("net-")), None)
    return named.split(",")[0].removeprefix("net-") if named else None
