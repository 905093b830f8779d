"""`nvidia-smi -L`: index, model and UUID of each GPU, and the MIG devices on it.

GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-11111111-2222-3333-4444-555555555555)
  MIG 3g.20gb     Device  0: (UUID: MIG-66666666-7777-8888-9999-aaaaaaaaaaaa)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbbbbbb-2222-3333-4444-555555555555)

PyTorch's and vLLM's collect_env print it without the UUIDs, the only GPU behind their own words; `sglang.check_env` has
one line a model:

GPU models and configuration: GPU 0: NVIDIA A100-SXM4-40GB
GPU 0,1: NVIDIA A100-SXM4-40GB
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from topocheck.facts import Evidence, Fact, Gap, GpuState
from topocheck.probes.lines import Line, lines, sniffed
from topocheck.probes.smi_errors import errors
from topocheck.probes.smi_gpu import MAX_GPUS, vgpu_profile, word

INPUT = "nvidia-smi -L"
COMMANDS = ("nvidia-smi -L",)
PATHS = ()
NAME = r"nvidia[-_]?smi[\W_]*(?:L|list[-_]gpus)(?![a-zA-Z])"

_MAKES = r"(?:NVIDIA|Tesla|GeForce|Quadro|GRID|TITAN|A\d|H\d)"
_GPUS = r"\d{1,3}(?:,\d{1,3}){0,63}"
_AHEAD = r"(?:GPU models and configuration ?: )?"
_GPU = re.compile(
    rf"{_AHEAD}GPU ({_GPUS}): (?={_MAKES}|.*\(UUID: )(.{{1,120}}?)(?: \(UUID:(?: (GPU-[0-9a-fA-F-]{{4,60}})\)|.*))?"
)
_MIG = re.compile(r"MIG \d+(?:c\.\d+)?g\.\S+ +Device +\d+:")
_MIG_NAME = re.compile(r"(.{1,100}) MIG \d+(?:c\.\d+)?g\.\S+")  # CUDA's of a MIG device
_OF_NVLINK = re.compile(r"Link \d|NVML:|Device does not")
# Not a heading of `nvidia-smi nvlink`, which spells it the same.
_LOOKS = re.compile(
    rf"^[ \t]*{_AHEAD}GPU {_GPUS}: (?:{_MAKES}|[^(\n]{{1,120}}\(UUID: GPU-)[^\n]*"
    r"(?:\n(?!\s*(?:Link \d|NVML:|Device does not))|\Z)",
    re.MULTILINE,
)


def sniff(text: str) -> bool:
    """Whether a line names a GPU as -L does, and no NVLink status follows."""
    return sniffed(_LOOKS, text)


def parse(text: str) -> Iterable[Fact]:
    """One state a GPU. Where MIG devices are listed under some GPU, the GPUs without any are not in MIG mode."""
    gpus: list[GpuState] = []
    migs: dict[int, Evidence] = {}
    fresh = False  # the last line named a GPU
    for line in lines(text):
        if match := _GPU.fullmatch(line.text):
            gpus += _states(match, line)
            fresh = True
        elif gpus and _MIG.match(line.text):
            migs.setdefault(len(gpus) - 1, Evidence(INPUT, line.number, line.text))
            fresh = False
        elif line.text:
            if fresh and _OF_NVLINK.match(line.text):
                gpus.pop()
            fresh = False
        if len(gpus) > MAX_GPUS:
            break
    if migs:
        gpus = [
            replace(gpu, mig=at in migs, lines={**gpu.lines, "mig": migs.get(at, gpu.lines["model"])})
            for at, gpu in enumerate(gpus)
        ]
    return [*gpus, *errors(text, INPUT)] or [Gap(INPUT, "no GPU in it")]


def _states(match: re.Match[str], line: Line) -> list[GpuState]:
    evidence = Evidence(INPUT, line.number, line.text)
    of_mig = _MIG_NAME.fullmatch(match[2].strip())
    model = word(of_mig[1] if of_mig else match[2].strip())
    return [
        GpuState(
            INPUT,
            int(index),
            uuid=match[3],
            model=model,
            vgpu=vgpu_profile(model),
            mig=True if of_mig else None,
            lines={"model": evidence, "uuid": evidence, **({"mig": evidence} if of_mig else {})},
        )
        for index in match[1].split(",")
    ]
