"""A prediction for a terminal of 80 columns: the ladder, the table with its plot, the fabric, the step."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from topocheck.predict.alpha_beta import US_PER_BYTE, parts_of, pcie_crossings
from topocheck.predict.decode import Decode
from topocheck.predict.details import details
from topocheck.predict.fabric import RADIX, UPLINKS, Fabric
from topocheck.predict.job import Job
from topocheck.predict.ladder import Rung
from topocheck.predict.prediction import Prediction, Row
from topocheck.predict.sizes import decimal, duration, label
from topocheck.predict.step import Step

_BAR = 11
ALPHAS = "α stated, measured: InfiniBand 2-3, 2.0-2.8 µs; EFA 10-15, 24-36 µs (weak rows)"


def render(prediction: Prediction, *, verbose: bool = False) -> str:
    """The whole screen; with `verbose`, the algorithms by the book and what this node's figures stand beside."""
    return "\n".join(_lines(prediction, verbose=verbose)) + "\n"


def _lines(p: Prediction, *, verbose: bool) -> Iterator[str]:
    nodes = f"{p.nodes} nodes × " if p.nodes > 1 else ""
    yield from wrap(f"{nodes}{p.gpus_per_node} × {p.model} · GB/s = 1e9 bytes/s, one direction", 80)
    yield ""
    yield from _ladder(p)
    if p.found.nics:
        yield from _message(p)
    for op, spans in p.winners.items():
        rows = [row for row in p.rows if row.op == op]
        yield ""
        yield from _table(op, rows, p)
        if op != "barrier" and len(spans) > 1:
            told = ", ".join(
                f"{s.way.algorithm} {s.way.protocol}" + (f" from {label(s.from_bytes)}" if s.from_bytes else "")
                for s in spans
            )
            yield from wrap(f"fastest: {told}", 80)
    if p.fabric:
        yield ""
        yield from _fabric(p.fabric, p.nodes)
    if p.step and p.healthy_step:
        yield ""
        yield from _step(p, p.step, p.healthy_step)
    if verbose:
        for line in details(p):
            yield from wrap(line, 80) if len(line) > 80 else (line,)
    for title, texts in (("assumed", p.assumptions), ("not computed", p.refused)):
        if texts:
            yield ""
            yield f"{title}:"
            for text in texts:
                yield from wrap(text, 80, initial_indent="- ", subsequent_indent="  ")


def _ladder(p: Prediction) -> Iterator[str]:
    yield "level          line rate  reaches  FLOP/byte  α µs  n½        in flight"
    healthy = {rung.level: rung for rung in p.healthy_ladder}
    for rung in p.ladder:
        better = healthy.get(rung.level, rung)
        yield _rung(rung) + ("" if better.gb_per_s <= rung.gb_per_s * 1.001 else f" of {better.gb_per_s:.1f}")


def _rung(rung: Rung) -> str:
    reaches = "" if rung.achievable_gb_per_s is None else f"{rung.achievable_gb_per_s:.1f}"
    intensity = "?" if rung.break_even_flop_per_byte is None else f"{rung.break_even_flop_per_byte:,.0f}"
    alpha = "" if rung.alpha_us is None else f"{rung.alpha_us:g}"
    half = "" if rung.n_half_bytes is None else decimal(rung.n_half_bytes)
    flight = "" if rung.bdp_bytes is None else decimal(rung.bdp_bytes)
    mark = f"  ({rung.kind})" if rung.kind in ("ours", "derived") else ""
    line = f"{rung.level:14} {rung.gb_per_s:9,.1f} {reaches:>8} {intensity:>10} {alpha:>5}  {half:9} {flight}"
    return (line + mark).rstrip()


def _message(p: Prediction) -> Iterator[str]:
    parts = parts_of(p.found.alpha_network_us)
    yield (
        f"network α {parts.total_us:g} µs: software, injection {parts.software_and_injection:.2f} + "
        f"30 m {parts.propagation:.2f} + 1 switch {parts.switching:.2f} + queue {parts.queueing:g}"
    )
    each = 1e6 * US_PER_BYTE / (p.found.network_per_gpu or 1.0)
    yield f"serialisation, the part that grows: {each:.1f} µs a MB at a GPU's share of NICs"
    yield ALPHAS
    direct, staged = (pcie_crossings(gpudirect=way) for way in (True, False))
    yield f"GPUDirect RDMA crosses PCIe {direct} times, staged {staged} times, and leaves"
    yield "0.34-0.79 of the link: host memory decides, no single figure"


