"""What the gate reads of this machine: its files and kernel log, then the driver through NVML; no more than it must.

A tool is asked only for what these do not say: nvidia-smi where there is no NVML library, lspci and ibstat where there
is no /sys. `lspci -vv` reads every card's VPD, which can take seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from topocheck.sources.base import NO_ANSWER, NO_DRIVER, Missing, Raw
from topocheck.sources.live import LiveSource

_NVML = "nvml.json"
_ALWAYS = ("dmesg", _NVML)
_WITHOUT_SYS = ("lspci -D -nn -vv", "ibstat", "ibv_devinfo -v", "numactl -H", "lscpu")
_WITHOUT_NVML = ("nvidia-smi -q -x", "nvidia-smi nvlink -s")
_NO_LIBRARY = re.compile(r'\s*\[\s*\{"init": ?\{"code": ?(?:null|12|13)\b')  # nvmlReturn_t: not found, no such function


class BriefSource:
    """A live source that is asked for little, and reads every file once."""

    kind = "live"

    def __init__(self, live: LiveSource, *, ask_driver: bool = True) -> None:
        self._live, self._ask_driver = live, ask_driver
        self.name, self.manifest = live.name, live.manifest
        self.read, self.read_bytes = live.read, live.read_bytes
        self.glob, self.realpath = live.glob, live.realpath

    def texts(self, commands: Sequence[str], paths: Sequence[str]) -> Iterable[Raw | Missing]:
        """Of the commands those that the gate needs."""
        wanted = self._wanted()
        first = [command for command in commands if command in wanted]
        return self._answers(self._live.texts(first, paths), [c for c in commands if c in _WITHOUT_NVML])

    def start(self) -> None:
        """Start the commands, so that they run while the caller imports what it needs."""
        self._live.start(self._wanted())

    def sampled(self, paths: Sequence[str], rank: Callable[[str], float]) -> dict[str, str]:
        """One reading of each file: a second one of all follows where it matters."""
        return {path: text for path in paths if (text := self.read(path)) is not None}

    def stop(self) -> None:
        """Kill what still runs."""
        self._live.stop()

    def _wanted(self) -> tuple[str, ...]:
        wanted = (*_ALWAYS, *(() if self.glob("/sys/bus/pci/devices/*") else _WITHOUT_SYS))
        return tuple(command for command in wanted if self._ask_driver or command != _NVML)

    def _answers(self, texts: Iterable[Raw | Missing], instead: Sequence[str]) -> Iterator[Raw | Missing]:
        mute = False
        for item in texts:
            if item.input == _NVML:
                mute = mute or _has_no_library(item)
            yield item
        if mute:
            yield from self._live.texts(instead, ())


def _has_no_library(item: Raw | Missing) -> bool:
    """Whether NVML could not be asked at all. That it did not answer, or refused, is an answer."""
    if isinstance(item, Missing):
        return not item.reason.startswith((NO_ANSWER, NO_DRIVER))
    return _NO_LIBRARY.match(item.text) is not None
