"""The facts that probes would state of a laid-out node, made directly: the fast way into build and rules.

Which inputs speak is chosen by `inputs`; an input left out states nothing, as if its command had not been run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nodesim.layout import Function, Layout, NamedGpu, NamedNic
from nodesim.parts import GTS
from nodesim.relations import Relations
from topocheck.facts import (
    Evidence,
    Fact,
    Gid,
    GpuState,
    Host,
    Matrix,
    MatrixRow,
    NumaNode,
    NvlinkGpu,
    NvlinkPort,
    P2pMatrix,
    PciFunction,
    PciListing,
    RdmaDevice,
    RdmaPort,
)

INPUTS = frozenset({"lspci", "topo", "p2p", "query", "nvlink", "numa", "rdma", "host"})
_LSPCI, _QUERY, _TOPO = "lspci -vv", "nvidia-smi -q -x", "nvidia-smi topo -m"
_PORT_TYPES = {"root": "root", "upstream": "upstream", "downstream": "downstream"}
MODULES = frozenset({
    "nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs", "rdma_cm",
    "iw_cm", "ib_cm", "nvme", "nvme_core", "ext4", "jbd2", "mbcache", "ipmi_si", "ipmi_msghandler", "i2c_core", "tls",
})  # fmt: skip
_ACS_ON = frozenset({"SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"})


def facts(layout: Layout, inputs: Iterable[str] = INPUTS) -> list[Fact]:
    """Everything the chosen inputs say of the node."""
    makers = {"lspci": _pci, "topo": _matrix, "p2p": _p2p, "query": _gpus, "nvlink": _nvlinks, "numa": _numa,
              "rdma": _rdma, "host": _host}  # fmt: skip
    return [fact for name in sorted(inputs) for fact in makers[name](layout)]


def _line(witness: str, text: str) -> Evidence:
    return Evidence(witness, 1, text)


def _pci(layout: Layout) -> Iterator[Fact]:
    yield from (_function(f, layout) for f in layout.functions)
    yield PciListing(_LSPCI, whole=True)


def _function(f: Function, layout: Layout) -> PciFunction:
    header = {"header": _line(_LSPCI, f"{f.bdf} {f.name}")}
    common = {
        "bdf": f.bdf, "witness": _LSPCI, "class_id": f.class_id, "vendor_id": f.vendor_id, "device_id": f.device_id,
        "name": f.name, "driver": f.driver, "driver_shown": True,
    }  # fmt: skip
    if f.dead:
        return PciFunction(**common, dead=True, lines=header)
    if f.kind == "host":
        return PciFunction(**common, numa_node=f.numa, lines=header)
    buses = {"secondary_bus": f.secondary, "is_bridge": True} if f.is_bridge else {}
    acs = {} if f.acs_ctl is None else {"acs_ctl": _ACS_ON if f.acs_ctl else frozenset()}
    iommu = {"iommu_type": layout.node.iommu} if f.kind == "gpu" else {}
    return PciFunction(
        **common, **buses, **acs, **iommu,
        subsystem=f.subsystem, numa_node=f.numa if f.numa >= 0 else None, numa_unknown=f.numa < 0,
        port_type=_PORT_TYPES.get(f.kind, "endpoint"), max_speed_gts=GTS[f.max_gen], max_width=f.max_width,
        speed_gts=GTS[f.gen], width=f.width, target_speed_gts=GTS[f.target_gen], max_payload_bytes=f.max_payload,
        payload_bytes=f.payload, read_request_bytes=f.read_request, relaxed_ordering=f.relaxed,
        bar1_bytes=_bar1(f), bars_unassigned=not f.bars, serial=f.serial,
        lines={**header, **_link_lines(f), "iommu_group/type": _line(_LSPCI, layout.node.iommu)},
    )  # fmt: skip


def _bar1(f: Function) -> int | None:
    if f.kind != "gpu":
        return None
    return f.part_of.bar1_bytes or f.part_of.part.bar1_bytes  # type: ignore[union-attr]


def _link_lines(f: Function) -> dict[str, Evidence]:
    said = {
        "LnkCap": f"LnkCap: Speed {GTS[f.max_gen]:g}GT/s, Width x{f.max_width}",
        "LnkSta": f"LnkSta: Speed {GTS[f.gen]:g}GT/s, Width x{f.width}",
        "LnkCtl2": f"LnkCtl2: Target Link Speed: {GTS[f.target_gen]:g}GT/s",
        "DevCap": f"DevCap: MaxPayload {f.max_payload} bytes",
        "DevCtl": f"MaxPayload {f.payload} bytes, MaxReadReq {f.read_request} bytes",
        "RlxdOrd": f"RlxdOrd{'+' if f.relaxed else '-'}",
        "NUMA node": f"NUMA node: {f.numa}",
        "Region 1": f"Region 1: Memory at {'210000000000' if f.bars else '<unassigned>'}",
        "ACSCtl": f"ACSCtl: ReqRedir{'+' if f.acs_ctl else '-'}",
        "Kernel driver in use": f"Kernel driver in use: {f.driver}",
    }
    return {key: _line(_LSPCI, text) for key, text in said.items()}


def _gpus(layout: Layout) -> Iterator[Fact]:
    yield from (_state(g) for g in layout.gpus)


def _state(g: NamedGpu) -> GpuState:
    gpu, part, f = g.gpu, g.gpu.part, g.function
    if gpu.lost:
        text = "GPU is lost"
        return GpuState(_QUERY, g.index, bdf=f.bdf, lost=text, lines={"lost": _line(_QUERY, text)})
    fabric = (gpu.fabric or ("N/A", "N/A")) if part.has_fabric else ("N/A", "N/A")
    health = (("Bandwidth", "N/A"), ("Route Unhealthy", "True" if gpu.unhealthy_route else "N/A"))
    values = dict(  # noqa: C408
        pstate=gpu.pstate, gen=f.gen, gen_max=gpu.link.can_gen, gen_device_max=f.max_gen,
        gen_host_max=gpu.link.port_gen, width=f.width, width_max=gpu.link.can_width, fabric_state=fabric[0],
        fabric_status=fabric[1], mig=gpu.mig, power_limit_w=float(gpu.power_w or part.power_w),
        application_clock_mhz=gpu.clock_mhz or part.clock_mhz, ecc=gpu.ecc, persistence=gpu.persistence,
        ecc_uncorrectable=gpu.ecc_uncorrectable, remap_pending=gpu.remap_pending, remap_failed=gpu.remap_failed,
        recovery_action=gpu.recovery_action, slowdowns=gpu.slowdowns, bar1_bytes=_bar1(f),
    )  # fmt: skip
    lines = {key: _line(_QUERY, f"{key} {value}") for key, value in values.items()}
    lines |= {f"fabric_health {name}": _line(_QUERY, f"{name} {value}") for name, value in health}
    lines |= {name: _line(_QUERY, f"{name} : Active") for name in gpu.slowdowns}
    return GpuState(
        _QUERY, g.index, bdf=f.bdf, uuid=g.uuid, model=part.model, pci_id=f"10de:{part.device_id}", minor=g.index,
        memory_bytes=part.memory_mib << 20, vbios="96.00.74.00.11", fabric_health=health, lines=lines, **values,
    )  # fmt: skip


def columns(layout: Layout) -> list[tuple[str, str]]:
    """(name in the matrix, uid) of each GPU and NIC; lost GPUs are not in it."""
    gpus = [(f"GPU{g.index}", g.gpu.uid) for g in layout.gpus if not g.gpu.lost]
    return gpus + [(f"NIC{i}", n.function.uid) for i, n in enumerate(layout.nics)]


def cpu_list(layout: Layout, numa: int) -> str:
    """The CPUs of a NUMA node; two threads a core, the second ones numbered after all first ones."""
    each, total = layout.node.cpus_per_numa, layout.node.cpus_per_numa * len(layout.node.numa_nodes)
    return f"{numa * each}-{numa * each + each - 1},{total + numa * each}-{total + numa * each + each - 1}"


def _matrix(layout: Layout) -> Iterator[Fact]:
    ends = columns(layout)
    if len(ends) < 1:
        return
    near = Relations(layout.node)
    cells = {(row, column): near.cell(a, b) if a != b else "X" for row, a in ends for column, b in ends}
    rows = {}
    for g in layout.gpus:
        numa = g.function.numa
        cpus = cpu_list(layout, numa) if numa >= 0 else None
        rows[f"GPU{g.index}"] = MatrixRow(cpus, str(numa) if numa >= 0 else "N/A", "N/A")
    lines = {row: _line(_TOPO, " ".join([row, *(cells[row, column] for column, _ in ends)])) for row, _ in ends}
    legend = {f"NIC{i}": n.name for i, n in enumerate(layout.nics)}
    names = tuple(name for name, _ in ends)
    yield Matrix(_TOPO, names, cells, rows, legend, lines=lines)


def _p2p(layout: Layout) -> Iterator[Fact]:
    ends = [(name, uid) for name, uid in columns(layout) if name.startswith("GPU")]
    near = Relations(layout.node)
    for capability in "rw":
        witness = f"nvidia-smi topo -p2p {capability}"
        cells = {(r, c): near.p2p(a, b) if a != b else "X" for r, a in ends for c, b in ends}
        lines = {r: _line(witness, " ".join([r, *(cells[r, c] for c, _ in ends)])) for r, _ in ends}
        yield P2pMatrix(witness, capability, tuple(name for name, _ in ends), cells, lines)


def _nvlinks(layout: Layout) -> Iterator[Fact]:
    witness = "nvidia-smi nvlink -s"
    near = Relations(layout.node)
    for g in layout.gpus:
        states = near.link_states(g.gpu.uid)
        if not states or g.gpu.lost or g.gpu.mig:
            continue
        rate = g.gpu.nvlink_gb_per_s or g.gpu.part.nvlink_gb_per_s
        ports = tuple(
            NvlinkPort(k, up, float(rate) if up else None,
                       line=_line(witness, f"Link {k}: {f'{rate} GB/s' if up else '<inactive>'}"))
            for k, up in enumerate(states)
        )  # fmt: skip
        none = not any(states)
        line = _line(witness, "NVML: Unable to retrieve NVLink information as all links are inActive")
        yield NvlinkGpu(
            witness, g.index, g.gpu.part.model, g.uuid, () if none else ports, none, line=line if none else None
        )


def _numa(layout: Layout) -> Iterator[Fact]:
    for number in layout.node.numa_nodes:
        yield NumaNode("lscpu", number, cpu_list(layout, number), 257_000.0, layout.node.socket_of(number))


def _rdma(layout: Layout) -> Iterator[Fact]:
    yield from (_device(n) for n in layout.nics)


def _device(n: NamedNic) -> RdmaDevice:
    witness, part = "ibstat", n.nic.part
    infiniband = n.layer == "infiniband"
    up = n.port.state == "active"
    values = dict(  # noqa: C408
        state=n.port.state, physical=n.port.physical, link_layer=n.layer, mtu=n.port.mtu,
        lid=n.lid if infiniband else 0, rate_gbit_per_s=float(n.rate if up else 10 if infiniband else 40),
    )  # fmt: skip
    lines = {key: _line(witness, f"{key}: {value}") for key, value in values.items()}
    lines["gids"] = _line(witness, "GID[0]")
    port = RdmaPort(
        1, max_mtu=4096, sm_lid=1 if infiniband else 0, guid=n.guid, netdev=n.netdev,
        subnet="fe80:0000:0000:0000" if infiniband else None, gids=() if infiniband else gids(n), lines=lines, **values,
    )  # fmt: skip
    return RdmaDevice(
        witness, n.name, bdf=n.function.bdf, model=part.ca_type, firmware=n.nic.firmware or part.firmware,
        board_id=n.nic.board_id or part.board_id, node_guid=n.guid, sys_image_guid=n.system_guid,
        transport="InfiniBand", ports=(port,), line=_line(witness, f"CA '{n.name}'"),
    )  # fmt: skip


def gids(n: NamedNic) -> tuple[Gid, ...]:
    """The GID table of a RoCE port: link-local and IPv4, both versions; or v1 alone."""
    high, low = (f"{int(a) << 8 | int(b):04x}" for a, b in zip(*[iter(n.ipv4.split("."))] * 2, strict=True))
    local = "fe80:0000:0000:0000:" + ":".join(n.guid[i : i + 4] for i in range(0, 16, 4))
    mapped = f"0000:0000:0000:0000:0000:ffff:{high}:{low}"
    versions = ("v1", "v2") if n.port.gid_v2 else ("v1",)
    table = [(gid, version) for gid in (local, mapped) for version in versions]
    return tuple(Gid(i, gid, version) for i, (gid, version) in enumerate(table))


def _host(layout: Layout) -> Iterator[Fact]:
    node = layout.node
    modules = {"nvidia", "nvidia_uvm", "mlx5_core", "mlx5_ib", "ib_core"} | (
        {"nvidia_peermem"} if node.peermem else set()
    )
    kernel = _line("/proc/cmdline", "ro iommu=pt")
    yield Host("/proc/cmdline", cmdline="ro iommu=pt", line=kernel)
    yield Host("lscpu", arch="x86_64", sockets=node.sockets, line=_line("lscpu", f"Socket(s): {node.sockets}"))
    yield Host("/proc/cpuinfo", virtual=False)
    yield Host("uname -r", kernel=node.kernel, line=_line("uname -r", node.kernel))
    yield Host("/proc/modules", modules=frozenset(modules), peermem=node.peermem, line=_line("/proc/modules", "nvidia"))
    yield Host("/proc/driver/nvidia/version", driver=node.driver_version, open_driver=node.open_driver,
               line=_line("/proc/driver/nvidia/version", f"NVRM version: {node.driver_version}"))  # fmt: skip
    path = "/proc/sys/kernel/numa_balancing"
    yield Host(path, numa_balancing=node.numa_balancing, line=Evidence(path, None, str(node.numa_balancing)))
