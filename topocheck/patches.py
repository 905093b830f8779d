"""A repair as data: small changes that make a new Topology. What needs more than these is no repair of ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any, NamedTuple, TypeVar

from topocheck.facts import NvlinkPort
from topocheck.graph import PCIE_CLASSES, RANK, SWITCH_LOCAL, Device, PcieLink, Topology


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


class SetNvlinks(NamedTuple):
    """A GPU's NVLinks, or those of one pair, are all up again: `links` of them."""

    gpu: str
    links: int
    other: str | None = None


class SetP2p(NamedTuple):
    """Two GPUs can read and write each other's memory."""

    gpu: str
    other: str


class SetField(NamedTuple):
    """A setting becomes what it should be: of the port of a NIC, of a device, or (subject "") of the machine."""

    subject: str
    field: str
    value: object
    port: int | None = None


class OwnUplink(NamedTuple):
    """A GPU gets every shared link between it and its host bridge to itself."""

    gpu: str


class SetPayload(NamedTuple):
    """Both ends of a PCIe link use this MaxPayload."""

    link: str
    payload_bytes: int


class SetPci(NamedTuple):
    """A setting of one PCI function: a field of PciFunction ("relaxed_ordering", "acs_ctl") and its value."""

    bdf: str
    field: str
    value: object


class SetNvlinkRate(NamedTuple):
    """All active NVLinks of a GPU train at this rate."""

    gpu: str
    rate_gb_per_s: float


class JoinNvlink(NamedTuple):
    """All these GPUs reach each other over so many NVLinks."""

    gpus: tuple[str, ...]
    links: int


Patch = (
    SetLink
    | SetPort
    | AddNic
    | MoveNic
    | SetNvlinks
    | SetP2p
    | SetField
    | OwnUplink
    | SetPayload
    | SetPci
    | SetNvlinkRate
    | JoinNvlink
)


def patched(node: Topology, patches: tuple[Patch, ...]) -> Topology:
    """The node with all patches applied. A patch whose target is not there changes nothing."""
    for patch in patches:
        node = _apply(node, patch)
    return node


def _apply(node: Topology, patch: Patch) -> Topology:
    return _STEPS[type(patch)](node, patch)


def _train(node: Topology, patch: SetLink) -> Topology:
    link = node.links.get(patch.link)
    return node if link is None else replace(node, links={**node.links, patch.link: _set_link(link, patch)})


def _raise_port(node: Topology, patch: SetPort) -> Topology:
    nic = node.by_id.get(patch.nic)
    return node if nic is None else node.replaced(_set_port(nic, patch))


def _move_nic(node: Topology, patch: MoveNic) -> Topology:
    own = {gpu: tuple(n for n in nics if n != patch.nic) for gpu, nics in node.assignment.items()}
    moved = replace(node, assignment={**own, patch.gpu: (patch.nic,)})
    return _beside(moved, patch.gpu, patch.nic)


def _own_uplink(node: Topology, patch: OwnUplink) -> Topology:
    """The GPU's own link stays, with a chain of copies of the shared links above it up to the same root."""
    gpu = node.by_id.get(patch.gpu)
    if gpu is None or gpu.bdf is None:
        return node
    others = {x.id for g in node.gpus if g.id != gpu.id for x in node.path_up(g)}
    links, parents, at = dict(node.links), dict(node.parents), gpu.bdf
    for link in (x for x in node.path_up(gpu) if x.id in others):
        copy = f"{link.id} of {gpu.id}"
        links[copy] = replace(link, b=copy)
        parents[at], at = copy, copy
    if at != gpu.bdf:
        parents[at] = list(node.climb(gpu.bdf))[-1]
    return replace(node, links=links, parents=parents)


def _set_payload(node: Topology, patch: SetPayload) -> Topology:
    link = node.links.get(patch.link)
    if link is None:
        return node
    for end in (link.a, link.b):
        node = _set_pci(node, SetPci(end or "", "payload_bytes", patch.payload_bytes))
    return replace(node, links={**node.links, patch.link: replace(link, payload_bytes=patch.payload_bytes)})


def _set_pci(node: Topology, patch: SetPci) -> Topology:
    known = node.functions.get(patch.bdf)
    if known is None:
        return node
    changed = {patch.field: patch.value}
    function = replace(known, **changed)  # type: ignore[arg-type]
    bridges = {**node.bridges, patch.bdf: function} if patch.bdf in node.bridges else node.bridges
    node = replace(node, functions={**node.functions, patch.bdf: function}, bridges=bridges)
    device = node.by_id.get(patch.bdf)
    return node if device is None else node.replaced(replace(device, pci=function))


