"""The PCIe tree and its links, joined from lspci, sysfs, tree listings and the kernel log.

Who wins: lspci -vv, then sysfs, then tree listings; a kernel line printed at boot yields to every present reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from topocheck.build.merge import merged
from topocheck.facts import BandwidthLimit, Evidence, PciFunction
from topocheck.graph import PcieLink
from topocheck.hardware.gpus import part_of
from topocheck.hardware.pci_ids import is_gpu, is_rdma_nic, is_virtual_function_name

_TRUST = ("lspci -vv", "/sys/bus/pci/devices", "lspci -tv")
_PORT_TYPES = ("root", "downstream")
_LOWER_ENDS = ("upstream", "endpoint", "pci-bridge")


def functions_of(facts: Iterable[PciFunction]) -> dict[str, PciFunction]:
    """Every PCI function by BDF, its inputs joined, in address order."""
    by_bdf: dict[str, list[PciFunction]] = {}
    for fact in facts:
        by_bdf.setdefault(fact.bdf, []).append(fact)
    rank = {name: i for i, name in enumerate(_TRUST)}
    joined = {
        bdf: _joined(sorted(group, key=lambda f: rank.get(f.witness, len(rank)))) if len(group) > 1 else group[0]
        for bdf, group in sorted(by_bdf.items(), key=lambda item: address_key(item[0]))
    }
    joined |= _virtual_gpus(joined)
    for gpu in [f for f in joined.values() if is_gpu(f) and _sleeps(f)]:
        joined |= {bdf: _at_its_fastest(joined[bdf], by_bdf[bdf]) for bdf in (gpu.bdf, gpu.parent) if bdf in joined}
    return joined


def _virtual_gpus(functions: Mapping[str, PciFunction]) -> dict[str, PciFunction]:
    """The virtual functions of GPUs in a listing that does not say whose they are: on the bus of a GPU there are others
    of its name, some of them not its function 0 but 2 or 4 (its sound is 1)."""
    buses: dict[str, list[PciFunction]] = {}
    for f in functions.values():
        if is_gpu(f):
            buses.setdefault(f.bdf[:-4], []).append(f)
    virtual: dict[str, PciFunction] = {}
    for bus, (first, *others) in buses.items():
        same = [f for f in others if (f.name, f.device_id) == (first.name, first.device_id)]
        if first.bdf == f"{bus}00.0" and any(f.bdf[-1] > "1" for f in same):
            virtual |= {f.bdf: replace(f, vf_of=first.bdf) for f in same}
    return virtual


def _sleeps(gpu: PciFunction) -> bool:
    """Whether its link is slow when idle: of several readings the fastest is the link's."""
    part = part_of(gpu.name, f"{gpu.vendor_id}:{gpu.device_id}")
    return part is None or not part.holds_link


def _at_its_fastest(function: PciFunction, group: list[PciFunction]) -> PciFunction:
    fastest = max(group, key=lambda f: f.speed_gts or 0.0)
    if (fastest.speed_gts or 0.0) <= (function.speed_gts or 0.0):
        return function
    lines = {**function.lines, **{key: line for key, line in fastest.lines.items() if key == "LnkSta"}}
    return replace(function, speed_gts=fastest.speed_gts, lines=lines)


def _joined(group: list[PciFunction]) -> PciFunction:
    """The inputs of one function; error registers (lspci) and counters (sysfs) stand beside each other."""
    aer = {name: text for f in reversed(group) for name, text in f.aer}
    return replace(merged(group), aer=tuple(aer.items()))


def address_key(bdf: str) -> tuple[int, int, int, int]:
    """PCI address order."""
    domain, bus, rest = bdf.split(":")
    device, function = rest.split(".")
    return int(domain, 16), int(bus, 16), int(device, 16), int(function)


