"""A capture of this machine: everything the probes read, in one file that `--from` reads."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from topocheck.errors import TopocheckError
from topocheck.probes import asked
from topocheck.probes.gather import gather
from topocheck.sources.live import LiveSource
from topocheck.sources.record import Recorder
from topocheck.sources.scrub import Scrubber

_KEY_BYTES = 32


class Captured(NamedTuple):
    """What was written: the file, how many inputs were read and how many were not, what was replaced in them."""

    file: str
    inputs: int
    missing: int
    scrubbed: list[str]


def capture(
    source: LiveSource,
    output: str | None = None,
    *,
    include_identifiers: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Captured:
    """Read the machine and write the capture. What topocheck would say of it does not matter here.

    Raises TopocheckError where the file cannot be written.
    """
    recorder = Recorder(source, progress)
    gather(recorder)
    scrubber = None if include_identifiers else Scrubber(secrets.token_bytes(_KEY_BYTES), recorder.host_names())
    data = recorder.capture(scrubber)
    stamp = "".join(char for char in source.manifest.time or "" if char.isalnum())
    file = output or f"topocheck-capture-{stamp}.tar.gz"
    _write(file, data)
    read, missing = recorder.counts()
    return Captured(file, read, missing, [] if scrubber is None else scrubber.scrubbed)


def inputs() -> int:
    """How many inputs are asked for, of which `progress` tells each."""
    commands, paths = asked()
    return len(commands) + len(paths)


def _write(file: str, data: bytes) -> None:
    """For its owner's eyes: whom to show it is theirs to say."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(data)
    except OSError as error:
        raise TopocheckError(f"{Path(file)}: cannot be written: {error.strerror}: give --output FILE") from None
