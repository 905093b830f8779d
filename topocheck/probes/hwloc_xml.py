"""hwloc's XML (`lstopo FILE.xml`), versions 1 to 3: NUMA nodes, the PCI tree, RDMA devices, GPUs as NVML numbers them.

<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000ffff" nodeset="0x00000003" gp_index="1">
    <object type="Package" os_index="0" cpuset="0x000000ff" nodeset="0x00000001" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x000000ff" nodeset="0x00000001" local_memory="68719476736"/>
      <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[15-2a]">
        <object type="Bridge" bridge_type="1-1" bridge_pci="0000:[16-17]" pci_busid="0000:15:01.0"
                pci_type="0604 [8086:352a] [8086:0000] 00" pci_link_speed="63.015385">
          <object type="PCIDev" pci_busid="0000:16:00.0" pci_type="0207 [15b3:1021] [15b3:0041] 00">
            <object type="OSDev" name="mlx5_0" osdev_type="3">
              <info name="Port1State" value="4"/>
            </object>
          </object>
        </object>
      </object>
    </object>
  </object>
</topology>

Of a link it has one product of width and rate, and no maximum: neither is known here. By default only GPUs, NICs and
storage are in it, and many programs export none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from topocheck.facts import (
    Fact,
    Gap,
    GpuState,
    Host,
    NumaNode,
    PciFunction,
    PciListing,
    RdmaDevice,
    RdmaPort,
    full_bdf,
)
from topocheck.probes.cpu_list import MAX_CPU, spell_cpus
from topocheck.probes.lines import sniffed
from topocheck.probes.xml_tree import Element, read_xml

INPUT = "hwloc XML"
COMMANDS = ()
PATHS = ()
NAME = r"(?:hwloc|lstopo)[\w.-]{0,60}\.xml$"

_OPENING = re.compile(r"<topology(?:\s[^>]{0,200})?>")
_LOOKS = re.compile(r"<topology(?:\s[^>]{0,200})?>\s{0,20}<object\s")
_PCI_TYPE = re.compile(
    r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\](?: \[([0-9a-f]{4}):([0-9a-f]{4})\])?(?: ([0-9a-f]{2}))?", re.I
)
_BUSES = re.compile(r"([0-9a-f]{4,8}):\[([0-9a-f]{2})-([0-9a-f]{2})\]", re.I)
_PORT_FIELD = re.compile(r"Port(\d{1,2})(State|LID)")
_PORT_STATES = {"1": "down", "2": "init", "3": "armed", "4": "active"}
_PORT_BELOW = {"": "root", "root": "upstream", "upstream": "downstream", "downstream": "upstream"}
_OPEN_FABRICS, _OPEN_FABRICS_BIT = 3, 32  # osdev_type up to version 2, and in version 3
_MAX_MASK_CHARS = 4096
_PART = "has one rate of each link and no width, and may leave devices out: nothing in it is degraded or missing"


@dataclass(frozen=True)
class _Place:
    """Where an object stands: the nearest NUMA node and package, the PCI bridge above and its port type, the root."""

    node: int | None = None
    package: int | None = None
    bridge: str = ""
    port_type: str = ""
    root: str | None = None


@dataclass
class _Topology:
    """What was read so far. `packages` are the packages inside each NUMA node (version 1 nests them so)."""

    version: int
    pci: list[PciFunction] = field(default_factory=list)
    others: list[Fact] = field(default_factory=list)
    numa: dict[int, NumaNode] = field(default_factory=dict)
    sockets: dict[int, int | None] = field(default_factory=dict)  # NUMA node → package
    packages: list[int] = field(default_factory=list)


def sniff(text: str) -> bool:
    """Whether a document of hwloc's begins in the text."""
    return sniffed(_LOOKS, text)