def parents_of(functions: Mapping[str, PciFunction]) -> dict[str, str]:
    """What each function hangs on: a bridge's BDF, or a root's name ("root:0000:15").

    A stated parent (sysfs, a tree) wins over bus numbers; without either the function stays an orphan. Where no bridge
    has its bus as secondary, the function sits on a root bus, if the listing shows bridges at all.
    """
    by_secondary = {
        (f.bdf.split(":")[0], f.secondary_bus): f.bdf
        for f in functions.values()
        if f.secondary_bus and f.secondary_bus != _bus(f)
    }
    parents: dict[str, str] = {}
    for bdf, f in functions.items():
        domain = bdf.split(":")[0]
        above = f.parent or by_secondary.get((domain, _bus(f)))
        if above and above != bdf:
            parents[bdf] = above
        elif f.root:
            parents[bdf] = "root:" + f.root.removeprefix("pci")
        elif by_secondary and _on_root_bus(f, functions):
            parents[bdf] = f"root:{domain}:{_bus(f):02x}"
    return parents


def chain_of(bdf: str, parents: Mapping[str, str]) -> list[str]:
    """A function and everything above it, its root last."""
    chain = [bdf]
    while (above := parents.get(chain[-1])) and above not in chain:
        chain.append(above)
    return chain


def _bus(f: PciFunction) -> int:
    return int(f.bdf.split(":")[1], 16)


def _on_root_bus(f: PciFunction, functions: Mapping[str, PciFunction]) -> bool:
    """A root port or host bridge, or a neighbour of one on its bus."""
    prefix = f.bdf.rsplit(":", 1)[0]
    return any(
        other.port_type in ("root", "rciep") or other.class_id == "0600"
        for bdf, other in functions.items()
        if bdf.startswith(prefix)
    )


def links_of(functions: Mapping[str, PciFunction], parents: Mapping[str, str]) -> dict[str, PcieLink]:
    """The PCIe link above each function that has one, keyed by the lower end; a port whose lower end was not seen
    gives a link keyed by the port."""
    links: dict[str, PcieLink] = {}
    with_child = {parents[b] for b in functions if b in parents}
    for bdf, f in _as_their_models(functions).items():
        if f.port_type in _PORT_TYPES:
            if bdf not in with_child and f.max_width and f.width:
                links[bdf] = _port_only(f)
        elif _has_link(f):
            links[bdf] = _link(f, functions.get(parents.get(bdf, "")))
    return links


def _as_their_models(functions: Mapping[str, PciFunction]) -> dict[str, PciFunction]:
    """GPUs of which only LnkSta was shown get the lanes that another of their model has. A model of NIC says nothing:
    it is built with eight lanes and with sixteen."""
    most: dict[tuple[str | None, str | None], int] = {}
    gpus = [f for f in functions.values() if is_gpu(f) and (f.device_id or f.name)]
    for f in gpus:
        most[f.device_id, f.name] = max(most.get((f.device_id, f.name), 0), f.width or 0, f.max_width or 0)
    return {
        **functions,
        **{
            f.bdf: replace(f, max_width=wider)
            for f in gpus
            if f.max_width is None and f.width and (wider := most[f.device_id, f.name]) > f.width
        },
    }


def _has_link(f: PciFunction) -> bool:
    if is_vf(f) or f.port_type == "rciep" or f.dead:
        return False
    return f.max_width is not None or f.width is not None


def is_vf(f: PciFunction) -> bool:
    """An SR-IOV virtual function: it has no link of its own."""
    return f.vf_of is not None or is_virtual_function_name(f.name or "")


def _port_only(f: PciFunction) -> PcieLink:
    return PcieLink(
        a=f.bdf,
        b=None,
        speed_gts=f.speed_gts,
        width=f.width,
        a_max_speed_gts=f.max_speed_gts,
        a_max_width=f.max_width,
        target_speed_gts=f.target_speed_gts,
        witness=f.witness,
        lines={f"a {key}": line for key, line in f.lines.items() if key.startswith("Lnk")},
    )


