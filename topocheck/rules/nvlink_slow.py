"""
NVLinks of a GPU run below the speed of their generation, or of its equals.

Why it costs: all traffic over the link slows in proportion, and a ring follows its slowest GPU.

Usual cause: a link that trained at a lower rate after errors, a bad bridge or baseboard contact.

Repair: reset GPUs and NVSwitches (or reboot) so that the links train again; if they stay slow, replace bridge,
baseboard or GPU.

Silent when: the difference is rounding (26.562 is 25 with its encoding); the rate was not printed (a link at rest); the
GPU is in MIG mode.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from topocheck.facts import NvlinkPort
from topocheck.finding import Answer, Finding, NotApplicable, Skip, equals_of
from topocheck.graph import Device, Topology
from topocheck.hardware.gpus import nvlink_printed_gb_per_s
from topocheck.model import Scenario
from topocheck.nvlink import in_mig_mode
from topocheck.patches import SetNvlinkRate

ID = "NVL003"
NAME = "nvlink-slow"
_ROUNDING = 0.95  # the printed rates of one generation differ by up to 4 % between drivers (25 and 25.781)


def check(node: Topology) -> Iterator[Answer]:
    """Each active link's rate against its generation's and the most common one of the equals."""
    if not any(g.part is None or g.part.nvlinks for g in node.gpus):
        yield NotApplicable("no GPU with NVLink in the input")
        return
    read = [g for g in node.gpus if not g.mig and _rates(g)]
    if mig := in_mig_mode(node):
        yield Skip(mig, partial=bool(read))
    elif not read:
        yield Skip("no NVLink rate in the input (nvidia-smi nvlink -s)")
    for gpu in read:
        expected = _expected(node, gpu)
        slow = [(p, rate) for p, rate in _rates(gpu) if rate < expected * _ROUNDING]
        if slow:
            rate = min(rate for _, rate in slow)
            many = f"{len(slow)} NVLinks" if len(slow) > 1 else f"NVLink {slow[0][0].link}"
            yield Finding(
                rule=ID,
                name=NAME,
                severity="warning",
                subjects=(gpu.id,),
                message=f"{gpu.id} has {many} at {rate:g} GB/s where {expected:g} is normal",
                repair="Reset GPUs and NVSwitches or reboot; if the links stay slow, replace bridge, baseboard or GPU",
                evidence=tuple(p.line for p, _ in slow[:1] if p.line),
                expected_from="the part" if gpu.part and gpu.part.holds_link else "equals",
                patches=(SetNvlinkRate(gpu.id, expected),),
                scenarios=(Scenario("ring"),),
                price_kind="computed",
                covers=frozenset({gpu.id}),
            )


def _rates(gpu: Device) -> list[tuple[NvlinkPort, float]]:
    return [(p, p.rate_gb_per_s) for p in gpu.nvlinks or () if p.active and p.rate_gb_per_s]


def _expected(node: Topology, gpu: Device) -> float:
    """The most common rate of the GPU and its equals; for data-centre parts at least their generation's."""
    rates = [rate for g in (gpu, *equals_of(node, gpu)) if not g.mig for _, rate in _rates(g)]
    usual = max(Counter(rates).items(), key=lambda item: (item[1], item[0]))[0]
    return max(usual, nvlink_printed_gb_per_s(gpu.part) if gpu.part and gpu.part.holds_link else 0.0)
