"""`ls -l /sys/bus/pci/devices`: the links' targets are the PCIe tree.

    lrwxrwxrwx 1 root root 0 Jan  1 00:00 0000:16:00.0 -> ../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0

No class and no name stand there, so which functions are GPUs another input must say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from topocheck.facts import Evidence, Fact, PciFunction, PciListing, full_bdf

INPUT = "/sys/bus/pci/devices"
COMMANDS: tuple[str, ...] = ()  # live, the tree itself is read
PATHS: tuple[str, ...] = ()
NAME = r"(?:sudo_)?ls(?:_-[a-zA-Z0-9]+)*_[._]?sys[._]bus[._]pci[._]devices[._]?(?:txt|log|out)?$"

_MAX_LINE = 4096
_ANCHOR = "/pci"
_ROOT = r"/(pci[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2})"  # ARM, Hyper-V and VMD have more in front of it
_STEP = r"/[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
_TARGET = re.compile(rf"{_ROOT}((?:{_STEP})+)/?$")
_LINK_LINE = re.compile(rf"-> [^\s>]{{0,300}}{_ROOT}{_STEP}")


def sniff(text: str) -> bool:
    """Whether a link into the PCI part of the device tree occurs."""
    return _LINK_LINE.search(text) is not None


def placed(path: str) -> tuple[str, str, str] | None:
    """The function, the bridge above it ("" at the root) and the root, of a path of the kernel's device tree.

    >>> placed("/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0")
    ('0000:16:00.0', '0000:15:01.0', 'pci0000:15')
    """
    match = _TARGET.search(path)
    if match is None:
        return None
    above, _, bdf = match.group(2)[1:].rpartition("/")
    return full_bdf(bdf) or "", full_bdf(above.rpartition("/")[2]) or "", match.group(1).lower()


def parse(text: str) -> Iterator[Fact]:
    """A function for each link, and whether every bridge named on the way is listed itself."""
    seen: set[str] = set()
    above: set[str] = set()
    for number, raw in enumerate(text.split("\n"), 1):
        if _ANCHOR not in raw:
            continue
        line = raw[:_MAX_LINE].strip()
        place = placed(line)
        if place is not None and place[0] not in seen:
            bdf, parent, root = place
            seen.add(bdf)
            above.add(parent)
            yield PciFunction(bdf, INPUT, parent=parent, root=root, lines={"header": Evidence(INPUT, number, line)})
    if seen:
        yield PciListing(INPUT, whole=above - {""} <= seen and "" in above)
