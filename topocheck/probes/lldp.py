"""`lldpctl`, as JSON (`-f json`, `-f json0`), as text or as `-f keyvalue`: the switch and port at the other end of each
Ethernet interface.

With one interface `interface` is an object, not a list; a switch without a name has no key of its own in `chassis`.
json0 has a list for everything, and names as values.

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
from topocheck.probes import lldp_text
from topocheck.probes.lines import sniffed

INPUT = "lldpctl -f json"
COMMANDS: tuple[str, ...] = ("lldpctl -f json",)
PATHS: tuple[str, ...] = ()
NAME = r"lldp(?:ctl|cli)"

_MOST_CHARS = 4_000_000  # a neighbour takes about 1 kB


def sniff(text: str) -> bool:
    """Whether neighbours are there, in any of its forms."""
    head = text[:2000]
    return (head.lstrip().startswith("{") and '"lldp"' in head) or sniffed(lldp_text.SNIFF, text)


def parse(text: str) -> Iterable[Fact]:
    """One fact an interface with a neighbour; two on one interface are none we could name."""
    if sniffed(lldp_text.SNIFF, text):
        found = lldp_text.neighbours(text)
    else:
        try:
            document = json.loads(text[text.find("{") :]) if len(text) < _MOST_CHARS else None
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict) or not isinstance(document.get("lldp"), dict | list):
            yield Gap(INPUT, "not what lldpctl prints")
            return
        found = _listed(document["lldp"])
    heard: dict[str, dict[tuple[str, str | None], LeafPort]] = {}
    for interface, leaf in found:
        heard.setdefault(interface, {})[leaf.switch, leaf.port] = leaf
    for interface, leaves in heard.items():
        if len(leaves) == 1:
            (only,) = leaves.values()
            yield Cabling(INPUT, only, netdev=interface)


def _listed(lldp: Any) -> Iterator[tuple[str, LeafPort]]:  # noqa: ANN401 (JSON of any shape)
    for part in lldp if isinstance(lldp, list) else [lldp]:
        for name, entry in _interfaces(part.get("interface")) if isinstance(part, dict) else ():
            if leaf := _leaf(name, entry):
                yield name, leaf


def _interfaces(listed: Any) -> Iterator[tuple[str, dict[str, Any]]]:  # noqa: ANN401 (JSON of any shape)
    for part in listed if isinstance(listed, list) else [listed]:
        if isinstance(part, dict) and isinstance(part.get("name"), str):
            yield part["name"], part
        elif isinstance(part, dict):
            yield from ((str(name), entry) for name, entry in part.items() if isinstance(entry, dict))


def _leaf(interface: str, entry: dict[str, Any]) -> LeafPort | None:
    """The neighbour. What `show interfaces` prints has a status, and the host itself for a chassis."""
    chassis, port = _first(entry.get("chassis")), _first(entry.get("port"))
    if not isinstance(chassis, dict) or "status" in entry:
        return None
    named = _value(_first(chassis.get("name")))
    names = [named] if named else [name for name in chassis if isinstance(chassis[name], dict) and name != "id"]
    switch = names[0] if names else _value(_first(chassis.get("id")))
    if not switch or len(names) > 1:
        return None
    where = _port(port) if isinstance(port, dict) else None
    return LeafPort(switch, where, "lldp", Evidence(INPUT, None, f"{interface}: {switch} {where or ''}".strip()))


def _port(port: dict[str, Any]) -> str | None:
    id_, description = _first(port.get("id")), _first(port.get("descr"))
    kind = id_.get("type") if isinstance(id_, dict) else None
    text = _value(description) if isinstance(description, dict) else description
    return lldp_text.port(str(kind), _value(id_), text if isinstance(text, str) else None)


def _first(value: Any) -> Any:  # noqa: ANN401 (JSON of any shape)
    """What json0 has in a list of one."""
    return value[0] if isinstance(value, list) and value else value


def _value(id_: Any) -> str | None:  # noqa: ANN401 (JSON of any shape)
    value = id_.get("value") if isinstance(id_, dict) else None
    return value if isinstance(value, str) and value else None
