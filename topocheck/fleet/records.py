"""One `topocheck.node/1` document → NodeRecord. ValueError for a document that is not whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from sys import intern
from typing import Any, TypeVar

from topocheck.fleet.record import SEVERITIES, VERDICTS, Fault, Kind, NodeRecord, RailPort
from topocheck.fleet.values import physical, values
from topocheck.formats.json import SCHEMA
from topocheck.sources.reading import printable

_MESSAGE_CHARS = 500
_MOST_PLACES = 1 << 16  # of ports and rails; a switch has 144
_UTC = re.compile(r"2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_T = TypeVar("_T")


class Records:
    """Makes records; equal values of all of them are one object."""

    def __init__(self) -> None:
        self._same: dict[Any, Any] = {}

    def record(self, document: Mapping[str, Any], origin: str, host: str) -> NodeRecord:
        """The record of a node; `host` is what it goes by where its report names none."""
        try:
            return self._record(document, origin, host)
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
            raise ValueError(f"not all of a {SCHEMA} report: {type(error).__name__} {error}") from None

    def _record(self, document: Mapping[str, Any], origin: str, host: str) -> NodeRecord:
        devices = [d for d in document["devices"] if d["kind"] in ("gpu", "nic")]
        nics = [d for d in devices if d["kind"] == "nic"]
        counted = [f for f in document["findings"] if not f["waived"]]
        bdfs = {d["id"]: d["bdf"] for d in devices}
        verdict = document["verdict"]
        if verdict not in VERDICTS:
            raise ValueError(f"verdict {verdict!r}")
        return NodeRecord(
            host=_text(document["host"] or host),
            time=_time(document["time"]),
            origin=origin,
            version=intern(_text(document["version"])),
            verdict=intern(verdict),
            kind=self._one(_kind(document)),
            values=self._one(tuple((intern(f), intern(v)) for f, v in values(document))),
            faults=self._all(counted, lambda f: _fault(f, bdfs)),
            waived=len(document["findings"]) - len(counted),
            skipped=self._one(tuple(intern(_text(s["rule"])) for s in document["skipped"] if not s["partial"])),
            ports=tuple(_port(n, p) for n in nics if n["role"] == "compute" for p in n["ports"]),
            nics_gb_per_s=_nics_gb_per_s(document, nics),
        )

    def _one(self, value: _T) -> _T:
        return self._same.setdefault(value, value)  # type: ignore[no-any-return]

    def _all(self, entries: list[Any], make: Callable[[Any], _T]) -> tuple[_T, ...]:
        return self._one(tuple(self._one(make(entry)) for entry in entries))


def _kind(document: Mapping[str, Any]) -> Kind:
    """Virtual functions are left out: how many there are is a setting."""
    gpus, nics = physical(document, "gpu"), physical(document, "nic")
    models = " + ".join(sorted({str(g["model"] or g["pci_id"]) for g in gpus if g["model"] or g["pci_id"]}))
    return Kind(_interned(document["platform"]["name"]), models or None, len(gpus), len(nics))


def _fault(finding: Mapping[str, Any], bdfs: Mapping[str, str | None]) -> Fault:
    subjects = [_text(s) for s in finding["subjects"]]
    more = f" +{len(subjects) - 1}" if len(subjects) > 1 else ""
    first = subjects[0] if subjects else ""
    price = finding["price"]
    if finding["severity"] not in SEVERITIES:
        raise ValueError(f"severity {finding['severity']!r}")
    return Fault(
        rule=intern(printable(_text(finding["rule"]))),
        name=intern(_text(finding["name"])),
        severity=intern(finding["severity"]),
        device=f"{first}{more}",
        bdf=bdfs.get(first, first if first.count(":") == 2 else None),
        message=_text(finding["message"])[:_MESSAGE_CHARS],
        effect=intern(_text(finding["effect"])),
        loss=_number(price["loss"]) if price and price["confidence"] == "computed" else None,
    )


def _port(nic: Mapping[str, Any], port: Mapping[str, Any]) -> RailPort:
    leaf = port["leaf"] or {"switch": None, "port": None, "by": None}
    return RailPort(
        nic=intern(_text(nic["id"])),
        bdf=_interned(nic["bdf"]),
        port=_place(port["port"]),
        rail=None if nic["rail"] is None else _place(nic["rail"]),
        guid=_interned(port["guid"]),
        state=_interned(port["state"]),
        link_layer=_interned(port["link_layer"]),
        rate_gbit_per_s=_number(port["rate_gbit_per_s"]),
        subnet=_interned(port["subnet"]),
        netdev=_interned(port["netdev"]),
        leaf=_interned(leaf["switch"]),
        leaf_port=None if leaf["port"] is None else intern(str(leaf["port"])),
        by=_interned(leaf["by"]),
    )


def _nics_gb_per_s(document: Mapping[str, Any], nics: list[dict[str, Any]]) -> float | None:
    """What a collective over nodes gets from the compute NICs that are up: every one carries the same bytes, so the
    slowest sets the pace of all (as in predict). Each is as fast as the GPU it serves best can feed it."""
    compute = {n["id"]: n["state"] for n in nics if n["role"] == "compute"}
    best: dict[str, float] = {}
    for pair in document["pairs"]:
        ends = (pair["a"], pair["b"])
        reached = _number(pair["achievable_gb_per_s"])
        nic = next((end for end in ends if end in compute), None)
        if nic is not None and reached is not None and any(end.startswith("gpu") for end in ends):
            best[nic] = max(best.get(nic, 0.0), reached)
    up = [best.get(nic) for nic, state in compute.items() if state != "down"]
    known = [b for b in up if b is not None]
    return None if not compute or len(known) < len(up) else round(len(known) * min(known, default=0.0), 3)


def _time(value: object) -> str:
    """UTC to the second, in the one form that sorts by age; "", older than all, for what is no time."""
    text = _text(value)
    if not _UTC.fullmatch(text):
        return ""
    try:
        datetime.fromisoformat(text[:-1])
    except ValueError:
        return ""
    return text


def _place(value: object) -> int:
    """A port's or rail's number."""
    number = _number(value)
    if number is None or not 0 <= number < _MOST_PLACES:
        raise ValueError(f"{value!r:.40} where a port or rail belongs")
    return int(number)


def _interned(value: object) -> str | None:
    return None if value is None else intern(_text(value))


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise TypeError(f"{type(value).__name__} where a text belongs")


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{type(value).__name__} where a number belongs")
    return float(value)
