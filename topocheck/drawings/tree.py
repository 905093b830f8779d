"""The machine as a tree on the screen, with links, widths, NVLinks, and faults in place."""

from __future__ import annotations

from collections.abc import Iterator

from topocheck.drawings.nvlink import Bundles
from topocheck.drawings.plan import Part, plan_of
from topocheck.formats.headline import origin, parts_of
from topocheck.formats.screen import MARKS, SEPARATOR, STYLES, Screen, Span
from topocheck.graph import Topology
from topocheck.report import Report

_UNICODE = ("├─ ", "└─ ", "│  ", "   ")
_ASCII = ("|- ", "`- ", "|  ", "   ")


def render(node: Topology, report: Report, *, width: int, color: bool, ascii: bool) -> str:  # noqa: A002 (screen's word)
    """A line a part, findings below what they are on."""
    screen = Screen(width=width, color=color, ascii=ascii)
    screen.wrapped("", (SEPARATOR.join([*parts_of(report), origin(report)]), "bold"))
    bundles = Bundles.of(node, report)
    art = _ASCII if ascii else _UNICODE
    for lead, part, last in _walk(plan_of(node, report.findings), ()):
        first = "".join(art[3] if done else art[2] for done in lead)
        screen.line((first + art[1 if last else 0], "dim"), *_words(part, bundles))
        below = first + (art[3] if last else art[2]) + (art[2] if part.parts else art[3])
        for message in dict.fromkeys((*part.mark.messages, *(part.link.mark.messages if part.link else ()))):
            screen.wrapped((below, "dim"), message, most=2)
    return screen.text()


def _walk(part: Part, lead: tuple[bool, ...]) -> Iterator[tuple[tuple[bool, ...], Part, bool]]:
    """Every part below with, for each level above it, whether that was the last of its row."""
    for place, child in enumerate(part.parts):
        last = place == len(part.parts) - 1
        yield lead, child, last
        yield from _walk(child, (*lead, last))


def _words(part: Part, bundles: Bundles | None) -> Iterator[Span]:
    yield part.title, "bold" if part.kind in ("gpu", "nic") else ""
    for mark in dict.fromkeys((part.mark, part.link.mark if part.link else part.mark)):
        if mark.severity and (mark is part.mark or not part.mark.severity):
            yield f"  {MARKS[mark.severity]} {' '.join(mark.rules)}", STYLES[mark.severity]
    said = [line for line in part.lines if line]
    if part.link is not None:
        figure = "" if part.link.capacity_gb_per_s is None else f" {part.link.capacity_gb_per_s:.1f} GB/s"
        said.append(f"{part.link.words}{figure}")
    if bundles and part.kind == "gpu":
        said += _nvlinks(part.name, bundles)
    yield "".join(f"  {word}" for word in said)


def _nvlinks(gpu: str, bundles: Bundles) -> Iterator[str]:
    links, _ = bundles.to_switch.get(gpu, (0, 0.0))
    if links:
        yield f"NVLink {links}/{max(links, bundles.full.get(gpu, links))}"
    peers = {a if b == gpu else b: n for (a, b), n in bundles.pairs.items() if gpu in (a, b)}
    if peers:
        counts = sorted(set(peers.values()))
        spread = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        yield (
            f"NVLink {spread} to each of {len(peers)}" if len(peers) > 1 else f"NVLink {spread} to {next(iter(peers))}"
        )
