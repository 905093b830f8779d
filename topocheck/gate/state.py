"""The state folder: the last reading, a report of each run, the log. Ours alone, and never needed.

Every file is written beside its place and moved there, so that two gates at once, or one that is killed, leave whole
files. A folder or file that is not ours, a full disk, a read-only file system: then nothing is kept, and said so.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from typing import Any, NamedTuple

DEFAULTS = ("/var/lib/topocheck", "/run/topocheck")
LAST, LOG = "last.json", "gate.log"
_MOST_REPORTS, _MOST_BYTES = 50, 50_000_000
_MOST_LAST_BYTES = 8_000_000
_MOST_LOG_BYTES = 1_000_000
_STALE_S = 3600.0  # a file half written that old was left behind


class Folder(NamedTuple):
    """Where things are kept; `path` None: nowhere."""

    path: str | None

    def last(self) -> dict[str, Any] | None:
        """What was kept last, None where there is none, it is not ours, or torn."""
        if self.path is None:
            return None
        try:
            fd = os.open(f"{self.path}/{LAST}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(fd, "rb") as file:
                about = os.fstat(fd)
                if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_size > _MOST_LAST_BYTES:
                    return None
                kept = json.loads(file.read())
        except (OSError, ValueError, RecursionError):
            return None
        return kept if isinstance(kept, dict) else None

    def keep_last(self, content: dict[str, Any]) -> None:
        """Keep this in place of what was kept last; if that fails, nothing is."""
        try:
            self._write(LAST, content)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(f"{self.path}/{LAST}")

    def keep_report(self, content: dict[str, Any]) -> str | None:
        """Keep a run's report as `gate-<UTC>.json`; why it could not be kept, None if it was."""
        if self.path is None:
            return "no state folder"
        now = time.time()
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
        try:
            for micros in range(int(now % 1 * 1e6), 2_000_000):
                name = f"gate-{stamp}.{micros:06}Z.json"
                if self._write(name, content, new=True):
                    self._rotate(name)
                    return None
        except OSError as error:
            return (error.strerror or str(error)).lower()
        return "no free name"

    def log(self, line: str) -> bool:
        """Add a line to the log; False if that cannot be done."""
        if self.path is None:
            return False
        place = f"{self.path}/{LOG}"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            fd = os.open(place, flags, 0o600)
            try:
                if os.fstat(fd).st_size > _MOST_LOG_BYTES:
                    os.replace(place, f"{place}.1")
                data = f"{line}\n".encode("utf-8", "replace")
                return os.write(fd, data) == len(data)
            finally:
                os.close(fd)
        except OSError:
            return False

    def _write(self, name: str, content: dict[str, Any], *, new: bool = False) -> bool:
        """Put a file in its place as a whole; `new`: not if there is one of that name, which is False."""
        if self.path is None:
            return False
        place, beside = f"{self.path}/{name}", f"{self.path}/.{name}.{os.getpid()}.tmp"
        data = json.dumps(content, separators=(",", ":")).encode()
        try:
            fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(data)
            if new:
                os.link(beside, place)
            else:
                os.replace(beside, place)
        except FileExistsError:
            return False
        finally:
            with contextlib.suppress(OSError):
                os.unlink(beside)
        return True

    def _rotate(self, newest: str) -> None:
        """Keep the newest reports, and nothing that was left half written."""
        reports, now = [], time.time()
        with os.scandir(self.path) as entries:
            for entry in entries:
                about = entry.stat(follow_symlinks=False)
                if entry.name.startswith("gate-") and entry.name.endswith(".json"):
                    reports.append((entry.name == newest, about.st_mtime_ns, entry.name, about.st_size))
                elif entry.name.endswith(".tmp") and abs(now - about.st_mtime) > _STALE_S:
                    self._remove(entry.name)
        held = 0
        for place, (_, _, name, size) in enumerate(sorted(reports, reverse=True)):
            held += size
            if place >= _MOST_REPORTS or (held > _MOST_BYTES and name != newest):
                self._remove(name)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(f"{self.path}/{name}")


def open_folder(asked: str | None) -> Folder:
    """The folder asked for, else the first default that can be used; made if it is not there."""
    candidates = DEFAULTS if asked is None else (os.path.abspath(asked),)
    return Folder(next((path for path in candidates if _usable(path, parents=asked is not None)), None))


def _usable(path: str, *, parents: bool) -> bool:
    """Whether a folder is there, or could be made, is ours alone and can be written to."""
    try:
        if not os.path.lexists(path):
            if parents:
                os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            with contextlib.suppress(FileExistsError):  # of another gate that starts now
                os.mkdir(path, 0o700)
        about = os.lstat(path)
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
            return False
        return os.access(path, os.W_OK | os.X_OK)
    except OSError:
        return False
