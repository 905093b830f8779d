"""The machine's own file tree (`/sys`, `/proc`, …) below some root: `/` itself, or a copy of it in a folder.

A copy is not to be trusted: its links are followed as the machine would have followed them, from the copy's root, and
never lead out of it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from topocheck.sources.files import Disk, Files
from topocheck.sources.reading import decode, read_value

_MAX_NAMES = 1 << 20  # of one folder
_MAX_LINKS = 40  # the kernel's own limit
_SYSFS = "/sys/"
_MAX_VALUE_BYTES = 1 << 20  # a file of the tree is a value or a short table


class Tree:
    """Reads below `root`, of the disk or of other `files`. `links` adds what links pointed to where the copy was made
    without them."""

    def __init__(self, root: str, links: Mapping[str, str] | None = None, files: Files | None = None) -> None:
        self._root = root.rstrip("/")
        self._files: Files = files or Disk()
        self._links = links or {}
        self._targets: dict[str, str | None] = {}
        self._reals: dict[str, str | None] = {}

    def read(self, path: str) -> str | None:
        """The text of a file, stripped; None if not there or not readable."""
        data = self.read_bytes(path)
        text = None if data is None else decode(data)
        return None if text is None else text.strip()

    def sampled(self, paths: Sequence[str], rank: Callable[[str], float]) -> dict[str, str]:
        """The texts of files, by path; a copy does not change while one looks."""
        return {path: text for path in paths if (text := self.read(path)) is not None}

    def read_bytes(self, path: str) -> bytes | None:
        """The bytes of a file; None if not there or not readable."""
        place = self.place(path)
        if place is None:
            return None
        try:
            return self._files.read(place, _MAX_VALUE_BYTES)[0]
        except OSError:
            return None

    def glob(self, pattern: str) -> list[str]:
        """Paths that match, sorted. `*` stands for one name, not for a path."""
        found = [""]
        for part in pattern.strip("/").split("/"):
            if any(letter in part for letter in "*?["):
                found = [f"{at}/{name}" for at in found for name in self._names(at or "/") if fnmatchcase(name, part)]
            else:
                found = [f"{at}/{part}" for at in found]
        return sorted(path for path in found if self._exists(path))

    def realpath(self, path: str) -> str | None:
        """Where a link points; None if there is none on the way (a copy without links cannot say)."""
        if self._links:
            path = _normal(path)
            for end in _prefixes(path):
                if end in self._links:
                    return self._links[end] + path[len(end) :]
        real = self.resolve(path)
        return real if real is not None and real != path else None

    def place(self, path: str) -> str | None:
        """Where a path of the tree really lies, links followed; None if links go in circles."""
        real = self.resolve(path)
        return None if real is None else self._root + real

    def resolve(self, path: str) -> str | None:
        """The path with every link followed, a missing end kept as it is; None if links go in circles."""
        folder, _, name = path.rpartition("/")
        if path in self._reals or not folder or name in ("", ".", ".."):
            return self._followed(path)
        real = self._followed(folder)
        if real is None or real == "/" or self._target(f"{real}/{name}") is not None:
            return self._followed(path)
        return f"{real}/{name}"

    def _followed(self, path: str, links_left: int = _MAX_LINKS) -> str | None:
        """The same of any path, remembered: hundreds of files lie in one folder, hundreds of folders in one tree."""
        if path not in self._reals:
            self._reals[path] = None  # which a link finds that leads through itself
            self._reals[path] = self._follow(path, links_left)
        return self._reals[path]

    def _follow(self, path: str, links_left: int) -> str | None:
        """From the longest part of the way that is known to the next link, and on from there."""
        known = path.rpartition("/")[0]
        while known and known not in self._reals:
            known = known.rpartition("/")[0]
        start = self._reals[known] if known else ""
        if start is None:
            return None
        here, pending = start.rstrip("/"), _parts(path[len(known) :])
        while pending:
            name = pending.pop()
            target = None if name == ".." else self._target(f"{here}/{name}")
            if target is not None:
                onward = "/".join(("" if target.startswith("/") else here, target, *reversed(pending)))
                return self._followed(onward, links_left - 1) if links_left else None
            here = here.rpartition("/")[0] if name == ".." else f"{here}/{name}"
        return here or "/"

    def _target(self, path: str) -> str | None:
        """What a link says, remembered; None if the path is none or not there. No link is on the way to it."""
        if path not in self._targets:
            try:
                self._targets[path] = self._inside(self._files.readlink(self._root + path))
            except OSError:
                self._targets[path] = None
        return self._targets[path]

    def _inside(self, target: str) -> str:
        """An absolute link that names the folder itself, cut to the tree's own root."""
        return target[len(self._root) :] if self._root and target.startswith(f"{self._root}/") else target

    def _names(self, path: str) -> list[str]:
        place = self.place(path)
        try:
            return [] if place is None else [entry.name for entry in self._files.scan(place, _MAX_NAMES)]
        except OSError:
            return []

    def _exists(self, path: str) -> bool:
        place = self.place(path)
        try:
            return place is not None and bool(self._files.kind(place))
        except OSError:
            return False


class LiveTree(Tree):
    """The tree of a machine that runs. Its `/sys` has plain files, folders and links, no device that one must not open
    and no pipe: a value is read in three system calls, and one that is not there costs one."""

    def read_bytes(self, path: str) -> bytes | None:
        """The bytes of a file; None if not there or not readable."""
        folder, _, name = path.rpartition("/")
        real = self._followed(folder) or ""
        if not real.startswith(_SYSFS):
            return super().read_bytes(path)
        try:
            return read_value(f"{self._root}{real}/{name}", _MAX_VALUE_BYTES)
        except OSError as error:
            return super().read_bytes(path) if error.errno == errno.ELOOP else None  # a link


def _normal(path: str) -> str:
    """The path from "/", without "." and ".."."""
    return os.path.normpath(f"/{path.lstrip('/')}")


def _parts(path: str) -> list[str]:
    """The names of a path, last first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _prefixes(path: str) -> list[str]:
    """The path and those above it, longest first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 1, -1)]
