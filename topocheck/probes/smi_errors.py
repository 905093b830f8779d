"""What nvidia-smi prints instead of its output when the driver or a GPU does not answer.

NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.
Unable to determine the device handle for GPU0000:9B:00.0: Unknown Error
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from topocheck.facts import Evidence, GpuState, Host, full_bdf
from topocheck.probes.lines import lines_with

_MAX_LINES = 512

_DRIVER = (
    "NVIDIA-SMI has failed because",
    "NVIDIA-SMI couldn't find",
    "Failed to initialize NVML",
    "Failed to properly shut down NVML",
    "No devices were found",
)
_NO_HANDLE = "Unable to determine the device handle"
_BDF = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_HANDLE = re.compile(
    rf"device handle for GPU\s*(?:({_BDF})|(\d{{1,3}})(?:\s*:\s*({_BDF}))?)\s*:?\s*(.*)", re.IGNORECASE
)

SNIFF = re.compile("|".join(re.escape(words) for words in (*_DRIVER, _NO_HANDLE)))


def errors(text: str, command: str) -> Iterator[Host | GpuState]:
    """The driver's error as a fact of the host, a GPU without a handle as one of the GPU."""
    for line in islice(lines_with(text, (*_DRIVER, _NO_HANDLE)), _MAX_LINES):
        evidence = Evidence(command, line.number, line.text)
        handle = _HANDLE.search(line.text)
        if handle:
            yield GpuState(
                command,
                int(handle[2]) if handle[2] else None,
                bdf=full_bdf(handle[1] or handle[3] or ""),
                lost=handle[4].strip() or "no device handle",
                lines={"lost": evidence},
            )
        elif _NO_HANDLE not in line.text:
            start = min(at for words in _DRIVER if (at := line.text.find(words)) >= 0)
            words = re.split(r"[\"`”]", line.text[start:])[0]  # as somebody quotes it
            yield Host(command, driver_error=words, line=evidence)
