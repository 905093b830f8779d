"""One GPU's record in `nvml.json`: the fields of GpuState, spelled as nvidia-smi -q spells them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from topocheck.facts import Evidence, GpuState, full_bdf
from topocheck.probes.smi_gpu import vgpu_profile

_INPUT = "nvml.json"
_GPU_IS_LOST, _RESET_REQUIRED = 15, 16
_FABRIC_STATES = {0: "N/A", 1: "Not Started", 2: "In Progress", 3: "Completed"}
_RECOVERY = {0: "None", 1: "GPU Reset", 2: "Node Reboot", 3: "Drain P2P", 4: "Drain and Reset",
             5: "Recover IMEX Domain", 6: "Bus Reset", 7: "System Reboot"}  # fmt: skip
_SLOWDOWNS = {0x8: "HW Slowdown", 0x40: "HW Thermal Slowdown", 0x80: "HW Power Brake Slowdown"}
_THREE = ("N/A", "True", "False")
_HEALTH = (  # name, shift, words by value (NVML_GPU_FABRIC_HEALTH_MASK_…)
    ("Bandwidth", 0, ("N/A", "Degraded", "Full")),
    ("Route Recovery In Progress", 2, _THREE),
    ("Route Unhealthy", 4, _THREE),
    ("Access Timeout Recovery", 6, _THREE),
)
_PCI_ID_BITS = 16


def failed(value: Any) -> str | None:  # noqa: ANN401 (JSON of any shape)
    """The words of a call that failed, None for a value."""
    return str(value["error"])[:200].rstrip(".") if isinstance(value, dict) and "error" in value else None


def text_of(value: Any) -> str | None:  # noqa: ANN401
    """A text, None for a failure or nothing."""
    return value if isinstance(value, str) and value else None


def _int(value: Any) -> int | None:  # noqa: ANN401
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _switch(value: Any) -> bool | None:  # noqa: ANN401
    """On or off; of a pair (current, pending) the current one."""
    first = value[0] if isinstance(value, list) and value else value
    return {0: False, 1: True}.get(first) if isinstance(first, int) else None


def _mig(value: Any) -> bool | None:  # noqa: ANN401
    """A part that does not support MIG cannot be in it."""
    return False if isinstance(value, dict) and value.get("code") == 3 else _switch(value)


def _part(key: str) -> Callable[[Any], int | None]:
    return lambda value: _int(value.get(key)) if isinstance(value, dict) else None


def _word(words: Mapping[int, str]) -> Callable[[Any], str | None]:
    return lambda value: words.get(value) if isinstance(value, int) else None


def _one_of(*numbers: int) -> Callable[[Any], bool | None]:
    return lambda value: value in numbers if isinstance(value, int) else None


def _pstate(value: Any) -> str | None:  # noqa: ANN401
    number = _int(value)
    return f"P{number}" if number is not None and 0 <= number <= 15 else None


def _bdf(value: Any) -> str | None:  # noqa: ANN401
    return full_bdf(text_of(value.get("busId")) or "") if isinstance(value, dict) else None


def _pci_id(value: Any) -> str | None:  # noqa: ANN401
    """0x233010DE is device 2330 of vendor 10de."""
    number = _part("pciDeviceId")(value)
    return None if number is None else f"{number & 0xFFFF:04x}:{number >> _PCI_ID_BITS & 0xFFFF:04x}"


def _watts(value: Any) -> float | None:  # noqa: ANN401
    milliwatts = _int(value)
    return None if milliwatts is None else milliwatts / 1000


def _place(index: int) -> Callable[[Any], bool | None]:
    """One place of (correctable, uncorrectable, pending, failed) row remappings."""
    return lambda value: bool(value[index]) if isinstance(value, list) and len(value) > index else None


def _slowdowns(value: Any) -> frozenset[str] | None:  # noqa: ANN401
    bits = _int(value)
    return None if bits is None else frozenset(name for bit, name in _SLOWDOWNS.items() if bits & bit)


def _protected(value: Any) -> bool | None:  # noqa: ANN401
    total = _part("total")(value)
    return None if total is None else total > 0


_FIELDS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("bdf", "pci", _bdf),
    ("pci_id", "pci", _pci_id),
    ("uuid", "uuid", text_of),
    ("model", "name", text_of),
    ("minor", "minor", _int),
    ("mig", "mig", _mig),
    ("vgpu", "virtualization", _one_of(2, 4)),  # vGPU, host vSGA
    ("passthrough", "virtualization", _one_of(1)),
    ("confidential", "protected_memory", _protected),
    ("pstate", "pstate", _pstate),
    ("gen", "gen", _int),
    ("gen_max", "gen_max", _int),
    ("gen_device_max", "gen_device_max", _int),
    ("width", "width", _int),
    ("width_max", "width_max", _int),
    ("bar1_bytes", "bar1", _part("bar1Total")),
    ("memory_bytes", "memory", _part("total")),
    ("vbios", "vbios", text_of),
    ("recovery_action", "recovery_action", _word(_RECOVERY)),
    ("persistence", "persistence", _switch),
    ("power_limit_w", "power_limit_mw", _watts),
    ("application_clock_mhz", "application_clock_mhz", _int),
    ("ecc", "ecc", _switch),
    ("ecc_uncorrectable", "ecc_uncorrectable", _int),
    ("remap_pending", "retired_pending", _switch),
    ("remap_pending", "remapped_rows", _place(2)),
    ("remap_failed", "remapped_rows", _place(3)),
    ("pcie_replays", "replays", _int),
    ("slowdowns", "clocks_event_reasons", _slowdowns),
)


def state(index: int, record: Mapping[str, Any]) -> GpuState:
    """One GPU. That a call says the GPU is lost, or needs a reset, is of the whole GPU."""
    found: dict[str, Any] = {}
    lines: dict[str, Evidence] = {}
    for name, key, read in _FIELDS:
        value = read(record.get(key))
        if value is not None:
            found[name] = value
            lines[name] = Evidence(_INPUT, None, f"gpu{index} {key}: {_shown(value, record[key])}")
    for name in found.get("slowdowns", ()):
        lines[name] = lines["slowdowns"]
    _fabric(index, record.get("fabric"), found, lines)
    _trouble(index, record, found, lines)
    found["vgpu"] = vgpu_profile(found.get("model")) or found.get("vgpu")
    return GpuState("nvml", index, lines=lines, **found)


def _shown(value: object, raw: object) -> object:
    """The value in words, a plain one as NVML gave it."""
    return raw if isinstance(raw, int | str) and not isinstance(value, str) else value


def _fabric(index: int, fabric: Any, found: dict[str, Any], lines: dict[str, Evidence]) -> None:  # noqa: ANN401
    """As nvidia-smi -q prints it: a status only once registration is complete."""
    if not isinstance(fabric, dict) or "error" in fabric:
        return
    name = _FABRIC_STATES.get(_part("state")(fabric) or 0, "Unknown Error")
    status = _part("status")(fabric)
    found["fabric_state"] = name
    found["fabric_status"] = "N/A" if name != "Completed" else "Success" if status == 0 else f"error {status}"
    lines["fabric_state"] = Evidence(_INPUT, None, f"gpu{index} fabric state: {name}")
    lines["fabric_status"] = Evidence(_INPUT, None, f"gpu{index} fabric status: {found['fabric_status']}")
    mask = _int(fabric.get("health"))
    if mask is None or name == "N/A":
        return
    health = [(label, words[mask >> shift & 3] if mask >> shift & 3 < 3 else "N/A") for label, shift, words in _HEALTH]
    found["fabric_health"] = tuple(health)
    for label, word in health:
        lines[f"fabric_health {label}"] = Evidence(_INPUT, None, f"gpu{index} fabric health {label}: {word}")


def _trouble(index: int, record: Mapping[str, Any], found: dict[str, Any], lines: dict[str, Evidence]) -> None:
    for key, value in record.items():
        code = value.get("code") if isinstance(value, dict) else None
        if code not in (_GPU_IS_LOST, _RESET_REQUIRED):
            continue
        line = Evidence(_INPUT, None, f"gpu{index} {key}: {value['error']}" if "error" in value else key)
        if code == _GPU_IS_LOST:
            found.setdefault("lost", failed(value) or "GPU is lost")
            lines.setdefault("lost", line)
        elif found.get("recovery_action") in (None, "None"):
            found["recovery_action"] = "GPU requires reset"
            lines["recovery_action"] = line
