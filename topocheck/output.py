"""Where a report goes: standard output, or a file that is either the old one or the whole new one."""

from __future__ import annotations

import os
import sys

from topocheck.errors import TopocheckError


def to_stdout(text: str) -> None:
    """Print a report. A reader that went away (`| head`) is no error; a full disk is."""
    if sys.stdout is None:
        raise TopocheckError("standard output is closed: nothing could be printed")
    data = text.encode(sys.stdout.encoding or "utf-8", errors="replace")
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        _drop_stdout()
    except OSError as error:
        _drop_stdout()
        raise TopocheckError(f"standard output: {error.strerror}: the report was not printed") from None


def to_file(text: str, name: str) -> None:
    """Write a report beside its place and move it there; a device or pipe is written to as it is."""
    from pathlib import Path

    place = Path(name).resolve()
    beside = place.with_name(f".{place.name[:200]}.{os.getpid()}.tmp")
    try:
        if place.exists() and not place.is_file():
            place.write_text(text, encoding="utf-8", errors="replace")
            return
        try:
            with beside.open("x", encoding="utf-8", errors="replace") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(place)
        finally:
            beside.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise TopocheckError(f"--output {name}: {reason}: give a file in a folder you may write to") from None


def _drop_stdout() -> None:
    """Let what is still buffered go nowhere, so that the interpreter's own flush at exit cannot fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
