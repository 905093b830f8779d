"""What an input that is missing says: the NVIDIA driver was not there to ask, or did not answer; no RDMA device is."""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.facts import Evidence, Host
from topocheck.sources.base import NO_ANSWER, NO_DRIVER, Missing

NO_RDMA_DEVICE = "No IB devices found"  # ibv_devinfo, on stderr
_ASKS_DRIVER = ("nvidia-smi", "nvml.json")
# The reason for which each of these is missing where it found no RDMA device: `rdma link` ends well and says nothing.
_NO_RDMA = {"rdma link": ("printed nothing", "empty"), "ibv_devinfo -v": (NO_RDMA_DEVICE,)}


def silence(missing: Missing) -> Iterator[Host]:
    """What it says that a question was not put, not answered in time, or answered by nothing."""
    line = Evidence(missing.input, None, missing.reason)
    if missing.reason.endswith(_NO_RDMA.get(missing.input, ())):
        yield Host(missing.input, no_rdma_device=True, line=line)
    elif not missing.input.startswith(_ASKS_DRIVER):
        return
    elif missing.reason.startswith(NO_ANSWER):
        yield Host(missing.input, driver_hung=f"{missing.input}: {missing.reason}", line=line)
    elif missing.reason.startswith(NO_DRIVER):
        yield Host(missing.input, driver_error=missing.reason.removeprefix("not run: "), line=line)
