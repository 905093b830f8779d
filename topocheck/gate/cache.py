"""When a kept reading still speaks for this machine: same boot, driver load, devices, version, policy and day."""

from __future__ import annotations

import os
import time
from typing import Any

from topocheck import __version__
from topocheck.gate.state import Folder

SCHEMA = "topocheck.gate/1"
_FOLDERS = ("/sys/bus/pci/devices", "/sys/class/infiniband", "/proc/driver/nvidia/gpus")
_FILES = ("/proc/sys/kernel/random/boot_id", "/proc/driver/nvidia/version")


def key_of(root: str | None, tools: str | None, policy: bytes, *, leaves_node: bool) -> dict[str, Any]:
    """What must be the same for a reading to be used again. A waiver may run out, so the day (UTC) is part of it."""
    at = (root or "/").rstrip("/")
    return {
        "schema": SCHEMA,
        "version": __version__,
        "policy": policy.decode("latin-1"),
        "files": [_start(at + file) for file in _FILES],
        "devices": [",".join(_names(at + folder)) for folder in _FOLDERS],
        "driver_load": _number(f"{at}/sys/module/nvidia"),
        "at": [root, tools],
        "leaves_node": leaves_node,
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def kept(folder: Folder, key: dict[str, Any], most_s: float) -> dict[str, Any] | None:
    """The last reading if it is that young, may be used again, and speaks of this machine as it is."""
    last = folder.last()
    if last is None or last.get("key") != key or last.get("reusable") is not True:
        return None
    at = last.get("time_s")
    age_s = time.time() - at if isinstance(at, int | float) else -1.0
    return last if 0 <= age_s <= most_s else None  # a clock that was set back makes it of no known age


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _start(file: str) -> str | None:
    try:
        with open(file, "rb") as opened:
            return opened.read(4096).decode("latin-1")
    except OSError:
        return None


def _number(folder: str) -> int | None:
    """A folder of sysfs has a new number when its module was loaded anew."""
    try:
        return os.stat(folder).st_ino
    except OSError:
        return None
