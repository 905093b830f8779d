"""A tar archive (.tar, .tar.gz, .tgz, .tar.bz2, .tar.xz) → the files in it, in memory, as a folder's.

Nothing of it is unpacked to the disk. Links lead where they would have led on the machine, never out of the archive;
names that do are refused. How many members, how deep, how much: all has a limit, and what is beyond it is a gap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from topocheck.sources.base import MAX_TEXT_BYTES, Missing
from topocheck.sources.files import Stored
from topocheck.sources.reading import archive_kind, printable, read_all
from topocheck.sources.tar import DamagedTarError, Member, members
from topocheck.sources.unpack import Limited, Reader, Unpacked

MAX_MEMBERS = 100_000  # a sosreport of a large server has some 60,000
MAX_DEPTH = 40  # folders in folders; the deepest of sysfs is about 25
_MAX_NAME_CHARS = 1024
_MAX_HELD_BYTES = 64 << 20
_MAX_WHOLE_BYTES = 160 << 20  # the same before packing
_MAX_VALUE_BYTES = 1 << 20  # of one file of the machine's own tree
_MAX_LOG_BYTES = 1 << 16  # of a file where logs and databases lie
_TREE = ("/sys/", "/proc/")
_LOGS = ("/var/", "/etc/", "/run/", "/sos_logs/")
_SNIFF_BYTES = 8192
_OUT = "a name that leads out of the archive"


def read_archive(stream: Unpacked | Limited, name: str) -> tuple[Stored, list[Missing]]:
    """The files of a tar archive, and what could not be read of it."""
    files, gaps = Stored(), Counter[str]()
    first: dict[str, str] = {}
    for member, problem in _taken(stream, files):
        if problem is not None:
            gaps[problem] += 1
            first.setdefault(problem, member)
    if stream.problem is not None:  # which cut the tar file too
        gaps = Counter({problem: count for problem, count in gaps.items() if first[problem]} | {stream.problem: 1})
    return files, [Missing(printable(first.get(p) or name), _words(p, count)) for p, count in gaps.items()]


def _words(problem: str, count: int) -> str:
    return problem if count == 1 else f"{problem} (and {count - 1} more)"


def _taken(stream: Reader, files: Stored) -> Iterator[tuple[str, str | None]]:
    """Each member's name with what was wrong with it; "" is the archive itself."""
    count = 0
    try:
        for member in members(stream):
            count += 1
            if count > MAX_MEMBERS:
                yield "", f"more than {MAX_MEMBERS} members: the rest was not read"
                return
            yield member.name[:_MAX_NAME_CHARS], _take(member, files)
    except DamagedTarError as error:
        yield "", f"a tar file that is cut or damaged ({error}): read up to there"


def _take(member: Member, files: Stored) -> str | None:
    """Put one member among the files; what is wrong with it, None if nothing."""
    path = _path(member.name)
    if path is None:
        return _OUT
    if len(path) > _MAX_NAME_CHARS or path.count("/") > MAX_DEPTH:
        return f"a name longer than {_MAX_NAME_CHARS} characters or more than {MAX_DEPTH} folders deep: not read"
    try:
        if member.kind == "folder":
            files.add_folder(path or "/")
        elif member.kind == "link":
            files.add_link(path, member.target)
        elif member.kind == "hard link":
            files.copy(path, _path(member.target) or "")
        elif member.kind == "file":
            _take_file(member, path, files)
        else:
            files.add_other(path, member.kind)
    except OSError as error:
        return f"not read: {error.strerror or error}".lower()
    return None


def _take_file(member: Member, path: str, files: Stored) -> None:
    limit = _limit(path)
    if files.held_bytes > _MAX_HELD_BYTES or files.whole_bytes > _MAX_WHOLE_BYTES:
        files.add_other(path, "a file beyond what is kept of one archive")
        return
    data, cut = read_all(member.read, limit) if member.size else (b"", False)
    if member.size > limit and limit < MAX_TEXT_BYTES:
        files.add_other(path, "a large file of the system")
    elif len(data) > _MAX_LOG_BYTES and archive_kind(data) is None and b"\0" in data[:_SNIFF_BYTES]:
        files.add_other(path, "binary, no text")
    else:
        files.add(path, data, cut)


def _limit(path: str) -> int:
    """How much of a file is kept: of the machine's tree values and short tables, of everything else texts."""
    if any(part in path for part in _LOGS):
        return _MAX_LOG_BYTES
    return _MAX_VALUE_BYTES if any(part in path for part in _TREE) else MAX_TEXT_BYTES


def _path(name: str) -> str | None:
    """A member's name as a path of the archive ("" is its top); None if it leads out of it."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        return None
    return "".join(f"/{part}" for part in parts)
