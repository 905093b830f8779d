"""Which GPUs this node has: nvidia-smi's numbering, the PCI list and the matrix made one (interface section 3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from topocheck.build.merge import merged
from topocheck.build.said import Said
from topocheck.facts import Gap, GpuState, NvlinkGpu, NvlinkPort, PciFunction
from topocheck.graph import Device
from topocheck.hardware.gpus import model_of_id, part_of
from topocheck.hardware.pci_ids import is_gpu

_GPU_NAME = re.compile(r"GPU(\d+)")
_TRUST = ("nvml", "nvidia-smi -q -x", "nvidia-smi -q", "nvidia-smi", "nvidia-smi -L")


def gpus_of(said: Said, functions: Mapping[str, PciFunction]) -> list[Device]:
    """The GPUs, in nvidia-smi's order, or in PCI address order where only PCI is known."""
    on_bus = [f for f in functions.values() if is_gpu(f)]
    _tie_lost(said, functions)
    _number_loose(said, on_bus)
    readings = _readings(said)
    states = {index: merged(group) for index, group in readings.items()}
    nvlinks = _nvlinks_by_index(said.nvlinks)
    if not states:
        return [_device(f"gpu{i}", None, f, None) for i, f in enumerate(on_bus)]
    tied = _tie(states, on_bus, said)
    devices = [
        replace(_device(f"gpu{i}", state, tied.get(i), nvlinks.get(i)), readings=tuple(readings[i]))
        for i, state in sorted(states.items())
    ]
    return sorted(devices + _lost(said.gpus, devices, on_bus), key=_number)


def _tie_lost(said: Said, functions: Mapping[str, PciFunction]) -> None:
    """NVML knows a lost GPU's number, nvidia-smi and the bus its address: as many of both are the same, in order."""
    bdfs: dict[int | None, str] = {s.index: s.bdf for s in said.gpus if s.index is not None and s.bdf}
    loose = sorted({s.index for s in said.gpus if s.lost and s.index is not None} - bdfs.keys())
    gone = {s.bdf for s in said.gpus if s.lost} | {f.bdf for f in functions.values() if is_gpu(f) and f.dead}
    free = sorted(bdf for bdf in gone - set(bdfs.values()) if bdf)
    if len(loose) == len(free):
        bdfs |= dict(zip(loose, free, strict=True))
    numbers: dict[str | None, int | None] = {bdf: number for number, bdf in bdfs.items()}
    for i, s in enumerate(said.gpus):
        if s.lost:
            number = s.index if s.index is not None else numbers.get(s.bdf)
            said.gpus[i] = replace(s, index=number, bdf=s.bdf or bdfs.get(number))


def _number_loose(said: Said, on_bus: list[PciFunction]) -> None:
    """nvidia-smi -i tells no number: it is that of whoever knows the GPU's UUID or address, else, if none numbers
    any GPU, the position on the bus, or in the list. So are those numbered of which only the lost ones were named."""
    numbers = {name: s.index for s in said.gpus if s.index is not None for name in (s.uuid, s.bdf) if name}
    numbers |= {n.uuid: n.index for n in said.nvlinks if n.uuid}
    for i, s in enumerate(said.gpus):
        if s.index is None and not s.lost:
            said.gpus[i] = replace(s, index=numbers.get(s.uuid or "", numbers.get(s.bdf or "")))
    named = said.matrices or said.nvlinks or said.p2p or any(s.index is not None and not s.lost for s in said.gpus)
    loose = [s.bdf for s in said.gpus if s.index is None and not s.lost]
    if named:
        said.gaps += [Gap("nvidia-smi -q", f"the number of GPU {bdf} is not in the input") for bdf in loose if bdf]
        return
    order = {bdf: i for i, bdf in enumerate([f.bdf for f in on_bus] or [*dict.fromkeys(loose)]) if bdf}
    if all(s.bdf in order and s.index in (None, order[s.bdf]) for s in said.gpus):
        said.gpus = [replace(s, index=order[s.bdf or ""]) for s in said.gpus]
        said.gpus += [GpuState(f.witness, i, f.bdf) for i, f in enumerate(on_bus) if said.gpus]


def _number(gpu: Device) -> tuple[int, str]:
    number = gpu.id.removeprefix("gpu")
    return (int(number) if number.isdigit() else 1 << 30, gpu.id)


def _readings(said: Said) -> dict[int, list[GpuState]]:
    """The states of each GPU number, the most trusted first; one that only a matrix or the nvlink listing knows gets an
    empty one."""
    rank = {name: i for i, name in enumerate(_TRUST)}
    by_index: dict[int, list[GpuState]] = {}
    for state in sorted(said.gpus, key=lambda s: rank.get(s.witness, len(rank))):
        if state.index is not None:
            by_index.setdefault(state.index, []).append(state)
    for matrix in said.matrices:
        for name in matrix.names:
            if match := _GPU_NAME.fullmatch(name):
                by_index.setdefault(int(match[1]), []).append(GpuState(matrix.witness, int(match[1])))
    for gpu in said.nvlinks:
        named = GpuState(gpu.witness, gpu.index, model=gpu.model, uuid=gpu.uuid)
        by_index.setdefault(gpu.index, []).append(named)
    for peers in said.p2p:
        for name in peers.names:
            if match := _GPU_NAME.fullmatch(name):
                by_index.setdefault(int(match[1]), []).append(GpuState(peers.witness, int(match[1])))
    return by_index


