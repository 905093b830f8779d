"""What of a node's report is compared with its sisters: (field, value) pairs, one `topocheck.node/1` document in.

Only what sisters of one kind have alike when they are healthy. Left out: what is each node's own (host, GUIDs, LIDs,
subnets), what varies harmlessly (memory, CPU lists, minors, P-states), what sleeps (the speed of a GPU's link), and
whatever was not read: a report written without root knows less, it is not unlike.

A field is "NAME" or "NAME of PLACE"; a place is a PCI position ("gpu 0000:19:00.0", "nic 0000:1a:00.0 port 1",
"link 0000:16:00.0") or a kind of card. A node whose buses are numbered in another way has other places: its numbering
is unlike, nothing else is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from topocheck.hardware.gpus import part_of

PLACE = " of "
GPU_COUNT = "GPU count"
NIC_COUNT = "NIC count"
COUNTS = (GPU_COUNT, NIC_COUNT)
NIC_MODELS = "NIC models"
Pairs = Iterator[tuple[str, str]]
_NEAR = ("PIX", "PXB")
_FULL_LANES = 16

# What is compared, by the field's name: which rules of the node itself speak of it. Hardware first, then what is only
# a version or an order.
HARDWARE = {
    GPU_COUNT: ("GPU001", "GPU003"),
    NIC_COUNT: ("NET005", "RAIL003"),
    "NVSwitch count": ("NVL005",),
    NIC_MODELS: ("NET005", "NET006"),
    "ports a NIC": ("NET005", "NET006"),
    "PCIe width": ("PCI001", "PCI003", "PCI004"),
    "PCIe speed": ("PCI002", "PCI003", "PCI004"),
    "PCIe slot speed": ("PCI002", "PCI003", "PCI004"),
    "NUMA nodes": ("NUM001", "NUM002"),
    "sockets": ("NUM001", "NUM002"),
    "NUMA layout": ("NUM001", "NUM002", "AFF001"),
    "link layer": ("NET001", "NET006"),
    "MTU": ("NET004",),
    "port rate": ("NET002",),
    "NVLinks": ("GPU001", "GPU002", "NVL001", "NVL002", "NVL005"),
    "GPU–NIC map": ("AFF001", "AFF002", "AFF003", "NET001", "NET005", "NUM002", "RAIL001", "RAIL003", "VIRT001"),
}
SOFTWARE = {
    "driver": ("GPU003", "NVL005"),
    "kernel": (),
    "fabric manager": ("NVL005",),
    "VBIOS": ("GPU002",),
    "NIC firmware": ("NET006",),
    "NIC boards": ("NET005", "NET006"),
    "GPU numbering": ("GPU001",),
    "NIC numbering": ("NET005", "RAIL001"),
}
SAID_BY = HARDWARE | SOFTWARE


def values(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The pairs, always in the same order, so that reports that are alike give equal tuples. What the site's policy
    has waived on this node is not compared either."""
    waived = {finding["rule"] for finding in document["findings"] if finding["waived"]}
    pairs = tuple(_all(document))
    return tuple(p for p in pairs if waived.isdisjoint(SAID_BY[name_of(p[0])])) if waived else pairs


def name_of(field: str) -> str:
    """ "PCIe width" of "PCIe width of gpu 0000:19:00.0"."""
    return field.partition(PLACE)[0]


def place_of(field: str) -> str:
    """ "gpu 0000:19:00.0" of "PCIe width of gpu 0000:19:00.0", else ""."""
    return field.partition(PLACE)[2]


def _all(document: Mapping[str, Any]) -> Pairs:
    gpus, nics = physical(document, "gpu"), physical(document, "nic")
    links = [link for link in document["links"] if link["kind"] == "pcie"]
    devices = {d["bdf"]: d["kind"] for d in document["devices"] if d["bdf"]}
    on_c2c = {d["bdf"] for d in gpus if _c2c(d["model"], d["pci_id"])}
    whole = any(link["b"] and link["b"] not in devices for link in links)  # the whole bus was read, not its GPUs alone
    yield from _counts(document, gpus, nics, whole)
    yield from _versions(document, gpus, nics)
    yield from _cards(nics)
    yield from _widths([link for link in links if link["b"] not in on_c2c], devices)
    yield from _speeds(links, devices)
    yield from _numbering(gpus, nics)
    yield from _numa(document, gpus, nics)
    yield from _ports(nics)
    yield from _nvlinks(gpus)
    yield from _map(document, gpus, nics, whole)


