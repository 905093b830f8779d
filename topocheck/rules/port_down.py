"""
A port of a compute NIC that should be up is not Active.

Why it costs: its GPU's traffic takes another GPU's NIC; the node has one NIC less, and a rail is broken.

Usual cause: Disabled: switched off on the host. Polling: no cable, or the other end is off. Initialize, or Down with a
link up: no subnet manager has configured it.

Repair: by cause: enable the port (mlxlink, ibportstate); reseat cable or transceiver and look at the switch port; start
or fix the subnet manager.

Silent when: it is the second port of a card whose first is Active and no equal uses both; an idle virtual function; a
software device; NICs of another role are info.
"""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.facts import RdmaPort
from topocheck.finding import Answer, Finding, NotApplicable, Severity, Skip, enough, equals_of
from topocheck.graph import Device, Topology
from topocheck.hardware.network import most_gbit_per_s
from topocheck.model import Scenario
from topocheck.patches import SetPort

ID = "NET001"
NAME = "port-down"
_AS_PRINTED = {"linkup": "LinkUp", "linkerrorrecovery": "LinkErrorRecovery"}
_CAUSES = {
    "disabled": ("switched off on the host", "Enable the port on the host (mlxlink or ibportstate enable)"),
    "polling": ("no cable, or the other end is off", "Reseat cable or transceiver; check the switch port"),
    "linkup": ("no subnet manager has configured it", "Start or fix the subnet manager; check the port's P_Key"),
}


def check(node: Topology) -> Iterator[Answer]:
    """Ports that are not Active and are expected to be."""
    if not node.nics:
        yield NotApplicable("no NIC in the input")
        return
    read = [n for n in node.nics if n.state != "unknown"]
    if not read:
        yield Skip("no port state in the input")
        return
    judged = [n for n in node.nics if n.role in ("compute", "unknown")]
    if unread := [n for n in judged if n.state == "unknown" and not n.is_vf]:
        yield Skip(f"no port state of {len(unread)} of {len(judged)} NICs", partial=True)
    for nic in read:
        if nic.is_vf or nic.role == "management":
            continue
        down = [p for p in nic.ports if p.state and p.state != "active" and _expected(node, nic, p)]
        if down and (nic.state != "active" or nic.role == "compute"):
            yield _finding(node, nic, down)


def _expected(node: Topology, nic: Device, port: RdmaPort) -> bool:
    """A port with a cable in (link up, initialising) always is; else it must not be a card's unused second port."""
    if port.physical == "linkup" or port.state in ("init", "initialize", "armed"):
        return True
    card = [n for n in node.nics if n.card == nic.card]
    used = sum(p.state == "active" for n in card for p in n.ports)
    if used == 0:
        return True
    like = equals_of(node, nic)
    cards = {e.card for e in like}
    return any(sum(p.state == "active" for e in like if e.card == c for p in e.ports) > used for c in cards)


def _finding(node: Topology, nic: Device, down: list[RdmaPort]) -> Finding:
    equals = [e for e in equals_of(node, nic) if not e.is_vf]
    active = sum(e.state == "active" for e in equals)
    severity: Severity = "warning" if nic.role in ("compute", "unknown") else "info"
    if nic.role == "compute" and active >= 3 and enough(active, len(equals)):
        severity = "error"
    named = nic.role_from in ("policy", "platform") and nic.role == "compute"
    wanted = named and nic.state != "active" and severity != "error"
    gpus = node.gpus_of(nic)
    of_equals = max((e.rate_gbit_per_s or 0.0 for e in equals), default=0.0)
    rate = of_equals or most_gbit_per_s(nic.pci_id, nic.device_type)
    cause, repair = _cause(down[0])
    which = f"port {down[0].port} " if len(nic.ports) > 1 else "port "
    lines = dict.fromkeys(line for p in down for key in _shown(p) if (line := p.lines.get(key)))
    peers = f", {active} of {len(equals)} equals are Active" if equals else ""
    return Finding(
        rule=ID,
        name=NAME,
        severity="error" if wanted else severity,
        subjects=(nic.id,),
        message=f"{nic.id} {which}is {_words(down[0])} ({cause}){peers}",
        repair=repair,
        evidence=tuple(lines) or tuple(nic.lines.values())[:1],
        effect="slows" if node.gpus else "stops",
        expected_from=nic.role_from if wanted else "equals" if active else None,
        patches=tuple(SetPort(nic.id, p.port, rate) for p in down),
        scenarios=(Scenario("node-nics"), *(Scenario("gpu-nic", g) for g in gpus)),
        price_kind="computed" if (gpus and rate) or (nic.role == "compute" and of_equals) else "unknown",
        covers=frozenset(gpus),
    )


def _shown(port: RdmaPort) -> tuple[str, ...]:
    """The fields that show it; a port that has not heard of a subnet manager has its LID at 0."""
    unmanaged = port.sm_lid == 0 and port.link_layer == "infiniband" and _cause(port) == _CAUSES["linkup"]
    return ("state", "physical", "sm_lid") if unmanaged else ("state", "physical")


def _words(port: RdmaPort) -> str:
    state = (port.state or "unknown").capitalize()
    return f"{state}/{_AS_PRINTED.get(port.physical, port.physical.capitalize())}" if port.physical else state


def _cause(port: RdmaPort) -> tuple[str, str]:
    if port.state in ("init", "initialize", "armed"):
        return _CAUSES["linkup"]
    return _CAUSES.get(port.physical or "", ("cause not in the input", "Look at ibstat and at the switch port"))
