"""This machine: commands side by side, each within one budget, and its files."""

from __future__ import annotations

import os
import platform
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

from topocheck.sources.base import Manifest, Missing, Raw
from topocheck.sources.command import Outcome, environment, kill, run
from topocheck.sources.reading import decode, read_file, reason_of, text_or_gaps
from topocheck.sources.tree import Tree

_DRIVER = "/proc/driver/nvidia/version"
_LATE_S = 1.2  # what killing a command may take beyond the budget


class LiveSource:
    """Runs commands and reads files of this machine: files below `root`, commands on `path`."""

    kind = "live"

    def __init__(self, *, root: str = "/", budget_s: float = 20.0, path: str | None = None) -> None:
        self.name = platform.node() or "this machine"
        self.manifest = Manifest(
            host=platform.node() or None,
            time=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            privileged=os.geteuid() == 0,
        )
        self._deadline_s = time.monotonic() + budget_s
        self._env = environment(path)
        self._tree = Tree(root)
        self.read, self.read_bytes = self._tree.read, self._tree.read_bytes
        self.glob, self.realpath = self._tree.glob, self._tree.realpath

    def texts(self, commands: Sequence[str], paths: Sequence[str]) -> Iterator[Raw | Missing]:
        """Run the commands side by side, read the files meanwhile, and hand out what there is."""
        jobs = [
            _Job(command, self._deadline_s, self._env) for command in dict.fromkeys(commands) if self._may_run(command)
        ]
        try:
            for command in dict.fromkeys(commands):
                if not self._may_run(command):
                    yield Missing(command, f"not run: the NVIDIA driver is not loaded ({_DRIVER} is not there)")
            for path in dict.fromkeys(paths):
                yield from self._file(path)
            for job in jobs:
                yield from job.answer()
        finally:  # whoever asked may not want the rest
            for job in jobs:
                job.stop()

    def _may_run(self, command: str) -> bool:
        """nvidia-smi without a driver only waits and complains."""
        return not command.startswith("nvidia-smi") or self._tree.read(_DRIVER) is not None

    def _file(self, pattern: str) -> Iterator[Raw | Missing]:
        found = self.glob(pattern)
        if not found:
            yield Missing(pattern, "not on this machine")
        for path in found:
            try:
                data, cut = read_file(self._tree.place(path) or path)
            except OSError as error:
                yield Missing(path, reason_of(error))
                continue
            text, gaps = text_or_gaps(path, data, cut)
            if text is not None:
                yield Raw(path, text, path)
            yield from gaps


class _Job:
    """One command in its own thread, which never keeps the program from ending."""

    def __init__(self, command: str, deadline_s: float, env: dict[str, str]) -> None:
        self._command, self._deadline_s = command, deadline_s
        self._outcome: Outcome | None = None
        self._children: list[subprocess.Popen[bytes]] = []
        self._thread = threading.Thread(target=self._run, args=(env,), name=command, daemon=True)
        self._thread.start()

    def _run(self, env: dict[str, str]) -> None:
        try:
            self._outcome = run(self._command, self._deadline_s, env, self._children)
        except Exception as error:  # a thread's traceback would reach the user's screen
            self._outcome = Outcome(b"", b"", None, False, f"could not be run: {error}")

    def stop(self) -> None:
        """Kill the command if it still runs."""
        for child in self._children:
            kill(child)

    def answer(self) -> Iterator[Raw | Missing]:
        """What the command printed, and what was wrong with it."""
        self._thread.join(max(0.0, self._deadline_s + _LATE_S - time.monotonic()))
        if self._outcome is None:
            yield Missing(self._command, "no answer in time; it cannot be killed")
            return
        outcome = self._outcome
        stderr = (decode(outcome.stderr) or "").strip().partition("\n")[0][:200]
        reason = outcome.error
        if reason is None and outcome.exit_code:
            reason = f"ended with exit code {outcome.exit_code}{': ' if stderr else ''}{stderr}"
        text, gaps = text_or_gaps(self._command, outcome.stdout, False)
        if text is not None:
            yield Raw(self._command, text, self._command)
        if reason is not None:
            yield Missing(self._command, reason)
        elif text is None:
            yield Missing(
                self._command,
                f"printed nothing{'; ' if stderr else ''}{stderr}" if not outcome.stdout else gaps[0].reason,
            )