def parse(text: str) -> Iterable[Fact]:
    """Host, NUMA nodes, PCI functions and their RDMA devices and GPUs."""
    root, problem = read_xml(text, _OPENING, "topology")
    gaps = [Gap(INPUT, problem)] if problem else []
    if root is None:
        return gaps
    version = root.get("version").partition(".")[0]
    topology = _Topology(int(version) if version in ("1", "2", "3") else 1)
    for machine in root.named("object"):
        topology.others += _host(machine)
        _walk(machine, topology)
    return [*_numa(topology), *topology.pci, *topology.others, *_listing(topology), *gaps]


def _walk(machine: Element, topology: _Topology) -> None:
    pending = [(machine, _Place())]
    while pending:
        element, place = pending.pop()
        inside = _read(element, place, topology)
        pending += [(child, inside) for child in reversed(element.children) if _is_whole_object(child)]


def _is_whole_object(element: Element) -> bool:
    """An object; of a document that is cut no device or switch that is open there: its NIC may be behind the cut."""
    on_pci = element.get("type") == "PCIDev" or (element.get("type"), element.get("bridge_type")) == ("Bridge", "1-1")
    return element.name == "object" and (element.closed or not on_pci)


def _read(element: Element, place: _Place, topology: _Topology) -> _Place:
    """Take one object; where what is inside it stands."""
    kind = element.get("type")
    nodes = _bits(element.get("nodeset"))
    if nodes is not None:
        place = replace(place, node=next(iter(nodes)) if len(nodes) == 1 else None)
    if kind in ("Package", "Socket"):
        number = int(element.get("os_index")) if element.get("os_index").isdecimal() else len(topology.packages)
        topology.packages.append(number)
        place = replace(place, package=number)
        if topology.version == 1 and place.node is not None:
            topology.sockets.setdefault(place.node, number)
    elif kind == "NUMANode":
        _read_node(element, place, topology)
    elif kind == "Bridge":
        return _read_bridge(element, place, topology)
    elif kind == "PCIDev" and (function := _function(element, place)):
        topology.pci.append(function)
        topology.others += _os_devices(element, function.bdf, topology)
    return place


def _read_node(element: Element, place: _Place, topology: _Topology) -> None:
    if not element.get("os_index").isdecimal():
        return
    number = int(element.get("os_index")[:5])
    cpus, memory = _bits(element.get("cpuset")), element.get("local_memory")
    mib = int(memory[:18]) / (1 << 20) if memory.isdecimal() else None
    topology.numa[number] = NumaNode(INPUT, number, None if cpus is None else spell_cpus(cpus), mib)
    if place.package is not None:
        topology.sockets[number] = place.package


def _read_bridge(element: Element, place: _Place, topology: _Topology) -> _Place:
    buses = _BUSES.fullmatch(element.get("bridge_pci"))
    if element.get("bridge_type") == "0-1":
        root = f"{buses[1][-4:]}:{buses[2]}".lower() if buses else f"bridge{element.line}"
        return replace(place, root=root, bridge="", port_type="")
    function = _function(element, place)
    if function is None:
        return place
    port_type = _PORT_BELOW[place.port_type]
    topology.pci.append(
        replace(
            function,
            is_bridge=True,
            port_type=port_type,
            secondary_bus=int(buses[2], 16) if buses else None,
        )
    )
    return replace(place, bridge=function.bdf, port_type=port_type)


def _function(element: Element, place: _Place) -> PciFunction | None:
    bdf, ids = full_bdf(element.get("pci_busid")), _PCI_TYPE.match(element.get("pci_type"))
    if bdf is None:
        return None
    names = {info.get("name"): info.get("value") for info in element.named("info")}
    class_id, vendor, device, board_vendor, board, _ = ids.groups() if ids else (None,) * 6
    known = board_vendor and board and (board_vendor + board).strip("0")
    return PciFunction(
        bdf,
        INPUT,
        class_id=_lower(class_id),
        vendor_id=_lower(vendor),
        device_id=_lower(device),
        subsystem=f"{board_vendor}:{board}".lower() if known else None,
        name=" ".join(filter(None, (names.get("PCIVendor"), names.get("PCIDevice")))) or None,
        numa_node=place.node,
        parent=place.bridge if place.bridge or place.root else None,
        root=None if place.bridge else place.root,
        lines={"header": element.evidence(INPUT)},
    )


