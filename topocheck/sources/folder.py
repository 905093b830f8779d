"""A folder: a capture, an unpacked sosreport, a copy of a file system's root, or any outputs people put together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from topocheck.errors import SourceError
from topocheck.sources import manifest
from topocheck.sources.base import Missing, Raw, mangle
from topocheck.sources.reading import printable, read_file, reason_of, special_kind, text_or_gaps
from topocheck.sources.tree import Tree

MAX_FILES = 20_000
_MACHINE = ("sys", "proc", "run", "var", "etc")  # the machine's own tree
_ROOT = frozenset((*_MACHINE, "bin", "boot", "dev", "home", "lib", "lib32", "lib64", "media", "mnt", "opt", "root"))
_ROOT |= {"sbin", "snap", "srv", "tmp", "usr"}
_SOS = "sos_commands"


class FolderSource:
    """Hands out the files of a folder. Its `sys/`, `proc/`, `run/`, `var/` and `etc/` are the machine's tree."""

    def __init__(self, path: str) -> None:
        self.name = path
        self._top = _top(Path(path))
        self._entries = {entry.name for entry in _scan(self._top)}
        self.kind = self._kind()
        self.manifest = manifest.load_manifest(self._top)
        self._tree = Tree(str(self._top), self.manifest.realpath)
        self.read, self.read_bytes = self._tree.read, self._tree.read_bytes
        self.glob, self.realpath, self.sampled = self._tree.glob, self._tree.realpath, self._tree.sampled
        self._gaps: list[Missing] = []
        self._files = self._walk()

    def texts(self, commands: Sequence[str], paths: Sequence[str]) -> Iterator[Raw | Missing]:
        """Every file's text; of the machine's tree and of a sosreport only what is asked for."""
        yield from self.manifest.missing
        yield from self._gaps
        tools = tuple({mangle(command.split()[0]) for command in commands})
        for file in self._files:
            base = file.rpartition("/")[2]
            if not file.startswith(f"{_SOS}/") or base.startswith(tools):
                yield from self._text(file, self.manifest.inputs.get(file) or base)
        for path in self._tree_files(paths):
            yield from self._text(path.lstrip("/"), path)

    def _text(self, file: str, input_: str) -> Iterator[Raw | Missing]:
        shown = printable(self.manifest.inputs.get(file) or file)
        try:
            data, cut = read_file(self._top / file)
        except OSError as error:
            yield Missing(shown, reason_of(error))
            return
        text, gaps = text_or_gaps(shown, data, cut)
        if text is not None:
            yield Raw(printable(input_), text, printable(file))
        if not any(gap.input == shown for gap in self.manifest.missing):
            yield from gaps

    def _kind(self) -> str:
        if _SOS in self._entries:
            return "sosreport"
        return "root" if "sys" in self._entries and self._entries <= _ROOT else "folder"

    def _tree_files(self, paths: Sequence[str]) -> list[str]:
        """Those of the asked paths that the folder's copy of the machine has."""
        found = [path for pattern in paths for path in self.glob(pattern)]
        return [path for path in dict.fromkeys(found) if path.split("/")[1] in _MACHINE and self._is_file(path)]

    def _is_file(self, path: str) -> bool:
        place = self._tree.place(path)
        return place is not None and Path(place).is_file()

    def _walk(self) -> list[str]:
        """The folder's own files, sorted. A link counts as the file it leads to, once, and never leads out."""
        files: set[str] = set()
        pending, seen = [self._top], 0
        while pending:
            folder = pending.pop()
            for entry in self._scan_below(folder):
                file = os.path.relpath(entry.path, self._top)
                if entry.is_dir(follow_symlinks=False):
                    pending += [] if self._passed_over(file) else [Path(entry.path)]
                elif file != manifest.NAME:
                    seen += 1
                    self._add(file, entry, files)
            if max(seen, len(pending)) > MAX_FILES:
                raise SourceError(f"{self.name}: more than {MAX_FILES} files: give the folder that holds the outputs")
        return sorted(files)

    def _add(self, file: str, entry: os.DirEntry[str], files: set[str]) -> None:
        """Take one entry that is no folder: a file, or a link to one inside the folder."""
        if entry.is_symlink():
            self._add_link(file, files)
            return
        try:
            kind = special_kind(entry.stat(follow_symlinks=False).st_mode)
        except OSError as error:
            kind = reason_of(error)
        if kind is None:
            files.add(file)
        else:
            self._gaps.append(Missing(printable(file), f"{kind}: not read"))

    def _add_link(self, file: str, files: set[str]) -> None:
        """The file a link leads to; what is seen elsewhere (folders, the machine's tree) needs no link."""
        real = self._tree.resolve(file)
        place = None if real is None else self._top / real.lstrip("/")
        if real is not None and place is not None and place.is_file():
            if real.split("/")[1] not in _MACHINE:
                files.add(real.lstrip("/"))
        elif place is None or not place.is_dir():
            self._gaps.append(Missing(printable(file), "a link that leads out of the folder or nowhere"))

    def _passed_over(self, file: str) -> bool:
        """Folders that are not searched: the system's own, and hidden ones (`.git`)."""
        if file in _MACHINE or (file in _ROOT and self._entries & {"sys", _SOS}):
            return True
        hidden = file.rpartition("/")[2].startswith(".")
        if hidden:
            self._gaps.append(Missing(printable(file), "a hidden folder: not read"))
        return hidden

    def _scan_below(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            return _scan(folder)
        except SourceError as error:
            if folder == self._top:
                raise
            below = printable(os.path.relpath(folder, self._top))
            self._gaps.append(Missing(below, str(error).rpartition(": ")[2]))
            return []


def _top(path: Path) -> Path:
    """The folder itself, or the only folder in it, as tar leaves it; with every link on the way followed."""
    top = Path(os.path.realpath(path))
    for _ in range(3):
        entries = _scan(top)
        if len(entries) != 1 or not entries[0].is_dir(follow_symlinks=False) or entries[0].name in (*_ROOT, _SOS):
            break
        top = top / entries[0].name
    return top


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(islice(entries, MAX_FILES + 2), key=lambda entry: entry.name)
    except OSError as error:
        raise SourceError(f"{folder}: cannot read this folder: {reason_of(error)}") from None
