"""
NVLinks of a GPU have counted errors.

Why it matters: replays send data again; recoveries stop the link while it trains. Many of them slow the GPU and
announce a link that will go down (Xid 74).

Usual cause: a bad contact of bridge or baseboard, a failing link, heat.

Repair: read again under load (`nvidia-smi nvlink -e`): if the counters rise, reset; if they rise again, replace bridge,
baseboard or GPU.

Silent when: all counters are zero; the GPU is in MIG mode. One reading of a total says neither when nor how fast: info.
Replays or recoveries that rose between two listings, or a hundred CRC errors a second (a live node's counters that are
not zero are read again after half a second), are a warning, never an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median

from topocheck.facts import NvlinkPort
from topocheck.finding import Answer, Finding, NotApplicable, Skip, equals_of
from topocheck.graph import Device, Topology
from topocheck.nvlink import in_mig_mode

ID = "NVL004"
NAME = "nvlink-errors"
_TIMES_MEDIAN = 10  # rules.md: ten times the equals' median stands out
_CRC_PER_S = 100  # rules.md


def check(node: Topology) -> Iterator[Answer]:
    """The totals of each link, the worst named against the median of all."""
    if not any(g.part is None or g.part.nvlinks for g in node.gpus):
        yield NotApplicable("no GPU with NVLink in the input")
        return
    read = [g for g in node.gpus if not g.mig and any(p.errors for p in g.nvlinks or ())]
    if mig := in_mig_mode(node):
        yield Skip(mig, partial=bool(read))
    elif not read:
        yield Skip("no NVLink error counters in the input (nvidia-smi nvlink -e)")
    elif len(read) < len(node.gpus):
        yield Skip(f"NVLink error counters read of {len(read)} of {len(node.gpus)} GPUs", partial=True)
    for gpu in read:
        rising = [p for p in gpu.nvlinks or () if _rises(p)]
        worst = max(rising or gpu.nvlinks or (), key=_total)
        if _total(worst):
            yield _finding(node, gpu, worst)


def _total(port: NvlinkPort) -> int:
    return sum(count for _, count in port.errors)


def _rises(port: NvlinkPort) -> bool:
    """Replays or recoveries rose between two listings, or CRC errors come fast, which needs a time."""
    before = dict(port.errors_before)
    return (port.crc_per_s or 0) >= _CRC_PER_S or any(
        count > before.get(name, count)
        for name, count in port.errors
        if re.search("replay|recovery", name, re.IGNORECASE)
    )


def _finding(node: Topology, gpu: Device, worst: NvlinkPort) -> Finding:
    everywhere = median(_total(p) for g in (gpu, *equals_of(node, gpu)) for p in g.nvlinks or () if p.errors)
    links = sum(_total(p) > 0 for p in gpu.nvlinks or ())
    counts = ", ".join(f"{count} {name}" for name, count in worst.errors if count)
    out = _total(worst) >= _TIMES_MEDIAN * max(everywhere, 1)
    stands_out = f", against a median of {everywhere:g} of all links" if out else ""
    when = "and they rise" if _rises(worst) else "at some time"
    if worst.crc_per_s:
        when += f" ({worst.crc_per_s:.0f} CRC a second)"
    return Finding(
        rule=ID,
        name=NAME,
        severity="warning" if _rises(worst) else "info",
        subjects=(gpu.id,),
        message=f"{gpu.id} has errors on {links} of {len(gpu.nvlinks or ())} NVLinks, most on link {worst.link}: "
        f"{counts} {when}{stands_out}",
        repair="Read again under load; if counters rise, reset; if they rise again, replace bridge, baseboard or GPU",
        evidence=(worst.error_line,) if worst.error_line else (),
        effect="risks",
        expected_from="equals" if out else None,
    )
