"""This machine: commands side by side, each with a deadline within one budget, and its files."""

from __future__ import annotations

import atexit
import os
import platform
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

from topocheck.errors import SourceError
from topocheck.sources import made
from topocheck.sources.base import NO_ANSWER, NO_DRIVER, Manifest, Missing, Raw
from topocheck.sources.command import Children, Outcome, environment, run
from topocheck.sources.reading import decode, read_file, reason_of, text_or_gaps
from topocheck.sources.tree import LiveTree

_DRIVER = "/proc/driver/nvidia/version"
_DEVICE = "/dev/nvidiactl"
_NVML = "nvml.json"
_NEEDS_DRIVER = ("nvidia-smi", _NVML)  # without a driver they only wait and complain; with one they may be slow
_LIMIT_S = 10.0  # for every other command
_RESERVE = 0.4  # of the budget, for what follows the commands …
_RESERVE_S = 1.0  # … and no more than this
_LATE_S = 0.6  # what killing a command may take
_STOP_S = 0.3  # the same when all is ended
_SAMPLES = 3
_SAMPLED_S = 1.0
_CHILD = "topocheck.sources.nvml_child"
_TWICE = 0.5  # of NVML's time: later than this it reads nothing twice


def open_live(
    *, root: str | None = None, budget_s: float = 20.0, tools: str | None = None, rates: bool = True
) -> LiveSource:
    """This machine; SourceError for a folder that is not there."""
    for folder, holds in ((root, "this machine's /sys and /proc lie"), (tools, "the commands lie")):
        if folder is not None and not Path(folder).is_dir():
            raise SourceError(f"{folder}: no such folder: give the one {holds} in")
    return LiveSource(root=root or "/", budget_s=budget_s, tools=tools and str(Path(tools).resolve()), rates=rates)


class LiveSource:
    """Runs commands and reads files of this machine: files below `root`, commands from `tools` or PATH.

    `rates`: counters of errors that are not zero are read again after half a second."""

    kind = "live"

    def __init__(
        self, *, root: str = "/", budget_s: float = 20.0, tools: str | None = None, rates: bool = True
    ) -> None:
        self._is_this_root = os.path.realpath(root) == "/"
        self._tree = LiveTree(root)
        host = platform.node() if self._is_this_root else self._tree.read("/proc/sys/kernel/hostname")
        self.name = host or "this machine"
        self.manifest = Manifest(
            host=host or None,
            time=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            privileged=os.geteuid() == 0,
        )
        self.outcomes: dict[str, tuple[int | None, str]] = {}  # exit code and stderr of each command that ran
        self._started_s = time.monotonic()
        self._deadline_s = self._started_s + budget_s - min(_RESERVE * budget_s, _RESERVE_S)
        self._tools, self._rates = tools, rates
        self.read, self.read_bytes = self._tree.read, self._tree.read_bytes
        self.glob, self.realpath = self._tree.glob, self._tree.realpath
        self._jobs: list[_Job] = []
        atexit.register(self.stop)  # Ctrl-C, an error: no command outlives this program

    def texts(self, commands: Sequence[str], paths: Sequence[str]) -> Iterator[Raw | Missing]:
        """Start the commands, side by side, before anything is asked for; then hand out files, then what they print."""
        wanted = list(dict.fromkeys(commands))
        self.start(wanted)
        return self._answers(wanted, list(dict.fromkeys(paths)))

    def start(self, commands: Sequence[str]) -> None:
        """Start commands that will be asked for, so that they run while the caller does something else."""
        running = {job.command for job in self._jobs}
        for command in commands:
            if command not in running and (job := self._job(command)):
                self._jobs.append(job)  # first: an interrupt may come at any moment
                job.start()

    def sampled(self, paths: Sequence[str], rank: Callable[[str], float]) -> dict[str, str]:
        """Each file's text of the highest rank among several readings over one second."""
        best: dict[str, str] = {}
        for sample in range(_SAMPLES):
            if sample:
                time.sleep(max(0.0, min(_SAMPLED_S / (_SAMPLES - 1), self._deadline_s - time.monotonic())))
            for path in paths:
                text = self.read(path)
                if text is not None and (path not in best or rank(text) > rank(best[path])):
                    best[path] = text
        return best

    def stop(self) -> None:
        """Kill what still runs."""
        for job in self._jobs:
            job.stop()
        end_s = time.monotonic() + _STOP_S
        for job in self._jobs:
            job.join(end_s - time.monotonic())

    def _answers(self, commands: list[str], paths: list[str]) -> Iterator[Raw | Missing]:
        jobs = {job.command: job for job in self._jobs}
        try:
            for path in paths:
                yield from self._file(path)
            for command in commands:
                if command in jobs:
                    yield from jobs[command].answer()
                    self.outcomes[command] = jobs[command].outcome
                else:
                    yield from self._made(command)
        finally:  # whoever asked may not want the rest
            self.stop()

    def _job(self, command: str) -> _Job | None:
        """The command, not yet started; None for what is no command, or may not run."""
        driver = command.startswith(_NEEDS_DRIVER)
        if command in _MADE or self._why_not(command):
            return None
        deadline_s = self._deadline_s if driver else min(self._deadline_s, self._started_s + _LIMIT_S)
        env = environment()
        if command == _NVML:
            env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
            within_s = (deadline_s - time.monotonic()) * _TWICE if self._rates else 0.0
            return _Job(command, [sys.executable, "-B", "-m", _CHILD, f"{within_s:.1f}"], deadline_s, env)
        return _Job(command, shlex.split(command), deadline_s, env, self._tools)

    def _why_not(self, command: str) -> str | None:
        """Why the driver is not asked: NVIDIA's library loads its modules and makes its devices where it finds none."""
        if not command.startswith(_NEEDS_DRIVER):
            return None
        if self._tree.read(_DRIVER) is None:
            return f"{NO_DRIVER} ({_DRIVER} is not there)"
        if self._is_this_root and not self._tree.glob(_DEVICE):
            return f"not run: {_DEVICE} is not there, and to ask would make it"
        return None

    def _made(self, command: str) -> Iterator[Raw | Missing]:
        """What is no command's output, and why a command was not run."""
        if command not in _MADE:
            yield Missing(command, self._why_not(command) or "not run")
        elif command == "psutil.json" and not self._is_this_root:
            yield Missing(command, "not read: the CPUs are this machine's, the files those of --root")
        else:
            yield Raw(command, _MADE[command](), command)

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


