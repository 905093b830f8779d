"""A repair as data: small changes that make a new Topology. What needs more than these is no repair of ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from topocheck.graph import Device, PcieLink, Topology


class SetLink(NamedTuple):
    """A PCIe link trains at this speed and width (None: as it is)."""

    link: str
    speed_gts: float | None = None
    width: int | None = None


class SetPort(NamedTuple):
    """A NIC's port comes up, or runs at this rate."""

    nic: str
    port: int
    rate_gbit_per_s: float | None


class AddNic(NamedTuple):
    """A GPU gets the NIC it lacks, like the node's other compute NICs, on its own switch."""

    gpu: str
    like: str | None  # the compute NIC it is taken after


class MoveNic(NamedTuple):
    """A NIC moves next to a GPU: the GPU's own, and nobody else's."""

    gpu: str
    nic: str


class SetField(NamedTuple):
    """A setting becomes what it should be: of the port of a NIC, of a device, or (subject "") of the machine."""

    subject: str
    field: str
    value: object
    port: int | None = None


Patch = SetLink | SetPort | AddNic | MoveNic | SetField


def patched(node: Topology, patches: tuple[Patch, ...]) -> Topology:
    """The node with all patches applied. A patch whose target is not there changes nothing."""
    for patch in patches:
        node = _apply(node, patch)
    return node


def _apply(node: Topology, patch: Patch) -> Topology:
    if isinstance(patch, SetLink):
        link = node.links.get(patch.link)
        return node if link is None else replace(node, links={**node.links, patch.link: _set_link(link, patch)})
    if isinstance(patch, SetPort):
        nic = node.by_id.get(patch.nic)
        return node if nic is None else node.replaced(_set_port(nic, patch))
    if isinstance(patch, SetField):
        return _set_field(node, patch)
    if isinstance(patch, MoveNic):
        own = {gpu: tuple(n for n in nics if n != patch.nic) for gpu, nics in node.assignment.items()}
        moved = replace(node, assignment={**own, patch.gpu: (patch.nic,)})
        return _beside(moved, patch.gpu, patch.nic)
    return _add_nic(node, patch)


def _set_link(link: PcieLink, patch: SetLink) -> PcieLink:
    speed = patch.speed_gts or link.speed_gts
    width = patch.width or link.width
    return replace(
        link,
        speed_gts=speed,
        width=width,
        target_speed_gts=None if patch.speed_gts else link.target_speed_gts,
        asleep=False,
        lines={},
        max_speed_gts=_at_least(link.max_speed_gts, speed),
        a_max_speed_gts=_at_least(link.a_max_speed_gts, speed),
        max_width=_at_least(link.max_width, width),
        a_max_width=_at_least(link.a_max_width, width),
    )


Number = TypeVar("Number", int, float)


def _at_least(known: Number | None, value: Number | None) -> Number | None:
    return known if known is None or value is None else max(known, value)


def _set_port(nic: Device, patch: SetPort) -> Device:
    ports = tuple(
        replace(p, state="active", physical="linkup", rate_gbit_per_s=patch.rate_gbit_per_s or p.rate_gbit_per_s)
        if p.port == patch.port
        else p
        for p in nic.ports
    )
    return replace(nic, ports=ports)


def _set_field(node: Topology, patch: SetField) -> Topology:
    change: dict[str, Any] = {patch.field: patch.value}
    if not patch.subject:
        return replace(node, machine=replace(node.machine, **change))
    device = node.by_id.get(patch.subject)
    if device is None:
        return node
    if patch.port is None:
        return node.replaced(replace(device, **change))
    ports = tuple(replace(p, **change) if p.port == patch.port else p for p in device.ports)
    return node.replaced(replace(device, ports=ports))


def _add_nic(node: Topology, patch: AddNic) -> Topology:
    like = node.by_id.get(patch.like or "")
    name = f"nic-of-{patch.gpu}"
    new = replace(like, id=name, bdf=None) if like else Device(name, "nic", role="compute", rail=None)
    link = node.links.get(like.bdf or like.id) if like else None
    links = {**node.links, name: replace(link, b=name, a=None)} if link else node.links
    grown = replace(node, devices=(*node.devices, new), links=links, assignment={**node.assignment, patch.gpu: (name,)})
    return _beside(grown, patch.gpu, name)


def _beside(node: Topology, gpu: str, nic: str) -> Topology:
    """The pair meets in one switch."""
    pair = frozenset((gpu, nic))
    return replace(node, classes={**node.classes, pair: "PIX"}, pcie_classes={**node.pcie_classes, pair: "PIX"})
