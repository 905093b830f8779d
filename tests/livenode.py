"""One of our captures made a live machine: fake commands that print its files, its `sys` and `proc` as the root, and a
fake NVML (tests/fake_nvml.c behind the real nvidia-ml-py) that says what its nvidia-smi says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from pathlib import Path
from tempfile import mkdtemp

from topocheck.facts import GpuState, Host, Matrix, NvlinkGpu, P2pMatrix
from topocheck.probes import smi_nvlink, smi_p2p, smi_query_xml, smi_topo

SOURCE = Path(__file__).with_name("fake_nvml.c")
ANCESTORS = {"PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50}
STATUS = {"OK": 0, "CNS": 1, "GNS": 2, "TNS": 3, "DR": 4, "NS": 5, "U": 6}
FABRIC = {"N/A": 0, "Not Started": 1, "In Progress": 2, "Completed": 3}
RECOVERY = {"None": 0, "GPU Reset": 1, "Node Reboot": 2, "Drain P2P": 3, "Drain and Reset": 4}
SLOWDOWNS = {"HW Slowdown": 0x8, "HW Thermal Slowdown": 0x40, "HW Power Brake Slowdown": 0x80}


@dataclass(frozen=True)
class LiveNode:
    """Where its commands, its files and its NVML are."""

    tools: Path
    root: Path
    environ: dict[str, str]

    def without(self, *programs: str) -> LiveNode:
        """The same machine with commands missing."""
        for program in programs:
            (self.tools / program).unlink(missing_ok=True)
        return self


def livenode(capture: Path, folder: Path, nvml: Path | None = None, also: str = "") -> LiveNode:
    """The machine of a capture, its tools and scenario written below `folder`. NVML says what that of the capture
    `nvml` does, by default the same, and the lines `also`."""
    tools = write_tools(capture, folder / "tools")
    scenario = folder / "nvml.txt"
    scenario.write_text("\n".join(nvml_lines(nvml or capture)) + f"\n{also}\n")
    return LiveNode(tools, capture, nvml_environ(scenario))


def write_tools(capture: Path, tools: Path) -> Path:
    """The commands of a capture, in a folder of their own."""
    tools.mkdir()
    for program, files in _commands(capture).items():
        cases = "\n".join(f"  '{arguments}') exec /bin/cat '{file}' ;;" for arguments, file in files.items())
        script = f'#!/bin/sh\ncase "$*" in\n{cases}\n  *) echo "{program}: no such option" >&2; exit 2 ;;\nesac\n'
        write_tool(tools, program, script)
    return tools


def write_tool(tools: Path, name: str, script: str) -> None:
    """A command of the fake machine."""
    (tools / name).write_text(script)
    (tools / name).chmod(0o755)


def nvml_environ(scenario: Path) -> dict[str, str]:
    """What a process needs to find the fake NVML and its scenario."""
    return {"LD_LIBRARY_PATH": str(nvml_library().parent), "FAKE_NVML": str(scenario)}


@cache
def nvml_library() -> Path:
    """The fake library, built once."""
    library = Path(mkdtemp(prefix="fake-nvml-")) / "libnvidia-ml.so.1"
    options = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run([shutil.which("gcc") or "gcc", *options, "-o", str(library), str(SOURCE)], check=True, cwd="/")
    return library


def _commands(capture: Path) -> dict[str, dict[str, Path]]:
    """Program → arguments → file that has the output."""
    found: dict[str, dict[str, Path]] = {}
    for entry in json.loads((capture / "manifest.json").read_text())["inputs"]:
        file = capture / (entry["file"] or "")
        if not entry["input"].startswith("/") and file.is_file():
            program, _, arguments = entry["input"].partition(" ")
            found.setdefault(program, {})[arguments] = file.absolute()
    return found


def nvml_lines(capture: Path) -> Iterator[str]:
    """The scenario file's lines, from what nvidia-smi printed."""
    facts = list(smi_query_xml.parse((capture / "nvidia-smi_-q_-x").read_text()))
    gpus = [fact for fact in facts if isinstance(fact, GpuState)]
    yield f"gpus * * {len(gpus)}"
    yield from (f"driver * * {fact.driver}" for fact in facts if isinstance(fact, Host) and fact.driver)
    for number, gpu in enumerate(gpus):
        yield from _gpu_lines(number, gpu)
    for option in "sR":
        text = _said(capture / f"nvidia-smi_nvlink_-{option}")
        for fact in smi_nvlink.parse(text, command=f"nvidia-smi nvlink -{option}"):
            if isinstance(fact, NvlinkGpu):
                yield from _nvlink_lines(fact)
    for key, letter in (("p2p_read", "r"), ("p2p_write", "w")):
        text = _said(capture / f"nvidia-smi_topo_-p2p_{letter}")
        for fact in smi_p2p.parse(text, command=f"nvidia-smi topo -p2p {letter}"):
            if isinstance(fact, P2pMatrix):
                yield from (f"{key} {a[3:]} {b[3:]} {STATUS[cell]}" for (a, b), cell in fact.cells.items())
    for fact in smi_topo.parse((capture / "nvidia-smi_topo_-m").read_text()):
        if isinstance(fact, Matrix):
            for a, b in permutations([n for n in fact.names if n.startswith("GPU")], 2):
                yield f"ancestor {a[3:]} {b[3:]} {ANCESTORS.get(fact.cells.get((a, b), ''), 50)}"


