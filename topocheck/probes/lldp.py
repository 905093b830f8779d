"""`lldpctl -f json`: the switch and port at the other end of each Ethernet interface.

With one interface `interface` is an object, not a list; a switch without a name has no key of its own in `chassis`.

    {"lldp": {"interface": [
      {"eth2": {"via": "LLDP",
                "chassis": {"leaf-rail0": {"id": {"type": "mac", "value": "02:00:00:00:02:00"}}},
                "port": {"id": {"type": "ifname", "value": "swp1"}, "descr": "swp1"}}}]}}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from topocheck.facts import Cabling, Evidence, Fact, Gap, LeafPort

INPUT = "lldpctl -f json"
COMMANDS: tuple[str, ...] = ("lldpctl -f json",)
PATHS: tuple[str, ...] = ()
NAME = r"lldp(?:ctl|cli)"

_MOST_CHARS = 4_000_000  # a neighbour takes about 1 kB


def sniff(text: str) -> bool:
    """Whether the text is a JSON object of lldpctl."""
    head = text[:2000]
    return head.lstrip().startswith("{") and '"lldp"' in head


def parse(text: str) -> Iterable[Fact]:
    """One fact an interface with a neighbour."""
    try:
        document = json.loads(text[text.find("{") :]) if len(text) < _MOST_CHARS else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("lldp"), dict):
        yield Gap(INPUT, "not the JSON that lldpctl prints")
        return
    for name, entry in _interfaces(document["lldp"].get("interface")):
        if leaf := _leaf(name, entry):
            yield Cabling(INPUT, leaf, netdev=name)


def _interfaces(listed: Any) -> Iterator[tuple[str, dict[str, Any]]]:  # noqa: ANN401 (JSON of any shape)
    for part in listed if isinstance(listed, list) else [listed]:
        if isinstance(part, dict):
            yield from ((str(name), entry) for name, entry in part.items() if isinstance(entry, dict))


def _leaf(interface: str, entry: dict[str, Any]) -> LeafPort | None:
    """The neighbour; two on one interface are none we could name."""
    chassis, port = entry.get("chassis"), entry.get("port")
    if not isinstance(chassis, dict) or not chassis:
        return None
    names = [name for name in chassis if isinstance(chassis[name], dict) and name != "id"]
    switch = names[0] if names else _value(chassis.get("id"))
    if not switch or len(names) > 1:
        return None
    where = _port(port) if isinstance(port, dict) else None
    return LeafPort(switch, where, "lldp", Evidence(INPUT, None, f"{interface}: {switch} {where or ''}".strip()))


def _port(port: dict[str, Any]) -> str | None:
    """The port's own name; an id that is only a MAC address says less than the description."""
    id_ = port.get("id")
    named = isinstance(id_, dict) and id_.get("type") in ("ifname", "local", "ifalias")
    description = port.get("descr")
    if not named and isinstance(description, str) and description:
        return description
    return _value(id_)


def _value(id_: Any) -> str | None:  # noqa: ANN401 (JSON of any shape)
    value = id_.get("value") if isinstance(id_, dict) else None
    return value if isinstance(value, str) and value else None
