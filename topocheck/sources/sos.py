"""`sos_reports/manifest.json` of a sosreport: which file is which command, and what was cut or stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from topocheck.sources.base import Manifest, Missing

NAME = "sos_reports/manifest.json"
TAILED = ".tailed"
CUT = "sosreport kept only its last part: the beginning is missing"
_MAX_COMMANDS = 20_000
_TIMED_OUT = 124


def with_commands(text: str, manifest: Manifest) -> Manifest:
    """The manifest with what sosreport says of its commands; anything odd in it is passed over."""
    inputs, missing = dict(manifest.inputs), list(manifest.missing)
    for entry in _commands(text):
        file, command = entry.get("filepath"), entry.get("exec")
        if not isinstance(file, str) or not isinstance(command, str):
            continue
        program, _, rest = command.strip().partition(" ")
        command = " ".join([program.rpartition("/")[2], rest]).strip()
        inputs[file] = command
        if entry.get("return_code") == _TIMED_OUT:
            missing.append(Missing(command, "sosreport stopped it at its time limit"))
        elif entry.get("truncated") is True:
            missing.append(Missing(command, CUT))
    return Manifest(inputs=inputs, missing=tuple(missing), host=manifest.host, time=manifest.time)


def _commands(text: str) -> Iterator[dict[str, Any]]:
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return
    for key in ("components", "report", "plugins"):
        found = found.get(key) if isinstance(found, dict) else None
    count = 0
    for plugin in found.values() if isinstance(found, dict) else ():
        commands = plugin.get("commands") if isinstance(plugin, dict) else None
        for entry in commands if isinstance(commands, list) else ():
            count += 1
            if isinstance(entry, dict) and count <= _MAX_COMMANDS:
                yield entry
