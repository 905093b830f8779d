"""A live source that remembers what was read from it, as the files of a capture (interface section 2)."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from topocheck import __version__
from topocheck.sources.base import Missing, Raw, mangle
from topocheck.sources.live import LiveSource
from topocheck.sources.reading import decode
from topocheck.sources.scrub import Scrubber

SCHEMA = "topocheck.capture/1"
_HOST_FILES = ("proc/sys/kernel/hostname", "etc/hostname")
_TREE = ("sys", "proc", "run", "var", "etc")
_LLDP = "lldpctl -f json"


class Recorder:
    """Answers as the live source does. Whatever a probe reads is kept, and nothing else."""

    kind = "live"

    def __init__(self, source: LiveSource, progress: Callable[[str], None] | None = None) -> None:
        self.name, self.manifest = source.name, source.manifest
        self._source = source
        self._progress = progress or (lambda _: None)
        self._entries: dict[str, dict[str, Any]] = {}  # by input
        self._files: dict[str, bytes] = {}
        self._links: dict[str, str] = {}
        self._seen: set[str] = set()  # paths that a pattern found

    def texts(self, commands: Sequence[str], paths: Sequence[str]) -> Iterator[Raw | Missing]:
        """The live source's texts, each kept as it is handed on."""
        return self._kept(self._source.texts(commands, paths))

    def read(self, path: str) -> str | None:
        """The text of a file, stripped."""
        data = self.read_bytes(path)
        text = None if data is None else decode(data)
        return None if text is None else text.strip()

    def read_bytes(self, path: str) -> bytes | None:
        """The bytes of a file."""
        data = self._source.read_bytes(path)
        if data is not None:
            file = path.lstrip("/")
            self._files[file] = data
            if file.partition("/")[0] not in _TREE:  # not to be taken for an output when it is replayed
                self._entries[path] = {"input": path, "file": file, "gap": None}
        return data

    def sampled(self, paths: Sequence[str], rank: Callable[[str], float]) -> dict[str, str]:
        """The highest of several readings: it is the one that is kept."""
        best = self._source.sampled(paths, rank)
        self._files |= {path.lstrip("/"): text.encode() for path, text in best.items()}
        return best

    def glob(self, pattern: str) -> list[str]:
        """Paths that match; they are kept even if nothing of them is read."""
        found = self._source.glob(pattern)
        self._seen.update(path.lstrip("/") for path in found)
        return found

    def realpath(self, path: str) -> str | None:
        """Where a link points."""
        real = self._source.realpath(path)
        if real is not None:
            self._links[path.lstrip("/")] = real.lstrip("/")
        return real

    def capture(self, scrubber: Scrubber | None) -> bytes:
        """The tar.gz of what was kept, its identifiers replaced by `scrubber` where there is one."""
        files = {**self._files, **dict.fromkeys(self._unread(), b"")}
        links = dict(self._links)
        if scrubber is not None:
            for data in files.values():
                scrubber.learn(data.decode("utf-8", "replace"))
            files = {scrubber.text(path): scrubber.data(path, data) for path, data in files.items()}
            links = {scrubber.text(path): scrubber.text(real) for path, real in links.items()}
        made = self._manifest(links, scrubber)
        return _tar({"manifest.json": (json.dumps(made, indent=1) + "\n").encode(), **dict(sorted(files.items()))})

    def counts(self) -> tuple[int, int]:
        """Inputs with a text, and those without."""
        read = sum(entry["file"] is not None for entry in self._entries.values())
        return read, len(self._entries) - read

    def host_names(self) -> list[str]:
        """Names of this host and of the switches it is cabled to, as far as something read says."""
        own = [self._files.get(path, b"").decode("utf-8", "replace").strip() for path in _HOST_FILES]
        return [name for name in (self.manifest.host, *own, *self._switches()) if name]

    def _switches(self) -> Iterator[str]:
        text = self._files.get(mangle(_LLDP))
        try:
            listed = json.loads(text or "{}").get("lldp", {}).get("interface", [])
            for port in (port for entry in listed for port in entry.values()):
                yield from (name for name, said in port.get("chassis", {}).items() if isinstance(said, dict))
        except (ValueError, AttributeError, TypeError):  # not what lldpctl prints: nothing to name
            return

    def _kept(self, texts: Iterator[Raw | Missing]) -> Iterator[Raw | Missing]:
        for item in texts:
            entry = self._entries.setdefault(item.input, {"input": item.input, "file": None, "gap": None})
            if isinstance(item, Raw):
                file = item.input.lstrip("/") if item.input.startswith("/") else mangle(item.input)
                entry["file"] = file
                self._files[file] = item.text.encode("utf-8", "surrogatepass")
            else:
                entry["gap"] = item.reason
            self._progress(item.input)
            yield item

    def _unread(self) -> list[str]:
        """Paths found by a pattern of which nothing was read: an empty file each, so that they are found again."""
        parents = {parent for path in self._files for parent in _parents(path)}
        parents |= {parent for path in self._seen for parent in _parents(path)}
        left = sorted(self._seen - parents - set(self._files))
        return [path for path in left if path.partition("/")[0] in _TREE and "/" in path]

    def _manifest(self, links: dict[str, str], scrubber: Scrubber | None) -> dict[str, Any]:
        inputs = []
        for name, entry in self._entries.items():
            code, stderr = self._source.outcomes.get(name, (None if entry["file"] is None else 0, ""))
            words = {"input": name, "file": entry["file"], "stderr": stderr, "gap": entry["gap"]}
            inputs.append({**_scrubbed(words, scrubber), "exit_code": code})
        host = self.manifest.host
        return {
            "schema": SCHEMA,
            "version": __version__,
            "time": self.manifest.time,
            "host": host if scrubber is None or host is None else scrubber.host(host),
            "privileged": self.manifest.privileged,
            "inputs": inputs,
            "realpath": links,
            "scrubbed": [] if scrubber is None else scrubber.scrubbed,
        }


def _scrubbed(words: dict[str, str | None], scrubber: Scrubber | None) -> dict[str, str | None]:
    return {key: scrubber.text(word) if scrubber and word else word for key, word in words.items()}


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _tar(files: dict[str, bytes]) -> bytes:
    """Plain files only, nobody's, all of one time."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(data), 0o644, int(time.time())
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()
