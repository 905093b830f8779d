"""Topology and findings → the tables of the report: pairs, NVLink bundles, the screen's rows, the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from topocheck.finding import Finding, worst
from topocheck.graph import Device, PcieLink, Topology
from topocheck.hardware import gpus as gpu_figures
from topocheck.hardware import network, pcie
from topocheck.model import Scenario, bandwidth, link_capacity_gb_per_s, nic_rate_gbit_per_s, nics_in_use, route
from topocheck.report import Coverage, GpuRow, NvlinkBundle, Pair


def pairs_of(node: Topology) -> tuple[Pair, ...]:
    """Every unordered pair of GPUs and NICs once."""
    ends = [*node.gpus, *node.nics]
    return tuple(_pair(node, a, b) for a, b in combinations(ends, 2))


def _pair(node: Topology, a: Device, b: Device) -> Pair:
    cls = node.pair_class(a.id, b.id)
    line, achievable, bottleneck = _bandwidth_of_pair(node, a, b, cls)
    return Pair(a.id, b.id, cls, node.pcie_class(a.id, b.id), line, achievable, bottleneck, _p2p(node, a, b))


def _bandwidth_of_pair(
    node: Topology, a: Device, b: Device, cls: str | None
) -> tuple[float | None, float | None, str | None]:
    """Line rate, achievable rate and what limits them, for one flow; None where the path was not read."""
    if cls and cls.startswith("NV") and cls[2:].isdigit():
        links = int(cls[2:])
        line = gpu_figures.nvlink_line_rate_gb_per_s(links, a.part)
        return line, round(gpu_figures.nvlink_achievable_gb_per_s(links, a.part), 1), "nvlink"
    if a.kind == b.kind == "nic":
        return None, None, None
    up, down = route(node, a, b)
    steps = [
        (link_capacity_gb_per_s(x), pcie.line_rate_gb_per_s(*_awake(x)), x.id)
        for x in (*up, *down)
        if link_capacity_gb_per_s(x) != float("inf")
    ]
    steps += [
        (network.achievable_gb_per_s(rate), network.line_rate_gb_per_s(rate), nic.id)
        for nic in (a, b)
        if nic.kind == "nic" and (rate := nic_rate_gbit_per_s(nic)) is not None
    ]
    if not steps:
        return None, None, None
    capacity, line, where = min(steps)
    return round(line, 1), round(capacity, 1), where


def _awake(link: PcieLink) -> tuple[float, int]:
    speed = link.speed_gts if not link.asleep else link.can_speed_gts or link.max_speed_gts
    return speed or 0.0, link.width or 0


def _p2p(node: Topology, a: Device, b: Device) -> str:
    """ok when reads and writes are; else the first status that is not; unknown where nobody asked."""
    if a.kind != "gpu" or b.kind != "gpu":
        return "unknown"
    said = [
        cell
        for matrix in node.p2p
        if matrix.capability in ("r", "w", "rw", None)
        for key in ((a.id.upper(), b.id.upper()), (b.id.upper(), a.id.upper()))
        if (cell := matrix.cells.get(key))
    ]
    return next((s for s in said if s != "OK"), "ok").lower() if said else "unknown"


def nvlink_bundles(node: Topology) -> tuple[NvlinkBundle, ...]:
    """One bundle a GPU to the NVSwitches, or one a pair of GPUs that are joined directly."""
    bundles = []
    for gpu in node.gpus:
        active = gpu.nvlinks_active
        if active and gpu.part and gpu.part.board == "nvswitch" and len(node.gpus) > 4:
            bundles.append(_bundle(gpu.id, "nvswitch", active, gpu, "nvidia-smi nvlink -s"))
    if not bundles:
        for a, b in combinations(node.gpus, 2):
            cls = node.pair_class(a.id, b.id) or ""
            if cls.startswith("NV"):
                bundles.append(_bundle(a.id, b.id, int(cls[2:]), a, "nvidia-smi topo -m"))
    return tuple(bundles)


def _bundle(a: str, b: str, links: int, gpu: Device, witness: str) -> NvlinkBundle:
    line = gpu_figures.nvlink_line_rate_gb_per_s(links, gpu.part)
    achievable = round(gpu_figures.nvlink_achievable_gb_per_s(links, gpu.part), 1)
    return NvlinkBundle(a, b, links, line, achievable, witness)


def nearest_nics(node: Topology) -> dict[str, tuple[str, ...]]:
    """Each GPU's own compute NICs, else the nearest ones."""
    found = {}
    for gpu in node.gpus:
        own = node.assignment.get(gpu.id)
        found[gpu.id] = own or tuple(n.id for n in node.nearest(gpu, node.compute_nics or node.nics)[1])
    return found