_MADE = {"environ.json": made.environ, "psutil.json": made.cpus}


class _Job:
    """One command in its own thread, which never keeps the program from ending."""

    def __init__(
        self, command: str, words: list[str], deadline_s: float, env: dict[str, str], tools: str | None = None
    ) -> None:
        self.command, self._words, self._tools, self._deadline_s = command, words, tools, deadline_s
        self._started_s = time.monotonic()
        self._outcome: Outcome | None = None
        self._children = Children()
        self._thread = threading.Thread(target=self._run, args=(env,), name=command, daemon=True)

    @property
    def outcome(self) -> tuple[int | None, str]:
        """Exit code and the beginning of stderr."""
        if self._outcome is None:
            return None, ""
        return self._outcome.exit_code, (decode(self._outcome.stderr) or "").strip()[:1000]

    def _run(self, env: dict[str, str]) -> None:
        try:
            self._outcome = run(self._words, self._deadline_s, env, self._children, self._tools)
        except Exception as error:  # a thread's traceback would reach the user's screen
            self._outcome = Outcome(b"", b"", None, False, f"could not be run: {error}")

    def start(self) -> None:
        """Run the command, in its thread."""
        self._thread.start()

    def stop(self) -> None:
        """Kill the command if it still runs."""
        self._children.end()

    def join(self, seconds: float) -> None:
        """Wait until nothing more is started for the command."""
        if self._thread.ident is not None:
            self._thread.join(max(0.0, seconds))

    def answer(self) -> Iterator[Raw | Missing]:
        """What the command printed, and what was wrong with it."""
        self._thread.join(max(0.0, self._deadline_s + _LATE_S - time.monotonic()))
        if self._outcome is None:
            seconds = max(1, round(self._deadline_s - self._started_s))
            yield Missing(self.command, f"{NO_ANSWER} {seconds} s; it cannot be killed")
            return
        outcome = self._outcome
        stderr = self.outcome[1].partition("\n")[0][:200]
        reason = outcome.error
        if reason is None and outcome.exit_code:
            reason = f"ended with exit code {outcome.exit_code}{': ' if stderr else ''}{stderr}"
        text, gaps = text_or_gaps(self.command, outcome.stdout, False, pasted=False)
        if text is not None:
            yield Raw(self.command, text, self.command)
        if reason is not None:
            yield Missing(self.command, reason)
        elif text is None:
            yield Missing(
                self.command,
                f"printed nothing{'; ' if stderr else ''}{stderr}" if not outcome.stdout else gaps[0].reason,
            )
