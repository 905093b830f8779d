"""A laid-out node as a file-system root whose `/sys` real tools read: binary PCI config space, NUMA nodes, RDMA.

lspci -A linux-sysfs -O sysfs.path=ROOT/sys/bus/pci -D -nn -vv
HWLOC_FSROOT=ROOT HWLOC_COMPONENTS=linux,stop HWLOC_THISSYSTEM=0 lstopo --whole-io --of xml
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from nodesim.capture import distance
from nodesim.facts import cpu_list, gids
from nodesim.layout import Function, Layout, NamedNic
from nodesim.parts import GTS

_MEMORY_64_PREFETCH, _UNSET = 0x14220C, 0x20000000  # kernel resource flags
_TYPES = {"root": 4, "upstream": 5, "downstream": 6}
_PAYLOAD = {128 << code: code for code in range(6)}
_EXPRESS_AT, _EXTENDED_AT = 0x60, 0x100
_ACS_CAP, _ACS_ON = 0x5F, 0x1D  # all but EgressCtrl; SrcValid, ReqRedir, CmpltRedir, UpstreamFwd
_PHYSICAL = {"linkup": "5: LinkUp", "polling": "2: Polling", "disabled": "3: Disabled"}
_STATES = {"active": "4: ACTIVE", "down": "1: DOWN", "init": "2: INIT"}


def sysfs(layout: Layout, root: Path) -> Path:
    """Writes the tree below `root` and returns it."""
    tree = _Tree(root)
    for f in layout.functions:
        _function(tree, layout, f)
    for n in layout.nics:
        _rdma(tree, layout, n)
    _numa(tree, layout)
    return root


class _Tree:
    """Files and links below a root."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, path: str, content: object) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            file.write_bytes(content)
        else:
            file.write_text(f"{content}\n", encoding="utf-8")

    def link(self, path: str, target: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(os.path.relpath(self.root / target, file.parent))


def place_of(layout: Layout, f: Function) -> str:
    """The function's folder in the device tree."""
    return f"sys/devices/pci{f.root}/" + "/".join(x.bdf for x in reversed(layout.chain(f)))


def _function(tree: _Tree, layout: Layout, f: Function) -> None:
    path = place_of(layout, f)
    vendor, device = (f.subsystem or "0000:0000").split(":")
    files = {
        "vendor": f"0x{f.vendor_id}", "device": f"0x{f.device_id}", "class": f"0x{f.class_id}00",
        "subsystem_vendor": f"0x{vendor}", "subsystem_device": f"0x{device}", "revision": "0x00", "irq": 0, "enable": 1,
        "numa_node": f.numa, "resource": _resource(f), "config": config(f), "uevent": _uevent(f),
    }  # fmt: skip
    if f.numa >= 0:
        cpus = 2 * layout.node.cpus_per_numa * len(layout.node.numa_nodes)
        files |= {"local_cpulist": cpu_list(layout, f.numa), "local_cpus": _mask(_cpus(layout, f.numa), cpus)}
    if f.max_width:
        files |= {
            "current_link_speed": f"{GTS[f.gen]:.1f} GT/s PCIe", "current_link_width": f.width,
            "max_link_speed": f"{GTS[f.max_gen]:.1f} GT/s PCIe", "max_link_width": f.max_width,
        }  # fmt: skip
    for name, content in files.items():
        tree.put(f"{path}/{name}", content)
    tree.link(f"sys/bus/pci/devices/{f.bdf}", path)
    tree.link(f"{path}/subsystem", "sys/bus/pci")
    if f.driver:
        (tree.root / f"sys/bus/pci/drivers/{f.driver}").mkdir(parents=True, exist_ok=True)
        tree.link(f"{path}/driver", f"sys/bus/pci/drivers/{f.driver}")


def _uevent(f: Function) -> str:
    """What the kernel tells udev: drivers/pci/pci-driver.c, pci_uevent()."""
    driver = f"DRIVER={f.driver}\n" if f.driver else ""
    ids, board = f"{f.vendor_id}:{f.device_id}".upper(), (f.subsystem or "0000:0000").upper()
    number = f"{int(f.class_id, 16) << 8:X}"
    return f"{driver}PCI_CLASS={number}\nPCI_ID={ids}\nPCI_SUBSYS_ID={board}\nPCI_SLOT_NAME={f.bdf}"


def _resource(f: Function) -> str:
    rows = [(0, 0, 0)] * 13
    if not f.is_bridge and f.kind != "host":
        start = 0x2000_0000_0000 + int(f.bdf.split(":")[1], 16) * 0x40_0000_0000
        if f.bars:
            rows[0] = (start, start + 0x1FF_FFFF, _MEMORY_64_PREFETCH)
        else:
            rows[0] = (0, 0x1FF_FFFF, _MEMORY_64_PREFETCH | _UNSET)
    return "\n".join(f"0x{start:016x} 0x{end:016x} 0x{flags:016x}" for start, end, flags in rows)


def config(f: Function) -> bytes:
    """4 KiB of config space: header, PCI Express at 0x60, ACS and serial number; ones for a dead function."""
    if f.dead:
        return b"\xff" * 4096
    c = bytearray(4096)
    memory = 0x0406 if f.bars else 0x0404
    struct.pack_into("<HHHH", c, 0, int(f.vendor_id, 16), int(f.device_id, 16), memory, 0x0010)
    struct.pack_into("<I", c, 8, int(f.class_id, 16) << 16)
    c[0x0E] = 1 if f.is_bridge else 0
    if f.kind == "host":
        struct.pack_into("<H", c, 6, 0)
        return bytes(c)
    c[0x34], c[0x3D] = _EXPRESS_AT, 1
    if f.is_bridge:
        c[0x18:0x1B] = bytes([int(f.bdf.split(":")[1], 16), f.secondary, f.subordinate])
    else:
        vendor, device = (f.subsystem or "0000:0000").split(":")
        struct.pack_into("<HH", c, 0x2C, int(vendor, 16), int(device, 16))
        struct.pack_into("<II", c, 0x10, 0xC, 0x2000 + int(f.bdf.split(":")[1], 16))
    _express(c, f)
    _extended(c, f)
    return bytes(c)


def _express(c: bytearray, f: Function) -> None:
    """The PCI Express capability, version 2 (chapter 7 of the base specification)."""
    dev_ctl = (0x10 if f.relaxed else 0) | 0x100 | _PAYLOAD[f.payload] << 5 | _PAYLOAD[f.read_request] << 12
    struct.pack_into("<BBH", c, _EXPRESS_AT, 0x10, 0, 2 | _TYPES.get(f.kind, 0) << 4)
    struct.pack_into("<IHH", c, _EXPRESS_AT + 4, 0x8020 | _PAYLOAD[f.max_payload], dev_ctl, 0)
    struct.pack_into("<IHH", c, _EXPRESS_AT + 0x0C, f.max_gen | f.max_width << 4, 0x40, f.gen | f.width << 4 | 0x1000)
    struct.pack_into("<IHHIHH", c, _EXPRESS_AT + 0x24, 0x10810, 0, 0, (2 << f.max_gen) - 2, f.target_gen, 0)


def _extended(c: bytearray, f: Function) -> None:
    """ACS of a port, or the serial number of a card; the list begins at 0x100."""
    serial = bytes.fromhex(f.serial.replace("-", ""))[::-1] if f.serial else b""
    if f.acs_ctl is not None:
        struct.pack_into("<IHH", c, _EXTENDED_AT, 0x1000D, _ACS_CAP, _ACS_ON if f.acs_ctl else 0)
    elif serial:
        struct.pack_into("<I", c, _EXTENDED_AT, 0x10003)
        c[_EXTENDED_AT + 4 : _EXTENDED_AT + 12] = serial


def _rdma(tree: _Tree, layout: Layout, n: NamedNic) -> None:
    path = f"{place_of(layout, n.function)}/infiniband/{n.name}"
    part, ib, up = n.nic.part, n.layer == "infiniband", n.port.state == "active"
    rate = n.rate if up else 10 if ib else 40
    files = {
        "node_type": "1: CA", "fw_ver": n.nic.firmware or part.firmware, "hca_type": part.ca_type,
        "board_id": n.nic.board_id or part.board_id, "node_guid": _colons(n.guid),
        "sys_image_guid": _colons(n.system_guid), "ports/1/state": _STATES[n.port.state],
        "ports/1/phys_state": _PHYSICAL[n.port.physical], "ports/1/rate": f"{rate} Gb/sec (4X)",
        "ports/1/link_layer": "InfiniBand" if ib else "Ethernet", "ports/1/lid": f"0x{n.lid if ib else 0:x}",
        "ports/1/sm_lid": f"0x{1 if ib else 0:x}",
    }  # fmt: skip
    if ib:
        files["ports/1/gids/0"] = f"fe80:0000:0000:0000:{_colons(n.guid)}"
    else:
        for g in gids(n):
            files[f"ports/1/gids/{g.number}"] = g.gid
            files[f"ports/1/gid_attrs/types/{g.number}"] = "RoCE v2" if g.version == "v2" else "IB/RoCE v1"
    for name, content in files.items():
        tree.put(f"{path}/{name}", content)
    tree.link(f"{path}/device", place_of(layout, n.function))
    tree.link(f"sys/class/infiniband/{n.name}", path)


def _colons(guid: str) -> str:
    return ":".join(guid[i : i + 4] for i in range(0, 16, 4))


def _mask(cpus: list[int], total: int) -> str:
    bits = sum(1 << cpu for cpu in cpus)
    return ",".join(f"{bits >> 32 * word & 0xFFFFFFFF:08x}" for word in reversed(range((total + 31) // 32)))


def _cpus(layout: Layout, numa: int) -> list[int]:
    ends = [part.split("-") for part in cpu_list(layout, numa).split(",")]
    return [cpu for low, high in ends for cpu in range(int(low), int(high) + 1)]


def _numa(tree: _Tree, layout: Layout) -> None:
    node = layout.node
    cores = node.cpus_per_numa * len(node.numa_nodes)
    for number in node.numa_nodes:
        path, cpus = f"sys/devices/system/node/node{number}", _cpus(layout, number)
        tree.put(f"{path}/cpulist", cpu_list(layout, number))
        tree.put(f"{path}/cpumap", _mask(cpus, 2 * cores))
        tree.put(f"{path}/distance", " ".join(str(distance(layout, number, other)) for other in node.numa_nodes))
        tree.put(
            f"{path}/meminfo", f"Node {number} MemTotal:       263168000 kB\nNode {number} MemFree:        256000000 kB"
        )
        for cpu in cpus:
            tree.link(f"{path}/cpu{cpu}", f"sys/devices/system/cpu/cpu{cpu}")
            _cpu(tree, layout, cpu, cores, node.socket_of(number))
    for name in ("online", "possible", "has_cpu", "has_memory", "has_normal_memory"):
        tree.put(f"sys/devices/system/node/{name}", f"0-{node.numa_nodes[-1]}")
    tree.put("proc/cpuinfo", f"processor\t: 0\nvendor_id\t: {node.cpu.vendor}\nflags\t\t: fpu vme sse2 ht")
    for name in ("online", "possible", "present"):
        tree.put(f"sys/devices/system/cpu/{name}", f"0-{2 * cores - 1}")


def _cpu(tree: _Tree, layout: Layout, cpu: int, cores: int, socket: int) -> None:
    node = layout.node
    core = cpu % cores
    package = [c for k in node.numa_nodes if node.socket_of(k) == socket for c in _cpus(layout, k)]
    siblings = _mask([core, core + cores], 2 * cores)
    files = {
        "physical_package_id": socket, "core_id": core, "core_cpus": siblings, "thread_siblings": siblings,
        "package_cpus": _mask(package, 2 * cores), "core_siblings": _mask(package, 2 * cores),
    }  # fmt: skip
    for name, content in files.items():
        tree.put(f"sys/devices/system/cpu/cpu{cpu}/topology/{name}", content)
