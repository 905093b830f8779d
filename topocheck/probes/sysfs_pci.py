"""`/sys/bus/pci/devices/*`: every PCI function from the kernel's own files, its config space included where readable.

    uevent    DRIVER=nvidia  PCI_CLASS=30200  PCI_ID=10DE:2330  PCI_SUBSYS_ID=10DE:16C1
    current_link_speed "32.0 GT/s PCIe"   current_link_width "16"   numa_node "0"   config (4096 bytes for root)
    realpath  /sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0

The path of the device is its place in the tree. Links are read of storage, network, display, bridge and accelerator
functions, config space (Target Link Speed, payload, ACS, AER bits) of network, display and NVSwitch functions and of
the bridges above them: a server has hundreds of others, and a config space takes the bus a millisecond. Without root it
ends at 64 bytes; a bridge is then a root, upstream or downstream port by its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from topocheck.facts import Evidence, Fact, PciFunction, PciListing, full_bdf
from topocheck.hardware.gpus import part_of
from topocheck.hardware.pci_ids import NVIDIA
from topocheck.probes.cpu_list import kernel_form
from topocheck.probes.pci_config import MAX_WIDTH, decode, memory_is_on
from topocheck.probes.pci_ls import placed
from topocheck.sources.base import Source

INPUT = "/sys/bus/pci/devices"

_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) ?GT/s")
_TOTAL = re.compile(r"TOTAL_ERR_\w+ ([0-9]+)")
_LINK_CLASSES = ("01", "02", "03", "06", "12")
_DEVICE_CLASSES = ("02", "03", "0680")  # network, display, NVSwitch
_PORT_BELOW = {"host bridge": "root", "root": "upstream", "downstream": "upstream", "upstream": "downstream"}
_AER_FILES = ("aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal")
_BRIDGE = "0604"
_BARS = 6
_MEMORY, _UNSET = 0x200, 0x20000000  # IORESOURCE_MEM, IORESOURCE_UNSET
_LINK = {"speed_gts", "width", "max_speed_gts", "max_width"}
_CONFIG_LINES = {
    "LnkCap": ("max_speed_gts", "max_width"),
    "LnkSta": ("speed_gts", "width"),
    "LnkCtl2": ("target_speed_gts",),
    "DevCap": ("max_payload_bytes",),
    "DevCtl": ("payload_bytes", "read_request_bytes", "relaxed_ordering"),
    "ACSCtl": ("acs_ctl",),
}
_WORDS = {  # lspci's
    "max_speed_gts": "Speed {:g}GT/s",
    "max_width": "Width x{}",
    "speed_gts": "Speed {:g}GT/s",
    "width": "Width x{}",
    "target_speed_gts": "Target Link Speed: {:g}GT/s",
    "max_payload_bytes": "MaxPayload {} bytes",
    "payload_bytes": "MaxPayload {} bytes",
    "read_request_bytes": "MaxReadReq {} bytes",
    "relaxed_ordering": "RlxdOrd",
}


def read(source: Source) -> Iterator[Fact]:
    """The functions of the tree, and that all of them are there; nothing where there is no such tree."""
    paths = source.glob(f"{INPUT}/*")
    devices = [_Device(source, path, bdf) for path in paths if (bdf := full_bdf(path.rpartition("/")[2]))]
    if not devices:
        return
    shows_drivers = any(device.driver for device in devices)
    on_path = _on_path(devices)
    from_the_root_down = sorted(devices, key=lambda device: device.depth)
    functions = list(
        _with_port_types(device.function(device.bdf in on_path, shows_drivers) for device in from_the_root_down)
    )
    functions = _woken(source, functions)
    yield from functions
    whole = any(function.class_id == "0600" or function.parent == "" for function in functions)
    yield PciListing(INPUT, whole)


def _woken(source: Source, functions: list[PciFunction]) -> list[PciFunction]:
    """The links of GPUs that sleep when idle, and of the ports above them, as the fastest of several readings."""
    slow = [f for f in functions if _may_sleep(f) and (f.speed_gts or 0.0) < (f.max_speed_gts or 0.0)]
    paths = {f"{INPUT}/{bdf}/current_link_speed": bdf for f in slow for bdf in (f.bdf, f.parent) if bdf}
    if not paths:
        return functions
    best = {paths[path]: (path, text) for path, text in source.sampled(list(paths), _speed).items()}
    return [_with_speed(f, *best[f.bdf]) if f.bdf in best else f for f in functions]


def _may_sleep(function: PciFunction) -> bool:
    if not _is_nvidia_gpu(function.vendor_id, function.class_id):
        return False
    part = part_of(None, f"{function.vendor_id}:{function.device_id}")
    return part is None or not part.holds_link


def _is_nvidia_gpu(vendor_id: str | None, class_id: str | None) -> bool:
    return vendor_id == NVIDIA and (class_id or "").startswith("03")


def _speed(text: str) -> float:
    match = _SPEED.match(text)
    return float(match.group(1)) if match else 0.0


def _with_speed(function: PciFunction, path: str, text: str) -> PciFunction:
    if _speed(text) <= (function.speed_gts or 0.0):
        return function
    line = Evidence(path, None, f"current_link_speed {text}, current_link_width {function.width}")
    return replace(function, speed_gts=_speed(text), lines={**function.lines, "LnkSta": line})


def _on_path(devices: list[_Device]) -> set[str]:
    """The functions that may be GPUs, NICs or NVSwitches, and every bridge above one."""
    parents = {device.bdf: device.parent for device in devices}
    found: set[str] = set()
    for device in devices:
        if device.class_id is None or device.class_id.startswith(_DEVICE_CLASSES):
            bdf: str | None = device.bdf
            while bdf and bdf not in found:
                found.add(bdf)
                bdf = parents.get(bdf)
    return found


def _with_port_types(functions: Iterable[PciFunction]) -> Iterator[PciFunction]:
    """The port types that config space did not give, from the root down: a bridge on a root bus is a root port, what is
    right below one is a switch's upstream port, what is below that a downstream port. Conventional bridges have no link
    files."""
    types: dict[str | None, str | None] = {"": "host bridge"}
    for function in functions:
        port_type = function.port_type
        if port_type is None and function.is_bridge and function.max_width is not None:
            port_type = _PORT_BELOW.get(types.get(function.parent) or "")
        types[function.bdf] = port_type
        yield function if port_type == function.port_type else replace(function, port_type=port_type)


class _Device:
    """One folder of the device tree."""

    def __init__(self, source: Source, path: str, bdf: str) -> None:
        self._source, self._path, self.bdf = source, path, bdf
        self._uevent = dict(line.split("=", 1) for line in self._read("uevent").splitlines() if "=" in line)
        self.driver = self._uevent.get("DRIVER") or (None if self._uevent else self._link("driver"))
        real = source.realpath(path) or ""
        self.depth = real.count("/")
        place = placed(real)
        self.parent = place[1] if place else None
        self.root = place[2] if place else None
        class_id = self._uevent["PCI_CLASS"].zfill(6) if "PCI_CLASS" in self._uevent else self._hex("class")
        self.class_id = class_id.lower()[:4] if class_id else None

    def _read(self, name: str) -> str:
        return self._source.read(f"{self._path}/{name}") or ""

    def _link(self, name: str) -> str | None:
        """What a link in the folder names; one that is not there is answered by its own path."""
        end = (self._source.realpath(f"{self._path}/{name}") or "").rpartition("/")[2]
        return end if end != name else None

    def _hex(self, name: str) -> str | None:
        text = self._read(name).removeprefix("0x").lower()
        return text if re.fullmatch(r"[0-9a-f]{2,8}", text) else None

    def function(self, on_path: bool, shows_drivers: bool) -> PciFunction:
        """Everything the folder says; what config space says wins over the single files."""
        lines: dict[str, Evidence] = {}
        config = self._source.read_bytes(f"{self._path}/config") or b"" if on_path else b""
        said = {name: value for name, value in decode(config).items() if value is not None}
        values = self._identity()
        if self.class_id is None or self.class_id.startswith(_LINK_CLASSES):
            values |= {**self._virtual(), **self._node(lines)}
            if not said.keys() >= _LINK:
                values |= self._links(lines)
        values |= said
        if on_path:
            _add_config_lines(values, f"{self._path}/config", lines)
            values |= {**self._bars(values, config, lines), **self._group(values, lines), **self._cpus(lines)}
            values["aer"] = (*values.get("aer", ()), *self._aer_totals())
        return PciFunction(
            self.bdf,
            INPUT,
            parent=self.parent,
            root=self.root,
            driver=self.driver,
            driver_shown=shows_drivers,
            lines=lines,
            **values,
        )

    def _identity(self) -> dict[str, Any]:
        """Class and ids, from uevent (one read) or, where a copy lacks it, from their own files."""
        if "PCI_ID" in self._uevent:
            vendor, _, device = self._uevent["PCI_ID"].lower().partition(":")
            subsystem = self._uevent.get("PCI_SUBSYS_ID", "").lower()
        else:
            vendor, device = self._hex("vendor") or "", self._hex("device") or ""
            board = (self._hex("subsystem_vendor"), self._hex("subsystem_device"))
            subsystem = f"{board[0]}:{board[1]}" if all(board) else ""
        return {
            "class_id": self.class_id,
            "vendor_id": vendor or None,
            "device_id": device or None,
            "subsystem": subsystem if subsystem.strip("0:") else None,
            "is_bridge": self.class_id == _BRIDGE,
        }

    def _virtual(self) -> dict[str, Any]:
        """The physical function of a virtual one; no bridge is one."""
        return {} if self.class_id == _BRIDGE else {"vf_of": full_bdf(self._link("physfn") or "")}

    def _node(self, lines: dict[str, Evidence]) -> dict[str, Any]:
        text = self._read("numa_node")
        if not re.fullmatch(r"-?[0-9]{1,6}", text):
            return {}
        lines["NUMA node"] = Evidence(f"{self._path}/numa_node", None, text)
        return {"numa_node": int(text)} if int(text) >= 0 else {"numa_unknown": True}

    def _cpus(self, lines: dict[str, Evidence]) -> dict[str, Any]:
        """The CPUs next to a device, which by its NUMA node are that node's."""
        text = "" if self.class_id == _BRIDGE else self._read("local_cpulist")
        cpus = kernel_form(text)
        if not cpus:
            return {}
        lines["local_cpulist"] = Evidence(f"{self._path}/local_cpulist", None, text)
        return {"local_cpus": cpus}

    def _links(self, lines: dict[str, Evidence]) -> dict[str, Any]:
        """Speeds in GT/s and lanes of the four link files; "Unknown" and width 255 are the kernel's "cannot say"."""
        values: dict[str, Any] = {}
        for key, prefix, speed_name, width_name in (
            ("LnkSta", "current", "speed_gts", "width"),
            ("LnkCap", "max", "max_speed_gts", "max_width"),
        ):
            speed, width = self._read(f"{prefix}_link_speed"), self._read(f"{prefix}_link_width")
            if not speed and not width:
                continue
            match = _SPEED.match(speed)
            lanes = int(width) if width.isdecimal() and int(width) <= MAX_WIDTH else None
            values[speed_name] = float(match.group(1)) if match else None
            values[width_name] = lanes if key == "LnkSta" else lanes or None
            if match is None:
                values["link_unknown"] = True
            text = f"{prefix}_link_speed {speed}, {prefix}_link_width {width}"
            lines[key] = Evidence(self._path, None, text)
        return values

    def _bars(self, values: dict[str, Any], config: bytes, lines: dict[str, Evidence]) -> dict[str, Any]:
        """BAR1 of an NVIDIA GPU, and whether a memory BAR has no address or is switched off. Bridges and virtual
        functions have none of their own."""
        if values["is_bridge"] or values.get("vf_of"):
            return {}
        rows = [row.split() for row in self._read("resource").splitlines()[:_BARS]]
        if not rows or any(len(row) != 3 for row in rows):
            return {}
        bars = [tuple(int(number, 16) for number in row) for row in rows]
        memory = [(index, start, end, flags) for index, (start, end, flags) in enumerate(bars) if flags & _MEMORY]
        unassigned = any(flags & _UNSET or start == 0 for _, start, _, flags in memory)
        found: dict[str, Any] = {"bars_unassigned": unassigned or not memory or not memory_is_on(config)}
        if _is_nvidia_gpu(values["vendor_id"], values["class_id"]):
            second = next((bar for bar in memory if bar[0] in (1, 2)), None)
            if second is not None:
                index, start, end, _ = second
                found["bar1_bytes"] = end - start + 1
                lines["Region 1"] = Evidence(f"{self._path}/resource", None, " ".join(rows[index]))
        return found

    def _group(self, values: dict[str, Any], lines: dict[str, Evidence]) -> dict[str, Any]:
        """Whether the IOMMU translates a GPU's DMA: "DMA", "DMA-FQ", or not: "identity"."""
        path = f"{self._path}/iommu_group/type"
        kind = self._source.read(path) if _is_nvidia_gpu(values["vendor_id"], values["class_id"]) else None
        if not kind:
            return {}
        lines["iommu_group/type"] = Evidence(path, None, kind)
        return {"iommu_type": kind}

    def _aer_totals(self) -> Iterator[tuple[str, str]]:
        for name in _AER_FILES:
            match = _TOTAL.search(self._read(name))
            if match is not None:
                yield name, match.group(1)


def _add_config_lines(values: dict[str, Any], path: str, lines: dict[str, Evidence]) -> None:
    """What the registers said, in words, as evidence of the config file."""
    for key, names in _CONFIG_LINES.items():
        said = _config_line(key, tuple(map(values.get, names)))
        if said is not None and key not in lines:
            lines[key] = Evidence(path, None, said)


@lru_cache(maxsize=1024)  # the ports of a switch are all alike
def _config_line(key: str, values: tuple[object, ...]) -> str | None:
    said = [_words(name, value) for name, value in zip(_CONFIG_LINES[key], values, strict=True) if value is not None]
    return f"{key}: {', '.join(said)}" if said else None


def _words(name: str, value: object) -> str:
    if isinstance(value, frozenset):
        return " ".join(f"{bit}+" for bit in sorted(value)) or "none"
    return f"{_WORDS[name]}{'+' if value else '-'}" if isinstance(value, bool) else _WORDS[name].format(value)
