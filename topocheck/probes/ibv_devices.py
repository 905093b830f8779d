"""`ibv_devices`: the names and node GUIDs of the RDMA devices, nothing else.

device                 node GUID
------              ----------------
mlx5_0              a088c20300ab1200
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from topocheck.facts import Fact
from topocheck.probes import rdma_draft as rdma
from topocheck.probes.lines import lines, sniffed

INPUT = "ibv_devices"
COMMANDS: tuple[str, ...] = ()
PATHS: tuple[str, ...] = ()
NAME = r"ibv_devices"

_HEADER = re.compile(r"device\s+node GUID$")
_SNIFF = re.compile(r"^[^\S\n]*device[^\S\n]{1,80}node GUID[^\S\n]*$", re.MULTILINE)
_ROW = re.compile(r"([A-Za-z][\w.-]{0,63})\s+([0-9a-f]{16})$")


def sniff(text: str) -> bool:
    """Whether the heading of the table is there."""
    return sniffed(_SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """One device a row below the heading."""
    in_table = False
    for line in lines(text):
        if _HEADER.match(line.text):
            in_table = True
        elif in_table and (match := _ROW.match(line.text)):
            draft = rdma.DeviceDraft(match[1], line.evidence(INPUT))
            draft.put("node_guid", rdma.guid(match[2]))
            yield draft.finished(INPUT)
        elif not line.text.startswith("---"):
            in_table = in_table and not line.text[:1].isalpha() and "-" in line.text