def rows_of(node: Topology) -> tuple[GpuRow, ...]:
    """The screen's table."""
    rows = []
    for gpu in node.gpus:
        own = [node.by_id[n] for n in node.assignment.get(gpu.id, ()) if n in node.by_id]
        nics = own or nics_in_use(node, gpu)
        b = bandwidth(node, Scenario("gpu-nic", gpu.id))
        cls = node.pcie_class(gpu.id, nics[0].id) if nics else None
        link = node.links.get(gpu.bdf or gpu.id)
        nic_link = node.links.get(nics[0].bdf or nics[0].id) if nics else None
        rate = None if b is None or b.nominal else round(b.gb_per_s, 1)
        rows.append(GpuRow(gpu, link, _nvlinks(gpu), tuple(nics), nic_link, cls, rate))
    return tuple(rows)


def _nvlinks(gpu: Device) -> str | None:
    active = gpu.nvlinks_active
    if active is None:
        return None
    full = gpu.part.nvlinks if gpu.part and gpu.part.nvlinks else len(gpu.nvlinks or ())
    return f"{active}/{max(full, active)}"


def assumptions_of(node: Topology) -> tuple[str, ...]:
    """What the figures rest on where an input was missing."""
    said = list(node.assumptions)
    asleep = [g.id for g in node.gpus if (x := node.links.get(g.bdf or g.id)) and x.asleep]
    if asleep:
        names = ", ".join(asleep)
        said.append(f"{names} assumed to wake to full PCIe speed: the links sleep now (look again under load)")
    said += [
        f"{nic.id} assumed at {most:g} Gb/s, the most its model has: no port was read"
        for nic in node.compute_nics
        if not nic.ports and (most := nic_rate_gbit_per_s(nic))
    ]
    if any(x.speed_gts and not x.payload_bytes for x in node.links.values()):
        said.append("MaxPayload assumed 256 bytes where it was not read")
    if node.compute_nics and all(nic_rate_gbit_per_s(n) is None for n in node.compute_nics):
        said.append("compute NICs assumed alike: no rate was read")
    return tuple(said)


def verdict_of(
    node: Topology, findings: tuple[Finding, ...], coverage: Coverage, missing: str | None
) -> tuple[str, str]:
    """The verdict and why, first that fits (interface section 5); `missing` is required evidence that is not there."""
    severity = worst([f.severity for f in findings if not f.waived])
    if severity == "error":
        return "failed", "an error stands"
    if not node.gpus:
        return "unknown", _no_gpu(node)
    if missing:
        return "unknown", missing
    if severity == "warning":
        return "degraded", "a warning stands"
    return "healthy", f"no fault seen by the {coverage.ran} rules that could run"


def _no_gpu(node: Topology) -> str:
    """That there is none, and what was looked at."""
    if not node.functions:
        return "no GPU was seen"
    driver = node.machine.driver_error or ("the NVIDIA driver lists none" if node.machine.driver else None)
    return f"no NVIDIA GPU found among {len(node.functions)} PCI functions{'; ' if driver else ''}{driver or ''}"


def missing_evidence(node: Topology, required: tuple[str, ...]) -> str | None:
    """The first thing that is required and was not seen."""
    return next((words for _, _, words in unseen(node, required)), None)


def unseen(node: Topology, required: tuple[str, ...]) -> Iterator[tuple[Device, str, str]]:
    """What is required and was not seen, of "pcie-links", "nvlink", "nic-ports", each of hardware that has it: the
    device, which of these, and the words for it."""
    for gpu in node.gpus:
        link = node.links.get(gpu.bdf or gpu.id)
        unread = link is None or link.width is None
        if "pcie-links" in required and unread and not (gpu.part and gpu.part.c2c):
            yield gpu, "pcie-links", f"required evidence missing: PCIe link of {gpu.id}"
        joined = gpu.part is not None and gpu.part.board in ("nvswitch", "mesh") and not gpu.mig
        if "nvlink" in required and joined and gpu.nvlinks_active is None:
            yield gpu, "nvlink", f"required evidence missing: NVLink of {gpu.id}"
    if "nic-ports" in required:
        portless = [nic for nic in node.compute_nics if nic.state == "unknown"]
        yield from ((nic, "nic-ports", f"required evidence missing: port of {nic.id}") for nic in portless)
