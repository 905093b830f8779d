"""What nvidia-smi (driver 580) prints of a laid-out node."""

from __future__ import annotations

from nodesim.facts import columns, cpu_list
from nodesim.layout import Layout, NamedGpu
from nodesim.relations import Relations

_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""
_P2P_LEGEND = """
Legend:

  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
  GNS  = GPU not supported
  TNS  = Topology not supported
  NS   = Not supported
  DR   = Disabled by regkey
  U    = Unknown
"""
_CPU_CELL = 10  # characters after which nvidia-smi starts no further range


def topo(layout: Layout) -> str:
    """`topo -m`."""
    near, ends = Relations(layout.node), columns(layout)
    lines = ["\t" + "\t".join(name for name, _ in ends) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"]
    numa = {f"GPU{g.index}": g.function.numa for g in layout.gpus}
    for name, a in ends:
        cells = [" X " if a == b else near.cell(a, b) for _, b in ends]
        affinity = ["", "", "", ""]
        if name in numa:
            known = numa[name] >= 0
            affinity = [_cpus(layout, numa[name]) if known else "", str(numa[name]) if known else "N/A", "", "N/A"]
        lines.append("\t".join([name, *cells, *affinity]))
    legend = "".join(f"  NIC{i}: {n.name}\n" for i, n in enumerate(layout.nics))
    return "\n".join(lines) + "\n" + _LEGEND + (f"\nNIC Legend:\n\n{legend}" if legend else "") + "\n"


def _cpus(layout: Layout, numa: int) -> str:
    cell = ""
    for part in cpu_list(layout, numa).split(","):
        if len(cell) >= _CPU_CELL:
            break
        cell += ("," if cell else "") + part
    return cell


def p2p(layout: Layout) -> str:
    """`topo -p2p r` and `w`."""
    near = Relations(layout.node)
    ends = [(name, uid) for name, uid in columns(layout) if name.startswith("GPU")]
    rows = [" \t" + "".join(f"{name}\t" for name, _ in ends)]
    for name, a in ends:
        rows.append(f" {name}\t" + "".join(("X" if a == b else near.p2p(a, b)) + "\t" for _, b in ends))
    return "\n".join(rows) + "\n" + _P2P_LEGEND


def listing(layout: Layout) -> str:
    """`-L`."""
    return "".join(_lost(g) if g.gpu.lost else _title(g) for g in layout.gpus)


def _title(g: NamedGpu) -> str:
    return f"GPU {g.index}: {g.gpu.part.model} (UUID: {g.uuid})\n"


def _lost(g: NamedGpu) -> str:
    bus_id = _bus_id(g)
    return f"Unable to determine the device handle for GPU{g.index}: {bus_id}: Unknown Error\n"


def _bus_id(g: NamedGpu) -> str:
    domain, bus, rest = g.function.bdf.split(":")
    return f"{int(domain, 16):08X}:{bus.upper()}:{rest.upper()}"


def nvlink_status(layout: Layout) -> str:
    """`nvlink -s`."""
    near, text = Relations(layout.node), ""
    for g in layout.gpus:
        states = near.link_states(g.gpu.uid)
        if not states or g.gpu.lost or g.gpu.mig:
            continue
        rate = g.gpu.nvlink_gb_per_s or g.gpu.part.nvlink_gb_per_s
        text += _title(g)
        if not any(states):
            text += "\tNVML: Unable to retrieve NVLink information as all links are inActive\n"
        else:
            text += "".join(f"\t Link {k}: {f'{rate} GB/s' if up else '<inactive>'}\n" for k, up in enumerate(states))
    return text


def query(layout: Layout) -> str:
    """`-q -x`, the parts that topocheck reads and what stands around them."""
    head = [
        '<?xml version="1.0" ?>', '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">', "<nvidia_smi_log>",
        "\t<timestamp>Sun Nov 15 03:04:06 2026</timestamp>",
        f"\t<driver_version>{layout.node.driver_version}</driver_version>", "\t<cuda_version>13.0</cuda_version>",
        f"\t<attached_gpus>{len(layout.gpus)}</attached_gpus>",
    ]  # fmt: skip
    gpus = [_gpu(g) for g in layout.gpus]
    return "\n".join([*head, *gpus, "</nvidia_smi_log>"]) + "\n"


def _gpu(g: NamedGpu) -> str:
    lines = [f'\t<gpu id="{_bus_id(g)}">', *_xml(_tree(g), 2), "\t</gpu>", ""]
    return "\n".join(lines)


def _xml(tree: dict[str, object], depth: int) -> list[str]:
    pad, lines = "\t" * depth, []
    for tag, value in tree.items():
        if isinstance(value, dict):
            lines += [f"{pad}<{tag}>", *_xml(value, depth + 1), f"{pad}</{tag}>"]
        else:
            lines.append(f"{pad}<{tag}>{value}</{tag}>")
    return lines


def _on(value: bool) -> str:
    return "Enabled" if value else "Disabled"


def _tree(g: NamedGpu) -> dict[str, object]:
    gpu, part = g.gpu, g.gpu.part
    if gpu.lost:
        words = "GPU is lost"
        return {"product_name": words, "uuid": words, "pci": {"pci_bus_id": _bus_id(g)}, "performance_state": words}
    bar1 = (gpu.bar1_bytes or part.bar1_bytes) >> 20
    fabric = (gpu.fabric or ("N/A", "N/A")) if part.has_fabric else ("N/A", "N/A")
    mig = _on(gpu.mig) if part.board == "nvswitch" else "N/A"
    active = {"hw_slowdown": "HW Slowdown", "hw_thermal_slowdown": "HW Thermal Slowdown",
              "hw_power_brake_slowdown": "HW Power Brake Slowdown"}  # fmt: skip
    return {
        "product_name": part.model,
        "product_architecture": part.architecture,
        "persistence_mode": _on(gpu.persistence),
        "mig_mode": {"current_mig": mig, "pending_mig": mig},
        "serial": "1650000000000",
        "uuid": g.uuid,
        "minor_number": g.index,
        "vbios_version": "96.00.74.00.11",
        "gpu_virtualization_mode": {"virtualization_mode": "None", "host_vgpu_mode": "N/A"},
        "gpu_recovery_action": gpu.recovery_action,
        "pci": _pci(g),
        "performance_state": gpu.pstate,
        "clocks_event_reasons": {f"clocks_event_reason_{tag}": "Active" if name in gpu.slowdowns else "Not Active"
                                 for tag, name in active.items()},
        "fb_memory_usage": {"total": f"{part.memory_mib} MiB", "used": "0 MiB"},
        "bar1_memory_usage": {"total": f"{bar1} MiB", "used": "1 MiB"},
        "ecc_mode": {"current_ecc": _on(gpu.ecc), "pending_ecc": _on(gpu.ecc)},
        "ecc_errors": {"volatile": {"sram_uncorrectable_parity": 0, "sram_uncorrectable_secded": 0,
                                    "dram_correctable": 0, "dram_uncorrectable": gpu.ecc_uncorrectable}},
        "remapped_rows": {"remapped_row_corr": 0, "remapped_row_unc": 0,
                          "remapped_row_pending": "Yes" if gpu.remap_pending else "No",
                          "remapped_row_failure": "Yes" if gpu.remap_failed else "No"},
        "gpu_power_readings": {"current_power_limit": f"{gpu.power_w or part.power_w}.00 W"},
        "applications_clocks": {"graphics_clock": f"{gpu.clock_mhz or part.clock_mhz} MHz"},
        "fabric": {"state": fabric[0], "status": fabric[1],
                   "health": {"bandwidth": "N/A", "route_unhealthy": "True" if gpu.unhealthy_route else "N/A"}},
    }  # fmt: skip


def _pci(g: NamedGpu) -> dict[str, object]:
    domain, bus, _ = g.function.bdf.split(":")
    part, link, f = g.gpu.part, g.gpu.link, g.function
    return {
        "pci_bus": bus.upper(),
        "pci_domain": domain.upper(),
        "pci_device_id": f"{part.device_id.upper()}10DE",
        "pci_bus_id": _bus_id(g),
        "pci_gpu_link_info": {
            "pcie_gen": {"max_link_gen": link.can_gen, "current_link_gen": f.gen, "device_current_link_gen": f.gen,
                         "max_device_link_gen": f.max_gen, "max_host_link_gen": link.port_gen},
            "link_widths": {"max_link_width": f"{link.can_width}x", "current_link_width": f"{f.width}x"},
        },
    }  # fmt: skip
