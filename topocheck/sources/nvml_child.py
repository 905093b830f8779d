"""NVML → JSON, as a program of its own: a driver that hangs then hangs this child and not topocheck.

    python -m topocheck.sources.nvml_child [SECONDS]
    [
    {"driver": "580.95.05", "nvml": "13.580.95.05", "count": 8},
    {"gpu": 0, "name": "NVIDIA H100 80GB HBM3", "pci": {"busId": "00000000:18:00.0", …}, "gen": 5, …},
    {"gpu": 0, "links": [{"state": 1, "mb_per_s": 26562, "remote": "00000000:07:00.0", "replay": 0, …}, …]},
    {"gpu": 0, "to": 1, "ancestor": 20, "p2p_read": 0, "p2p_write": 0, "p2p_nvlink": 0, …}
    {"gpu": 3, "links_again": [{"replay": 0, "recovery": 0, "crc": 163}, …], "seconds": 0.5}
    ]

With SECONDS, NVLink CRC counters that are not zero are read again, if that ends within so many seconds.

One record a line, written as soon as it is known, so that what was read before a hang is not lost. A call that failed
has {"code": 15, "error": "GPU is lost"} in place of its value. No value is interpreted here, and no identifier but the
UUID is read.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

_NOT_SUPPORTED, _INVALID_ARGUMENT, _FUNCTION_NOT_FOUND, _GPU_IS_LOST = 3, 2, 13, 15  # nvmlReturn_t
_STOPS_LINKS = (_INVALID_ARGUMENT, _NOT_SUPPORTED, _FUNCTION_NOT_FOUND, _GPU_IS_LOST)
_MAX_LINKS = 36

# key, functions of which the first that the library has is asked, further arguments
_SYSTEM = (
    ("driver", ("nvmlSystemGetDriverVersion",), ()),
    ("nvml", ("nvmlSystemGetNVMLVersion",), ()),
    ("count", ("nvmlDeviceGetCount",), ()),
)
_GPU: tuple[tuple[str, tuple[str, ...], tuple[int, ...]], ...] = (
    ("name", ("nvmlDeviceGetName",), ()),
    ("uuid", ("nvmlDeviceGetUUID",), ()),
    ("pci", ("nvmlDeviceGetPciInfo",), ()),
    ("minor", ("nvmlDeviceGetMinorNumber",), ()),
    ("vbios", ("nvmlDeviceGetVbiosVersion",), ()),
    ("gen", ("nvmlDeviceGetCurrPcieLinkGeneration",), ()),
    ("gen_max", ("nvmlDeviceGetMaxPcieLinkGeneration",), ()),
    ("gen_device_max", ("nvmlDeviceGetGpuMaxPcieLinkGeneration",), ()),
    ("width", ("nvmlDeviceGetCurrPcieLinkWidth",), ()),
    ("width_max", ("nvmlDeviceGetMaxPcieLinkWidth",), ()),
    ("pstate", ("nvmlDeviceGetPerformanceState",), ()),
    ("utilization", ("nvmlDeviceGetUtilizationRates",), ()),
    ("replays", ("nvmlDeviceGetPcieReplayCounter",), ()),
    ("bar1", ("nvmlDeviceGetBAR1MemoryInfo",), ()),
    ("memory", ("nvmlDeviceGetMemoryInfo",), ()),
    ("mig", ("nvmlDeviceGetMigMode",), ()),
    ("persistence", ("nvmlDeviceGetPersistenceMode",), ()),
    ("power_limit_mw", ("nvmlDeviceGetPowerManagementLimit",), ()),
    ("application_clock_mhz", ("nvmlDeviceGetApplicationsClock",), (0,)),  # graphics
    ("clocks_event_reasons",
     ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"), ()),
    ("ecc", ("nvmlDeviceGetEccMode",), ()),
    ("ecc_uncorrectable", ("nvmlDeviceGetTotalEccErrors",), (1, 0)),  # uncorrected, since the driver was loaded
    ("remapped_rows", ("nvmlDeviceGetRemappedRows",), ()),
    ("retired_pending", ("nvmlDeviceGetRetiredPagesPendingStatus",), ()),
    ("virtualization", ("nvmlDeviceGetVirtualizationMode",), ()),
    ("protected_memory", ("nvmlDeviceGetConfComputeProtectedMemoryUsage",), ()),
)  # fmt: skip
_FIELDS = (("recovery_action", 230), ("c2c_links", 170))  # NVML_FI_DEV_…
_LINK_RATE = 164  # MB/s
_COUNTERS = (("replay", 0, 161), ("recovery", 1, 162), ("crc", 2, 163))  # nvmlNvLinkErrorCounter_t, NVML_FI_DEV_…
_COUNT_S = 0.5  # between two readings of counters that are not zero: 100 a second (rules.md NVL004) are 50
_P2P = (("p2p_read", 0), ("p2p_write", 1), ("p2p_nvlink", 2), ("p2p_atomics", 3), ("p2p_pcie", 4))
_VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # by nvmlValueType_t


def main() -> int:
    """Print the records; 0 even if NVML cannot start, since that is an answer."""
    first = True
    sys.stdout.write("[\n")
    for record in records(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0):
        sys.stdout.write(("" if first else ",\n") + json.dumps(record))
        sys.stdout.flush()
        first = False
    sys.stdout.write("\n]\n")
    return 0


def records(within_s: float = 0.0) -> Iterator[dict[str, Any]]:
    """Everything read, cheap and important things first; counters a second time only within `within_s`."""
    end_s = time.monotonic() + within_s
    try:
        import pynvml as nvml
    except ImportError:
        yield {"init": {"code": None, "error": "the Python package nvidia-ml-py is not installed"}}
        return
    started = _call(nvml, ("nvmlInit",))
    if started is not None:
        yield {"init": started}
        return
    system = {key: _call(nvml, names, *more) for key, names, more in _SYSTEM}
    yield system
    count = system["count"] if isinstance(system["count"], int) else 0
    handles: dict[int, Any] = {}
    for index in range(count):
        handle = _call(nvml, ("nvmlDeviceGetHandleByIndex",), index, raw=True)
        if isinstance(handle, dict):
            yield {"gpu": index, "handle": handle}
        else:
            handles[index] = handle
    for index, handle in handles.items():
        said = {key: _call(nvml, names, handle, *more) for key, names, more in _GPU}
        fields = _asked(nvml, handle, [(field, 0) for _, field in _FIELDS])
        keys = [key for key, _ in _FIELDS]
        yield {"gpu": index, **said, "fabric": _fabric(nvml, handle), **dict(zip(keys, fields, strict=True))}
    erred: dict[int, tuple[int, float]] = {}  # GPU → its number of links, and when they were read
    for index, handle in handles.items():
        links = _links(nvml, handle)
        if any(isinstance(link.get("crc"), int) and link["crc"] for link in links):
            erred[index] = len(links), time.monotonic()
        yield {"gpu": index, "links": links}
    for index, handle in handles.items():
        for other in (o for o in handles if o > index):
            yield {"gpu": index, "to": other} | _pair(nvml, handle, handles[other])
    if time.monotonic() + _COUNT_S < end_s:
        for index, (count, before_s) in erred.items():
            time.sleep(max(0.0, before_s + _COUNT_S - time.monotonic()))
            again, seconds = _errors(nvml, handles[index], count), time.monotonic() - before_s
            yield {"gpu": index, "links_again": again, "seconds": round(seconds, 3)}


def _pair(nvml: Any, a: Any, b: Any) -> dict[str, Any]:  # noqa: ANN401 (pynvml has no types)
    """What the driver says of a pair; P2P status in both directions where they differ."""
    said = {"ancestor": _call(nvml, ("nvmlDeviceGetTopologyCommonAncestor",), a, b)}
    for key, capability in _P2P:
        there = _call(nvml, ("nvmlDeviceGetP2PStatus",), a, b, capability)
        back = _call(nvml, ("nvmlDeviceGetP2PStatus",), b, a, capability)
        said[key] = there
        if back != there:
            said[f"{key}_back"] = back
    return said


def _fabric(nvml: Any, handle: Any) -> Any:  # noqa: ANN401
    """Registration with the NVSwitch fabric, without the cluster's UUID."""
    if not hasattr(nvml, "c_nvmlGpuFabricInfo_v2_t"):
        return {"code": _FUNCTION_NOT_FOUND, "error": "not in this nvidia-ml-py"}
    info = nvml.c_nvmlGpuFabricInfo_v2_t()
    failed = _call(nvml, ("nvmlDeviceGetGpuFabricInfoV",), handle, ctypes.byref(info))
    if failed:
        return failed
    return {"state": int(info.state), "status": int(info.status), "health": int(info.healthMask)}


