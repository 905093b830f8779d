"""The capability lines of `lspci -v` and `-vv`: one line → the PciFunction fields it states.

Speeds and widths come from the numbers, never from "(ok)" or "(downgraded)": pciutils 3.5 prints neither word, 3.6 and
3.7 print both for ports too, 3.8 and later print none for ports.

>>> lnk_sta("LnkSta: Speed 16GT/s (downgraded), Width x8 (downgraded)")
{'speed_gts': 16.0, 'width': 8}
>>> lnk_sta("LnkSta: Speed unknown (downgraded), Width x0 (downgraded)")
{'speed_gts': None, 'width': 0, 'link_unknown': True}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

Values = Mapping[str, object]
Reader = Callable[[str], Values]

MAX_WIDTH = 32  # lanes; x63 and x255 are what registers full of ones read as
_SPEED = re.compile(r"Speed (?:([0-9]{1,3}(?:\.[0-9])?)GT/s|unknown)")
_WIDTH = re.compile(r"Width x([0-9]{1,3})\b")
_TARGET = re.compile(r"Target Link Speed: ([0-9.]{1,5})GT/s")
_PAYLOAD = re.compile(r"MaxPayload ([0-9]{1,5}) bytes")
_READ_REQUEST = re.compile(r"MaxReadReq ([0-9]{1,5}) bytes")
_SET_FLAG = re.compile(r"([A-Za-z]+)\+")
_DRIVERS = ("nvidia", "nouveau", "vfio-pci", "mlx5_core")
_BUS = re.compile(r"primary=[0-9a-f]{2}, ?secondary=([0-9a-f]{2}), ?subordinate=[0-9a-f]{2}")
_FLAGS_NODE = re.compile(r"NUMA node (-?[0-9]{1,5})")
_SIZE = re.compile(r"\[size=([0-9]{1,5})([KMGTP]?)\]")
_VF_PLACE = re.compile(r"offset: ([0-9]{1,5}), stride: ([0-9]{1,5})")
_VF_COUNT = re.compile(r"Number of VFs: ([0-9]{1,5})")
_SUBSYSTEM = re.compile(r"(?:\[|^Subsystem:\s*)([0-9a-fA-F]{4}:[0-9a-fA-F]{4})(?:\]|\s*$)")
_EXPRESS = re.compile(r"\] Express (?:\(v[0-9]+\) )?([A-Z][A-Za-z/ -]{3,40})")
_SERIAL = re.compile(r"\] Device Serial Number ([0-9a-fA-F]{2}(?:-[0-9a-fA-F]{2}){7})")
_UNIT_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_PORT_TYPES = (
    ("Root Port", "root"),
    ("Upstream Port", "upstream"),
    ("Downstream Port", "downstream"),
    ("Endpoint", "endpoint"),
    ("Legacy Endpoint", "endpoint"),
    ("Root Complex", "rciep"),
    ("PCI", "pci-bridge"),
)


def _number(match: re.Match[str] | None, base: int = 10) -> int | None:
    return int(match.group(1), base) if match else None


def _link(text: str) -> tuple[float | None, int | None, bool]:
    """GT/s, lanes, and whether the register says that there is no answer ("Speed unknown")."""
    speed, width = _SPEED.search(text), _number(_WIDTH.search(text))
    unknown = speed is not None and speed.group(1) is None
    gts = float(speed.group(1)) if speed and speed.group(1) else None
    return gts, width if width is None or width <= MAX_WIDTH else None, unknown


def lnk_cap(text: str) -> Values:
    """What the function can: the highest speed in GT/s and the lanes; a capability of x0 says nothing. A speed that the
    pciutils of its time did not know is only that: the lanes count."""
    gts, width, unknown = _link(text)
    values: dict[str, object] = {"max_speed_gts": gts, "max_width": width or None}
    return values | {"link_unknown": True} if unknown and not width else values


def lnk_sta(text: str) -> Values:
    """What the link is trained to now."""
    gts, width, unknown = _link(text)
    values: dict[str, object] = {"speed_gts": gts, "width": width}
    return values | {"link_unknown": True} if unknown else values


def lnk_ctl2(text: str) -> Values:
    """The speed that the port was told to train to, in GT/s."""
    match = _TARGET.search(text)
    try:
        return {"target_speed_gts": float(match.group(1))} if match else {}
    except ValueError:  # "8..0GT/s"
        return {}


def dev_cap(text: str) -> Values:
    """The largest payload that the function can, in bytes."""
    return {"max_payload_bytes": _number(_PAYLOAD.search(text))}


def payload_in_use(text: str) -> Values:
    """The third line of DevCtl: payload in use and read request, in bytes."""
    return {
        "payload_bytes": _number(_PAYLOAD.search(text)),
        "read_request_bytes": _number(_READ_REQUEST.search(text)),
    }


def relaxed_ordering(text: str) -> Values:
    """The second line of DevCtl, "RlxdOrd+ ExtTag+ …"."""
    return {"relaxed_ordering": text.startswith("RlxdOrd+")}


def acs_ctl(text: str) -> Values:
    """The ACS functions that are switched on."""
    return {"acs_ctl": frozenset(_SET_FLAG.findall(text))}


def ats_ctl(text: str) -> Values:
    """Whether the function asks the IOMMU for translations itself."""
    return {"ats_enabled": "Enable+" in text} if "Enable" in text else {}


def buses(text: str) -> Values:
    """The bus below a bridge."""
    match = _BUS.search(text)
    return {"is_bridge": True} | ({"secondary_bus": int(match[1], 16)} if match else {})


def numa_node(text: str) -> Values:
    """The NUMA node; a kernel's -1 is "unknown"."""
    try:
        node = int(text.partition(":")[2])
    except ValueError:
        return {}
    return {"numa_node": node} if node >= 0 else {"numa_unknown": True}