def _nvlinks_by_index(listings: list[NvlinkGpu]) -> dict[int, NvlinkGpu]:
    """The NVLinks of each GPU, the -s, -e, -c and -R listings joined link by link."""
    joined: dict[int, NvlinkGpu] = {}
    for gpu in listings:
        known = joined.get(gpu.index)
        if known is None:
            joined[gpu.index] = gpu
            continue
        ports = {p.link: p for p in known.ports}
        for port in gpu.ports:
            ports[port.link] = _join_ports(ports[port.link], port) if port.link in ports else port
        joined[gpu.index] = replace(
            known,
            ports=tuple(ports[link] for link in sorted(ports)),
            all_inactive=known.all_inactive or gpu.all_inactive,
            unsupported=known.unsupported or gpu.unsupported,
            line=known.line or gpu.line,
        )
    return joined


def _join_ports(a: NvlinkPort, b: NvlinkPort) -> NvlinkPort:
    lower, higher = sorted((a.errors, b.errors), key=lambda errors: (bool(errors), sum(count for _, count in errors)))
    rose = bool(lower) and lower != higher
    return NvlinkPort(
        a.link,
        a.active if a.active is not None else b.active,
        a.rate_gb_per_s if a.rate_gb_per_s is not None else b.rate_gb_per_s,
        a.remote_bdf or b.remote_bdf,
        higher,
        a.supported if a.supported is not None else b.supported,
        (a.line if a.active is not None else None) or b.line or a.line,
        (b.error_line if rose else a.error_line) or b.error_line or a.error_line,
        lower if rose else a.errors_before or b.errors_before,
        a.crc_per_s if a.crc_per_s is not None else b.crc_per_s,
    )


def _tie(states: Mapping[int, GpuState], on_bus: list[PciFunction], said: Said) -> dict[int, PciFunction]:
    """GPU number → PCI function: by BDF where nvidia-smi names one, else in ascending order if the numbers agree."""
    by_bdf = {f.bdf: f for f in on_bus}
    tied = {i: by_bdf[s.bdf] for i, s in states.items() if s.bdf and s.bdf in by_bdf}
    loose = sorted(i for i, s in states.items() if s.bdf is None)
    lost = {s.bdf for s in said.gpus if s.lost and s.index is None}
    free = [f for f in on_bus if f.bdf not in {t.bdf for t in tied.values()} | lost and not f.dead]
    if not loose or not free:
        return tied
    if len(loose) == len(free):
        said.assumptions.append(
            f"{len(loose)} GPUs of nvidia-smi and of the PCI list are tied in ascending order: no input names both"
        )
        return tied | dict(zip(loose, free, strict=True))
    said.gaps.append(
        Gap(free[0].witness, f"{len(free)} GPUs in the PCI list, {len(loose)} in nvidia-smi: not known which is which")
    )
    return tied


def _device(id_: str, state: GpuState | None, pci: PciFunction | None, nvlink: NvlinkGpu | None) -> Device:
    pci_id = (state.pci_id if state else None) or (pci_id_of(pci) if pci else None)
    model = (state.model if state else None) or (pci.name if pci else None) or model_of_id(pci_id)
    numa = (pci.numa_node if pci else None, state.numa_node if state else None)
    return Device(
        id=id_,
        kind="gpu",
        bdf=(state.bdf if state else None) or (pci.bdf if pci else None),
        pci_id=pci_id,
        model=model,
        firmware=state.vbios if state else None,
        numa_node=numa[0] if numa[0] is not None else numa[1],
        numa_unknown=bool(pci and pci.numa_unknown),
        numa_from=(pci.witness if pci and numa[0] is not None else None) or (state.witness if state else None),
        minor=state.minor if state else None,
        mig=bool(state and state.mig),
        pstate=state.pstate if state else None,
        part=part_of(model, pci_id),
        gpu=state,
        pci=pci,
        nvlinks=nvlink.ports if nvlink and nvlink.ports else None,
        nvlinks_none=nvlink.line if nvlink and nvlink.all_inactive and not nvlink.ports else None,
        lines={**(pci.lines if pci else {}), **(state.lines if state else {})},
    )


def pci_id_of(pci: PciFunction) -> str | None:
    """ "10de:2330", None where the listing shows no numbers."""
    return f"{pci.vendor_id}:{pci.device_id}" if pci.vendor_id and pci.device_id else None


def _lost(states: list[GpuState], devices: list[Device], on_bus: list[PciFunction]) -> list[Device]:
    """GPUs the driver calls lost by their BDF only, and dead functions it does not list. Their numbers are those
    missing from nvidia-smi's count, in ascending order; where as many are not missing the BDF stays their id."""
    known = {d.bdf for d in devices}
    functions = {f.bdf: f for f in on_bus}
    lost: dict[str, GpuState | None] = {f.bdf: None for f in on_bus if f.dead and f.bdf not in known}
    lost |= {s.bdf: s for s in states if s.lost and s.index is None and s.bdf and s.bdf not in known}
    numbers = [int(d.id.removeprefix("gpu")) for d in devices]
    holes = sorted(set(range(max(numbers, default=-1) + 1)) - set(numbers))
    ids = [f"gpu{i}" for i in holes] if len(holes) == len(lost) else sorted(lost)
    return [_device(id_, lost[bdf], functions.get(bdf), None) for id_, bdf in zip(ids, sorted(lost), strict=True)]
