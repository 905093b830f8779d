"""`/sys/class/infiniband`: what every RDMA tool reads. A device without a PCI function above it is a soft one."""

from __future__ import annotations

from collections.abc import Iterable

from topocheck.facts import Evidence, Fact, full_bdf
from topocheck.probes import rdma_draft as rdma
from topocheck.sources.base import Source

INPUT = "/sys/class/infiniband"

_AMAZON = "1d0f"
_MOST_GIDS = 32  # of the table's 256 places, filled from the front
_COUNTERS = (
    (
        "counters",
        (
            "link_downed",
            "symbol_error",
            "link_error_recovery",
            "port_xmit_discards",
            "port_xmit_wait",
            "port_xmit_data",
        ),
    ),
    ("hw_counters", ("packet_seq_err", "local_ack_timeout_err")),
)
_PORT_FIELDS = (
    ("state", "state", rdma.state),
    ("physical", "phys_state", rdma.word),
    ("rate_gbit_per_s", "rate", rdma.rate),
    ("link_layer", "link_layer", rdma.layer),
    ("lid", "lid", rdma.number),
    ("sm_lid", "sm_lid", rdma.number),
)


def read(source: Source) -> Iterable[Fact]:
    """One fact a device."""
    for path in source.glob(f"{INPUT}/*"):
        yield _device(source, path).finished(INPUT)


def _device(source: Source, path: str) -> rdma.DeviceDraft:
    device = rdma.DeviceDraft(path.rpartition("/")[2])
    real = source.realpath(f"{path}/device") or source.realpath(path)
    device.put("bdf", _last_bdf(real))
    if real and "/virtual/" in real:
        device.put("software", True)
    device.put("vf_of", full_bdf((source.realpath(f"{path}/device/physfn") or "").rpartition("/")[2]))
    device.put("vendor_id", rdma.vendor(source.read(f"{path}/device/vendor") or ""))
    driver = (source.realpath(f"{path}/device/driver") or "").rpartition("/")[2]
    device.put("efa", driver == "efa" or device.fields.get("vendor_id") == _AMAZON)
    for name, file in (("model", "hca_type"), ("firmware", "fw_ver"), ("board_id", "board_id")):
        device.put(name, source.read(f"{path}/{file}") or None)
    for name in ("node_guid", "sys_image_guid"):
        device.put(name, rdma.guid(source.read(f"{path}/{name}") or ""))
    numbers = [at.rpartition("/")[2] for at in source.glob(f"{path}/ports/*")]
    for number in numbers:
        if number.isdecimal():
            _port(source, path, device.port(int(number[:3])), is_efa=device.fields["efa"])
    return device


def _port(source: Source, device: str, port: rdma.PortDraft, *, is_efa: bool) -> None:
    path = f"{device}/ports/{port.number}"
    for name, file, parse in _PORT_FIELDS:
        text = source.read(f"{path}/{file}")
        if text:
            port.put(name, parse(text), Evidence(f"{path}/{file}", None, text))
    if is_efa:
        port.put("link_layer", "efa")
    gid = source.read(f"{path}/gids/0")
    if gid and port.fields.get("link_layer") == "infiniband":
        line = Evidence(f"{path}/gids/0", None, gid)
        port.put("subnet", rdma.gid_prefix(gid), line)
        port.put("guid", rdma.guid(gid[20:]), line)
    if port.fields.get("link_layer") == "ethernet":
        _gids(source, path, port)
    _counters(source, path, port)
    port.put("netdev", source.read(f"{path}/gid_attrs/ndevs/0") or _interface(source, device, port.number))


def _gids(source: Source, path: str, port: rdma.PortDraft) -> None:
    """The used places of the GID table, with their version: "IB/RoCE v1", "RoCE v2"."""
    for number in range(_MOST_GIDS):
        gid = source.read(f"{path}/gids/{number}")
        if gid is None:
            break
        if gid.strip("0:"):
            version = (source.read(f"{path}/gid_attrs/types/{number}") or "").rpartition(" ")[2] or None
            port.add_gid(
                number, gid, version, Evidence(f"{path}/gids/{number}", None, f"{gid} {version or ''}".strip())
            )


def _counters(source: Source, path: str, port: rdma.PortDraft) -> None:
    values: list[tuple[str, int]] = []
    for folder, names in _COUNTERS:
        for name in names:
            text = source.read(f"{path}/{folder}/{name}") or ""
            if text.isdecimal():
                values.append((name, int(text[:20])))
                port.lines[name] = Evidence(f"{path}/{folder}/{name}", None, text)
    port.put("readings", (tuple(values),) if values else None)


def _interface(source: Source, device: str, port: int) -> str | None:
    """The interface of the PCI function that serves this port: a two-port card of the ConnectX-3 kind has two."""
    for path in source.glob(f"{device}/device/net/*"):
        number = source.read(f"{path}/dev_port") or "0"
        if number == str(port - 1):
            return path.rpartition("/")[2]
    return None


def _last_bdf(path: str | None) -> str | None:
    """The PCI function nearest to the device in a path of /sys/devices."""
    found = [bdf for part in (path or "").split("/") if (bdf := full_bdf(part))]
    return found[-1] if found else None
