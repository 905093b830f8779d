"""A folder: a capture, an unpacked sosreport, a copy of a file system's root, or any outputs people put together.

An archive of one is the same, its files in memory (sources/archive.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from topocheck.errors import SourceError
from topocheck.sources import manifest, sos
from topocheck.sources.base import NEVER_RUN, Missing, Raw, mangle
from topocheck.sources.files import FILE, FOLDER, LINK, Disk, Entry, Files
from topocheck.sources.reading import printable, reason_of
from topocheck.sources.tree import Tree
from topocheck.sources.unpack import Asked, texts_of

MAX_FILES = 20_000
_MACHINE = ("sys", "proc", "run", "var", "etc")  # the machine's own tree
_ROOT = frozenset((*_MACHINE, "bin", "boot", "dev", "home", "lib", "lib32", "lib64", "media", "mnt", "opt", "root"))
_ROOT |= {"sbin", "snap", "srv", "tmp", "usr"}
_MARKS = {".dockerenv"}  # of the machine's tree too: its presence is what it says
_SOS = "sos_commands"
_TWICE = f"{_SOS}/kernel/dmesg_-T"  # the same log with other times
_SOS_PARTS = (f"{_SOS}/", "sos_strings/")
_SOS_OWN = ("sos_logs", "sos_reports", "sos_strings", "version.txt")  # its own words; links lead to what was cut


class FolderSource:
    """Hands out the files of a folder. Its `sys/`, `proc/`, `run/`, `var/` and `etc/` are the machine's tree."""

    def __init__(self, path: str, files: Files | None = None, gaps: Sequence[Missing] = ()) -> None:
        """`files` are those of an archive, `gaps` what could not be read of it."""
        self.name = printable(path)
        self._disk: Files = files or Disk()
        self._top = self._find_top(os.path.realpath(path) if files is None else "")
        self._entries = {entry.name for entry in self._scan(self._top)}
        self.kind = self._kind("folder" if files is None else "archive")
        self.manifest = manifest.load_manifest(self._disk, self._top)
        self._tree = Tree(self._top, self.manifest.realpath, self._disk)
        self.read, self.read_bytes = self._tree.read, self._tree.read_bytes
        self.glob, self.realpath, self.sampled = self._tree.glob, self._tree.realpath, self._tree.sampled
        self._gaps = list(gaps)
        if self.kind == "sosreport":
            self.manifest = sos.with_commands(self.read(f"/{sos.NAME}") or "", self.manifest)
        self._files = self._walk()

    def texts(self, commands: Sequence[str], paths: Sequence[str]) -> Iterator[Raw | Missing]:
        """Every file's text; of the machine's tree and of a sosreport only what is asked for."""
        yield from self.manifest.missing
        yield from self._gaps
        tools = tuple({mangle(command.split()[0]) for command in commands}) + NEVER_RUN
        asked = Asked(commands, paths, [])
        for file in self._files:
            base = file.rpartition("/")[2]
            if file.endswith(_TWICE) and file.removesuffix("_-T") in self._files:
                continue
            known = self.manifest.inputs.get(file) or base
            is_copy = known == f"/{file}"  # of a file that lies elsewhere in the machine's tree
            if not is_copy and (not file.startswith(_SOS_PARTS) or base.startswith(tools)):
                yield from self._text(file, known, asked)
        for path in self._tree_files(paths):
            yield from self._text(path.lstrip("/"), path, asked)

    def _text(self, file: str, input_: str, asked: Asked) -> Iterator[Raw | Missing]:
        shown = printable(self.manifest.inputs.get(file) or file)
        try:
            data, cut = self._disk.read(self._place(file))
        except OSError as error:
            yield Missing(shown, reason_of(error))
            return
        if file.endswith(sos.TAILED):
            yield Missing(shown, sos.CUT)
        for item in texts_of(Raw(printable(input_), "", printable(file)), shown, data, cut, asked):
            if isinstance(item, Raw) or not any(gap.input == item.input for gap in self.manifest.missing):
                yield item

    def _place(self, file: str) -> str:
        """Where a file of the folder lies; the machine's tree has links on the way."""
        return (self._tree.place(file) if file.partition("/")[0] in _MACHINE else None) or f"{self._top}/{file}"

    def _kind(self, plain: str) -> str:
        if _SOS in self._entries:
            return "sosreport"
        return "root" if "sys" in self._entries and self._entries <= _ROOT else plain

    def _tree_files(self, paths: Sequence[str]) -> list[str]:
        """Those of the asked paths that the folder's copy of the machine has."""
        found = [path for pattern in paths for path in self.glob(pattern)]
        return [path for path in dict.fromkeys(found) if path.split("/")[1] in _MACHINE and self._is_file(path)]

    def _kind_at(self, path: str) -> str | None:
        """What lies at a path of the folder, every link followed; None for nothing, or out of the folder."""
        place = self._tree.place(path)
        try:
            return None if place is None else self._disk.kind(place)
        except OSError:
            return None

    def _is_file(self, path: str) -> bool:
        return self._kind_at(path) == FILE

    def _walk(self) -> list[str]:
        """The folder's own files, sorted. A link counts as the file it leads to, once, and never leads out."""
        files: set[str] = set()
        pending, seen = [""], 0
        while pending:
            folder = pending.pop()
            for entry in self._scan_below(folder):
                file = f"{folder}/{entry.name}".lstrip("/")
                if entry.kind == FOLDER:
                    pending += [] if self._passed_over(file) else [file]
                elif file != manifest.NAME and not (file in _SOS_OWN and _SOS in self._entries):
                    seen += 1
                    self._add(file, entry, files)
            if max(seen, len(pending)) > MAX_FILES:
                raise SourceError(f"{self.name}: more than {MAX_FILES} files: give the folder that holds the outputs")
        return sorted(files)

    def _add(self, file: str, entry: Entry, files: set[str]) -> None:
        """Take one entry that is no folder: a file, or a link to one inside the folder."""
        if entry.kind == LINK:
            self._add_link(file, files)
        elif entry.kind == FILE:
            files |= {file} - _MARKS
        else:
            self._gaps.append(Missing(printable(file), f"{entry.kind}: not read"))

    def _add_link(self, file: str, files: set[str]) -> None:
        """The file a link leads to; what is seen elsewhere (folders, the machine's tree) needs no link."""
        real, kind = self._tree.resolve(file), self._kind_at(file)
        if real is not None and kind == FILE:
            if real.split("/")[1] not in _MACHINE:
                files.add(real.lstrip("/"))
        elif kind != FOLDER:
            self._gaps.append(Missing(printable(file), "a link that leads out of the folder or nowhere"))

    def _passed_over(self, file: str) -> bool:
        """Folders that are not searched: the system's own, and hidden ones (`.git`)."""
        if file in _MACHINE or (file in (*_ROOT, *_SOS_OWN) and self._entries & {"sys", _SOS}):
            return True
        hidden = file.rpartition("/")[2].startswith(".")
        if hidden:
            self._gaps.append(Missing(printable(file), "a hidden folder: not read"))
        return hidden

    def _scan_below(self, folder: str) -> list[Entry]:
        try:
            return self._disk.scan(f"{self._top}/{folder}".rstrip("/") or "/", MAX_FILES + 2)
        except OSError as error:
            self._gaps.append(Missing(printable(folder), reason_of(error)))
            return []

    def _find_top(self, top: str) -> str:
        """The folder itself, or the only folder in it, as tar leaves it; with every link on the way followed."""
        for _ in range(3):
            entries = self._scan(top)
            if len(entries) != 1 or entries[0].kind != FOLDER or entries[0].name in (*_ROOT, _SOS):
                break
            top = f"{top}/{entries[0].name}"
        return top

    def _scan(self, folder: str) -> list[Entry]:
        try:
            return self._disk.scan(folder, MAX_FILES + 2)
        except OSError as error:
            raise SourceError(f"{self.name}: cannot read this folder: {reason_of(error)}") from None