def _os_devices(element: Element, bdf: str, topology: _Topology) -> Iterator[Fact]:
    for device in element.named("object"):
        name, kind = device.get("name"), device.get("osdev_type")
        number = int(kind[:6]) if kind.isdecimal() else 0
        fabric = number & _OPEN_FABRICS_BIT if topology.version >= 3 else number == _OPEN_FABRICS
        infos = {info.get("name"): info.get("value") for info in device.named("info")}
        if device.get("type") != "OSDev" or not name:
            continue
        if fabric:
            yield _rdma(device, name, bdf, infos)
        elif match := re.fullmatch(r"nvml(\d{1,3})", name):
            yield GpuState(
                INPUT, int(match[1]), bdf=bdf, uuid=infos.get("NVIDIAUUID"), lines={"bdf": device.evidence(INPUT)}
            )


def _rdma(device: Element, name: str, bdf: str, infos: dict[str, str]) -> RdmaDevice:
    """An RDMA device with the states of its ports; rates and link layers are not in it."""
    line = device.evidence(INPUT)
    ports: dict[int, RdmaPort] = {}
    for info in device.named("info"):
        if match := _PORT_FIELD.fullmatch(info.get("name")):
            number, value, said = int(match[1]), info.get("value"), info.evidence(INPUT)
            port = ports.get(number, RdmaPort(number))
            if match[2] == "State":
                port = replace(port, state=_PORT_STATES.get(value), lines={**port.lines, "state": said})
            elif re.fullmatch(r"0x[0-9a-fA-F]{1,4}", value):
                port = replace(port, lid=int(value, 16) or None)
            ports[number] = port
    return RdmaDevice(
        INPUT,
        name,
        bdf=bdf,
        node_guid=infos.get("NodeGUID"),
        sys_image_guid=infos.get("SysImageGUID"),
        ports=tuple(ports[number] for number in sorted(ports)),
        line=line,
    )


def _host(machine: Element) -> Iterator[Fact]:
    infos = {info.get("name"): info for info in machine.named("info")}
    line = next(iter(infos.values()), machine).evidence(INPUT)

    def value(*names: str) -> str | None:
        return " ".join(filter(None, (infos[name].get("value") for name in names if name in infos))) or None

    yield Host(
        INPUT,
        hostname=value("HostName"),
        kernel=value("OSRelease"),
        arch=value("Architecture"),
        product=value("DMISysVendor", "DMIProductName"),
        asset_tag=value("DMIChassisAssetTag"),
        line=line,
    )


def _numa(topology: _Topology) -> Iterator[Fact]:
    order = {number: i for i, number in enumerate(sorted(set(topology.packages)))}
    if order:
        yield Host(INPUT, sockets=len(order))
    for number, node in sorted(topology.numa.items()):
        package = topology.sockets.get(number)
        yield replace(node, socket=order.get(package) if package is not None else None)


def _listing(topology: _Topology) -> Iterator[Fact]:
    if topology.pci:
        yield PciListing(INPUT, whole=False)
        yield Gap(INPUT, _PART)
    else:
        yield Gap(INPUT, "exported without PCI devices (lstopo --whole-io has them)")


def _bits(mask: str) -> frozenset[int] | None:
    """A mask in groups of 32 bits, the highest first ("0x000000ff,0x00000001"); None for none, or one without end."""
    if not mask or len(mask) > _MAX_MASK_CHARS or not re.fullmatch(r"(?:0x[0-9a-fA-F]{1,8},?)+", mask):
        return None
    bits = int("".join(group.removeprefix("0x").zfill(8) for group in mask.split(",") if group), 16)
    return frozenset(i for i in range(min(bits.bit_length(), MAX_CPU + 1)) if bits >> i & 1)


def _lower(text: str | None) -> str | None:
    return text.lower() if text else None
