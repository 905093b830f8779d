"""`manifest.json` of a capture (interface section 2): which file is which input, and what could not be captured."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any

from topocheck.sources.base import Manifest, Missing
from topocheck.sources.files import Files
from topocheck.sources.reading import decode, reason_of

NAME = "manifest.json"
_SCHEMA = "topocheck.capture/"


def load_manifest(files: Files, folder: str) -> Manifest:
    """The folder's manifest; an empty one where there is none, with a gap where it cannot be read."""
    try:
        text = decode(files.read(f"{folder}/{NAME}")[0])
    except FileNotFoundError:
        return Manifest()
    except OSError as error:
        return Manifest(missing=(Missing(NAME, reason_of(error)),))
    try:
        document = json.loads(text or "")
    except (ValueError, RecursionError):
        return Manifest(missing=(Missing(NAME, "not valid JSON: every file counts as complete"),))
    return parse_manifest(document, files, folder)


def parse_manifest(document: Any, files: Files, folder: str) -> Manifest:  # noqa: ANN401 (JSON of any shape)
    """The manifest a JSON document states; what has not the promised type is passed over."""
    if not isinstance(document, dict) or not str(document.get("schema")).startswith(_SCHEMA):
        return Manifest(missing=(Missing(NAME, "not the manifest of a topocheck capture"),))
    entries = [entry for entry in _list(document.get("inputs")) if isinstance(entry, dict)]
    realpath = document.get("realpath")
    return Manifest(
        host=_text(document.get("host")),
        time=_text(document.get("time")),
        privileged=document["privileged"] if isinstance(document.get("privileged"), bool) else None,
        inputs={file: name for file, name in (_file_and_input(entry) for entry in entries) if file and name},
        missing=tuple(gap for gap in (_gap(entry, files, folder) for entry in entries) if gap),
        realpath={
            _rooted(link): _rooted(target)
            for link, target in (realpath.items() if isinstance(realpath, dict) else ())
            if isinstance(target, str)
        },
    )


def _file_and_input(entry: dict[str, Any]) -> tuple[str | None, str | None]:
    return _text(entry.get("file")), _text(entry.get("input"))


def _gap(entry: dict[str, Any], files: Files, folder: str) -> Missing | None:
    """What the entry says was not captured: its own words, else exit code or absence."""
    file, name = _file_and_input(entry)
    if name is None:
        return None
    words = _text(entry.get("gap"))
    if words:
        return Missing(name, words)
    code = entry.get("exit_code")
    size = _size(files, folder, file)
    if size is None:
        return Missing(name, "named in manifest.json but not in the folder")
    if size == 0 and isinstance(code, int) and code != 0:
        stderr = (_text(entry.get("stderr")) or "").strip().partition("\n")[0]
        return Missing(name, f"ended with exit code {code}{': ' if stderr else ''}{stderr[:200]}")
    return None


def _size(files: Files, folder: str, file: str | None) -> int | None:
    """Bytes of a file of the folder, None if there is none (or its name leads out of the folder)."""
    if not file or "\0" in file or ".." in PurePosixPath(file).parts or file.startswith("/"):
        return None
    try:
        return files.size(f"{folder}/{file}")
    except OSError:
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _rooted(path: str) -> str:
    return f"/{path.lstrip('/')}"
