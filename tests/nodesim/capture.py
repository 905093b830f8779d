"""A laid-out node as a capture folder: every command's output and the host's files, with manifest."""

from __future__ import annotations

import json
from pathlib import Path

from nodesim import net_text, smi_text
from nodesim.facts import MODULES, columns, cpu_list
from nodesim.layout import Layout
from nodesim.lspci_text import lspci


def capture(layout: Layout, folder: Path) -> Path:
    """Writes the capture into the folder, which is made, and returns it."""
    outputs = {**commands(layout), **paths(layout)}
    entries = []
    for name, text in outputs.items():
        file = name[1:] if name.startswith("/") else name.replace(" ", "_")
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        entries.append({"input": name, "file": file, "exit_code": 0, "stderr": "", "gap": None})
    manifest = {
        "schema": "topocheck.capture/1", "version": "0", "time": "2026-11-15T03:04:05Z", "host": layout.node.host,
        "privileged": True, "inputs": entries, "realpath": _realpath(layout), "scrubbed": [],
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


def commands(layout: Layout) -> dict[str, str]:
    """The output of each command."""
    found = {
        "lspci -D -nn -vv": lspci(layout),
        "nvidia-smi -L": smi_text.listing(layout),
        "nvidia-smi -q -x": smi_text.query(layout),
        "numactl -H": numactl(layout),
        "lscpu": lscpu(layout),
        "uname -r": f"{layout.node.kernel}\n",
    }
    live = sum(name.startswith("GPU") for name, _ in columns(layout))
    if live:
        found["nvidia-smi topo -m"] = smi_text.topo(layout)
    if live > 1:
        found |= {f"nvidia-smi topo -p2p {way}": smi_text.p2p(layout) for way in "rw"}
    if nvlink := smi_text.nvlink_status(layout):
        found["nvidia-smi nvlink -s"] = nvlink
    if layout.nics:
        found |= {
            "ibstat": net_text.ibstat(layout),
            "ibv_devinfo -v": net_text.devinfo(layout),
            "rdma link": net_text.rdma_link(layout),
            "ibdev2netdev": net_text.ibdev2netdev(layout),
        }
    return found


def paths(layout: Layout) -> dict[str, str]:
    """The host's files."""
    node = layout.node
    modules = [*sorted(MODULES), *(["nvidia_peermem"] if node.peermem else [])]
    kind = "UNIX Open Kernel Module for x86_64" if node.open_driver else "UNIX x86_64 Kernel Module"
    return {
        "/proc/cpuinfo": f"processor\t: 0\nvendor_id\t: {node.cpu.vendor}\nflags\t\t: fpu vme sse2 ht avx2\n",
        "/proc/cmdline": f"BOOT_IMAGE=/boot/vmlinuz-{node.kernel} ro iommu=pt\n",
        "/proc/modules": "".join(f"{name} 16384 0 - Live 0x0000000000000000\n" for name in modules),
        "/proc/sys/kernel/numa_balancing": f"{node.numa_balancing}\n",
        "/proc/driver/nvidia/version": f"NVRM version: NVIDIA {kind}  {node.driver_version}  Release Build  "
        "(dvs-builder@example)  Tue Sep 23 09:46:48 UTC 2025\nGCC version:  gcc version 13.2.0\n",
    }  # fmt: skip


def numactl(layout: Layout) -> str:
    """`numactl -H`."""
    nodes = layout.node.numa_nodes
    text = f"available: {len(nodes)} nodes (0-{nodes[-1]})\n"
    for number in nodes:
        cpus = " ".join(str(c) for low, high in _ranges(cpu_list(layout, number)) for c in range(low, high + 1))
        text += f"node {number} cpus: {cpus}\nnode {number} size: 257000 MB\nnode {number} free: 250000 MB\n"
    text += "node distances:\nnode " + " ".join(f"{number:3}" for number in nodes) + " \n"
    for a in nodes:
        text += f"{a:3}: " + " ".join(f"{distance(layout, a, b):3}" for b in nodes) + " \n"
    return text


def distance(layout: Layout, a: int, b: int) -> int:
    """The ACPI distance of two NUMA nodes."""
    return 10 if a == b else 12 if layout.node.socket_of(a) == layout.node.socket_of(b) else 32


def _ranges(cpus: str) -> list[tuple[int, int]]:
    return [(int(low), int(high or low)) for low, _, high in (part.partition("-") for part in cpus.split(","))]


def lscpu(layout: Layout) -> str:
    """`lscpu`."""
    node = layout.node
    total = 2 * node.cpus_per_numa * len(node.numa_nodes)
    rows = {
        "Architecture": "x86_64", "CPU(s)": total, "On-line CPU(s) list": f"0-{total - 1}",
        "Vendor ID": node.cpu.vendor, "Model name": node.cpu.model, "Thread(s) per core": 2,
        "Core(s) per socket": node.cpus_per_numa * node.numa_per_socket, "Socket(s)": node.sockets,
        "Virtualization": "VT-x", "NUMA node(s)": len(node.numa_nodes),
    }  # fmt: skip
    rows |= {f"NUMA node{number} CPU(s)": cpu_list(layout, number) for number in node.numa_nodes}
    return "".join(f"{key + ':':<33}{value}\n" for key, value in rows.items())


def _realpath(layout: Layout) -> dict[str, str]:
    """Where the RDMA devices' links point: which function each one is."""
    found = {}
    for n in layout.nics:
        chain = [f.bdf for f in reversed(layout.chain(n.function))]
        path = f"sys/devices/pci{n.function.root}/" + "/".join(chain)
        found[f"sys/class/infiniband/{n.name}"] = f"{path}/infiniband/{n.name}"
        found[f"sys/class/infiniband/{n.name}/device"] = path
    return found