def _said(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _gpu_lines(number: int, gpu: GpuState) -> Iterator[str]:
    if gpu.lost:
        yield f"!nvmlDeviceGetHandleByIndex_v2 {number} * 15"
        return
    vendor, device = (gpu.pci_id or "10de:0000").split(":")
    fabric_health = dict(gpu.fabric_health).get("Route Unhealthy")
    values = {
        "bdf": gpu.bdf,
        "pci_id": f"0x{device}{vendor}",
        "name": gpu.model,
        "uuid": gpu.uuid,
        "vbios": gpu.vbios,
        "minor": gpu.minor,
        "gen": gpu.gen,
        "gen_max": gpu.gen_max,
        "gen_device_max": gpu.gen_device_max,
        "width": gpu.width,
        "width_max": gpu.width_max,
        "pstate": (gpu.pstate or "").removeprefix("P") or None,
        "persistence": _bit(gpu.persistence),
        "power_limit_mw": None if gpu.power_limit_w is None else round(gpu.power_limit_w * 1000),
        "application_clock_mhz": gpu.application_clock_mhz,
        "mig": _bit(gpu.mig),
        "ecc": _bit(gpu.ecc),
        "ecc_uncorrectable": gpu.ecc_uncorrectable,
        "memory": gpu.memory_bytes,
        "bar1": gpu.bar1_bytes,
        "remap_pending": _bit(gpu.remap_pending),
        "remap_failed": _bit(gpu.remap_failed),
        "fabric_state": FABRIC.get(gpu.fabric_state or ""),
        "fabric_health": {"True": 1 << 4, "False": 2 << 4}.get(fabric_health or ""),
        "recovery_action": RECOVERY.get(gpu.recovery_action or ""),
        "virtualization": _bit(gpu.passthrough),
        "clocks_event_reasons": None if gpu.slowdowns is None else sum(SLOWDOWNS[name] for name in gpu.slowdowns),
    }
    yield from (f"{key} {number} * {value}" for key, value in values.items() if value is not None)


def _bit(value: bool | None) -> int | None:
    return None if value is None else int(value)


def _nvlink_lines(gpu: NvlinkGpu) -> Iterator[str]:
    if gpu.ports:
        yield f"nvlinks {gpu.index} * {len(gpu.ports)}"
    for port in gpu.ports:
        if port.active is not None:
            yield f"nvlink {gpu.index} {port.link} {int(port.active)}"
            yield f"remote_type {gpu.index} {port.link} 2"
            yield f"nvlink_errors {gpu.index} {port.link} 0"
        if port.rate_gb_per_s:
            yield f"mb_per_s {gpu.index} {port.link} {round(port.rate_gb_per_s * 1000)}"
        if port.remote_bdf:
            yield f"remote {gpu.index} {port.link} {port.remote_bdf}"


def set_environ(monkeypatch, node: LiveNode) -> None:
    """The environment of the machine, and none of ours that it would notice."""
    for name in [name for name in os.environ if name.startswith("NCCL_")]:
        monkeypatch.delenv(name)
    for name, value in node.environ.items():
        monkeypatch.setenv(name, value)
