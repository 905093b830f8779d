"""What an input that is missing says of the NVIDIA driver: it was not there to ask, or it did not answer."""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.facts import Evidence, Host
from topocheck.sources.base import NO_ANSWER, NO_DRIVER, Missing

_ASKS_DRIVER = ("nvidia-smi", "nvml.json")


def silence(missing: Missing) -> Iterator[Host]:
    """What it says of the driver that a question to it was not put, or not answered in time."""
    if not missing.input.startswith(_ASKS_DRIVER):
        return
    line = Evidence(missing.input, None, missing.reason)
    if missing.reason.startswith(NO_ANSWER):
        yield Host(missing.input, driver_hung=f"{missing.input}: {missing.reason}", line=line)
    elif missing.reason.startswith(NO_DRIVER):
        yield Host(missing.input, driver_error=missing.reason.removeprefix("not run: "), line=line)
