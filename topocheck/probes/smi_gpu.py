"""The fields of one GPU in `nvidia-smi -q` and `-q -x`: the same values under two spellings."""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Callable, Collection
from time import strptime
from typing import Any, NamedTuple

from topocheck.facts import Evidence, GpuState, full_bdf

MIB = 1 << 20
MAX_GPUS = 512  # of one text; 16 were seen: what lists more is no output of nvidia-smi

_NOTHING = re.compile(
    r"\[?(?:N/?A|Not (?:Supported|Available|Found)|Unknown|Requested functionality .*|)\]?", re.IGNORECASE
)
_LOST = re.compile(r"\[?(?:Unknown Error|GPU is lost\b.*|ERR!)\]?", re.IGNORECASE)
_RESET = re.compile(r"\[?GPU requires reset\]?", re.IGNORECASE)
_VGPU_PROFILE = re.compile(r"(?:NVIDIA |GRID )+[A-Z]+\d+\w*(?:-\d+)?-\d+[ABCQ](?:ME)?")


class Value(NamedTuple):
    """One value as printed: `path` is (section, key) of the text form or the element names below <gpu>."""

    path: tuple[str, ...]
    text: str
    line: Evidence


class _Field(NamedTuple):
    """A field of GpuState, where both forms print it, and how it is read."""

    name: str
    text: tuple[str, str]
    xml: tuple[str, ...]
    read: Callable[[str], Any]


def time_s(text: str) -> float | None:
    """The time of a listing in seconds, for the difference of two: the clock's zone is not told.

    >>> time_s("Sun Nov 15 03:04:06 2026"), time_s("yesterday")
    (1794711846.0, None)
    """
    try:
        return float(timegm(strptime(text.strip(), "%a %b %d %H:%M:%S %Y")))
    except ValueError:
        return None


def word(text: str) -> str | None:
    """A value as printed, None where nvidia-smi says that it has none."""
    return None if _NOTHING.fullmatch(text) or _LOST.fullmatch(text) or _RESET.fullmatch(text) else text


def vgpu_profile(model: str | None) -> bool | None:
    """True for the name of a vGPU slice ("GRID A100-40C"), None for any other: a name alone proves no bare metal.

    >>> vgpu_profile("NVIDIA A40-48Q"), vgpu_profile("NVIDIA A100-SXM4-80GB")
    (True, None)
    """
    return True if model and _VGPU_PROFILE.fullmatch(model) else None


def enabled(text: str) -> bool | None:
    """MIG mode: a part that answers N/A cannot be in it."""
    return {"enabled": True, "enabled*": True, "disabled": False, "disabled*": False, "n/a": False}.get(text.lower())


def _number(text: str) -> int | None:
    match = re.match(r"\d{1,9}", text)
    return int(match[0]) if match else None


def _bytes(text: str) -> int | None:
    match = re.fullmatch(r"(\d{1,9}) ?MiB", text)
    return int(match[1]) * MIB if match else None


def _pci_id(text: str) -> str | None:
    """0x233010DE is device 2330 of vendor 10de."""
    match = re.fullmatch(r"(?:0x)?([0-9A-F]{4})([0-9A-F]{4})", text, re.IGNORECASE)
    return f"{match[2]}:{match[1]}".lower() if match else None


def _vgpu(text: str) -> bool | None:
    return None if word(text) is None else text.lower() in ("vgpu", "vsga")


def _passthrough(text: str) -> bool | None:
    return None if word(text) is None else text.lower() == "pass-through"


def _confidential(text: str) -> bool | None:
    """Memory is set aside for protected use only in confidential-compute mode."""
    found = _bytes(text)
    return None if found is None else found > 0


def _as_printed(text: str) -> str | None:
    """N/A is an answer here."""
    return None if _LOST.fullmatch(text) else text.strip("[]") or None


def _status(text: str) -> str | None:
    """How the registration with the fabric ended, in NVML's words, of which one is "Unknown Error"; in brackets it is
    nvidia-smi's word for what it could not read."""
    return text if text.lower() == "unknown error" else _as_printed(text)


def _not_zero(text: str) -> bool | None:
    return None if word(text) is None else bool(text.strip("0-"))


def _watts(text: str) -> float | None:
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,4})?) ?W", text)
    return float(match[1]) if match else None


def _switch(text: str) -> bool | None:
    """On or off; N/A is neither: the part has no such switch."""
    return None if word(text) is None else enabled(text)


