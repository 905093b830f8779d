"""The GPU table of the screen: a row a GPU with its NICs; a column nobody knows anything of is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from topocheck.finding import SEVERITIES, Finding, Severity
from topocheck.formats.screen import MARKS, STYLES, Screen, Span
from topocheck.report import Device, GpuRow, PcieLink, Report

UNKNOWN = "?"
_GENERATION = {2.5: "1.0", 5.0: "2.0", 8.0: "3.0", 16.0: "4.0", 32.0: "5.0", 64.0: "6.0"}


class Cell(NamedTuple):
    """What a column says of one row, and the worst that was found there."""

    words: str
    severity: Severity | None = None


class Column(NamedTuple):
    """One column; those with the highest `spare` go first where the screen is narrow (0 never)."""

    title: str
    spare: int
    cells: tuple[Cell, ...]


Worst = Callable[[Iterable[Device], str], "Severity | None"]


def gpu_table(screen: Screen, report: Report) -> None:
    """The table, nothing where there is no GPU."""
    if not report.rows:
        return
    shown = _fitting(screen, columns(report))
    widths = [max(screen.cells(c.title), *(screen.cells(_shown(cell)) for cell in c.cells)) for c in shown]
    screen.line((_laid_out(screen, [c.title for c in shown], widths), "bold"))
    for row in zip(*(c.cells for c in shown), strict=True):
        spans: list[Span] = [" "]
        for cell, width in zip(row, widths, strict=True):
            words = _shown(cell)
            spans.append((words, STYLES[cell.severity] if cell.severity else ""))
            spans.append(" " * (width - screen.cells(words) + 1))
        screen.line(*spans)


def columns(report: Report) -> list[Column]:
    """What is known of the rows; a column without a known word is left out."""
    rows = report.rows
    worst = _worst_of(report.findings)
    bus = _bus_speller([*(r.gpu for r in rows), *(n for r in rows for n in r.nics)])

    def column(title: str, spare: int, cell: Callable[[GpuRow], tuple[str, Severity | None]]) -> Column:
        return Column(title, spare, tuple(Cell(*cell(row)) for row in rows))

    all_columns = [
        column("GPU", 0, lambda r: (r.gpu.id.removeprefix("gpu"), worst([r.gpu], "GPU"))),
        column("bus", 5, lambda r: (bus(r.gpu), None)),
        column("PCIe", 0, lambda r: (link_words(r.link), worst([r.gpu], "PCI"))),
        column("NVLink", 2, lambda r: (r.nvlinks or UNKNOWN, worst([r.gpu], "NVL"))),
        column("NUMA", 4, lambda r: (_number(r.gpu.numa_node), worst([r.gpu], "NUM"))),
        column("NIC", 0, lambda r: (_nic_words(r.nics), None)),
        column("bus", 6, lambda r: (bus(r.nics[0]) if r.nics else UNKNOWN, None)),
        column("PCIe", 3, lambda r: (link_words(r.nic_link), worst(r.nics, "PCI"))),
        column("class", 0, lambda r: (r.cls or UNKNOWN, worst([r.gpu, *r.nics], "AFF") or worst(r.nics, "RAIL"))),
        column("port", 1, lambda r: (ports_words(r.nics), worst(r.nics, "NET"))),
        column("RDMA GB/s", 0, lambda r: (_rate(r.rdma_gb_per_s), worst([r.gpu, *r.nics], ""))),
    ]
    return [c for c in all_columns if any(cell.words != UNKNOWN for cell in c.cells)]


def _worst_of(findings: tuple[Finding, ...]) -> Worst:
    """Asks for the worst unwaived error or warning of a rule family on some devices, by id or by BDF."""
    said: dict[str, list[Finding]] = {}
    for finding in findings:
        if not finding.waived and finding.severity != "info":
            for subject in finding.subjects:
                said.setdefault(subject, []).append(finding)

    def worst(devices: Iterable[Device], family: str) -> Severity | None:
        severities = [
            finding.severity
            for device in devices
            for name in {device.id, device.bdf} - {None}
            for finding in said.get(name or "", ())
            if finding.rule.startswith(family)
        ]
        return max(severities, key=SEVERITIES.index, default=None)

    return worst


def _fitting(screen: Screen, columns: list[Column]) -> list[Column]:
    """The columns that fit, the least needed left out."""
    while True:
        needed = sum(1 + max(screen.cells(c.title), *(screen.cells(_shown(cell)) for cell in c.cells)) for c in columns)
        sparest = max(columns, key=lambda c: c.spare, default=None)
        if needed <= screen.width or sparest is None or sparest.spare == 0:
            return columns
        columns = [c for c in columns if c is not sparest]


def _laid_out(screen: Screen, words: list[str], widths: list[int]) -> str:
    return " " + " ".join(word + " " * (width - screen.cells(word)) for word, width in zip(words, widths, strict=True))


def _shown(cell: Cell) -> str:
    return f"{cell.words} {MARKS[cell.severity]}" if cell.severity else cell.words


def link_words(link: PcieLink | None) -> str:
    """A PCIe link as the screen has it: `5.0x16`, `~5.0x16` when it sleeps (the speed it can, the lanes it has)."""
    if link is None or link.implausible:
        return UNKNOWN
    speed = (link.can_speed_gts or link.max_speed_gts) if link.asleep else link.speed_gts
    if speed is None and link.width is None:
        return UNKNOWN
    generation = UNKNOWN if speed is None else _GENERATION.get(speed, f"{speed:g}GT/s")
    return f"{'~' if link.asleep else ''}{generation}x{UNKNOWN if link.width is None else link.width}"


def ports_words(nics: tuple[Device, ...]) -> str:
    """`400 Active`: the sum of the active ports' rates and how many NICs are up, where not all are."""
    if not nics or all(nic.state == "unknown" for nic in nics):
        return UNKNOWN
    rates = [nic.rate_gbit_per_s for nic in nics if nic.rate_gbit_per_s]
    up = sum(nic.state == "active" for nic in nics)
    state = "Active" if up == len(nics) else "Down" if not up else f"{up}/{len(nics)} Active"
    return f"{sum(rates):g} {state}" if rates else state


def _nic_words(nics: tuple[Device, ...]) -> str:
    if not nics:
        return "none"
    return nics[0].id + (f" +{len(nics) - 1}" if len(nics) > 1 else "")


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def _rate(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f}"


def _bus_speller(devices: list[Device]) -> Callable[[Device], str]:
    """The shortest part of the BDF that tells the GPUs apart: `1b`, `00:05` in most VMs, `0001:1b` with domains."""
    known = [d.bdf for d in devices if d.bdf]
    gpus = [d.bdf for d in devices if d.bdf and d.kind == "gpu"]
    start = 0 if any(not bdf.startswith("0000:") for bdf in known) else 5
    to_bus = {bdf.rsplit(":", 1)[0][start:] for bdf in gpus}
    cut = 1 if len(to_bus) == len(gpus) else 0

    def spelled(device: Device) -> str:
        if device.bdf is None:
            return UNKNOWN
        return device.bdf.rsplit(":" if cut else ".", 1)[0][start:]

    return spelled