def _links(nvml: Any, handle: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """The NVLinks the part has: state, rate, far end, errors. The first link that is none ends the list; a list of
    that one alone says why there is no other."""
    found: list[dict[str, Any]] = []
    state: Any = None
    for link in range(_MAX_LINKS):
        state = _call(nvml, ("nvmlDeviceGetNvLinkState",), handle, link)
        if isinstance(state, dict) and (state["code"] in _STOPS_LINKS or not found):
            break
        remote = _call(nvml, ("nvmlDeviceGetNvLinkRemotePciInfo",), handle, link) if state == 1 else None
        found.append(
            {
                "state": state,
                "remote": remote.get("busId", remote) if isinstance(remote, dict) else None,
                "remote_type": _call(nvml, ("nvmlDeviceGetNvLinkRemoteDeviceType",), handle, link),
            }
        )
    if not found:
        return [{"state": state}]
    rates = _asked(nvml, handle, [(_LINK_RATE, link) for link in range(len(found))])
    for said, rate, errors in zip(found, rates, _errors(nvml, handle, len(found)), strict=True):
        said |= {"mb_per_s": rate, **errors}
    return found


def _errors(nvml: Any, handle: Any, links: int) -> list[dict[str, Any]]:  # noqa: ANN401
    """The error counters of the first `links` links."""
    wanted = [(field, link) for link in range(links) for _, _, field in _COUNTERS]
    asked = iter(_asked(nvml, handle, wanted))
    found = [{key: next(asked) for key, _, _ in _COUNTERS} for _ in range(links)]
    for link, said in enumerate(found):
        for key, counter, _ in _COUNTERS:
            if isinstance(said[key], dict):  # drivers before 525 have no such fields
                said[key] = _call(nvml, ("nvmlDeviceGetNvLinkErrorCounter",), handle, link, counter)
    return found


def _asked(nvml: Any, handle: Any, fields: Sequence[tuple[int, int]]) -> list[Any]:  # noqa: ANN401
    """The values of (field, scope) pairs, in one call."""
    answer = _call(nvml, ("nvmlDeviceGetFieldValues",), handle, list(fields), raw=True)
    return [answer] * len(fields) if isinstance(answer, dict) else [_field(value) for value in answer]


def _field(value: Any) -> Any:  # noqa: ANN401
    if value.nvmlReturn:
        return {"code": int(value.nvmlReturn), "error": "field not available"}
    return getattr(value.value, _VALUES[value.valueType if value.valueType < len(_VALUES) else 3])


def _call(nvml: Any, names: Sequence[str], *arguments: Any, raw: bool = False) -> Any:  # noqa: ANN401
    """What the first of these functions that exists answers, as JSON; a failure as its code and words."""
    failure: dict[str, Any] = {"code": _FUNCTION_NOT_FOUND, "error": "not in this nvidia-ml-py"}
    for name in names:
        function = getattr(nvml, name, None)
        if function is None:
            continue
        try:
            answer = function(*arguments)
            return answer if raw else _plain(answer)
        except nvml.NVMLError as error:
            failure = _failure(error)
            if failure["code"] != _FUNCTION_NOT_FOUND:
                break
        except Exception as error:  # a nvidia-ml-py older or newer than this file
            failure = {"code": None, "error": f"{type(error).__name__}: {error}"[:200]}
    return failure


def _failure(error: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"code": error.value, "error": str(error)}


def _plain(value: Any) -> Any:  # noqa: ANN401
    """A ctypes value as what JSON has."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, ctypes.Structure):
        return {name: _plain(getattr(value, name)) for name, *_ in value._fields_}
    if isinstance(value, ctypes.Array | list | tuple):
        return [_plain(part) for part in value]
    return value


if __name__ == "__main__":
    sys.exit(main())
