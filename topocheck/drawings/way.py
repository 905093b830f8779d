"""`topocheck path`: the way between two devices, a line a hop, the slowest marked, with what was found on it."""

from __future__ import annotations

from topocheck.finding import Finding
from topocheck.formats.screen import MARKS, STYLES, Screen, Span
from topocheck.formats.text_table import link_words
from topocheck.hops import Hop, Way
from topocheck.report import Pair

_KINDS = {"bridge": "bridge", "root": "host bridge", "numa": ""}


def render(screen: Screen, way: Way, pair: Pair, findings: tuple[Finding, ...], nccl: str) -> str:
    """The class, the hops, what NCCL makes of the pair, the findings."""
    screen.wrapped((f"{way.a.id} -> {way.b.id}  ", "bold"), _headline(pair))
    if pair.cls and pair.cls.startswith("NV"):
        screen.blank()
        screen.line(" over NVLink; without it, over PCIe:")
    screen.blank()
    if way.known:
        _hops(screen, way)
    else:
        screen.line(" the tree between them is not in the input")
    screen.blank()
    screen.wrapped(" NCCL  ", nccl)
    on_way = _on(way)
    for finding in findings:
        if on_way & set(finding.subjects) and not finding.waived:
            screen.wrapped((f" {MARKS[finding.severity]} {finding.rule} ", STYLES[finding.severity]), finding.message)
    return screen.text()


def _headline(pair: Pair) -> str:
    words = [pair.cls or "class not known"]
    if pair.pcie_cls and pair.pcie_cls != pair.cls:
        words.append(f"PCIe {pair.pcie_cls}")
    if pair.achievable_gb_per_s is not None:
        line = "" if pair.line_rate_gb_per_s is None else f", line rate {pair.line_rate_gb_per_s:.1f}"
        words.append(f"{pair.achievable_gb_per_s:.1f} GB/s achievable{line}")
    if pair.bottleneck:
        words.append(f"limited by {pair.bottleneck}")
    return "  ".join(words)


def _hops(screen: Screen, way: Way) -> None:
    figures = [hop.achievable_gb_per_s for hop in way.hops if hop.achievable_gb_per_s is not None]
    slowest = min(figures, default=None)
    for hop in way.hops:
        binds = hop.achievable_gb_per_s is not None and hop.achievable_gb_per_s == slowest
        words, style = _hop(way, hop)
        spans: list[Span] = [(f" {words:<34}", style)]
        if hop.achievable_gb_per_s is not None:
            spans.append(f"{hop.achievable_gb_per_s:6.1f} of {hop.line_rate_gb_per_s:.1f} GB/s")
        if binds:
            spans.append(("  <- slowest", "bold"))
        if hop.link is not None and hop.link.witness:
            spans.append((f"  {hop.link.witness}", "dim"))
        screen.line(*spans)
        if hop.shared_with:
            screen.wrapped("     |   ", f"shared by {', '.join(hop.shared_with)}")


def _hop(way: Way, hop: Hop) -> tuple[str, str]:
    if hop.kind == "pcie":
        return f"    |  PCIe {link_words(hop.link)}", ""
    if hop.kind == "port":
        return "    |  port", ""
    if hop.kind == "device":
        device = way.a if hop.name == way.a.id else way.b
        return f"{hop.name}  {device.bdf or ''}", "bold"
    return f"  {_KINDS[hop.kind]} {hop.name.removeprefix('root:')}", ""


def _on(way: Way) -> set[str]:
    """Everything a finding could name of the way."""
    names = {hop.name for hop in way.hops}
    return names | {d.id for d in (way.a, way.b)} | {hop.link.id for hop in way.hops if hop.link}
