"""The files below a folder: on the disk, or in memory as an archive holds them. Paths are whole, from "/"."""

from __future__ import annotations

import os
import stat
import zlib
from itertools import islice
from typing import NamedTuple, Protocol

from topocheck.sources.base import MAX_TEXT_BYTES
from topocheck.sources.reading import read_file, special_kind

FILE, FOLDER, LINK = "a file", "a folder", "a link"
_PACKED_FROM_BYTES = 1024  # smaller ones would not shrink


class Entry(NamedTuple):
    """One name in a folder, and what it is: FILE, FOLDER, LINK, or in words why it is not read ("a named pipe")."""

    name: str
    kind: str


class Files(Protocol):
    """What sources ask of a file system. Every question raises OSError where there is no answer."""

    def scan(self, folder: str, most: int) -> list[Entry]:
        """At most so many of a folder's entries, sorted."""

    def kind(self, path: str) -> str:
        """What a path is, as in Entry; the last link is not followed."""

    def readlink(self, path: str) -> str:
        """What a link says."""

    def size(self, path: str) -> int:
        """Bytes of a file."""

    def read(self, path: str, limit: int = MAX_TEXT_BYTES) -> tuple[bytes, bool]:
        """At most so many bytes of a file, and whether there were more."""


class Disk:
    """The machine's own file system."""

    def scan(self, folder: str, most: int) -> list[Entry]:
        """At most so many of a folder's entries, sorted."""
        with os.scandir(folder) as entries:
            return sorted(Entry(entry.name, _kind_of(entry)) for entry in islice(entries, most))

    def kind(self, path: str) -> str:
        """What a path is, as in Entry; the last link is not followed."""
        return _kind(os.lstat(path).st_mode)

    def readlink(self, path: str) -> str:
        """What a link says."""
        return os.readlink(path)  # noqa: PTH115 (of pathlib's it would lose a trailing slash)

    def size(self, path: str) -> int:
        """Bytes of a file."""
        return os.lstat(path).st_size

    def read(self, path: str, limit: int = MAX_TEXT_BYTES) -> tuple[bytes, bool]:
        """At most so many bytes of a file, and whether there were more. Never blocks on a pipe."""
        return read_file(path, limit)


class _Stored(NamedTuple):
    """An entry in memory. target: of a link; data: of a file, packed by zlib if that made it smaller."""

    kind: str
    target: str = ""
    data: bytes = b""
    size: int = 0
    cut: bool = False


class Stored:
    """Files in memory, packed: a text takes a tenth of its size."""

    def __init__(self) -> None:
        self._entries: dict[str, _Stored] = {"/": _Stored(FOLDER)}
        self._names: dict[str, list[str]] = {"/": []}
        self.held_bytes = 0
        self.whole_bytes = 0

    @property
    def count(self) -> int:
        """How many entries there are, folders too."""
        return len(self._entries)

    def add_folder(self, path: str) -> None:
        """A folder, and those above it; NotADirectoryError where something else has its name."""
        missing = []
        while path not in self._names:
            if path in self._entries:
                raise NotADirectoryError(f"{path} is {self._entries[path].kind}")
            missing.append(path)
            path = _above(path)
        for folder in reversed(missing):
            self._put(folder, _Stored(FOLDER))
            self._names[folder] = []

    def add(self, path: str, data: bytes, cut: bool = False) -> None:
        """A file; one of the same name gives way, as in an archive that was added to."""
        packed = zlib.compress(data, 1) if len(data) >= _PACKED_FROM_BYTES else data
        self.held_bytes += min(len(packed), len(data))
        self.whole_bytes += len(data)
        self._put(path, _Stored(FILE, "", packed if len(packed) < len(data) else data, len(data), cut))

    def add_link(self, path: str, target: str) -> None:
        """A symbolic link."""
        self._put(path, _Stored(LINK, target))

    def add_other(self, path: str, kind: str) -> None:
        """What is none of these, or is not held, in words."""
        self._put(path, _Stored(kind))

    def copy(self, path: str, of: str) -> None:
        """A second name for a file that is there (a hard link)."""
        self._put(path, self._of(of, FILE))

    def scan(self, folder: str, most: int) -> list[Entry]:
        """At most so many of a folder's entries, sorted."""
        self._of(folder or "/", FOLDER)
        names = islice(self._names[folder or "/"], most)
        return sorted(Entry(name, self._entries[f"{folder.rstrip('/')}/{name}"].kind) for name in names)

    def kind(self, path: str) -> str:
        """What a path is, as in Entry."""
        return self._of(path).kind

    def readlink(self, path: str) -> str:
        """What a link says."""
        return self._of(path, LINK).target

    def size(self, path: str) -> int:
        """Bytes of a file."""
        return self._of(path).size

    def read(self, path: str, limit: int = MAX_TEXT_BYTES) -> tuple[bytes, bool]:
        """At most so many bytes of a file, and whether there were more."""
        entry = self._of(path, FILE)
        data = entry.data if len(entry.data) == entry.size else zlib.decompress(entry.data)
        return data[:limit], entry.cut or len(data) > limit

    def _put(self, path: str, entry: _Stored) -> None:
        if path in self._names:
            raise IsADirectoryError(f"{path} is a folder")
        folder, _, name = path.rpartition("/")
        self.add_folder(folder or "/")
        if path not in self._entries:
            self._names[folder or "/"].append(name)
        self._entries[path] = entry

    def _of(self, path: str, kind: str | None = None) -> _Stored:
        entry = self._entries.get(path)
        if entry is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        if kind is not None and entry.kind != kind:
            raise OSError(entry.kind)
        return entry


def _above(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _kind_of(entry: os.DirEntry[str]) -> str:
    """From the listing itself where it says enough: a copy of a machine's tree has many thousands."""
    if entry.is_symlink():
        return LINK
    if entry.is_dir(follow_symlinks=False):
        return FOLDER
    if entry.is_file(follow_symlinks=False):
        return FILE
    try:
        return _kind(entry.stat(follow_symlinks=False).st_mode)
    except OSError as error:
        return (error.strerror or str(error)).lower()


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return LINK
    return FOLDER if stat.S_ISDIR(mode) else special_kind(mode) or FILE