def _yes(text: str) -> bool | None:
    return {"yes": True, "no": False}.get(text.lower())


def _reset_required(text: str) -> str | None:
    """Drivers before 560 name no recovery action, only that a reset is required."""
    return "GPU Reset" if _yes(text) else None


_GEN = ("pci", "pci_gpu_link_info", "pcie_gen")
_WIDTHS = ("pci", "pci_gpu_link_info", "link_widths")
_POWER = ("gpu_power_readings",)
_VIRTUALIZATION = ("gpu_virtualization_mode", "virtualization_mode")
_FIELDS = (
    _Field("model", ("", "Product Name"), ("product_name",), word),
    _Field("uuid", ("", "GPU UUID"), ("uuid",), word),
    _Field("minor", ("", "Minor Number"), ("minor_number",), _number),
    _Field("vbios", ("", "VBIOS Version"), ("vbios_version",), word),
    _Field("bdf", ("PCI", "Bus Id"), ("pci", "pci_bus_id"), full_bdf),
    _Field("pci_id", ("PCI", "Device Id"), ("pci", "pci_device_id"), _pci_id),
    _Field("mig", ("MIG Mode", "Current"), ("mig_mode", "current_mig"), enabled),
    _Field("vgpu", ("GPU Virtualization Mode", "Virtualization Mode"), _VIRTUALIZATION, _vgpu),
    _Field("passthrough", ("GPU Virtualization Mode", "Virtualization Mode"), _VIRTUALIZATION, _passthrough),
    _Field(
        "confidential",
        ("Conf Compute Protected Memory Usage", "Total"),
        ("cc_protected_memory_usage", "total"),
        _confidential,
    ),
    _Field("pstate", ("", "Performance State"), ("performance_state",), word),
    _Field("gen", ("PCIe Generation", "Current"), (*_GEN, "current_link_gen"), _number),
    _Field("gen_max", ("PCIe Generation", "Max"), (*_GEN, "max_link_gen"), _number),
    _Field("gen_device_max", ("PCIe Generation", "Device Max"), (*_GEN, "max_device_link_gen"), _number),
    _Field("gen_host_max", ("PCIe Generation", "Host Max"), (*_GEN, "max_host_link_gen"), _number),
    _Field("width", ("Link Width", "Current"), (*_WIDTHS, "current_link_width"), _number),
    _Field("width_max", ("Link Width", "Max"), (*_WIDTHS, "max_link_width"), _number),
    _Field("pcie_replays", ("PCI", "Replays Since Reset"), ("pci", "replay_counter"), _number),
    _Field("memory_bytes", ("FB Memory Usage", "Total"), ("fb_memory_usage", "total"), _bytes),
    _Field("bar1_bytes", ("BAR1 Memory Usage", "Total"), ("bar1_memory_usage", "total"), _bytes),
    _Field("fabric_state", ("Fabric", "State"), ("fabric", "state"), _as_printed),
    _Field("fabric_status", ("Fabric", "Status"), ("fabric", "status"), _status),
    _Field("fabric_cluster", ("Fabric", "ClusterUUID"), ("fabric", "clusterUuid"), _not_zero),
    _Field("recovery_action", ("GPU Reset Status", "Reset Required"), ("gpu_reset_status", "reset_required"),
           _reset_required),
    _Field("recovery_action", ("", "GPU Recovery Action"), ("gpu_recovery_action",), word),
    _Field("persistence", ("", "Persistence Mode"), ("persistence_mode",), enabled),
    _Field("power_limit_w", ("GPU Power Readings", "Current Power Limit"), (*_POWER, "current_power_limit"), _watts),
    _Field("power_limit_w", ("Power Readings", "Power Limit"), ("power_readings", "power_limit"), _watts),
    _Field("application_clock_mhz", ("Applications Clocks", "Graphics"), ("applications_clocks", "graphics_clock"),
           _number),
    _Field("ecc", ("ECC Mode", "Current"), ("ecc_mode", "current_ecc"), _switch),
    _Field("ecc", ("Ecc Mode", "Current"), ("ecc_mode", "current_ecc"), _switch),
    _Field("remap_pending", ("Retired Pages", "Pending Page Blacklist"), ("retired_pages", "pending_blacklist"), _yes),
    _Field("remap_pending", ("Retired Pages", "Pending"), ("retired_pages", "pending_retirement"), _yes),
    _Field("remap_pending", ("Remapped Rows", "Pending"), ("remapped_rows", "remapped_row_pending"), _yes),
    _Field("remap_failed", ("Remapped Rows", "Remapping Failure Occurred"), ("remapped_rows", "remapped_row_failure"),
           _yes),
)  # fmt: skip
SECTION_OF_KEY = {field.text[1]: field.text[0] for field in _FIELDS if field.text[0] in ("", "PCI")}  # its only one
_SLOWDOWNS = {"hw_slowdown": "HW Slowdown", "hw_thermal_slowdown": "HW Thermal Slowdown",
              "hw_power_brake_slowdown": "HW Power Brake Slowdown"}  # fmt: skip

