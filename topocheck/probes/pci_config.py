"""PCI configuration space → PciFunction fields; what lspci prints, without lspci.

Registers: PCI Express Base Specification, chapter 7; offsets as in Linux's include/uapi/linux/pci_regs.h. The first 64
bytes anyone may read, the rest only root; a device that has fallen off the bus reads as ones.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

MAX_WIDTH = 32  # lanes; what is above is no answer
SPEEDS_GTS: Mapping[int, float] = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}  # link speed codes
PORT_TYPES: Mapping[int, str] = {
    0: "endpoint",
    1: "endpoint",  # legacy
    4: "root",
    5: "upstream",
    6: "downstream",
    7: "pci-bridge",
    8: "pci-bridge",
    9: "rciep",
    10: "rciep",  # event collector
}
_ACS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")  # bits 0 to 6
_UNCORRECTABLE = {
    "DLP": 4, "SDES": 5, "TLP": 12, "FCP": 13, "CmpltTO": 14, "CmpltAbrt": 15, "UnxCmplt": 16, "RxOF": 17,
    "MalfTLP": 18, "ECRC": 19, "UnsupReq": 20, "ACSViol": 21,
}  # fmt: skip
_CORRECTABLE = {"RxErr": 0, "BadTLP": 6, "BadDLLP": 7, "Rollover": 8, "Timeout": 12, "AdvNonFatalErr": 13}
_EXPRESS_ID = 0x10
_AER_ID, _SERIAL_ID, _ACS_ID, _ATS_ID = 0x01, 0x03, 0x0D, 0x0F
_NO_ID = 0xFFFF
_MEMORY_ON = 0x2  # Command register
_MAX_CAPABILITIES = 48  # more do not fit; a damaged list may go in circles


def decode(config: bytes) -> dict[str, Any]:
    """The fields that a configuration space states: 64 bytes give ids and buses, 256 the link, 4096 ACS and AER."""
    if len(config) < 64:
        return {}
    if config[:16] == b"\xff" * 16:  # a virtual function has ones for its ids alone
        return {"dead": True}
    values = _header(config)
    if len(config) < 256:
        return values | {"access_denied": True}
    for identifier, at in _capabilities(config):
        if identifier == _EXPRESS_ID and at + 0x34 <= 256:
            values |= _express(config, at)
    for identifier, at in _extended_capabilities(config):
        reader = _EXTENDED.get(identifier)
        if reader is not None and at + 0x24 <= len(config):
            values |= reader(config, at)
    return values


def memory_is_on(config: bytes) -> bool:
    """Whether the function answers to its memory BARs ("[disabled]" in lspci if not)."""
    return len(config) < 6 or bool(_u16(config, 0x04) & _MEMORY_ON)


def _u16(config: bytes, at: int) -> int:
    return int(struct.unpack_from("<H", config, at)[0])


def _u32(config: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", config, at)[0])


def _header(config: bytes) -> dict[str, Any]:
    vendor, device = struct.unpack_from("<HH", config, 0)
    values: dict[str, Any] = {
        "vendor_id": f"{vendor:04x}" if vendor != _NO_ID else None,
        "device_id": f"{device:04x}" if device != _NO_ID else None,
        "class_id": f"{_u16(config, 0x0A):04x}",
        "is_bridge": False,
    }
    kind = config[0x0E] & 0x7F
    if kind == 1:
        return values | {"is_bridge": True, "secondary_bus": config[0x19]}
    if kind == 0 and _u32(config, 0x2C):
        values["subsystem"] = f"{_u16(config, 0x2C):04x}:{_u16(config, 0x2E):04x}"
    return values | {"dead": True} if kind == 0x7F else values


def _capabilities(config: bytes) -> Iterator[tuple[int, int]]:
    at = config[0x34] & ~3 if _u16(config, 0x06) & 0x10 else 0
    for _ in range(_MAX_CAPABILITIES):
        if not 0x40 <= at < 0xFF:
            return
        yield config[at], at
        at = config[at + 1] & ~3


def _extended_capabilities(config: bytes) -> Iterator[tuple[int, int]]:
    at = 0x100
    for _ in range(_MAX_CAPABILITIES):
        if at < 0x100 or at + 4 > len(config):
            return
        header = _u32(config, at)
        if header in (0, 0xFFFFFFFF):
            return
        yield header & 0xFFFF, at
        at = header >> 20 & ~3


def _express(config: bytes, at: int) -> dict[str, Any]:
    version_and_type, dev_cap, dev_ctl = _u16(config, at + 2), _u32(config, at + 4), _u16(config, at + 8)
    port_type = PORT_TYPES.get(version_and_type >> 4 & 0xF)
    values: dict[str, Any] = {
        "port_type": port_type,
        "max_payload_bytes": 128 << (dev_cap & 7),
        "payload_bytes": 128 << (dev_ctl >> 5 & 7),
        "read_request_bytes": 128 << (dev_ctl >> 12 & 7),
        "relaxed_ordering": bool(dev_ctl & 0x10),
    }
    if port_type == "rciep":
        return values
    if version_and_type & 0xF >= 2:
        values["target_speed_gts"] = SPEEDS_GTS.get(_u16(config, at + 0x30) & 0xF)
    return values | _link(_u32(config, at + 0x0C), _u16(config, at + 0x12))


def _link(lnk_cap: int, lnk_sta: int) -> dict[str, Any]:
    """Speed code in bits 0–3, lanes in bits 4–9, in both registers; a code of 0 is "no link to tell of"."""
    width = lnk_sta >> 4 & 0x3F
    values = {
        "max_speed_gts": SPEEDS_GTS.get(lnk_cap & 0xF),
        "max_width": lnk_cap >> 4 & 0x3F or None,
        "speed_gts": SPEEDS_GTS.get(lnk_sta & 0xF),
        "width": width if width <= MAX_WIDTH else None,
    }
    return values if values["max_speed_gts"] and values["speed_gts"] else values | {"link_unknown": True}


def _acs(config: bytes, at: int) -> dict[str, Any]:
    def names(bits: int) -> frozenset[str]:
        return frozenset(name for bit, name in enumerate(_ACS) if bits >> bit & 1)

    return {"acs_ctl": names(_u16(config, at + 6))}


def _aer(config: bytes, at: int) -> dict[str, Any]:
    def signs(status: int, bits: Mapping[str, int]) -> str:
        return " ".join(f"{name}{'+' if status >> bit & 1 else '-'}" for name, bit in bits.items())

    uncorrectable, correctable = _u32(config, at + 4), _u32(config, at + 0x10)
    return {"aer": (("UESta", signs(uncorrectable, _UNCORRECTABLE)), ("CESta", signs(correctable, _CORRECTABLE)))}


def _ats(config: bytes, at: int) -> dict[str, Any]:
    return {"ats_enabled": bool(_u16(config, at + 6) & 0x8000)}


def _serial(config: bytes, at: int) -> dict[str, Any]:
    return {"serial": config[at + 4 : at + 12][::-1].hex("-")}


_EXTENDED = {_AER_ID: _aer, _SERIAL_ID: _serial, _ACS_ID: _acs, _ATS_ID: _ats}