def _link(f: PciFunction, port: PciFunction | None) -> PcieLink:
    if port is not None and port.port_type not in _PORT_TYPES and (port.max_width is None or port.port_type):
        port = None  # a switch's inside, whose ports' own links go up; or a bridge that shows no link
    lines: dict[str, Evidence] = {k: v for k, v in f.lines.items() if k.startswith("Lnk") or k == "header"}
    if port:
        lines |= {f"a {key}": line for key, line in port.lines.items() if key.startswith("Lnk") or key == "header"}
    width = _worse(f.width, port.width if port else None)
    return PcieLink(
        a=port.bdf if port else f.parent or None,
        b=f.bdf,
        speed_gts=_worse(f.speed_gts, port.speed_gts if port else None),
        width=width,
        max_speed_gts=f.max_speed_gts,
        max_width=f.max_width,
        a_max_speed_gts=port.max_speed_gts if port else None,
        a_max_width=port.max_width if port else None,
        target_speed_gts=port.target_speed_gts if port and port.port_type in _PORT_TYPES else None,
        payload_bytes=min((p for p in (f.payload_bytes, port.payload_bytes if port else None) if p), default=None),
        implausible=_implausible(f, port, width),
        witness=f.witness,
        lines=lines,
    )


Number = TypeVar("Number", int, float)


def _worse(below: Number | None, above: Number | None) -> Number | None:
    """Both ends of a link show one trained value; where they do not, the worse is the suspicious one."""
    return min((x for x in (below, above) if x), default=below)


def _implausible(f: PciFunction, port: PciFunction | None, width: int | None) -> bool:
    """An emulated bridge (2.5 GT/s x1 above a wide device, or wider than anything below it) says nothing."""
    if width == 0 or f.link_unknown or (f.max_width or 0) > 32:
        return True
    if port is None or port.max_width is None or f.max_width is None:
        return False
    emulated = port.link_unknown or port.max_width == 0
    return emulated or (f.width or 0) > port.max_width or (f.speed_gts or 0.0) > (port.max_speed_gts or 99.0)


def asleep(link: PcieLink, pstate: str | None, holds_link: bool) -> bool:
    """Whether a GPU's link is asleep (rules.md, "Four PCIe answers"): by its P-state, else at 2.5 or 5 GT/s and full
    width for parts that do not hold their link."""
    can = link.can_speed_gts or link.max_speed_gts
    if link.speed_gts is None or can is None or link.speed_gts >= can - 0.1:
        return False
    if pstate is not None:
        return int(re.sub(r"\D", "", pstate) or 0) >= 5
    full = link.width is not None and link.width == (link.can_width or link.max_width)
    return not holds_link and link.speed_gts <= 5.0 and full


def with_boot_limits(
    links: dict[str, PcieLink], limits: Iterable[BandwidthLimit], functions: Mapping[str, PciFunction]
) -> dict[str, PcieLink]:
    """Links known only from the kernel's "limited by" lines; a link with a present reading is left alone."""
    grown = dict(links)
    for limit in sorted(limits, key=lambda x: x.driver in (None, "pci")):
        known = grown.get(limit.bdf)
        judged = _limited_is_judged(limit, functions.get(limit.bdf))
        if known is not None or not judged or limit.limit_bdf is None:
            continue
        grown[limit.bdf] = PcieLink(
            a=limit.limit_bdf,
            b=limit.bdf,
            speed_gts=limit.speed_gts,
            width=limit.width,
            max_speed_gts=limit.capable_speed_gts,
            max_width=limit.capable_width,
            at_boot=True,
            witness="dmesg",
            lines={"kernel": limit.line},
        )
    return grown


_RDMA_DRIVERS = re.compile(r"mlx[45]|bnxt|irdma|ice|efa|hfi1|ionic|nvidia")


def _limited_is_judged(limit: BandwidthLimit, f: PciFunction | None) -> bool:
    """Only a GPU's or an RDMA NIC's line counts; a device nothing else names counts when it can x16, as they do."""
    if f is None and limit.vendor_id:
        f = PciFunction(limit.bdf, "dmesg", limit.class_id, limit.vendor_id, limit.device_id)
    if f is not None and (f.vendor_id or f.class_id or f.name):
        return is_gpu(f) or is_rdma_nic(f)
    if limit.driver and _RDMA_DRIVERS.match(limit.driver):
        return True
    return limit.driver in (None, "pci") and (limit.capable_width or 0) >= 16