@lru_cache(maxsize=256)
def _c2c(model: str | None, pci_id: str | None) -> bool:
    """Whether a GPU talks to its CPU by C2C: its PCIe link is for its control only."""
    part = part_of(model, pci_id)
    return part is not None and part.c2c


def physical(document: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    """The devices of a kind in PCI address order, virtual functions left out: how many there are is a setting."""
    found = [d for d in document["devices"] if d["kind"] == kind and d["vf_of"] is None]
    return sorted(found, key=lambda d: (d["bdf"] or "~", d["id"]))


def _counts(document: Mapping[str, Any], gpus: list[Any], nics: list[Any], whole: bool) -> Pairs:
    part_given = any(f["rule"] == "GPU001" and f["severity"] == "info" for f in document["findings"])
    if (gpus or whole) and not part_given:
        yield GPU_COUNT, str(len(gpus))
    if (nics and _named(nics)) or (whole and not nics):
        yield NIC_COUNT, str(len(nics))
    if switches := physical(document, "nvswitch"):
        yield "NVSwitch count", str(len(switches))


def _named(nics: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the RDMA devices were read: without them a NIC goes by its address, and which functions are NICs is a
    guess by their ids."""
    return all(nic["id"] != nic["bdf"] for nic in nics)


def _versions(document: Mapping[str, Any], gpus: list[Any], nics: list[Any]) -> Pairs:
    for field, key in (("driver", "driver"), ("kernel", "kernel"), ("fabric manager", "fabric_manager")):
        if version := document["versions"][key]:
            yield field, str(version)
    yield from _said("VBIOS", [gpu["firmware"] for gpu in gpus])
    cards: dict[str, list[str | None]] = {}
    for nic in nics:
        if nic["pci_id"]:
            card = " ".join(filter(None, (nic["pci_id"], nic["board_id"])))
            cards.setdefault(card, []).append(nic["firmware"])
    for card in sorted(cards):
        yield from _said(f"NIC firmware{PLACE}{card}", cards[card])


def _said(field: str, versions: list[str | None]) -> Pairs:
    """One version, or how many devices have which; nothing where a mixture was read in part only."""
    known = [version for version in versions if version]
    if known and (len(known) == len(versions) or len(set(known)) == 1):
        yield field, _counted(known)


def _counted(values: Iterable[str]) -> str:
    """ "28.43.2026", or "28.39.1 ×1, 28.43.2026 ×7"."""
    counts = Counter(values)
    return next(iter(counts)) if len(counts) == 1 else ", ".join(f"{v} ×{n}" for v, n in sorted(counts.items()))


def _cards(nics: list[Any]) -> Pairs:
    if not nics or not _named(nics):
        return
    for field, key in ((NIC_MODELS, "pci_id"), ("NIC boards", "board_id")):
        if all(nic[key] for nic in nics):
            counts = Counter(str(nic[key]) for nic in nics)
            yield field, ", ".join(f"{name} ×{n}" for name, n in sorted(counts.items()))
    if all(nic["ports"] for nic in nics):
        yield "ports a NIC", _counted(str(len(nic["ports"])) for nic in nics)


def _widths(links: list[Any], devices: Mapping[str, str]) -> Pairs:
    """Of every device, and of every uplink whose two ends have 16 lanes. Lanes do not sleep."""
    for link in links:
        if not (width := link["width"]) or not (b := link["b"]):
            continue
        if b in devices:
            yield f"PCIe width{PLACE}{devices[b]} {b}", f"x{width:g}"
        elif b.endswith(".0") and link["max_width"] == link["a_max_width"] == _FULL_LANES:
            yield f"PCIe width{PLACE}link {b}", f"x{width:g}"


def _speeds(links: list[Any], devices: Mapping[str, str]) -> Pairs:
    """The speed of NICs, which do not sleep, and what the port above a GPU or NIC can, which no sleep changes."""
    for link in links:
        b = link["b"]
        kind = devices.get(b or "")
        if kind == "nic" and link["speed_gts"]:
            yield f"PCIe speed{PLACE}nic {b}", f"{link['speed_gts']:g} GT/s"
        if kind in ("gpu", "nic") and link["a_max_speed_gts"] and link["a_max_width"]:
            yield f"PCIe slot speed{PLACE}{kind} {b}", f"{link['a_max_speed_gts']:g} GT/s"


def _numbering(gpus: list[Any], nics: list[Any]) -> Pairs:
    for field, devices in (("GPU numbering", gpus), ("NIC numbering", nics)):
        if devices and _named(devices) and all(d["bdf"] for d in devices):
            yield field, ", ".join(f"{d['id']} {d['bdf']}" for d in devices)


def _numa(document: Mapping[str, Any], gpus: list[Any], nics: list[Any]) -> Pairs:
    """Nodes with CPUs only: those of a GPU's memory come and go with the driver. Where their number differs, which node
    a device is on differs with it, and is not compared."""
    nodes = [n for n in document["numa_nodes"] if n["cpus"]]
    if nodes:
        yield "NUMA nodes", str(len(nodes))
        if all(n["socket"] is not None for n in nodes):
            yield "sockets", str(len({n["socket"] for n in nodes}))
    for kind, devices in (("GPUs", gpus), ("NICs", nics)):
        if devices and all(d["bdf"] and d["numa_node"] is not None for d in devices):
            over = f" over {len(nodes)} nodes" if nodes else ""
            yield f"NUMA layout{PLACE}{kind}{over}", _runs([d["numa_node"] for d in devices])


def _runs(nodes: list[int]) -> str:
    """Node of each device in PCI order: "0 ×4, 1 ×4"."""
    runs: list[tuple[int, int]] = []
    for node in nodes:
        if runs and runs[-1][0] == node:
            runs[-1] = (node, runs[-1][1] + 1)
        else:
            runs.append((node, 1))
    return ", ".join(f"{node} ×{count}" for node, count in runs)


def _ports(nics: list[Any]) -> Pairs:
    """Of ports that are up: MTU and rate of one that is down are placeholders. Storage may be cabled as it likes."""
    for nic in nics:
        for port in nic["ports"] if nic["bdf"] else ():
            place = f"nic {nic['bdf']} port {port['port']}"
            if port["link_layer"]:
                yield f"link layer{PLACE}{place}", str(port["link_layer"])
            if nic["role"] != "compute" or port["state"] != "active":
                continue
            if port["mtu"]:
                yield f"MTU{PLACE}{place}", f"{port['mtu']:g}"
            if port["rate_gbit_per_s"]:
                yield f"port rate{PLACE}{place}", f"{port['rate_gbit_per_s']:g} Gb/s"


def _nvlinks(gpus: list[Any]) -> Pairs:
    """A GPU in MIG mode has none up by design."""
    for gpu in gpus:
        if gpu["bdf"] and gpu["nvlinks_active"] is not None and not gpu["mig"]:
            yield f"NVLinks{PLACE}gpu {gpu['bdf']}", f"{gpu['nvlinks_active']:g}"


def _map(document: Mapping[str, Any], gpus: list[Any], nics: list[Any], whole: bool) -> Pairs:
    """Which NICs each GPU has nearest, both by their place in PCI order. Without the bus's tree a far NIC is known by
    its NUMA node only, and others look as near: then nothing is said."""
    place = {nic["id"]: i for i, nic in enumerate(nics) if nic["bdf"]}
    near = {frozenset((p["a"], p["b"])) for p in document["pairs"] if p["pcie_class"] in _NEAR}
    parts = []
    for i, gpu in enumerate(gpus):
        nearest = gpu["nearest_nics"]
        if not nearest or not gpu["bdf"] or len(place) < len(nics) or not place.keys() >= set(nearest):
            return
        if not whole and not all(frozenset((gpu["id"], nic)) in near for nic in nearest):
            return
        parts.append(f"gpu {i} nic {'+'.join(str(p) for p in sorted(place[n] for n in nearest))}")
    if parts:
        yield "GPU–NIC map", ", ".join(parts)