def _set_nvlink_rate(node: Topology, patch: SetNvlinkRate) -> Topology:
    gpu = node.by_id.get(patch.gpu)
    if gpu is None or gpu.nvlinks is None:
        return node
    ports = tuple(p._replace(rate_gb_per_s=patch.rate_gb_per_s) if p.active else p for p in gpu.nvlinks)
    return node.replaced(replace(gpu, nvlinks=ports))


def _join_nvlink(node: Topology, patch: JoinNvlink) -> Topology:
    directed = dict.fromkeys(permutations(patch.gpus, 2), f"NV{patch.links}")
    classes = {frozenset(ends): word for ends, word in directed.items()}
    return replace(node, classes={**node.classes, **classes}, directed={**node.directed, **directed})


def _set_link(link: PcieLink, patch: SetLink) -> PcieLink:
    speed = patch.speed_gts or link.speed_gts
    width = patch.width or link.width
    return replace(
        link,
        speed_gts=speed,
        width=width,
        target_speed_gts=None if patch.speed_gts else link.target_speed_gts,
        asleep=link.asleep and patch.speed_gts is None,
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


def _set_nvlinks(node: Topology, patch: SetNvlinks) -> Topology:
    """All ports of the GPU, and the class of its pairs, or of the one pair, in both directions."""
    gpu = node.by_id.get(patch.gpu)
    if gpu is None:
        return node
    others = [patch.other] if patch.other else [g.id for g in node.gpus if g.id != gpu.id]
    token = f"NV{patch.links}"
    pairs = {frozenset((gpu.id, other)) for other in others}
    known = {pair: token for pair in pairs if node.classes.get(pair) is not None}
    directed = {key: token if frozenset(key) in pairs else cell for key, cell in node.directed.items()}
    node = replace(node, classes={**node.classes, **known}, directed=directed)
    if patch.other or (gpu.nvlinks is None and gpu.nvlinks_none is None):
        return node
    ports = tuple(NvlinkPort(i, True, None) for i in range(patch.links))
    return node.replaced(replace(gpu, nvlinks=ports, nvlinks_none=None))


def _set_p2p(node: Topology, patch: SetP2p) -> Topology:
    pair = {patch.gpu.upper(), patch.other.upper()}
    mended = tuple(
        replace(matrix, cells={key: "OK" if set(key) == pair else cell for key, cell in matrix.cells.items()})
        for matrix in node.p2p
    )
    return replace(node, p2p=mended)


def _add_nic(node: Topology, patch: AddNic) -> Topology:
    like = node.by_id.get(patch.like or "")
    own = node.assignment.get(patch.gpu, ())
    name = f"nic-of-{patch.gpu}" + "+" * sum(n.startswith("nic-of-") for n in own)
    new = replace(like, id=name, bdf=None) if like else Device(name, "nic", role="compute", rail=None)
    link = node.links.get(like.bdf or like.id) if like else None
    links = {**node.links, name: replace(link, b=name, a=None)} if link else node.links
    assignment = {**node.assignment, patch.gpu: (*own, name)}
    grown = replace(node, devices=(*node.devices, new), links=links, assignment=assignment)
    return _beside(grown, patch.gpu, name)


def _beside(node: Topology, gpu: str, nic: str) -> Topology:
    """The pair meets in one switch; where no GPU shares a switch with a NIC, as near as the nearest do."""
    ranks = [RANK[node.pcie_class(g.id, n.id)] for g in node.gpus for n in node.compute_nics]
    best = min(ranks, default=0)
    near = PCIE_CLASSES[best] if SWITCH_LOCAL < best < len(PCIE_CLASSES) else "PIX"
    pair = frozenset((gpu, nic))
    return replace(node, classes={**node.classes, pair: near}, pcie_classes={**node.pcie_classes, pair: near})


_STEPS: dict[type, Callable[[Topology, Any], Topology]] = {
    SetLink: _train,
    SetPort: _raise_port,
    AddNic: _add_nic,
    MoveNic: _move_nic,
    OwnUplink: _own_uplink,
    SetPayload: _set_payload,
    SetPci: _set_pci,
    SetField: _set_field,
    SetNvlinks: _set_nvlinks,
    SetP2p: _set_p2p,
    SetNvlinkRate: _set_nvlink_rate,
    JoinNvlink: _join_nvlink,
}