def _table(op: str, rows: list[Row], p: Prediction) -> Iterator[str]:
    yield f"{op} on {p.nodes * p.gpus_per_node} GPUs"
    yield f"{'size':>6} {'fastest':16} {'as found':>9} {'healthy':>9} {'algbw':>6} {'busbw':>6}  bound    busbw"
    most = 0.0 if op == "barrier" else max((row.healthy_busbw_gb_per_s for row in rows), default=0.0)
    for row in rows:
        name = f"{row.algorithm} {row.protocol}"
        yield (
            f"{label(row.bytes):>6} {name:16} {duration(row.found_us):>9} {duration(row.healthy_us):>9} "
            f"{row.algbw_gb_per_s:6.1f} {row.busbw_gb_per_s:6.1f}  {row.bottleneck:8} {_bar(row, most)}"
        ).rstrip()


def _bar(row: Row, most: float) -> str:
    """█ as found, ░ what the repaired node would do."""
    found = round(row.busbw_gb_per_s / most * _BAR) if most else 0
    healthy = round(row.healthy_busbw_gb_per_s / most * _BAR) if most else 0
    return "█" * found + "░" * (healthy - found)


def _fabric(fabric: Fabric, nodes: int) -> Iterator[str]:
    yield f"fabric: {fabric.rails} rails; a ring that keeps to its rail stays on one leaf"
    yield f"bisection of {nodes} nodes, non-blocking: {fabric.bisection_gb_per_s:,.0f} GB/s (half of what they send)"
    told = ", ".join(f"{rate:.1f} at {over}:1" for over, rate in fabric.alltoall_per_gpu_gb_per_s.items())
    yield f"alltoall, GB/s of a GPU, at most: {told}"
    if fabric.sprayed:
        yield "EFA sprays packets over all paths: no hash collisions, more α"
    else:
        yield (
            f"{UPLINKS} hashed flows on {UPLINKS} uplinks: the busiest carries {fabric.busiest_of_uplinks:.2f} "
            f"(ln k / ln ln k: {fabric.leading_term:.1f})"
        )
    yield f"32 senders to one port fill 1 MB in {fabric.incast_fills_us:.2f} µs"
    yield f"a fat tree of {RADIX}-port switches ends at {fabric.endpoints_of_fat_tree:,} ports"


def _step(p: Prediction, step: Step, healthy: Step) -> Iterator[str]:
    yield f"training step {duration(step.total_us)} as found, {duration(healthy.total_us)} healthy"
    yield f"{'':16} {'messages':>8} {'each':>8} {'sent':>9}  {'rung':7} {'time':>9} {'waited':>9} {'share':>6}"
    for part in step.traffic:
        yield (
            f"{part.kind:16} {part.messages:8} {label(part.message_bytes):>8} {decimal(part.sent_bytes):>9}  "
            f"{part.rung:7} {duration(part.total_us):>9} {duration(part.exposed_us):>9} "
            f"{part.exposed_us / step.total_us:6.1%}"
        )
    others = (("compute", step.compute_us), ("pipeline bubble", step.bubble_us), ("cost of overlap", step.overlap_us))
    for name, us in others:
        if us:
            yield f"{name:52} {'':9} {duration(us):>9} {us / step.total_us:6.1%}"
    if p.job and step.reduction_us:
        yield from _gradients(p.job, step)
    if p.decode:
        yield from _decode(p.decode)
    for cost in p.costs:
        yield f"{cost.rule} {' '.join(cost.subjects)}: {cost.milliseconds:.2f} ms a step"


def _gradients(job: Job, step: Step) -> Iterator[str]:
    cover = duration(step.cover_us)
    yield f"the gradients take {duration(step.reduction_us)}, the backward pass they hide behind {cover}"
    data = [part for part in step.traffic if part.kind.startswith(("gradients", "weights"))]
    reached = sum(part.sent_bytes for part in data) * US_PER_BYTE / sum(part.total_us for part in data)
    if step.hide_gb_per_s:
        yield f"data-parallel traffic hides from {step.hide_gb_per_s:.1f} GB/s a GPU on; it reaches {reached:.1f}"
    if step.best_bucket_mb and step.bound_buckets:
        yield f"bucket that waits least here: {step.best_bucket_mb:g} MB (the job's: {job.bucket_mb:g})"
        yield f"if all of them were waited for: {step.bound_buckets:.0f} buckets, √(t / 2(p−1)α)"


def _decode(d: Decode) -> Iterator[str]:
    yield (
        f"a token at batch one, tp {d.tp}: {duration(d.total_us)} = weights {duration(d.weights_us)} + "
        f"{d.allreduces} × {duration(d.allreduce_us)}"
    )
    yield f"on one GPU, if its memory held it: {duration(d.one_gpu_us)}, {d.one_gpu_us / d.total_us:.1f} times as long"
