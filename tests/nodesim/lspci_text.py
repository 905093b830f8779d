"""`lspci -D -nn -vv` as root (pciutils 3.10) of a laid-out node."""

from __future__ import annotations

from nodesim.layout import Function, Layout
from nodesim.parts import GIB, GTS, MIB
from nodesim.spec import Gpu

_CLASS_NAMES = {
    "0200": "Ethernet controller", "0207": "Infiniband controller", "0302": "3D controller", "0600": "Host bridge",
    "0604": "PCI bridge", "0680": "Bridge",
}  # fmt: skip
_EXPRESS = {
    "root": "Root Port (Slot+)", "upstream": "Upstream Port", "downstream": "Downstream Port (Slot-)",
}  # fmt: skip
ACS_ON = "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"
ACS_OFF = "SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"


def lspci(layout: Layout) -> str:
    """Every function, in address order."""
    return "\n".join(_function(f) for f in layout.functions) + "\n"


def _function(f: Function) -> str:
    name = f"{_CLASS_NAMES[f.class_id]} [{f.class_id}]: {f.name} [{f.vendor_id}:{f.device_id}]"
    if f.dead:
        driver = f"\tKernel driver in use: {f.driver}\n" if f.driver else ""
        return f"{f.bdf} {name} (rev ff) (prog-if ff)\n\t!!! Unknown header type 7f\n{driver}"
    lines = [f"{f.bdf} {name}" + (" (rev a1)" if f.kind == "gpu" else " (prog-if 00 [Normal decode])" * f.is_bridge)]
    body = [] if f.kind == "host" else [*_header(f), *_bars(f), *_buses(f), *_express(f), *_extended(f)]
    if f.kind == "host":
        body = [f"NUMA node: {f.numa}"]
    return "\n".join([*lines, *("\t" + line for line in body)]) + "\n"


def _header(f: Function) -> list[str]:
    memory = "+" if f.bars else "-"
    lines = [f"Subsystem: {f.name.split(' ')[0]} Device [{f.subsystem}]"] if f.subsystem else []
    lines += [
        f"Control: I/O- Mem{memory} BusMaster{memory} SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- SERR- "
        "FastB2B- DisINTx+",
        "Status: Cap+ 66MHz- UDF- FastB2B- ParErr- DEVSEL=fast >TAbort- <TAbort- <MAbort- >SERR- <PERR- INTx-",
        "Latency: 0",
        "Interrupt: pin A routed to IRQ 30",
    ]
    return [*lines, f"NUMA node: {f.numa}"] if f.numa >= 0 else lines  # lspci leaves -1 out


def _bars(f: Function) -> list[str]:
    if f.is_bridge:
        return []
    where = "<unassigned>" if not f.bars else f"{0x210000000000 + int(f.bdf.split(':')[1], 16) * 0x4000000000:012x}"
    off = "" if f.bars else " [disabled]"
    if not isinstance(f.part_of, Gpu):
        return [f"Region 0: Memory at {where} (64-bit, prefetchable){off} [size=32M]"]
    bar1 = f.part_of.bar1_bytes or f.part_of.part.bar1_bytes
    size = f"{bar1 // GIB}G" if bar1 >= GIB else f"{bar1 // MIB}M"
    low = "9a000000" if f.bars else "<unassigned>"
    return [
        f"Region 0: Memory at {low} (32-bit, non-prefetchable){off} [size=16M]",
        f"Region 1: Memory at {where} (64-bit, prefetchable){off} [size={size}]",
    ]


def _buses(f: Function) -> list[str]:
    if not f.is_bridge:
        return []
    primary = int(f.bdf.split(":")[1], 16)
    return [
        f"Bus: primary={primary:02x}, secondary={f.secondary:02x}, subordinate={f.subordinate:02x}, sec-latency=0",
        "I/O behind bridge: f000-0fff [disabled] [16-bit]",
        "Memory behind bridge: 90000000-90ffffff [size=16M] [32-bit]",
        "BridgeCtl: Parity- SERR+ NoISA- VGA- VGA16- MAbort- >Reset- FastB2B-",
    ]


def _express(f: Function) -> list[str]:
    kind = _EXPRESS.get(f.kind, "Endpoint")
    speed = f"Speed {GTS[f.gen]:g}GT/s" + (
        " (downgraded)" if f.gen < f.max_gen and kind in ("Endpoint", "Upstream Port") else ""
    )
    width = f"Width x{f.width}" + (
        " (downgraded)" if f.width < f.max_width and kind in ("Endpoint", "Upstream Port") else ""
    )
    return [
        f"Capabilities: [60] Express (v2) {kind}, MSI 00",
        f"\tDevCap:\tMaxPayload {f.max_payload} bytes, PhantFunc 0",
        "\t\tExtTag+ RBE+",
        "\tDevCtl:\tCorrErr+ NonFatalErr+ FatalErr+ UnsupReq-",
        f"\t\tRlxdOrd{'+' if f.relaxed else '-'} ExtTag+ PhantFunc- AuxPwr- NoSnoop-",
        f"\t\tMaxPayload {f.payload} bytes, MaxReadReq {f.read_request} bytes",
        "\tDevSta:\tCorrErr- NonFatalErr- FatalErr- UnsupReq- AuxPwr- TransPend-",
        f"\tLnkCap:\tPort #0, Speed {GTS[f.max_gen]:g}GT/s, Width x{f.max_width}, ASPM not supported",
        "\t\tClockPM- Surprise- LLActRep- BwNot- ASPMOptComp+",
        "\tLnkCtl:\tASPM Disabled; Disabled- CommClk+",
        f"\tLnkSta:\t{speed}, {width}",
        "\t\tTrErr- Train- SlotClk+ DLActive- BWMgmt- ABWMgmt-",
        f"\tLnkCtl2: Target Link Speed: {GTS[f.target_gen]:g}GT/s, EnterCompliance- SpeedDis-",
    ]


def _extended(f: Function) -> list[str]:
    lines = []
    if f.acs_ctl is not None:
        lines += [
            "Capabilities: [170 v1] Access Control Services",
            "\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+",
            f"\tACSCtl:\t{ACS_ON if f.acs_ctl else ACS_OFF}",
        ]
    if f.serial:
        lines.append(f"Capabilities: [2f0 v1] Device Serial Number {f.serial}")
    return [*lines, f"Kernel driver in use: {f.driver}"] if f.driver else lines
