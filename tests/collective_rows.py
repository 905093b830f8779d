"""Published nccl-tests runs (tests/measured/collectives.tsv) and what topocheck.predict says of the same nodes.

A row names a healthy node: GPU model, GPUs, NICs × Gb/s, fabric; `algorithm` where the run was held to one. Empty
`class` marks rows whose constant was not fitted on them. Nodes of GB200 with one GPU ran without NVLink between trays.
"""

import csv
from pathlib import Path
from typing import NamedTuple

from topocheck.hardware import collectives, gpus, network, pcie
from topocheck.hardware.compute import chip_of
from topocheck.predict.collectives import best, bus_factor, ways
from topocheck.predict.machine import Machine

FILE = Path(__file__).parent / "measured" / "collectives.tsv"
LARGE_BYTES = 256_000_000


class Run(NamedTuple):
    """One row."""

    id: str
    machine: Machine
    model: str
    nodes: int
    op: str
    bytes: int
    measured: float
    unit: str
    algorithm: str
    class_: str
    source: str

    @property
    def large(self):
        return self.bytes >= LARGE_BYTES

    @property
    def factor(self):
        return bus_factor(self.op, self.machine.gpus * self.nodes)

    @property
    def measured_us(self):
        """Its time, from busbw where that is what was published."""
        return self.measured if self.unit == "us" else self.bytes * self.factor / self.measured / 1000

    @property
    def predicted_us(self):
        found = ways(self.machine, self.op, self.nodes)
        return best([w for w in found if w.algorithm.startswith(self.algorithm)], self.bytes).time_us(self.bytes)

    @property
    def measured_busbw(self):
        return self.bytes * self.factor / self.measured_us / 1000

    @property
    def predicted_busbw(self):
        return self.bytes * self.factor / self.predicted_us / 1000


def runs():
    with FILE.open(encoding="utf-8", newline="") as file:
        return [_run(row) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def _run(row):
    count = int(row["gpus"])
    machine = healthy(row["model"], count, int(row["nics"]), float(row["gbit_per_s"]), row["fabric"])
    return Run(
        row["id"], machine, row["model"], int(row["nodes"]), row["op"], int(row["bytes"]), float(row["measured"]),
        row["unit"], row["algorithm"], row["class"], row["source"],
    )  # fmt: skip


def healthy(model, count=8, nics=8, gbit=400.0, fabric="infiniband"):
    """A node with nothing wrong, by the tables that the model itself asks."""
    part = gpus.part_of(f"NVIDIA {model.replace('-', ' ', 1)}")
    links = part.nvlinks if part.board != "bridge" and count > 1 else 0
    ring = gpus.nvlink_ring_gb_per_s(links, part) if links else pcie.ring_gb_per_s(32.0, 16)
    return Machine(
        model=model,
        gpus=count,
        chip=chip_of(model),
        part=part,
        links=links,
        ring=ring if count > 1 else None,
        nvls=collectives.nvls_gb_per_s(links, part) if links else None,
        copy=gpus.nvlink_achievable_gb_per_s(links, part) if links else None,
        nvlink_line=gpus.nvlink_line_rate_gb_per_s(links, part) if links else None,
        pcie=pcie.achievable_gb_per_s(32.0, 16),
        pcie_line=pcie.line_rate_gb_per_s(32.0, 16),
        nics=network.achievable_gb_per_s(nics * gbit) if nics else None,
        nics_line=network.line_rate_gb_per_s(nics * gbit) if nics else None,
        nic_count=nics,
        fabric=fabric,
        rack=part.c2c and part.board == "nvswitch" and count > 1,
    )


def large_table():
    """Rows of large messages for docs/predict.md."""
    lines = [
        "| row | node | nodes | operation | bytes | busbw measured | ours | error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in runs():
        if run.large:
            error = run.predicted_busbw / run.measured_busbw - 1
            figures = f"{run.measured_busbw:.1f} | {run.predicted_busbw:.1f} | {_signed(error)}"
            lines.append(
                f"| [{run.id}]({run.source}) | {_node(run)} | {run.nodes} | {_op(run)} | {run.bytes} | {figures} |"
            )
    return "\n".join(lines) + "\n"


def small_table():
    """Rows of small messages for docs/predict.md."""
    lines = [
        "| row | node | nodes | operation | bytes | µs measured | ours | ours over measured |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in runs():
        if not run.large:
            figures = f"{run.measured_us:.1f} | {run.predicted_us:.1f} | {run.predicted_us / run.measured_us:.2f}"
            lines.append(
                f"| [{run.id}]({run.source}) | {_node(run)} | {run.nodes} | {_op(run)} | {run.bytes} | {figures} |"
            )
    return "\n".join(lines) + "\n"


def _node(run):
    nics = run.machine.nic_count
    rate = round(run.machine.nics_line * 8 / nics) if nics else 0
    return f"{run.machine.gpus} × {run.model}" + (f", {nics} × {rate} Gb/s {run.machine.fabric}" if nics else "")


def _op(run):
    return f"{run.op}, {run.algorithm}" if run.algorithm else run.op


def _signed(share):
    return f"{share:+.1%}".replace("-", "−").replace("%", " %")
