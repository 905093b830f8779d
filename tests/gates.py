"""A machine for the gate to look at, and the gate run as a prolog runs it: no PATH, HOME, locale or standard input."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import nodes
from livenode import write_tool, write_tools

from topocheck.facts import GpuState
from topocheck.probes import smi_query_xml

REPOSITORY = Path(__file__).parents[1]
NODE = "hgx-h100"
MINORS = "0,1,2,3,4,5,6,7"
HANGS = "#!/bin/sh\nexec /bin/sleep 60\n"


@dataclass(frozen=True)
class Ran:
    """What one call of the gate came to."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Machine:
    """The commands and files of a capture; NVML is not there, so nvidia-smi is asked."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.folder / "capture"

    @property
    def tools(self) -> Path:
        return self.folder / "tools"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def hangs(self, *tools: str) -> Machine:
        """The same with tools that never end."""
        for tool in tools:
            write_tool(self.tools, tool, HANGS)
        return self

    def arguments(self) -> list[str]:
        return ["--root", str(self.root), "--tools", str(self.tools), "--state", str(self.state)]

    def gate(self, *more: str, job: dict[str, str] | None = None) -> Ran:
        """Run the gate; `job` is what Slurm adds to an otherwise empty environment."""
        return called(*self.arguments(), *more, job={**self.environ, **(job or {})})

    def log(self) -> list[str]:
        """The lines of the log, without their times."""
        file = self.state / "gate.log"
        return [line.partition(" ")[2] for line in file.read_text().splitlines()] if file.exists() else []

    def reports(self) -> list[dict]:
        """The reports of all runs, the oldest first."""
        return [json.loads(file.read_text()) for file in sorted(self.state.glob("gate-*.json"))]


def called(*arguments: str, job: dict[str, str] | None = None, stdin: str = "") -> Ran:
    """Run the gate in an environment of its own."""
    environ = {"PYTHONPATH": str(REPOSITORY), **(job or {})}
    command = [sys.executable, "-m", "topocheck", "gate", *arguments]
    done = subprocess.run(command, env=environ, input=stdin, capture_output=True, text=True, cwd="/", check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


def machine(folder: Path, fault: str | None = None, minors: str = MINORS, node: str = NODE) -> Machine:
    """One of our nodes, perhaps with one of its faults; `minors` of its GPUs by index, in the driver's own files; ""
    for none."""
    folder.mkdir(parents=True, exist_ok=True)
    if fault is None:
        shutil.copytree(nodes.healthy(node), folder / "capture")
    else:
        nodes.apply(node, nodes.edit(node, fault), folder)
    write_tools(folder / "capture", folder / "tools")
    if minors:
        write_minors(folder / "capture", nodes.healthy(node), minors)
    return Machine(folder)


def write_minors(root: Path, healthy: Path, minors: str) -> None:
    """`/proc/driver/nvidia/gpus/*/information` of the GPUs that nvidia-smi listed when all were well; and no number in
    what it lists now."""
    query = healthy / "nvidia-smi_-q_-x"
    gpus = [fact for fact in smi_query_xml.parse(query.read_text()) if isinstance(fact, GpuState)]
    for gpu, minor in zip(gpus, minors.split(","), strict=True):
        place = root / f"proc/driver/nvidia/gpus/{gpu.bdf}"
        place.mkdir(parents=True)
        lines = [f"Model: \t\t {gpu.model}", "IRQ:   \t\t 42", f"GPU UUID: \t {gpu.uuid}", "Bus Type: \t PCIe"]
        lines += [f"Bus Location: \t {gpu.bdf}", f"Device Minor: \t {minor}"]
        (place / "information").write_text("\n".join(lines) + "\n")
    listed = root / query.name
    if listed.exists():
        text = listed.read_text()
        listed.write_text(re.sub("<minor_number>[0-9]+<", "<minor_number>N/A<", text))


def slurm(gpus: str = "0,1,2,3,4,5,6,7", nodes: int = 1, **more: str) -> dict[str, str]:
    """What Slurm 22.05 tells a prolog, as far as it matters."""
    return {
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_GPUS": gpus,
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_SCRIPT_CONTEXT": "prolog_slurmd",
        **more,
    }
