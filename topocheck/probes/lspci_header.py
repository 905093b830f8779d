"""The device line of lspci, in every form: with names, `-n`, `-nn`, without an entry in pci.ids, with any domain.

>>> values = header_values(match_header("04:00.0 Class 0604: Device 10b5:9716 (rev ca)"))
>>> values["class_id"], values["vendor_id"], values["device_id"], values["dead"], values["name"]
('0604', '10b5', '9716', False, None)
"""

from __future__ import annotations

import re
from typing import Any

from topocheck.hardware.pci_ids import class_of_name, vendor_of_name

BDF = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]"
INDENT = " \t>"  # mail quotes included
NO_BREAK_SPACE = "\u00a0"  # what blanks become on their way through web pages
_QUOTES = re.compile(r"^(?:> ?){1,20}")
_WRAP_COLUMN = 66  # mail programs wrap from here on

_HEADER = re.compile(rf"({BDF})[ \t]+([^\s:\"][^:\n\"]{{1,80}}?):[ \t]+(\S.*)")
# Behind other words only classes that end like this.
_CLASS = r"(?:[A-Z3][A-Za-z -]{0,40} )?(?:controller|bridge)(?: \[[0-9a-f]{4}\])?"
_WITHIN = re.compile(rf"(?<![\w:.-])({BDF})[ \t]+({_CLASS}):[ \t]+([^\s`].*)")
_WITHIN_CHARS = 400  # of a line
_CLASS_ID = re.compile(r"(?:^|[\[ ])([0-9a-fA-F]{4})(?:[0-9a-fA-F]{2})?\]?$")
_TAIL = re.compile(r"\s*\((?:rev|prog-if) .*")
_REVISION = re.compile(r"\(rev ([0-9a-fA-F]{2})\)")
_IDS = re.compile(r"(?:\[|^|\bDevice )([0-9a-fA-F]{4}):([0-9a-fA-F]{4})\]?$")
_UNNAMED = re.compile(r"\bDevice ([0-9a-fA-F]{4})$")
_OTHER_OUTPUT = re.compile(r":(?:\s|$)|[$#@|]|lspci|^[-+\\]|^\[(?:\.\.\.|snip)")


def match_header(line: str) -> re.Match[str] | None:
    """The address, the class and the rest of a device line, None for any other line."""
    return _HEADER.match(line)


def header_within(line: str) -> re.Match[str] | None:
    """A device line behind other words, with `match_header`'s groups: a script's, a comment's, a sentence's.

    >>> header_within("IOMMU Group 29 41:00.0 3D controller [0302]: NVIDIA Corporation GV100 [10de:1db6]").group(1)
    '41:00.0'
    """
    return _WITHIN.search(line, 0, _WITHIN_CHARS) if "controller" in line or "bridge" in line else None


def goes_on(before: str, after: str) -> bool:
    """Whether `after` is the rest of the line `before`, put on a line of its own by a mail program: its first word
    would not have fitted, and it is nothing that another tool or a shell prints.

    >>> goes_on("0b:00.0 Ethernet controller: Mellanox Technologies MT27710 Family", "[ConnectX-4 Lx] (rev 01)")
    True
    """
    if not after or len(before) + len(after.split(" ", 1)[0]) < _WRAP_COLUMN:
        return False
    return _HEADER.match(after) is None and _OTHER_OUTPUT.search(_TAIL.sub("", after[:300])) is None


def unwrapped(lines: list[str], index: int, line: str) -> str:
    """The device line at `index` (`line` without its indentation), joined with its second half if it was wrapped."""
    after = _QUOTES.sub("", lines[index + 1][:300]).rstrip() if index + 1 < len(lines) else ""
    return f"{line} {after}" if not after[:1].isspace() and goes_on(lines[index], after) else line


def header_values(match: re.Match[str]) -> dict[str, Any]:
    """The PciFunction fields of a device line; ids by name only where the name leaves no choice."""
    class_text, rest = match.group(2).strip(), match.group(3).rstrip(" \t\r`")
    class_match, revision_match = _CLASS_ID.search(class_text), _REVISION.search(rest)
    class_name = _CLASS_ID.sub("", class_text).rstrip(" [")
    class_id = class_match.group(1).lower() if class_match else class_of_name(class_name)
    class_id = None if class_id == "ffff" else class_id  # what a function that is gone reads as
    revision = revision_match.group(1).lower() if revision_match else None
    return {
        "class_id": class_id,
        "is_bridge": class_id == "0604",
        "dead": revision == "ff",
        **device_values(_TAIL.sub("", rest)),
    }


def device_values(name: str) -> dict[str, Any]:
    """Vendor id, device id and name of "NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2]", of "10de:20b2" and of
    "NVIDIA Corporation Device 20b2"."""
    ids = _IDS.search(name)
    if ids:
        name = name[: ids.start()].rstrip()
        vendor, device = ids.group(1).lower(), ids.group(2).lower()
    else:
        unnamed = _UNNAMED.search(name)
        vendor, device = vendor_of_name(name), unnamed.group(1).lower() if unnamed else None
    return {"vendor_id": vendor, "device_id": device, "name": name if name not in ("", "Device") else None}
