"""
A GPU is set unlike the others of its model: power limit, clocks, MIG, ECC, confidential mode, VBIOS or persistence.

Why it costs: collectives run at the pace of the slowest GPU; a GPU in MIG mode has no NVLink and no peers. How much
depends on the job.

Usual cause: a setting left behind by a job or a test, a replaced board with another VBIOS.

Repair: set it as the others are (`nvidia-smi -pl`, `-ac` or `-rac`, `-mig 0`, `-e 1`, `-pm 1`); update the VBIOS.

Silent when: the GPUs are of different models; the value was not read. Lower power limit or clocks and MIG on some are
warnings, everything else info.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from topocheck.finding import Answer, Finding, NotApplicable, Skip, enough, equals_of
from topocheck.graph import Device, Topology

ID = "GPU002"
NAME = "gpu-unlike-peers"


class Setting(NamedTuple):
    """One setting: the field of GpuState, its words, and whether less of it slows the others."""

    field: str
    words: str
    unit: str = ""
    slows: bool = False


_SETTINGS = (
    Setting("power_limit_w", "power limit", " W", slows=True),
    Setting("application_clock_mhz", "application clock", " MHz", slows=True),
    Setting("mig", "MIG mode"),
    Setting("ecc", "ECC"),
    Setting("confidential", "confidential mode"),
    Setting("vbios", "VBIOS"),
    Setting("persistence", "persistence mode"),
)


def check(node: Topology) -> Iterator[Answer]:
    """Each setting of each GPU against what most of its equals have."""
    if len(node.gpus) < 2:
        yield NotApplicable("fewer than two GPUs")
        return
    read = [g for g in node.gpus if any(_value(g, s) is not None for s in _SETTINGS)]
    if len(read) < len(node.gpus):
        yield Skip(f"settings read of {len(read)} of {len(node.gpus)} GPUs (nvidia-smi -q)", partial=bool(read))
    for setting in _SETTINGS:
        for gpu in read:
            if finding := _finding(node, gpu, setting):
                yield finding


def _value(gpu: Device, setting: Setting) -> float | str | bool | None:
    return getattr(gpu.gpu, setting.field) if gpu.gpu else None


def _finding(node: Topology, gpu: Device, setting: Setting) -> Finding | None:
    mine = _value(gpu, setting)
    others = [v for e in equals_of(node, gpu) if (v := _value(e, setting)) is not None]
    if mine is None or not others:
        return None
    usual, times = Counter(others).most_common(1)[0]
    if usual == mine or not (enough(times, len(others)) or times == len(others)):
        return None
    lower = setting.slows and float(mine) < float(usual)
    some_mig = setting.field == "mig" and bool(mine)
    if len(others) < 2 and not (lower or some_mig):
        return None  # of two that differ one is named: the one that is less
    said = (
        f"has {setting.words} {_word(mine)}{setting.unit}, {times} of {len(others)} equals {_word(usual)}{setting.unit}"
    )
    line = gpu.lines.get(setting.field)
    proven = enough(times, len(others))
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning" if some_mig or (lower and proven) else "info",
        subjects=(gpu.id,),
        message=f"{gpu.id} {said}",
        alike=said,
        repair=f"Set the {setting.words} as on the other GPUs, or all alike on purpose",
        evidence=(line,) if line else (),
        effect="slows" if setting.slows or some_mig else "none",
        expected_from="equals",
    )


def _word(value: float | str | bool) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
