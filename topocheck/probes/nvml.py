"""`nvml.json`: what NVML said, one JSON record a line (written by sources/nvml_child.py, which shows the form).

A call that failed left {"code": …, "error": …}: a gap of that field only. "Not supported" and "function not found" are
no gap: the part or the driver has no such thing, as N/A of nvidia-smi. A list cut short by a deadline is read up to its
last whole line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import count, repeat
from typing import Any

from topocheck.facts import Evidence, Fact, Gap, GpuState, Host, NvlinkGpu, NvlinkPort, full_bdf
from topocheck.probes.nvml_gpu import failed, state, text_of
from topocheck.probes.nvml_pairs import matrices

INPUT = "nvml.json"
COMMANDS = ("nvml.json",)
PATHS: tuple[str, ...] = ()
NAME = r"nvml(?:\.json)?$"

_WITNESS = "nvml"
_MOST_LINES = 20_000  # 16 GPUs give 200
_MOST_LINKS = 64  # of one GPU
_MOST_CHARS = 262_144  # a line: the links of one GPU take 4 kB
_RECORD = re.compile(r'\s*(?:\[\s*)?\{"(?:gpu|driver|init)": ?')
_LIBRARY_NOT_FOUND, _NO_PERMISSION = 12, 4
_NO_GAP = (2, 3, 13, 25)  # invalid argument (no such link), not supported, function not found, argument version
_LOST = (8, 11, 15, 16, 999)  # codes for which nvidia-smi says "Unable to determine the device handle"
_MB_PER_GB = 1000


def sniff(text: str) -> bool:
    """Whether the text begins with such a record."""
    return _RECORD.match(text[:200]) is not None


def parse(text: str) -> Iterable[Fact]:
    """The driver, each GPU, its NVLinks, and what the driver says of each pair."""
    records = list(_records(text))
    found = list(_facts(records))
    return found or [Gap(INPUT, "no record of NVML in it")]


def _records(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines()[:_MOST_LINES]:
        line = line.strip().strip("[],")
        if not line.startswith("{") or len(line) > _MOST_CHARS:
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


def _facts(records: list[dict[str, Any]]) -> Iterator[Fact]:
    models: dict[int, dict[str, Any]] = {}
    again = {record.get("gpu"): record for record in records if "links_again" in record}
    for record in records:
        index = record.get("gpu")
        if "init" in record:
            yield from _refused(record["init"])
        elif "driver" in record:
            yield from _system(record)
        elif not isinstance(index, int):
            continue
        elif "handle" in record:
            yield _without_handle(index, record["handle"])
        elif "links" in record:
            yield from _links(index, record["links"], models.get(index, {}), again.get(index, {}))
        elif "to" not in record and record is not again.get(index):
            models[index] = record
            yield state(index, record)
            yield from _gaps(index, record)
    yield from matrices(records)


def _refused(failure: Any) -> Iterator[Fact]:  # noqa: ANN401 (JSON of any shape)
    """NVML did not start. A library that is not there says nothing of the driver."""
    words = failed(failure)
    if words is None:
        return
    code = failure.get("code")
    if code in (None, _LIBRARY_NOT_FOUND, _NO_PERMISSION):
        yield Gap(INPUT, words)
    else:
        words = f"Failed to initialize NVML: {words}"
        yield Host(_WITNESS, driver_error=words, line=Evidence(INPUT, None, words))


def _system(record: Mapping[str, Any]) -> Iterator[Fact]:
    driver = record["driver"]
    if isinstance(driver, str):
        yield Host(_WITNESS, driver=driver, line=Evidence(INPUT, None, f"driver: {driver}"))
    count = failed(record.get("count"))
    if record.get("count") == 0:
        words = "No devices were found"
        yield Host(_WITNESS, driver_error=words, line=Evidence(INPUT, None, words))
    elif count:
        yield Gap(INPUT, f"number of GPUs: {count}")


def _without_handle(index: int, failure: Any) -> Fact:  # noqa: ANN401
    words = failed(failure) or "no device handle"
    if not isinstance(failure, dict) or failure.get("code") not in _LOST:
        return Gap(INPUT, f"gpu{index}: {words}")
    line = Evidence(INPUT, None, f"handle of gpu{index}: {words}")
    return GpuState(_WITNESS, index, lost=words, lines={"lost": line})


def _gaps(index: int, record: Mapping[str, Any]) -> Iterator[Fact]:
    """The fields whose call failed, one gap a reason."""
    fields: dict[str, list[str]] = {}
    for key, value in record.items():
        words = failed(value)
        if words and value.get("code") not in _NO_GAP and value.get("code") is not None:
            fields.setdefault(words, []).append(key)
    for words, keys in fields.items():
        more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
        yield Gap(INPUT, f"gpu{index} {', '.join(keys[:3])}{more}: {words}")


def _links(index: int, links: Any, gpu: Mapping[str, Any], again: Mapping[str, Any]) -> Iterator[Fact]:  # noqa: ANN401
    """The NVLinks of a GPU; a list of one link that failed says why there is none. `again`: their counters later."""
    listed = [link for link in links[:_MOST_LINKS] if isinstance(link, dict)] if isinstance(links, list) else []
    model, uuid = text_of(gpu.get("name")), text_of(gpu.get("uuid"))
    if len(listed) == 1 and (words := failed(listed[0].get("state"))):
        line = Evidence(INPUT, None, f"NVLink of gpu{index}: {words}")
        code = listed[0]["state"].get("code")
        if code in _NO_GAP:
            yield NvlinkGpu(_WITNESS, index, model, uuid, unsupported=code == _NO_GAP[1], line=line)
        else:
            yield Gap(INPUT, f"gpu{index} links: {words}")
        return
    ports = tuple(_counted_again(index, port, again) for port in map(_port, repeat(index), count(), listed))
    if ports:
        yield NvlinkGpu(_WITNESS, index, model, uuid, ports, line=ports[0].line)


def _port(index: int, number: int, link: Mapping[str, Any]) -> NvlinkPort:
    active = {0: False, 1: True}.get(link["state"]) if isinstance(link.get("state"), int) else None
    speed = link.get("mb_per_s")
    rate = speed / _MB_PER_GB if active and isinstance(speed, int) and speed else None
    errors = _errors(link)
    word = "unknown" if active is None else f"{rate} GB/s" if rate else "active" if active else "inactive"
    line = Evidence(INPUT, None, f"gpu{index} NVLink {number}: {word}")
    remote = full_bdf(text_of(link.get("remote")) or "")
    return NvlinkPort(number, active, rate, remote, errors, None, line, _error_line(index, number, errors))


def _errors(link: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    names = (("Replay", "replay"), ("Recovery", "recovery"), ("CRC", "crc"))
    return tuple((name, link[key]) for name, key in names if isinstance(link.get(key), int))


def _error_line(index: int, number: int, errors: Iterable[tuple[str, int]], when: str = "") -> Evidence | None:
    said = ", ".join(f"{count} {name}" for name, count in errors if count)
    return Evidence(INPUT, None, f"gpu{index} NVLink {number}: {said}{when}") if said else None


def _counted_again(index: int, port: NvlinkPort, again: Mapping[str, Any]) -> NvlinkPort:
    """The port with its second counts, where there are such."""
    links, seconds = again.get("links_again"), again.get("seconds")
    if not (isinstance(links, list) and port.link < len(links) and isinstance(links[port.link], dict)):
        return port
    before, now = dict(port.errors), dict(_errors(links[port.link]))
    if before.keys() != now.keys() or "CRC" not in now or not isinstance(seconds, int | float) or not seconds > 0:
        return port
    more = now["CRC"] - before["CRC"]
    return port._replace(
        errors=tuple(now.items()),
        errors_before=port.errors if now != before else (),
        crc_per_s=max(0.0, more / seconds),
        error_line=_error_line(index, port.link, now.items(), f", {more} CRC more in {seconds:g} s" if more else ""),
    )
