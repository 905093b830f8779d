"""The answer of `topocheck predict`: the node repaired and as found, asked the same questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from topocheck.errors import UsageError
from topocheck.finding import Finding
from topocheck.graph import Topology
from topocheck.patches import patched
from topocheck.predict.collectives import BARRIER_BYTES, OPS, Span, best, bus_factor, spans, ways
from topocheck.predict.decode import Decode, decode_of
from topocheck.predict.fabric import Fabric, fabric_of
from topocheck.predict.job import Job
from topocheck.predict.ladder import Rung, ladder
from topocheck.predict.machine import Machine, machine_of
from topocheck.predict.step import Step, step_of
from topocheck.predict.textbook import Textbook, textbook_of

MOST_NODES = 100_000
_FAR = ("AFF001", "AFF002")


class Row(NamedTuple):
    """One operation and size; the winner and the bandwidths are those as found."""

    op: str
    bytes: int
    algorithm: str
    protocol: str
    healthy_us: float
    found_us: float
    algbw_gb_per_s: float
    busbw_gb_per_s: float
    healthy_busbw_gb_per_s: float
    bottleneck: str


class Cost(NamedTuple):
    """What one finding costs a step: the time as found less the time with this finding repaired."""

    rule: str
    subjects: tuple[str, ...]
    milliseconds: float


@dataclass(frozen=True)
class Prediction:
    """Everything a format shows."""

    nodes: int
    gpus_per_node: int
    model: str
    found: Machine
    healthy: Machine
    ladder: tuple[Rung, ...]
    healthy_ladder: tuple[Rung, ...]
    rows: tuple[Row, ...]
    winners: dict[str, tuple[Span, ...]]  # by op, as found
    textbook: Textbook | None  # as found
    fabric: Fabric | None
    job: Job | None
    step: Step | None
    healthy_step: Step | None
    costs: tuple[Cost, ...]
    decode: Decode | None
    assumptions: tuple[str, ...]
    refused: tuple[str, ...]


def predict(
    node: Topology,
    findings: Sequence[Finding] = (),
    *,
    nodes: int = 1,
    ops: Sequence[str] = (),
    sizes: Sequence[int] = (),
    job: Job | None = None,
    repaired: bool = False,
) -> Prediction:
    """What communication costs on `nodes` nodes like this one; with `repaired`, as if all that was found were."""
    if not 1 <= nodes <= MOST_NODES:
        raise UsageError(f"--nodes {nodes}: give 1 to {MOST_NODES:,}")
    wrong = [f for f in findings if not f.waived and f.severity != "info"]
    mended = patched(node, tuple(p for f in wrong for p in f.patches))
    found = machine_of(node)
    healthy = machine_of(mended).at_least(found)
    found = healthy if repaired else found
    step: Step | None = None
    healthy_step: Step | None = None
    costs: tuple[Cost, ...] = ()
    if job is not None:
        step, healthy_step = step_of(found, job, nodes), step_of(healthy, job, nodes)
        costs = () if repaired else _costs(node, wrong, job, nodes, step)
    between = found.domain(nodes)[1] > 1 and found.network_per_gpu
    said = (*found.assumptions, *([] if repaired else _far(wrong)), *_assumptions(found, nodes, ops))
    return Prediction(
        nodes=nodes,
        gpus_per_node=found.gpus,
        model=found.model,
        found=found,
        healthy=healthy,
        ladder=tuple(ladder(found)),
        healthy_ladder=tuple(ladder(healthy)),
        rows=tuple(_rows(found, healthy, nodes, ops, sizes)),
        winners={op: tuple(spans(w)) for op in ops if (w := ways(found, op, nodes))},
        textbook=textbook_of(found, nodes, ops, sizes),
        fabric=fabric_of(healthy, nodes, between) if between else None,
        job=job,
        step=step,
        healthy_step=healthy_step,
        costs=costs,
        decode=decode_of(found, job, nodes) if job else None,
        assumptions=(*said, *(step.assumptions if step else ())),
        refused=(*found.refused, *([] if repaired else _not_computed(wrong))),
    )


def _far(findings: Sequence[Finding]) -> list[str]:
    """NICs beyond the switch: the model takes one figure of a range."""
    gpus = [subject for f in findings if f.rule in _FAR for subject in f.subjects]
    return [f"{', '.join(gpus)}: NIC beyond the switch, half of its rate taken (measured 0.44-0.64)"] if gpus else []


def checked_ops(words: Sequence[str]) -> tuple[str, ...]:
    """The operations asked for, spelled with or without "_"; UsageError for one that is none."""
    ops = tuple(
        dict.fromkeys(OPS if word == "all" else (word.replace("_", "").replace("-", "").lower(),) for word in words)
    )
    flat = tuple(dict.fromkeys(op for some in ops for op in some))
    for op in flat:
        if op not in OPS:
            raise UsageError(f"--op {op}: no such operation: {', '.join(OPS)}, all")
    return flat


def _rows(found: Machine, healthy: Machine, nodes: int, ops: Sequence[str], sizes: Sequence[int]) -> list[Row]:
    ranks = found.gpus * nodes
    rows = []
    for op in ops:
        mine, theirs = ways(found, op, nodes), ways(healthy, op, nodes)
        if not mine or not theirs:
            continue
        for size in (BARRIER_BYTES,) if op == "barrier" else sizes:
            way, other = best(mine, size), best(theirs, size)
            now, then = way.time_us(size), other.time_us(size)
            algbw, factor = size / now / 1000, bus_factor(op, ranks)
            rows.append(
                Row(
                    op,
                    size,
                    way.algorithm,
                    way.protocol,
                    then,
                    now,
                    algbw,
                    algbw * factor,
                    size / then / 1000 * factor,
                    way.bottleneck,
                )
            )
    return rows


def _costs(node: Topology, findings: Sequence[Finding], job: Job, nodes: int, step: Step) -> tuple[Cost, ...]:
    """Each finding's repair by itself; what costs less than a microsecond a step is not told."""
    costs = []
    found = machine_of(node)
    for finding in findings:
        if not finding.patches:
            continue
        mended = step_of(machine_of(patched(node, finding.patches)).at_least(found), job, nodes)
        gain = (step.total_us - mended.total_us) / 1000
        if gain > 0.001:
            costs.append(Cost(finding.rule, finding.subjects, gain))
    return tuple(sorted(costs, key=lambda cost: -cost.milliseconds))


