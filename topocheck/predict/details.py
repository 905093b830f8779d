"""What `predict -v` adds: the algorithms by the book on this node's network, and figures to hold its own against."""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.hardware import collectives, latency, pcie
from topocheck.predict.algorithms import least_bytes
from topocheck.predict.fabric import full_mesh_links
from topocheck.predict.prediction import Prediction
from topocheck.predict.sizes import decimal, duration, label
from topocheck.predict.textbook import Entry, Textbook


def details(p: Prediction) -> Iterator[str]:
    """The lines, a blank one before each part."""
    if p.textbook:
        for op in dict.fromkeys(row.op for row in p.textbook.rows):
            yield ""
            yield from _table(op, p.textbook)
    yield ""
    yield from _beside(p)


def _table(op: str, book: Textbook) -> Iterator[str]:
    rows = [row for row in book.rows if row.op == op]
    sizes = sorted({row.bytes for row in rows})
    yield f"{op} by the book: {book.ranks} ranks on {book.level}, {book.alpha_us:g} µs and {book.gb_per_s:.1f} GB/s"
    heads = "".join(f"{'at ' + label(size):>11}" for size in sizes)
    yield f"{'algorithm':16} {'messages':>9} {'× least':>8}{heads}"
    for name in dict.fromkeys(row.algorithm for row in rows):
        mine = sorted((row for row in rows if row.algorithm == name), key=lambda row: row.bytes)
        over = "" if mine[-1].over_least is None else f"{mine[-1].over_least:.2f}"
        times = "".join(f"{duration(row.time_us):>11}" for row in mine)
        yield f"{name:16} {mine[-1].messages:9,.0f} {over:>8}{times}"
    yield from _remarks(op, book, rows)


def _remarks(op: str, book: Textbook, rows: list[Entry]) -> Iterator[str]:
    least = least_bytes(op, book.ranks, 1.0)
    if least:
        yield f"least that the busiest rank must move one way, where only ranks add: {least:.2f} n"
    for name in ("chain in chunks", "double tree"):
        chunks = [f"{row.chunks:,}" for row in rows if row.algorithm == name]
        if chunks:
            yield f"{name}: k* = {', '.join(chunks)} at these sizes"
    if op != "allreduce":
        return
    size = book.tree_ring_crossover_bytes
    if size:
        yield f"a tree beats a ring below {decimal(size)}, chunks n/p of {size / book.ranks / 1024:.0f} KiB"
    if book.network_saving:
        yield f"by level a GPU sends {book.network_saving:.1f} times less over the network than in a flat ring"


def _beside(p: Prediction) -> Iterator[str]:
    gpus, _ = p.found.domain(p.nodes)
    if p.found.links and gpus > 1:
        pairs, of_a_gpu = full_mesh_links(gpus)
        each = p.found.links // of_a_gpu
        share = f"{each} of its {p.found.links} NVLinks for each" if each else f"more than its {p.found.links} NVLinks"
        yield f"without switches {gpus} GPUs are {pairs:,} pairs, {of_a_gpu} of a GPU: {share}"
    rates = ", ".join(f"Gen{gen} {pcie.line_rate_gb_per_s(gts, 16):.1f}" for gen, gts in pcie.GTS_OF_GEN.items())
    yield f"PCIe x16, GB/s: {rates}"
    yield "(8b/10b to Gen2, 128b/130b to Gen5, Gen6 242 of 256 bytes of a FLIT)"
    yield (
        f"NCCL over TCP instead of RDMA: about {collectives.TCP_GB_PER_S:g} GB/s a node, whatever its NICs, "
        f"{latency.TCP_US:g} µs"
    )
