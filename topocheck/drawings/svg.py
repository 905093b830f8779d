"""The machine as one SVG: sockets, NUMA nodes, switches, GPUs and NICs as nested boxes, NVLink as a crossbar.

Links are as thick as they carry (achievable GB/s), red where a finding sits. No script, nothing from the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

from topocheck.drawings.layout import HEAD, PAD, Box, Row, layout
from topocheck.drawings.markup import element, title, words
from topocheck.drawings.nvlink import Bundles, panel
from topocheck.drawings.plan import Link, Part, plan_of
from topocheck.drawings.style import STYLE
from topocheck.formats.headline import verdict_word
from topocheck.formats.screen import MARKS, SEPARATOR
from topocheck.graph import Topology
from topocheck.report import Report

_ROOM, _LEAST = 1140, 800
_TOP = 34  # the title above the boxes
_LEGEND_HEIGHT = 34
_LEGEND_GB_PER_S = (6.5, 13.0, 26.0, 54.0)


def render(node: Topology, report: Report) -> str:
    """The whole document."""
    box = layout(plan_of(node, report.findings), _ROOM)
    width = max(box.width, _LEAST)
    lines = list(_boxes(box, 0, _TOP - HEAD))
    height = _TOP - HEAD + box.height + PAD
    if bundles := Bundles.of(node, report):
        links = panel(bundles, width - 2 * PAD)
        lines.append(element("g", *links.lines, transform=f"translate({PAD} {height:g})"))
        height += links.height + PAD
    lines += _legend(height)
    height += _LEGEND_HEIGHT
    name = f"{report.host or 'node'}: {verdict_word(report).lower()}"
    heading = element("text", words(SEPARATOR.join((name, report.platform or "topology"))), css="top", x=PAD + 2, y=22)
    return element(
        "svg",
        element("style", STYLE),
        element("rect", css="host", width=width, height=height),
        heading,
        *(f"{line}\n" for line in lines),
        css="tc",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        aria_label=f"topology of {name}",
    )


def _boxes(box: Box, x: float, y: float) -> Iterator[str]:
    """A box and all in it, its corner at (x, y); the host itself is only room."""
    part = box.part
    if part.kind in ("gpu", "nic"):
        yield _device(box, x, y)
        return
    if part.kind != "host":
        yield element("g", _hover(part), _rect(box, x, y), _head(box, x, y), data_part=part.name)
    yield from _bars(box.rows, x, y)
    for at_x, at_y, inner in box.within:
        above = next((row.y for row in reversed(box.rows) if row.y < at_y), None)
        if above is not None:
            yield _stub(inner.part.link, x + at_x, y + above + 1.5, y + at_y)
        yield from _boxes(inner, x + at_x, y + at_y)


def _bars(rows: tuple[Row, ...], x: float, y: float) -> Iterator[str]:
    """What the parts of a box hang on; several rows are joined at their left."""
    for row in rows:
        yield element("line", css="bar", x1=x + row.x - 5, y1=y + row.y, x2=x + row.x2, y2=y + row.y)
    if len(rows) > 1:
        yield element(
            "line", css="bar", x1=x + rows[0].x - 5, y1=y + rows[0].y, x2=x + rows[0].x - 5, y2=y + rows[-1].y
        )


def _rect(box: Box, x: float, y: float) -> str:
    css = f"{box.part.kind} {box.part.mark.severity or ''}"
    return element("rect", css=css, x=x, y=y, width=box.width, height=box.height)


def _head(box: Box, x: float, y: float) -> str:
    room = int((box.width - 16) / 6.4)
    left = room - len(box.part.title) - 2
    more = words("  ".join(box.part.lines), left) if box.part.lines and left > 8 else ""
    dim = element("tspan", more, css="dim", dx=8) if more else ""
    return element("text", words(box.part.title, room), dim, x=x + 8, y=y + 15)


def _device(box: Box, x: float, y: float) -> str:
    part = box.part
    lines = [element("text", words(part.title, 15), css="name", x=x + 7, y=y + 16)]
    room = 8 if part.mark.severity else 18  # the rule stands beside the address
    for place, line in enumerate([line for line in part.lines if line][: 2 if len(part.lines[-1]) <= room else 1]):
        css = "small dim" if place else "small"
        lines.append(element("text", words(line, 18), css=css, x=x + 7, y=y + 31 + 15 * place))
    if part.mark.severity:
        said = f"{MARKS[part.mark.severity]} {part.mark.rules[0]}{'+' if len(part.mark.rules) > 1 else ''}"
        css = f"small {part.mark.severity}"
        lines.append(element("text", words(said), css=css, text_anchor="end", x=x + box.width - 5, y=y + 46))
    return element("g", _hover(part), _rect(box, x, y), *lines, data_device=part.name)


def _stub(link: Link | None, x: float, top: float, bottom: float) -> str:
    """The link above a part: a line from the bar, and its words beside it."""
    at = x + 14
    if link is None:
        return element("line", css="unread", x1=at, y1=top, x2=at, y2=bottom)
    figure = "" if link.capacity_gb_per_s is None else f" {link.capacity_gb_per_s:.0f} GB/s"
    mark = f" {MARKS[link.mark.severity]}" if link.mark.severity else ""
    said = f"{link.words.removeprefix('PCIe ').split(' of ')[0]}{figure}{mark}"
    css = f"{link.mark.severity or ''} {'unread' if link.capacity_gb_per_s is None else ''}"
    thick = thickness(link.capacity_gb_per_s)
    return element(
        "g",
        title(f"{link.words}{figure}", f"by {link.witness}" if link.witness else "", *link.mark.messages),
        element("line", css=css, stroke_width=thick, x1=at, y1=top, x2=at, y2=bottom),
        element("text", words(said, 20), css=f"small {link.mark.severity or 'dim'}", x=at + 8, y=bottom - 8),
    )


def thickness(gb_per_s: float | None) -> float:
    """Pixels of a link: by the root, so that a x1 can still be seen beside a x16."""
    return 1.5 if gb_per_s is None else max(1.5, 1.3 * sqrt(gb_per_s))


def _hover(part: Part) -> str:
    return title(part.title, *part.lines, *part.details, *part.mark.messages)


def _legend(y: float) -> Iterator[str]:
    def line(at: float, thick: float, css: str = "") -> str:
        return element("line", css=css, stroke_width=thick, x1=at, y1=y + 14, x2=at + 24, y2=y + 14)

    def label(at: float, said: str, css: str = "dim") -> str:
        return element("text", words(said), css=f"small {css}", x=at, y=y + 18)

    x = float(PAD)
    yield label(x, "PCIe, achievable, one direction:")
    x += 180
    for figure in _LEGEND_GB_PER_S:
        yield line(x, thickness(figure))
        yield label(x + 30, f"{figure:g} GB/s")
        x += 88
    yield line(x, 1.5, "unread")
    yield label(x + 30, "not read")
    yield label(x + 90, "~ asleep")
    yield label(x + 145, f"{MARKS['error']} error", "error")
    yield label(x + 190, f"{MARKS['warning']} warning", "warning")
