"""Our captures as people attach them: a tar, a sosreport, an nvidia-bug-report.log.gz. Wrappings only, as
sos 4.5 and the bug-report script of driver 570 make them; what is inside are the capture's own files."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

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