def flags(text: str) -> Values:
    """The `Flags:` line of -v, which may name the NUMA node."""
    node = _number(_FLAGS_NODE.search(text))
    return {} if node is None else {"numa_node": node} if node >= 0 else {"numa_unknown": True}


def region(text: str) -> Values:
    """A memory BAR: without an address, or one the kernel has switched off, the driver cannot use it. I/O ports are
    often left out by the BIOS and no GPU or NIC needs them."""
    if "Memory at" not in text:
        return {}
    return {"bars_unassigned": True} if "<unassigned>" in text or "<ignored>" in text or "[disabled]" in text else {}


def sized_region(name: str) -> Reader:
    """A reader of a memory BAR whose size in bytes is kept under a name."""

    def read(text: str) -> Values:
        match = _SIZE.search(text)
        if match is None or "Memory at" not in text:
            return region(text)
        return {name: int(match.group(1)) * _UNIT_BYTES[match.group(2)], **region(text)}

    return read


def vf_count(text: str) -> Values:
    """Virtual functions switched on now."""
    count = _number(_VF_COUNT.search(text))
    return {} if count is None else {"vf_count": count}


def vf_place(text: str) -> Values:
    """Where the virtual functions lie: routing ids from the physical function's own."""
    match = _VF_PLACE.search(text)
    return {"vf_offset": int(match.group(1)), "vf_stride": int(match.group(2))} if match else {}


def subsystem(text: str) -> Values:
    """The board's own ids, where they are printed."""
    match = _SUBSYSTEM.search(text)
    return {"subsystem": match.group(1).lower()} if match else {}


def driver(text: str) -> Values:
    """The driver bound to the function; no word where one was cut."""
    name = text.partition(":")[2].strip()
    cut = any(known != name and known.startswith(name) for known in _DRIVERS)
    return {} if cut else {"driver": name}


def capability(text: str) -> Values:
    """A `Capabilities:` line: the port type, the serial number, or that they may not be read."""
    if "<access denied>" in text:
        return {"access_denied": True}
    if match := _EXPRESS.search(text):
        return {"port_type": next((kind for word, kind in _PORT_TYPES if match.group(1).startswith(word)), None)}
    if match := _SERIAL.search(text):
        return {"serial": match.group(1).lower()}
    return {}


def raw(name: str) -> Reader:
    """A reader that keeps what stands behind the colon, single-spaced."""
    return lambda text: {name: " ".join(text.partition(":")[2].split())}


# By what stands before the first colon.
FIELDS: Mapping[str, Reader] = {
    "LnkCap": lnk_cap,
    "LnkSta": lnk_sta,
    "LnkCap2": lambda _: {},
    "LnkCtl2": lnk_ctl2,
    "DevCap": dev_cap,
    "ACSCtl": acs_ctl,
    "ATSCtl": ats_ctl,
    "UESta": raw("UESta"),
    "CESta": raw("CESta"),
    "Bus": buses,
    "NUMA node": numa_node,
    "Flags": flags,
    "Region 0": region,
    "Region 1": sized_region("region1_bytes"),
    "Region 2": sized_region("region2_bytes"),
    "Region 3": region,
    "Region 4": region,
    "Region 5": region,
    "Initial VFs": vf_count,
    "VF offset": vf_place,
    "Subsystem": subsystem,
    "Kernel driver in use": driver,
}
# Lines that a mail program may have cut in two where it matters.
WRAPPED = frozenset({"LnkCap", "LnkSta", "ACSCap", "ACSCtl", "UESta", "CESta", "Initial VFs", "VF offset", "Bus"})
# Fields that are worth a gap where their device line is missing.
LINK_FIELDS = frozenset({"LnkCap", "LnkSta", "LnkCtl2", "DevCap", "ACSCap", "ACSCtl"})
# Lines without a colon, by how they begin; the name is the key of PciFunction.lines.
BARE = (
    ("MaxPayload", "DevCtl", payload_in_use),
    ("RlxdOrd", "RlxdOrd", relaxed_ordering),
    ("Memory at", "Memory at", region),
)
