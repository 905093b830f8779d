"""One page to attach to a ticket: nothing is loaded from anywhere, and without JavaScript only the what-if is static.

Every value passes the template's escaping; a policy in the page lets no script run but its own.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from topocheck.finding import Finding
from topocheck.formats.headline import counts_of, origin, parts_of, settings_of, verdict_word
from topocheck.formats.printable import printable
from topocheck.formats.screen import MARKS, SEPARATOR
from topocheck.formats.text_findings import evidence_words, price_words, standing_words, together_words
from topocheck.formats.text_more import sections
from topocheck.formats.text_table import columns
from topocheck.report import Device, Pair, Report, WhatIf

if TYPE_CHECKING:
    from jinja2 import Environment

_SHADES = 10
_CLASS_ONLY = "·"
_MOST_ACROSS = 16  # columns that fit a printed page


class Cell(NamedTuple):
    """One pair in a heat map: the figure or word it shows, its shade (None without figure), and all that is known."""

    words: str
    shade: int | None
    about: str


class Heat(NamedTuple):
    """A matrix of pairs."""

    caption: str
    columns: list[str]
    rows: list[tuple[str, list[Cell]]]


def render(report: Report, drawing: str, what_if: WhatIf | None) -> str:
    """The page; `drawing` is an SVG of ours."""
    from markupsafe import Markup

    folder = files("topocheck.formats")
    script = (folder / "page.js").read_text("utf-8")
    pages = environment()
    pages.filters["evidence"] = evidence_words
    pages.filters["price"] = price_words
    pages.filters["standing"] = standing_words
    template = pages.from_string((folder / "page.html.j2").read_text("utf-8"))
    return (
        template.render(
            report=report,
            verdict=verdict_word(report),
            counts=counts_of(report) or report.verdict_reason,
            heading=report.host or origin(report),
            machine=SEPARATOR.join(parts_of(report)),
            settings=settings_of(report),
            table=columns(report) if report.rows else [],
            marks=MARKS,
            mark_of=_mark,
            heats=_heats(report),
            together=together_words(report),
            sections=sections(report),
            what_if=what_if,
            labels=_labels(what_if),
            data=Markup(_data(what_if)),
            drawing=Markup(drawing),
            style=Markup((folder / "page.css").read_text("utf-8")),
            script=Markup(script),
            script_hash=script_hash(script),
        )
        + "\n"
    )


def environment() -> Environment:
    """What every page of ours is made with: all values are escaped and fit for a page."""
    from jinja2 import Environment

    return Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=_fit)


def script_hash(script: str) -> str:
    """By which the page's policy knows its own script."""
    return b64encode(sha256(script.encode()).digest()).decode()


def _fit(value: object) -> object:
    """Text fit for a page: no control characters; markup of ours as it is."""
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _mark(finding: Finding) -> str:
    return "waived" if finding.waived else finding.severity


def _heats(report: Report) -> list[Heat]:
    """GPU by GPU and GPU by NIC, those that have pairs."""
    gpus = [d for d in report.devices if d.kind == "gpu"]
    nics = [d for d in report.devices if d.kind == "nic"]
    pairs = {frozenset((p.a, p.b)): p for p in report.pairs}
    found = []
    if len(gpus) > 1:
        found.append(_heat("GPU to GPU, achievable GB/s, one direction", gpus, gpus, pairs))
    if gpus and nics:
        tall = len(nics) > _MOST_ACROSS
        found.append(
            _heat("GPU to NIC, achievable GB/s, one direction", *((nics, gpus) if tall else (gpus, nics)), pairs)
        )
    return found


def _heat(caption: str, rows: list[Device], across: list[Device], pairs: dict[frozenset[str], Pair]) -> Heat:
    most = max(_figures(pairs.get(frozenset((a.id, b.id))) for a in rows for b in across), default=0.0)
    down = {d.id for d in (*rows, *across) if d.kind == "nic" and d.state == "down"}
    cells = [(a.id, [_cell(pairs.get(frozenset((a.id, b.id))), most, down) for b in across]) for a in rows]
    return Heat(caption, [d.id for d in across], cells)


def _figures(pairs: Iterable[Pair | None]) -> Iterable[float]:
    return (p.achievable_gb_per_s for p in pairs if p is not None and p.achievable_gb_per_s is not None)


def _cell(pair: Pair | None, most: float, down: set[str]) -> Cell:
    if pair is None:
        return Cell("", None, "")
    words = [f"{pair.a} – {pair.b}", pair.cls or "class not known"]
    if pair.pcie_cls and pair.pcie_cls != pair.cls:
        words.append(f"PCIe {pair.pcie_cls}")
    if down & {pair.a, pair.b}:
        return Cell("down", None, ", ".join([*words, "port down"]))
    figure = pair.achievable_gb_per_s
    if figure is None:
        return Cell(pair.cls or _CLASS_ONLY, None, ", ".join(words))
    words.append(f"{figure:.1f} GB/s")
    words += [f"limited by {pair.bottleneck}"] if pair.bottleneck else []
    shade = round((_SHADES - 1) * figure / most) if most else 0
    return Cell(f"{figure:.0f}", shade, ", ".join(words))


def _labels(what_if: WhatIf | None) -> list[str]:
    return [f"{f.rule} {' '.join(f.subjects)}" for f in what_if.repairs] if what_if else []


def _data(what_if: WhatIf | None) -> str:
    """The figures for the script; a number cannot end the element it stands in."""
    return json.dumps([figure.by_choice for figure in what_if.figures] if what_if else [])
