"""Where each part of the plan lies: nested boxes in rows, in pixels. Parts of one box never overlap.

Within a box the parts hang on a bar, one bar a row: the link of a part is the line from the bar down to its box.
"""

from __future__ import annotations

from dataclasses import dataclass

from topocheck.drawings.plan import Part

PAD, HEAD, STUB, GAP = 10, 22, 30, 10
DEVICE_WIDTH, DEVICE_HEIGHT = 118, 56
CHAR_WIDTH = 6.6  # of the heads' font, at most on average


@dataclass(frozen=True, slots=True)
class Row:
    """The bar of a row, from x to x2 at y, relative to its box."""

    x: float
    x2: float
    y: float


@dataclass(frozen=True, slots=True)
class Box:
    """A part with its size, and what lies in it, relative to its own corner."""

    part: Part
    width: float
    height: float
    within: tuple[tuple[float, float, Box], ...] = ()
    rows: tuple[Row, ...] = ()


def layout(part: Part, room: float) -> Box:
    """The part in at most `room` pixels of width, as far as its devices allow."""
    if not part.parts:
        return Box(part, DEVICE_WIDTH, DEVICE_HEIGHT)
    linked = part.kind != "card" and any(child.kind not in ("socket", "numa") for child in part.parts)
    boxes = [layout(child, room - 2 * PAD) for child in part.parts]
    lines = _lines(boxes, room - 2 * PAD)
    placed: list[tuple[float, float, Box]] = []
    rows: list[Row] = []
    y = float(HEAD)
    for line in lines:
        x = float(PAD)
        top = y + (STUB if linked else 0)
        for box in line:
            placed.append((x, top, box))
            x += box.width + GAP
        if linked:
            rows.append(Row(PAD, x - GAP, y + 2))
        y = top + max(box.height for box in line) + GAP
    needed = max(x + box.width for x, _, box in placed) + PAD
    title = len(part.title) + sum(len(line) + 3 for line in part.lines)
    width = max(needed, min(room, title * CHAR_WIDTH + 2 * PAD))
    return Box(part, width, y - GAP + PAD, tuple(placed), tuple(rows))


def _lines(boxes: list[Box], room: float) -> list[list[Box]]:
    """Boxes in their order, as many a line as fit, at least one."""
    lines: list[list[Box]] = [[]]
    used = 0.0
    for box in boxes:
        if lines[-1] and used + box.width > room:
            lines.append([])
            used = 0.0
        lines[-1].append(box)
        used += box.width + GAP
    return lines
