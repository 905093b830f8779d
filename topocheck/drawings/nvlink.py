"""The NVLink panel: GPUs on an NVSwitch bar, or the crosspoints of GPUs that are joined directly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from topocheck.drawings.markup import element, title, words
from topocheck.drawings.plan import Mark, Marks
from topocheck.formats.screen import MARKS
from topocheck.graph import Topology
from topocheck.report import Report

_HEAD = 24
_CHIP, _CHIP_HEIGHT = 58, 24
_CELL = 34


class Bundles(NamedTuple):
    """Who is joined by how many links; `full` is what a whole GPU has to the NVSwitches, None elsewhere."""

    gpus: tuple[str, ...]
    to_switch: Mapping[str, tuple[int, float]]  # links, achievable GB/s
    pairs: Mapping[tuple[str, str], int]
    full: Mapping[str, int]
    marks: Mapping[str, Mark]

    @classmethod
    def of(cls, node: Topology, report: Report) -> Bundles | None:
        """None where nothing is joined by NVLink, and should not be."""
        gpus = tuple(gpu.id for gpu in node.gpus)
        to_switch = {b.a: (b.links, b.achievable_gb_per_s) for b in report.nvlinks if b.b == "nvswitch"}
        pairs = {(b.a, b.b): b.links for b in report.nvlinks if b.b != "nvswitch"}
        if not to_switch and not pairs:
            return None
        full = {g.id: g.part.nvlinks for g in node.gpus if g.part and g.part.nvlinks}
        found = [f for f in report.findings if f.rule.startswith("NVL")]
        return cls(gpus, to_switch, pairs, full, {gpu: Marks(found).of([gpu]) for gpu in gpus})


class Panel(NamedTuple):
    """Lines of SVG, and how much room they take."""

    lines: tuple[str, ...]
    height: float


def panel(bundles: Bundles, width: float) -> Panel:
    """The panel, its corner at (0, 0)."""
    return _switched(bundles, width) if bundles.to_switch else _crosspoints(bundles, width)


def _frame(width: float, height: float, said: str) -> Iterator[str]:
    yield element("rect", css="socket", x=0, y=0, width=width, height=height)
    yield element("text", words(said), x=8, y=16)


def _switched(bundles: Bundles, width: float) -> Panel:
    """Every GPU down to one bar: the switches of a board are one crossbar."""
    bar = _HEAD + _CHIP_HEIGHT + 34
    step = (width - 20) / len(bundles.gpus)
    most = max(links for links, _ in bundles.to_switch.values())
    lines = list(_frame(width, bar + 32, "NVLink"))
    for place, gpu in enumerate(bundles.gpus):
        lines += _drop(bundles, gpu, 10 + step * (place + 0.5), bar, most, min(_CHIP, step - 6))
    lines.append(element("rect", css="nvlink", x=10, y=bar, width=width - 20, height=22))
    lines.append(element("text", "NVSwitch", x=width / 2, y=bar + 15, text_anchor="middle"))
    return Panel(tuple(lines), bar + 32)


def _drop(bundles: Bundles, gpu: str, x: float, bar: float, most: int, wide: float) -> Iterator[str]:
    """A GPU and its links down to the bar."""
    links, rate = bundles.to_switch.get(gpu, (0, 0.0))
    mark = bundles.marks[gpu]
    css = mark.severity or ""
    top = _HEAD + _CHIP_HEIGHT
    yield element(
        "g",
        title(gpu, f"{links} NVLinks, {rate:.0f} GB/s one direction", *mark.messages),
        element("rect", css=f"gpu {css}", x=x - wide / 2, y=_HEAD, width=wide, height=_CHIP_HEIGHT),
        element("text", words(gpu, 8), x=x, y=_HEAD + 16, text_anchor="middle"),
    )
    if links:
        yield element("line", css=f"nv {css}", stroke_width=2 + 8 * links / most, x1=x, y1=top, x2=x, y2=bar)
    full = max(bundles.full.get(gpu, links), links)
    sign = f" {MARKS[mark.severity]}" if mark.severity else ""
    yield element("text", words(f"{links}/{full}{sign}"), css=f"small {css or 'dim'}", x=x + 8, y=bar - 19)
    if rate:
        yield element("text", words(f"{rate:.0f}"), css="small dim", x=x + 8, y=bar - 7)


def _crosspoints(bundles: Bundles, width: float) -> Panel:
    """A row and a column a GPU; the number of links where they cross, bigger where there are more."""
    most = max(bundles.pairs.values())
    height = _HEAD + 20 + _CELL * len(bundles.gpus) + 6
    lines = list(_frame(width, height, "NVLink, links of each pair"))
    for place, gpu in enumerate(bundles.gpus):
        css = f"small {bundles.marks[gpu].severity or ''}"
        at, y = 70 + _CELL * (place + 0.5), _HEAD + 20 + _CELL * (place + 0.5)
        lines.append(element("text", words(gpu, 8), css=css, x=at, y=_HEAD + 14, text_anchor="middle"))
        lines.append(element("text", words(gpu, 8), css=css, x=60, y=y + 4, text_anchor="end"))
        for other, name in enumerate(bundles.gpus):
            links = bundles.pairs.get((gpu, name)) or bundles.pairs.get((name, gpu)) or 0
            if other != place:
                lines += _crosspoint(70 + _CELL * (other + 0.5), y, links, most)
    return Panel(tuple(lines), height)


def _crosspoint(x: float, y: float, links: int, most: int) -> Iterator[str]:
    if not links:
        yield element("circle", css="none", cx=x, cy=y, r=2)
        return
    share = links / most
    yield element("circle", cx=x, cy=y, r=9 + 5 * share, opacity=0.25 + 0.35 * share)
    yield element("text", words(str(links)), css="small", x=x, y=y + 4, text_anchor="middle")
