"""The way between two devices, hop by hop: what carries the traffic, how fast each part is, and who shares it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from topocheck.errors import TopocheckError
from topocheck.facts import full_bdf
from topocheck.graph import Device, PcieLink, Topology
from topocheck.hardware import network, pcie
from topocheck.model import link_capacity_gb_per_s, nic_rate_gbit_per_s


class Hop(NamedTuple):
    """One part of the way. GB/s one direction; None where it was not read, or has no figure of its own.

    kind: device, pcie, bridge, root, numa, nvlink, port.
    """

    kind: str
    name: str
    line_rate_gb_per_s: float | None = None
    achievable_gb_per_s: float | None = None
    link: PcieLink | None = None
    shared_with: tuple[str, ...] = ()  # other GPUs and NICs whose own way to the CPU crosses it


class Way(NamedTuple):
    """The hops between two devices over PCIe, both ends included."""

    a: Device
    b: Device
    hops: tuple[Hop, ...]
    known: bool  # False: no input gives the tree between them


def device_of(node: Topology, name: str) -> Device:
    """A device by id, in whatever case, or by its PCI address; TopocheckError if it is not here."""
    wanted = {name.lower(), full_bdf(name) or ""}
    found = next((d for d in node.devices if {d.id.lower(), d.bdf or d.id} & wanted), None)
    if found is None:
        known = ", ".join(d.id for d in node.devices[:40]) or "none"
        raise TopocheckError(f"no device {name!r} in the input: give one of {known}")
    return found


def way_between(node: Topology, a: Device, b: Device) -> Way:
    """Up from both devices to where they meet."""
    if a.id == b.id:
        raise TopocheckError(f"{a.id} is on both ends: give two devices")
    climb_a, climb_b = (_climb(node, d) for d in (a, b))
    meeting = next((at for at in climb_a if at in set(climb_b)), None)
    down = climb_b[: None if meeting is None else climb_b.index(meeting)]
    up = climb_a[: None if meeting is None else climb_a.index(meeting)]
    hops = [*_port(a), Hop("device", a.id), *_half(node, a, up[1:])]
    if meeting is None:
        hops += _seats(a, b)
    else:
        hops.append(Hop("root" if meeting not in node.functions else "bridge", meeting))
    hops += [*reversed(_half(node, b, down[1:])), Hop("device", b.id), *_port(b)]
    return Way(a, b, tuple(hops), known=len(climb_a) > 1 and len(climb_b) > 1)


def _seats(a: Device, b: Device) -> Iterator[Hop]:
    """The NUMA nodes between two host bridges, one or two."""
    for numa in dict.fromkeys((a.numa_node, b.numa_node)):
        yield Hop("numa", "NUMA node not known" if numa is None else f"NUMA node {numa}")


def _climb(node: Topology, device: Device) -> list[str]:
    return list(node.climb(device.bdf if device.bdf and device.bdf in node.parents else device.id))


def _half(node: Topology, device: Device, bridges: list[str]) -> list[Hop]:
    """From a device up: its link, the bridges, and their links."""
    hops = list(_link(node, device.bdf or device.id))
    for bridge in bridges:
        hops.append(Hop("bridge" if bridge in node.functions or bridge in node.inferred else "root", bridge))
        hops += _link(node, bridge)
    return hops


def _link(node: Topology, lower_end: str) -> Iterator[Hop]:
    link = node.links.get(lower_end)
    if link is None:
        return
    capacity = link_capacity_gb_per_s(link)
    if capacity == float("inf"):
        yield Hop("pcie", lower_end, link=link, shared_with=_users(node, lower_end))
        return
    speed = link.speed_gts if not link.asleep else link.can_speed_gts or link.max_speed_gts
    line = pcie.line_rate_gb_per_s(speed or 0.0, link.width or 0)
    yield Hop("pcie", lower_end, line, capacity, link, _users(node, lower_end))


def _users(node: Topology, lower_end: str) -> tuple[str, ...]:
    """The devices below a link, where there are several."""
    below = [d.id for d in (*node.gpus, *node.nics) if lower_end in _climb(node, d)]
    return tuple(below) if len(below) > 1 else ()


def _port(device: Device) -> Iterator[Hop]:
    rate = nic_rate_gbit_per_s(device) if device.kind == "nic" else None
    if rate:
        yield Hop("port", device.id, network.line_rate_gb_per_s(rate), network.achievable_gb_per_s(rate))