# Blackwell repairs memory by channels as well as by rows; drivers from 570 on print both.
_BLACKWELL_MEMORY = {"unrepairable memory": "remap_failed", "channel repair pending": "remap_pending"}
_BOARD = ("MultiGPU Board", "multigpu_board")
# What a GPU that is there always answers; a power limit or a clock may be unreadable for a moment.
_VITAL = frozenset({"model", "uuid", "minor", "vbios", "bdf", "pci_id", "pstate", "gen", "width", "memory_bytes"})


def state(witness: str, index: int | None, bdf: str, line: Evidence, values: Collection[Value]) -> GpuState:
    """One GPU from the values printed of it; `bdf` and `line` are its heading's."""
    found: dict[str, Any] = {"bdf": full_bdf(bdf)}
    lines = {"bdf": line}
    health: dict[str, str] = {}
    for value in values:
        read = [field for field in _FIELDS if value.path in (field.text, field.xml)]
        for field in read:
            if (result := field.read(value.text)) is not None:
                found[field.name], lines[field.name] = result, value.line
        if value.path[:-1] in (("Health",), ("fabric", "health")):
            name = value.path[-1].replace("_", " ").title()
            health[name] = value.text
            lines[f"fabric_health {name}"] = value.line
        _count(value, found, lines)
        _trouble(value, any(field.name in _VITAL for field in read), found, lines)
    for value in values:
        if (repair := _BLACKWELL_MEMORY.get(value.path[-1].replace("_", " ").lower())) and _yes(value.text):
            found[repair], lines[repair] = True, value.line
    if any(value.path[-1] in _BOARD and _yes(value.text) for value in values):
        found.pop("width_max", None)  # the chip's: how many lanes the board's own switch gives it is not said
    found["vgpu"] = vgpu_profile(found.get("model")) or found.get("vgpu")
    return GpuState(witness, index, fabric_health=tuple(health.items()), lines=lines, **found)


def _count(value: Value, found: dict[str, Any], lines: dict[str, Evidence]) -> None:
    """Adds up what is printed on several lines: uncorrectable errors since the driver's load, and the hardware's
    reasons to hold the clocks ("Clocks Event Reasons", or "… Throttle Reasons" before driver 535)."""
    section, key = value.path[-2] if len(value.path) > 1 else "", value.path[-1].lower().replace(" ", "_")
    double_bit = key == "total" and (
        section == "Volatile Double Bit" or value.path[-3:-1] == ("volatile", "double_bit")
    )
    uncorrectable = double_bit or (section.lower() == "volatile" and "uncorrectable" in key)
    if uncorrectable and (errors := _number(value.text)) is not None:
        found["ecc_uncorrectable"] = found.get("ecc_uncorrectable", 0) + errors
        if errors or "ecc_uncorrectable" not in lines:
            lines["ecc_uncorrectable"] = value.line
    reasons = re.fullmatch(r"clocks.(?:event|throttle).reasons", section, re.IGNORECASE)
    name = _SLOWDOWNS.get(re.sub(r"^clocks_(?:event|throttle)_reason_", "", key)) if reasons else None
    if name and value.text in ("Active", "Not Active"):
        active = {name} if value.text == "Active" else set()
        found["slowdowns"] = found.get("slowdowns", frozenset()) | active
        lines[name] = value.line


def _trouble(value: Value, is_vital: bool, found: dict[str, Any], lines: dict[str, Evidence]) -> None:
    """Notes the driver's word that the GPU is lost. One unreadable sensor (a fan, a power draw) is not that."""
    if _LOST.fullmatch(value.text) and (is_vital or "lost" in value.text.lower()):
        found.setdefault("lost", value.text.strip("[]"))
        lines.setdefault("lost", value.line)
    elif _RESET.fullmatch(value.text) and "recovery_action" not in found:
        found["recovery_action"] = value.text.strip("[]")
        lines["recovery_action"] = value.line
