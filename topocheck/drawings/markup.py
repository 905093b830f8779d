"""Elements of SVG, written so that nothing a capture says can be anything but text."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from topocheck.formats.printable import printable


def element(name: str, *content: str, css: str = "", **attributes: object) -> str:
    """An element around content that is markup already; `css` is its class, `text_anchor` becomes text-anchor.

    >>> element("rect", css="gpu ", x=1.25, data_device='a"<b>', width=None)
    '<rect class="gpu" x="1.2" data-device=\\'a"&lt;b&gt;\\'/>'
    """
    given = {"class": css.strip() or None, **attributes}
    words = "".join(f" {key.replace('_', '-')}={attribute(value)}" for key, value in given.items() if value is not None)
    inner = "".join(content)
    return f"<{name}{words}>{inner}</{name}>" if inner else f"<{name}{words}/>"


def attribute(value: object) -> str:
    """A value as a quoted attribute; numbers to a tenth of a pixel."""
    return quoteattr(f"{value:.4g}" if isinstance(value, float) and abs(value) < 1 else _plain(value))


def _plain(value: object) -> str:
    return f"{round(value, 1):g}" if isinstance(value, float) else printable(str(value))


def words(said: str, most: int | None = None) -> str:
    """Text as the content of an element, cut where it would not fit."""
    shown = printable(said)
    return escape(shown if most is None or len(shown) <= most else shown[: max(0, most - 1)] + "…")


def title(*lines: str) -> str:
    """What a look closer shows, line by line; browsers show it under the pointer, readers read it out."""
    return element("title", escape("\n".join(printable(line) for line in lines if line)))
