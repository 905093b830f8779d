"""Metrics for node_exporter's textfile collector: no timestamps, base units, at most 200 series a node."""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Iterator, Mapping, Sequence
from time import strptime
from typing import NamedTuple

from topocheck.finding import SEVERITIES
from topocheck.report import Report

MOST_SERIES = 200
_STATES = {"ok": 0, "info": 1, "warning": 2, "error": 3, "skipped": 4}
_GB = 1e9
_PATH = re.compile(r"(\S+) -> (\S+) ")
_HELP = {
    "topocheck_info": "The topocheck that ran, and its verdict.",
    "topocheck_last_run_timestamp_seconds": "When the node was read.",
    "topocheck_run_duration_seconds": "How long it took.",
    "topocheck_findings": "Findings that no waiver accepts, by severity.",
    "topocheck_check_status": "What a rule says: 0 ok, 1 info, 2 warning, 3 error, 4 skipped.",
    "topocheck_path_loss_ratio": "Share of a path's bandwidth that a fault costs, where it can be computed.",
    "topocheck_path_bandwidth_bytes_per_second": "GPUDirect RDMA between a GPU and its NICs, by the model.",
    "topocheck_probe_up": "0: this input could not be read.",
}


class Sample(NamedTuple):
    """One figure: a metric, what it is of, its value."""

    metric: str
    labels: tuple[tuple[str, str], ...]
    value: float


def render(report: Report) -> str:
    """The text a `*.prom` file holds; what would be too much is cut at its end."""
    return exposition(list(dict.fromkeys(_samples(report)))[:MOST_SERIES], _HELP)


def exposition(samples: Sequence[Sample], about: Mapping[str, str]) -> str:
    """All samples of a metric together under what it is `about`, as gauges, in the order of `about`."""
    lines = []
    for metric, text in about.items():
        mine = [sample for sample in samples if sample.metric == metric]
        if mine:
            lines += [f"# HELP {metric} {text}", f"# TYPE {metric} gauge", *map(_line, mine)]
    return "\n".join(lines) + "\n"


def _samples(report: Report) -> Iterator[Sample]:
    """Every figure, the most telling first."""
    labels = (("version", report.version), ("schema", "1"), ("verdict", report.verdict))
    yield Sample("topocheck_info", labels, 1)
    yield Sample("topocheck_last_run_timestamp_seconds", (), timegm(strptime(report.time, "%Y-%m-%dT%H:%M:%SZ")))
    yield Sample("topocheck_run_duration_seconds", (), report.duration_s)
    standing = [f for f in report.findings if not f.waived]
    for severity in SEVERITIES:
        count = sum(f.severity == severity for f in standing)
        yield Sample("topocheck_findings", (("severity", severity),), count)
    yield from _statuses(report)
    yield from _losses(report)
    for row in report.rows:
        if row.rdma_gb_per_s is not None and row.nics:
            ends = (("from", row.gpu.id), ("to", "+".join(nic.id for nic in row.nics)), ("kind", "found"))
            yield Sample("topocheck_path_bandwidth_bytes_per_second", ends, row.rdma_gb_per_s * _GB)
    for gap in report.gaps:
        yield Sample("topocheck_probe_up", (("probe", gap.input),), 0)


def _statuses(report: Report) -> Iterator[Sample]:
    """The worst of each rule and device, worst first; then the rules that were skipped, then one each for the rest.
    A rule that does not apply has none."""
    worst: dict[tuple[str, str], int] = {}
    for finding in (f for f in report.findings if not f.waived):
        for device in finding.subjects or ("",):
            at = (finding.rule, device)
            worst[at] = max(worst.get(at, 0), _STATES[finding.severity])
    skipped = {skip.rule for skip in report.skipped if not skip.partial}
    worst |= {(rule, ""): _STATES["skipped"] for rule in skipped}
    spoken = {rule for rule, _ in worst} | {rule for rule, _ in report.not_applicable}
    worst |= {(rule, ""): _STATES["ok"] for rule in report.rules if rule not in spoken}
    for (rule, device), state in sorted(worst.items(), key=lambda item: (item[1] == 4, -item[1], item[0])):
        yield Sample("topocheck_check_status", (("check", rule), ("device", device)), state)


def _losses(report: Report) -> Iterator[Sample]:
    """The worst computed loss of each path."""
    worst: dict[tuple[str, str], float] = {}
    for finding in (f for f in report.findings if not f.waived):
        price = finding.price
        match = _PATH.match(price.scenario) if price else None
        if price and price.loss and price.confidence == "computed" and match:
            ends = (match[1], match[2])
            worst[ends] = max(worst.get(ends, 0.0), price.loss)
    for (start, end), loss in worst.items():
        yield Sample("topocheck_path_loss_ratio", (("from", start), ("to", end)), loss)


def _line(sample: Sample) -> str:
    labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels)
    return f"{sample.metric}{{{labels}}} {sample.value:.12g}" if labels else f"{sample.metric} {sample.value:.12g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").encode("utf-8", "replace").decode()
