"""An earlier report of this node, as `topocheck node --format json` wrote it, read back as what to expect.

A UsageError, in one line, for a file that cannot be read, is no such report, or is another host's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from topocheck.errors import UsageError
from topocheck.expected import Baseline, EarlierDevice, EarlierLink

_SCHEMA = "topocheck.node/1"
_MOST_BYTES = 16_000_000  # a report of 8 GPUs and 10 NICs has 100 KB


def read(path: Path, host: str | None) -> Baseline:
    """The baseline at `path`: a report, or a folder with a <host>.json for each node."""
    file = _file(path, host)
    document = _document(file)
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        raise UsageError(f"baseline {file}: no {_SCHEMA} report: write one with topocheck node --format json")
    try:
        theirs, baseline = _text(document["host"]), _baseline(str(file), document)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise UsageError(f"baseline {file}: damaged: not all of a {_SCHEMA} report is there") from None
    if host and theirs and not _same_host(host, theirs):
        raise UsageError(f"baseline {file}: a report of {theirs}, this is {host}")
    return baseline


def _file(path: Path, host: str | None) -> Path:
    try:
        if not path.is_dir():
            return path
        if host is None:
            raise UsageError(f"baseline {path}: the input has no host name to choose a report by: name a file")
        names = (host, host.partition(".")[0])
        return next((file for name in names if (file := path / f"{name}.json").exists()), path / f"{host}.json")
    except OSError as error:
        raise UsageError(f"baseline {path}: {error.strerror}") from None


def _document(file: Path) -> Any:  # noqa: ANN401 (whatever the JSON holds)
    try:
        if not file.is_file():
            raise UsageError(f"baseline {file}: {'is no plain file' if file.exists() else 'no such file'}")
        with file.open("rb") as opened:
            data = opened.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise UsageError(f"baseline {file}: larger than {_MOST_BYTES // 1_000_000} MB")
        return json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"baseline {file}: {getattr(error, 'strerror', None) or f'no JSON: {error}'}") from None


def _same_host(ours: str, theirs: str) -> bool:
    """With or without the domain, which may be in one of the names only."""
    names = [name.lower().partition(".") for name in (ours, theirs)]
    return names[0] == names[1] or (names[0][0] == names[1][0] and not (names[0][2] and names[1][2]))


def _baseline(name: str, document: dict[str, Any]) -> Baseline:
    return Baseline(
        name=name,
        time=_text(document["time"]) or "",
        devices=tuple(_device(entry) for entry in document["devices"] if entry["kind"] in ("gpu", "nic")),
        links={link["b"]: _link(link) for link in document["links"] if link["kind"] == "pcie" and _text(link["b"])},
    )


def _device(entry: dict[str, Any]) -> EarlierDevice:
    return EarlierDevice(
        id=str(entry["id"]),
        kind=entry["kind"],
        bdf=_text(entry["bdf"]),
        pci_id=_text(entry["pci_id"]),
        model=_text(entry["model"]),
        role=_text(entry.get("role")),
    )


def _link(entry: dict[str, Any]) -> EarlierLink:
    width = _number(entry["width"])
    return EarlierLink(_text(entry["a"]), _number(entry["speed_gts"]), None if width is None else int(width))


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError(value)


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(value)
    return float(value)
