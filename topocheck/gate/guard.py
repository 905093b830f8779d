"""The gate's outer half: a child process does the work, so that nothing that hangs, dies or throws there decides.

A process that waits for a dead device cannot be killed and cannot be waited for. The child holds none of our standard
streams (a prolog is not over while one is open) and says its answer through a pipe.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import time
from typing import NoReturn

from topocheck.gate.words import Answer, failed, stamped
from topocheck.gate.work import STDIN, Call, work

_MARGIN_S = 0.15  # of the budget, for our own end
_LAST_WORDS_S = 0.1  # between SIGTERM, upon which the child ends what it started, and SIGKILL …
_ENDED_S = 2.0  # … where there is no budget to keep: Slurm itself waits longer than that


def guarded(call: Call, started_s: float) -> Answer:
    """The answer to a call, within its budget whatever happens; it began at `started_s` of time.monotonic()."""
    try:
        reader, writer = os.pipe()
        child = os.fork()
    except OSError as error:
        return _failed(call, f"no process could be started: {error.strerror}")
    if child == 0:
        os.close(reader)
        _child(call, started_s, writer)
    os.close(writer)
    try:
        text = _hear(reader, started_s + call.budget_s - _MARGIN_S)
    except BaseException:  # Ctrl-C, Slurm's SIGTERM
        _end(child, reader, _ENDED_S)
        raise
    if text is None:
        _end(child, reader, _LAST_WORDS_S)
        return _failed(call, f"no answer within {call.budget_s:g} s")
    try:
        said = json.loads(text)
        return Answer(*said["answer"]) if "answer" in said else _failed(call, said["error"])
    except (ValueError, KeyError, TypeError):
        return _failed(call, _how_it_ended(child))


def _child(call: Call, started_s: float, writer: int) -> NoReturn:
    """Do the work and say what came of it; whatever goes wrong is said, too."""
    gc.disable()  # it does not live long enough to be worth the time
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2) if call.source in STDIN else (0, 1, 2):
            if stream != writer:
                os.dup2(nowhere, stream)
        said: dict[str, object] = {"answer": work(call, started_s, os.environ)}
    except BaseException as error:
        from topocheck.errors import TopocheckError

        reason = str(error) if isinstance(error, TopocheckError) else f"internal error: {type(error).__name__}: {error}"
        said = {"error": reason[:2000]}
    try:
        os.write(writer, json.dumps(said).encode())
        import atexit

        atexit._run_exitfuncs()  # what the live source started is ended
    finally:
        os._exit(0)


def _hear(reader: int, until_s: float) -> bytes | None:
    """All that the child says before it closes the pipe; None if it does not in time."""
    heard = b""
    while (left_s := until_s - time.monotonic()) > 0:
        if select.select([reader], [], [], left_s)[0]:
            piece = os.read(reader, 1 << 16)
            if not piece:
                return heard
            heard += piece
            if heard.endswith(b"}"):
                return heard
    return None


def _end(child: int, reader: int, within_s: float) -> None:
    """End a child, which first ends what it started: it has when it closes the pipe, not when it says why. One that
    cannot be ended is left behind."""
    until_s = time.monotonic() + within_s
    with contextlib.suppress(OSError):
        os.kill(child, signal.SIGTERM)
        while (left_s := until_s - time.monotonic()) > 0 and select.select([reader], [], [], left_s)[0]:
            if not os.read(reader, 1 << 16):
                break
        os.kill(child, signal.SIGKILL)


def _how_it_ended(child: int) -> str:
    with contextlib.suppress(OSError):
        ended, status = os.waitpid(child, 0)
        if ended and os.WIFSIGNALED(status):
            return f"it was ended by signal {os.WTERMSIG(status)}"
        return f"it ended with status {os.WEXITSTATUS(status)} and no answer"
    return "it ended without an answer"


def _failed(call: Call, reason: str) -> Answer:
    """The answer of a gate that failed, and a line in its log, for which nobody waits long: the disk may hang."""
    answer = failed(call.style, reason, fail_closed=call.fail_closed)
    with contextlib.suppress(OSError):
        reader, writer = os.pipe()
        if os.fork() == 0:
            _log(call, f"no verdict, exit {answer.code}: {reason}")
        os.close(writer)
        select.select([reader], [], [], _LAST_WORDS_S)
    return answer


def _log(call: Call, text: str) -> NoReturn:
    try:
        from topocheck.gate.state import open_folder

        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        job = os.environ.get("SLURM_JOB_ID")
        open_folder(call.state).log(stamped(f"{f'job {job}' if job else 'no job'}: {text}"))
    finally:
        os._exit(0)
