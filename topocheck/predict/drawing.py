"""A prediction as SVG: busbw over the size of the message, a panel an operation, healthy and as found."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import log10

from topocheck.predict.prediction import Prediction, Row
from topocheck.predict.sizes import label

_WIDE, _HIGH, _LEFT, _TOP, _GAP = 640, 240, 60, 40, 50


def render(p: Prediction) -> str:
    """The drawing. One row is a point, without a table there is nothing to draw but the title."""
    ops = list(p.winners)
    height = _TOP + max(1, len(ops)) * (_HIGH + _GAP)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE + 2 * _LEFT} {height}" font-family="sans-serif"'
    )
    parts = [
        head + ' font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="20">{escape(f"{p.nodes} × {p.gpus_per_node} {p.model}")}: busbw, GB/s</text>',
    ]
    for place, op in enumerate(ops):
        parts += _panel(op, [row for row in p.rows if row.op == op], _TOP + place * (_HIGH + _GAP))
    return "\n".join([*parts, "</svg>", ""])


def _panel(op: str, rows: list[Row], top: float) -> Iterator[str]:
    most = max((row.healthy_busbw_gb_per_s for row in rows), default=0.0) or 1.0
    low, high = (log10(rows[0].bytes), log10(rows[-1].bytes)) if rows else (0.0, 1.0)

    def x(size: float) -> float:
        return _LEFT + (log10(size) - low) / ((high - low) or 1.0) * _WIDE

    def y(busbw: float) -> float:
        return top + _HIGH * (1 - busbw / most)

    yield f'<rect x="{_LEFT}" y="{top}" width="{_WIDE}" height="{_HIGH}" fill="none" stroke="#999"/>'
    yield f'<text x="{_LEFT + 8}" y="{top + 16}">{escape(op)}</text>'
    for share in (0.5, 1.0):
        yield f'<text x="{_LEFT - 6}" y="{y(most * share) + 4:.1f}" text-anchor="end">{most * share:.0f}</text>'
    for row in rows[:: max(1, len(rows) // 8)]:
        yield f'<text x="{x(row.bytes):.1f}" y="{top + _HIGH + 16}" text-anchor="middle">{label(row.bytes)}</text>'
    healthy = " ".join(f"{x(r.bytes):.1f},{y(r.healthy_busbw_gb_per_s):.1f}" for r in rows)
    found = " ".join(f"{x(r.bytes):.1f},{y(r.busbw_gb_per_s):.1f}" for r in rows)
    for points, name, look in (
        (healthy, "healthy", 'stroke="#2a7" stroke-dasharray="5 3"'),
        (found, "as found", 'stroke="#c33" stroke-width="2"'),
    ):
        yield f'<polyline points="{points}" fill="none" {look}><title>{name}</title></polyline>'
    winner = ""
    for row in rows:
        name = f"{row.algorithm} {row.protocol}"
        if name != winner:
            yield f'<circle cx="{x(row.bytes):.1f}" cy="{y(row.busbw_gb_per_s):.1f}" r="3" fill="#c33"/>'
            yield f'<text x="{x(row.bytes):.1f}" y="{y(row.busbw_gb_per_s) - 6:.1f}" font-size="10">{name}</text>'
        winner = name
