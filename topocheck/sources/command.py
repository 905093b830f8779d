"""One command, run without a shell, that ends in time whatever it does."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from topocheck.sources.base import NO_ANSWER

_MAX_BYTES = 16 << 20  # no tool prints as much: a kernel log has 1 MB
_MAX_LATE_BYTES = 1 << 18  # of what was killed: there is no time to read more
_CHUNK_BYTES = 1 << 16
_TICK_S = 0.05
_GRACE_S = 0.5  # for a child that has closed its output
_KILL_S = 0.2  # between SIGTERM and SIGKILL, and after that before the child is abandoned
_STDERR_BYTES = 4096
_MORE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/amazon/efa/bin:/opt/mellanox/bin"

_abandoned: list[subprocess.Popen[bytes]] = []  # children in state D: held, so that nobody waits for them


class Outcome(NamedTuple):
    """What a command left. `error` is the plain reason why it did not run to its end, None if it did."""

    stdout: bytes
    stderr: bytes
    exit_code: int | None
    cut: bool
    error: str | None


class Children:
    """The children of one job, which may be ended at any moment, also while the next is being started."""

    def __init__(self) -> None:
        self._children: list[subprocess.Popen[bytes]] = []
        self._ended = False

    def add(self, child: subprocess.Popen[bytes]) -> None:
        """Take one more; none outlives the end."""
        self._children.append(child)
        if self._ended:
            kill(child)

    def end(self) -> None:
        """Kill what still runs."""
        self._ended = True
        for child in self._children:
            kill(child)


def environment() -> dict[str, str]:
    """The environment commands run in: this one's, in the C locale, with the places of system tools added."""
    searched = os.environ.get("PATH", "")
    return {**os.environ, "LC_ALL": "C", "LANG": "C", "PATH": f"{searched}:{_MORE_PATH}" if searched else _MORE_PATH}


def run(
    words: Sequence[str],
    deadline_s: float,
    env: Mapping[str, str],
    started: Children,
    tools: str | None = None,
) -> Outcome:
    """Run a command until it ends or `time.monotonic()` passes `deadline_s`. The child is one of `started`.

    The program is looked up in the folder `tools` only, where one is given, else on PATH.
    """
    program = shutil.which(words[0], path=env["PATH"] if tools is None else tools)
    if program is None:
        return Outcome(b"", b"", None, False, f"{words[0]} is not installed")
    try:
        child = subprocess.Popen(
            [program, *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        return Outcome(b"", b"", None, False, f"{words[0]} cannot be started: {error.strerror}")
    started.add(child)
    started_s = time.monotonic()
    out, err, cut = _read(child, deadline_s, _MAX_BYTES)
    late = time.monotonic() >= deadline_s
    running = child.poll() is None
    ended = _end(child, cut or late)
    killed = running and child.returncode in (None, -signal.SIGTERM, -signal.SIGKILL)
    reason = None
    if cut:
        reason = f"printed more than {_MAX_BYTES >> 20} MB: not taken"
    elif killed and late:
        reason = f"{NO_ANSWER} {max(1, round(time.monotonic() - started_s))} s"
    elif killed:
        reason = "closed its output but did not end"
    if cut or (killed and late and len(out) > _MAX_LATE_BYTES):
        out = b""
    if reason and not ended:
        reason += "; it cannot be killed"
    return Outcome(out, err, child.returncode, cut, reason)


def _read(child: subprocess.Popen[bytes], deadline_s: float, limit: int) -> tuple[bytes, bytes, bool]:
    """What the child prints until both its pipes close, it ends, or time or space runs out."""
    out, err, ended = bytearray(), bytearray(), False
    with selectors.DefaultSelector() as selector:
        for pipe, buffer in ((child.stdout, out), (child.stderr, err)):
            assert pipe is not None
            selector.register(pipe, selectors.EVENT_READ, buffer)
        while selector.get_map() and len(out) <= limit:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                break
            ready = selector.select(0 if ended else min(left_s, _TICK_S))
            if not ready and ended:
                break  # a grandchild may hold the pipe open for ever
            ended = child.poll() is not None  # what it wrote just before is still to be read
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK_BYTES)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.data is out or len(err) < _STDERR_BYTES:
                    key.data.extend(chunk)
    return bytes(out[:limit]), bytes(err[:_STDERR_BYTES]), len(out) > limit


def _end(child: subprocess.Popen[bytes], at_once: bool) -> bool:
    """See the child off, with its whole process group if it must be killed; False if that is not possible."""
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    try:
        child.wait(0 if at_once else _GRACE_S)
        return True
    except subprocess.TimeoutExpired:
        pass
    for number in (signal.SIGTERM, signal.SIGKILL):
        kill(child, number)
        try:
            child.wait(_KILL_S)
            return True
        except subprocess.TimeoutExpired:
            continue
    _abandoned.append(child)
    return False


def kill(child: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> None:
    """Send a signal to a child that still runs, and to all it started."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)
