"""Our captures as people attach them: a tar, a sosreport, an nvidia-bug-report.log.gz. Wrappings only, as
sos 4.5 and the bug-report script of driver 570 make them; what is inside are the capture's own files."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from topocheck.graph import Device, Topology
from topocheck.probes.smi_gpu import _FIELDS

RULE = "_" * 44
SOS_NAME = "sosreport-node-a-2026-11-15-abcdefg"

# What sosreport 4.5 has of a capture: plugin folder, file of the capture, name there.
_SOS = (
    ("pci", "lspci_-D_-nn_-vv", "lspci_-nnvv", "lspci -nnvv"),
    ("nvidia", "nvidia-smi_nvlink_-s", "nvidia-smi_nvlink_-s", "nvidia-smi nvlink -s"),
    ("nvidia", "nvidia-smi_nvlink_-e", "nvidia-smi_nvlink_-e", "nvidia-smi nvlink -e"),
    ("infiniband", "ibv_devinfo_-v", "ibv_devinfo_-v", "ibv_devinfo -v"),
    ("infiniband", "ibstat", "ibstat", "ibstat"),
    ("infiniband", "ibstatus", "ibstatus", "ibstatus"),
    ("numa", "numactl_-H", "numactl_--hardware", "numactl --hardware"),
    ("processor", "lscpu", "lscpu", "lscpu"),
    ("kernel", "dmesg", "dmesg", "dmesg"),
)
_COPIED = ("proc/cmdline", "proc/modules", "proc/driver/nvidia/version", "sys/class/dmi/id/sys_vendor",
           "sys/class/dmi/id/product_name")  # fmt: skip
_SLOWDOWNS = {"HW Slowdown": "hw_slowdown", "HW Thermal Slowdown": "hw_thermal_slowdown",
              "HW Power Brake Slowdown": "hw_power_brake_slowdown"}  # fmt: skip
_BUG_REPORT_FILES = ("proc/cmdline", "proc/sys/kernel/numa_balancing", "proc/driver/nvidia/version", "proc/modules")


def tar(folder: Path, target: Path, mode: str = "w:gz", arcname: str = "capture") -> Path:
    """The folder as a tar archive."""
    with tarfile.open(target, mode) as archive:
        archive.add(folder, arcname=arcname)
    return target


def smi_query(xml: str) -> str:
    """`nvidia-smi -q` from `-q -x`: the fields that we read of either."""
    document = ElementTree.fromstring(xml[xml.index("<nvidia_smi_log>") :])
    gpus = document.findall("gpu")
    lines = ["", "==============NVSMI LOG==============", ""]
    lines += [f"{'Driver Version':42}: {document.findtext('driver_version')}", ""]
    lines += [f"{'Attached GPUs':42}: {document.findtext('attached_gpus')}"]
    for gpu in gpus:
        lines.append(f"GPU {gpu.get('id')}")
        sections: dict[str, list[str]] = {}
        for field in _FIELDS:
            section, key = field.text
            value = gpu.findtext("/".join(field.xml))
            if value is not None:
                sections.setdefault(section, []).append(f"{'    ' if section else ''}    {key:34}: {value.strip()}")
        for section, found in sections.items():
            lines += [f"    {section}", *found] if section else found
        lines.append("    Clocks Event Reasons")
        for name, element in _SLOWDOWNS.items():
            state = gpu.findtext(f"clocks_event_reasons/clocks_event_reason_{element}")
            lines.append(f"        {name:34}: {state}")
    return "\n".join(lines) + "\n"


def sosreport(capture: Path, folder: Path) -> Path:
    """The capture as an unpacked sosreport."""
    top = folder / SOS_NAME
    for plugin, file, name, _ in _SOS:
        if (capture / file).exists():
            _write(top / "sos_commands" / plugin / name, (capture / file).read_text())
    _write(top / "sos_commands/nvidia/nvidia-smi_-q", smi_query((capture / "nvidia-smi_-q_-x").read_text()))
    kernel = (capture / "uname_-r").read_text().strip()
    _write(top / "sos_commands/kernel/uname_-a", f"Linux node-a {kernel} #1 SMP x86_64 GNU/Linux\n")
    balancing = (capture / "proc/sys/kernel/numa_balancing").read_text().strip()
    _write(top / "sos_commands/kernel/sysctl_-a", f"abi.vsyscall32 = 1\nkernel.numa_balancing = {balancing}\n")
    _write(top / "sos_commands/kernel/dmesg_-T", (capture / "dmesg").read_text())
    _write(top / "sos_commands/numa/numastat_-m", "no tool we read\n")
    for file in _COPIED:
        if (capture / file).exists():
            _write(top / file, (capture / file).read_text())
    _write(top / "var/log/messages", "a line\n")
    _write(top / "version.txt", "sosreport: 4.5.6\n")
    (top / "lspci").symlink_to("sos_commands/pci/lspci_-nnvv")
    commands = [{"exec": command, "filepath": f"sos_commands/{plugin}/{name}", "return_code": 0, "truncated": False}
                for plugin, _, name, command in _SOS]  # fmt: skip
    manifest = {"version": "4.5.6", "components": {"report": {"plugins": {"all": {"commands": commands}}}}}
    _write(top / "sos_reports/manifest.json", json.dumps(manifest))
    return top


def bug_report_sections(capture: Path) -> Iterator[str]:
    """The sections of a bug report of driver 570, in its order."""
    kernel = (capture / "uname_-r").read_text().strip()
    yield f"{RULE}\n\nStart of NVIDIA bug report log file.  Please include this file, along\n\n"
    yield "nvidia-bug-report.sh Version: 37000000\n\nDate: Sun Nov 15 03:04:05 UTC 2026\n"
    yield f"uname: Linux node-a {kernel} #1 SMP\n"
    yield "command line flags: \n\n"
    for file in _BUG_REPORT_FILES:
        path = f"/{file}".replace("/nvidia/", "/nvidia/./")
        text = (capture / file).read_text()
        listed = f"*** ls: -r--r--r-- 1 root root 0 2026-11-15 03:04:05.000000000 +0000 {path}"
        yield f"{RULE}\n\n*** {path}\n{listed}\n{text}\n"
    yield f"{RULE}\n\n*** /etc/dgx-release does not exist\n"
    yield f"{RULE}\n\n{RULE}\n\n/usr/bin/lspci -nnDvvvxxxx\n\n{(capture / 'lspci_-D_-nn_-vv').read_text()}"
    smi = smi_query((capture / "nvidia-smi_-q_-x").read_text())
    units = "\n==============NVSMI LOG==============\n\nAttached Units                            : 0\n"
    yield f"{RULE}\n\n/usr/bin/nvidia-smi --query\n{smi}\n/usr/bin/nvidia-smi --query --unit\n{units}"
    for flag, file in (("--errorcounters", "e"), ("--remotelinkinfo", "R"), ("--status", "s")):
        yield f"\n/usr/bin/nvidia-smi nvlink {flag}\n\n{(capture / f'nvidia-smi_nvlink_-{file}').read_text()}\n"
    yield f"{RULE}\n\n/usr/bin/numactl -H\n\n{(capture / 'numactl_-H').read_text()}\n"
    yield f"{RULE}\n\n/usr/bin/nvidia-debugdump -l\n\n" + ("A" * 76 + "\n") * 200
    yield f"{RULE}\n\nScanning kernel log files for NVIDIA kernel messages:\n\n"
    yield "NVRM: Xid (PCI:0000:19:00): 79, pid=1, GPU has fallen off the bus.\n"  # of an older boot
    yield f"{RULE}\n\ndmesg:\n\n{(capture / 'dmesg').read_text()}"
    yield f"{RULE}\n\n/usr/sbin/ibstat\n\n{(capture / 'ibstat').read_text()}\n"
    yield f"{RULE}\n\nEnd of NVIDIA bug report log file.\n"


def bug_report(capture: Path, target: Path) -> Path:
    """The capture as nvidia-bug-report.log.gz: every section a gzip member of its own."""
    packed = io.BytesIO()
    for section in bug_report_sections(capture):
        with gzip.GzipFile(fileobj=packed, mode="wb") as member:
            member.write(section.encode())
    target.write_bytes(packed.getvalue())
    return target


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def nccl_xml(node: Topology) -> str:
    """What NCCL_TOPO_DUMP_FILE holds of a node: every second function above a device, switches as one."""
    below: dict[str, list[str]] = {}
    for device in (*node.gpus, *(nic for nic in node.nics if nic.state == "active")):
        chain = list(node.climb(device.bdf or ""))
        kept = [chain[0], *chain[2:-1:2], chain[-1]]
        for lower, upper in pairwise(kept):
            if lower not in below.setdefault(upper, []):
                below[upper].append(lower)
    lines = ['<system version="1">']
    for numa in node.numa_nodes:
        lines.append(f'  <cpu numaid="{numa.id}" affinity="{_mask(numa.cpus or "")}" arch="x86_64">')
        for root in sorted(r for r in below if node.root_numa.get(r) == numa.id):
            lines += [line for bdf in below[root] for line in _nccl_pci(node, bdf, below, 2)]
        lines.append("  </cpu>")
    return "\n".join([*lines, "</system>", ""])


def _nccl_pci(node: Topology, bdf: str, below: dict[str, list[str]], depth: int) -> list[str]:
    function, pad = node.functions[bdf], "  " * depth
    speed = f'link_speed="{function.max_speed_gts} GT/s PCIe" link_width="{function.max_width}"'
    ids = f'vendor="0x{function.vendor_id}" device="0x{function.device_id}"'
    inner = [line for lower in below.get(bdf, ()) for line in _nccl_pci(node, lower, below, depth + 1)]
    device = node.by_id.get(bdf)
    if device is not None and device.kind == "gpu":
        links = f'<nvlink target="0000:05:00.0" count="{device.nvlinks_active}" tclass="0x068000"/>'
        inner.append(f'{pad}  <gpu dev="{device.id[3:]}" sm="90" rank="{device.id[3:]}" gdr="1">{links}</gpu>')
    elif device is not None:
        port = device.ports[0]
        attributes = f'name="{device.id}" dev="0" speed="{device.rate_gbit_per_s or 0:.0f}000" port="{port.port}"'
        inner.append(f'{pad}  <nic><net {attributes} guid="0x{device.id.encode().hex()}" gdr="1"/></nic>')
    return [f'{pad}<pci busid="{bdf}" class="0x{function.class_id}00" {ids} {speed}>', *inner, f"{pad}</pci>"]


def nccl_log(node: Topology) -> str:
    """What one rank prints of the node with NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH: the NICs and the distances."""
    nics = [nic for nic in node.nics if nic.state == "active"]
    said = ["NET/IB : Using " + " ".join(f"[{i}]{nic.id}:1/IB" for i, nic in enumerate(nics))]
    numbers = [gpu.id.removeprefix("gpu") for gpu in node.gpus]
    said += [
        f"comm 0x1 rank {i} nranks {len(numbers)} cudaDev {i} nvmlDev {i} busId {_packed(gpu)}"
        for i, gpu in zip(numbers, node.gpus, strict=True)
    ]
    for gpu in node.gpus:
        near = (f"NET/0-{i:x} (4/24.0/{_nccl_word(node, gpu.id, nic.id)})" for i, nic in enumerate(nics))
        said.append(f"GPU/0-{_packed(gpu)} :GPU/0-{_packed(gpu)} (0/5000.0/LOC) {' '.join(near)}")
    return "".join(f"node-a:100:200 [0] NCCL INFO {line}\n" for line in said)


def _packed(gpu: Device) -> str:
    domain, bus, rest = (gpu.bdf or "").split(":")
    device, function = rest.split(".")
    return f"{int(domain, 16) << 20 | int(bus, 16) << 12 | int(device, 16) << 4 | int(function):x}"


def _nccl_word(node: Topology, gpu: str, nic: str) -> str:
    """NCCL knows no host bridges: what meets at one CPU is PHB."""
    word = node.pcie_class(gpu, nic) or "SYS"
    return "PHB" if word == "NODE" else word


def _mask(cpus: str) -> str:
    bits = 0
    for part in cpus.split(","):
        first, _, last = part.partition("-")
        bits |= sum(1 << cpu for cpu in range(int(first), int(last or first) + 1))
    digits = f"{bits:x}"
    digits = digits.zfill(-(-len(digits) // 8) * 8)
    return ",".join(digits[i : i + 8] for i in range(0, len(digits), 8))


def hwloc_xml(node: Topology, version: str = "2.0") -> str:
    """What `lstopo node.xml` holds of a node, in the manner of versions 1, 2 and 3."""
    below: dict[str, list[str]] = {}
    for device in (*node.gpus, *node.nics):
        chain = list(node.climb(device.bdf or ""))
        for lower, upper in pairwise(chain):
            if lower not in below.setdefault(upper, []):
                below[upper].append(lower)
    doctype = "hwloc.dtd" if version == "1" else "hwloc2.dtd"
    opening = "<topology>" if version == "1" else f'<topology version="{version}">'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<!DOCTYPE topology SYSTEM "{doctype}">', opening]
    every = f"0x{(1 << len(node.numa_nodes)) - 1:08x}"
    lines += [f'<object type="Machine" os_index="0" nodeset="{every}">', '<info name="HostName" value="node-a"/>']
    for numa in node.numa_nodes:
        sets = f'cpuset="{_hwloc_mask(numa.cpus or "")}" nodeset="0x{1 << numa.id:08x}"'
        package = f'<object type="Package" os_index="{numa.socket}" {sets}>'
        memory = f'<object type="NUMANode" os_index="{numa.id}" {sets} local_memory="68719476736"'
        lines += [f"{memory}>", f"{package}</object>"] if version == "1" else [package, f"{memory}/>"]
        for root in sorted(r for r in below if node.root_numa.get(r) == numa.id):
            first = root.rpartition(":")[2]
            lines.append(f'<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[{first}-{first}]">')
            lines += [line for bdf in below[root] for line in _hwloc_pci(node, bdf, below, version)]
            lines.append("</object>")
        lines.append("</object>")
    return "\n".join([*lines, "</object>", "</topology>", ""])


def _hwloc_pci(node: Topology, bdf: str, below: dict[str, list[str]], version: str) -> list[str]:
    function, device = node.functions[bdf], node.by_id.get(bdf)
    ids = f'pci_type="{function.class_id} [{function.vendor_id}:{function.device_id}] [0000:0000] 00"'
    inner = [line for lower in below.get(bdf, ()) for line in _hwloc_pci(node, lower, below, version)]
    if device is not None and device.kind == "gpu":
        kind = "12" if version == "3.0" else "1"
        inner.append(f'<object type="OSDev" name="nvml{device.id[3:]}" osdev_type="{kind}"/>')
    elif device is not None:
        kind = "48" if version == "3.0" else "3"
        state = {"active": 4, "down": 1}[device.state]
        inner.append(f'<object type="OSDev" name="{device.id}" osdev_type="{kind}">')
        inner.append(f'<info name="Port1State" value="{state}"/></object>')
    opening = f'type="Bridge" bridge_type="1-1" bridge_pci="0000:[{function.secondary_bus or 0:02x}-ff]"'
    kind_of = opening if function.is_bridge else 'type="PCIDev"'
    return [f'<object {kind_of} pci_busid="{bdf}" {ids} pci_link_speed="63.015385">', *inner, "</object>"]


def _hwloc_mask(cpus: str) -> str:
    return ",".join(f"0x{group}" for group in _mask(cpus).split(","))