def _assumptions(machine: Machine, nodes: int, ops: Sequence[str]) -> list[str]:
    said = []
    if machine.chip is None:
        said.append(f"{machine.model}: no tensor rate or memory in our table: no break-even")
    if nodes > 1:
        said.append("the other nodes are like this one; the network between them is idle and non-blocking")
        said.append("every NIC carries the same bytes: the slowest sets the pace (NCCL plans by what links can do)")
        if machine.fabric == "efa":
            said.append(
                "EFA: α 12 µs a message in the ladder (10-15); collectives pay the 30 µs measured (24-36, weak rows)"
            )
        if machine.rack:
            said.append("trays of one rack share one NVLink domain of up to 72 GPUs")
            if machine.domain(nodes)[1] > 1:
                said.append(
                    "racks joined by a network: a ceiling, no simple model (measured 810 at 2 racks, 406 at 20)"
                )
        if {"alltoall", "gather", "scatter"} & set(ops):
            said.append("alltoall, gather, scatter between nodes: a ceiling; no published row fixes a constant")
    if ops:
        said.append("small messages: NCCL's own latency table × 1.6, the median found over it (0.83-3.06 over 11 rows)")
        if machine.nvls is None and machine.links == 0:
            said.append("no NVLink between all GPUs: the ring runs over PCIe")
    return said


def _not_computed(findings: Sequence[Finding]) -> list[str]:
    """Faults whose cost no model computes: said, not guessed."""
    by_rule: dict[str, list[str]] = {}
    for finding in findings:
        if finding.price_kind != "computed" and finding.rule not in _FAR:
            by_rule.setdefault(finding.rule, []).extend(finding.subjects)
    return [
        f"{rule} ({', '.join(who[:4]) or 'node'}{', …' if len(who) > 4 else ''}): not in these figures, "
        "no model computes it (topocheck node says what is known)"
        for rule, who in by_rule.items()
    ]
