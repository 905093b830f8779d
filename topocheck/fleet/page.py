"""The fleet as one page: findings, cabling and a grid of nodes by checks; nothing is loaded from anywhere.

Some megabytes at most for ten thousand nodes: long lists end in how many more there are, the JSON has them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

from topocheck.fleet.exclude import option
from topocheck.fleet.grid import grid
from topocheck.fleet.report import Fleet, Job, Unlike
from topocheck.fleet.words import (
    brief,
    comparison_words,
    counts_of,
    end_words,
    job_words,
    kinds_of,
    left_out_of,
    message_of,
    nodes,
    pace_words,
    parts_of,
    rails_words,
    unlike_words,
    unread_words,
    where,
)
from topocheck.formats.html import environment, script_hash
from topocheck.formats.screen import MARKS, SEPARATOR

_NAMES = 240  # characters of folded names
_ENTRIES = 200  # of one list
_REASONS = 50
_KINDS = 8


class Odd(NamedTuple):
    """A field in which sisters differ. `standing`: a severity, or why it counts for nothing."""

    standing: str
    words: str


def render(fleet: Fleet) -> str:
    """The page."""
    from markupsafe import Markup

    script = (files("topocheck.fleet") / "page.js").read_text("utf-8")
    style = (files("topocheck.formats") / "page.css").read_text("utf-8")
    pages = environment()
    pages.filters["where"] = lambda group: where(group, _NAMES)
    pages.filters["message"] = message_of
    pages.filters["end"] = end_words
    pages.filters["hosts"] = lambda hosts: f"{nodes(len(hosts))}: {brief(hosts, _NAMES)}"
    pages.filters["figure"] = lambda figure: "?" if figure is None else f"{figure:,.0f}"
    pages.filters["ratio"] = lambda ratio: "?" if ratio is None else f"{ratio:.2f}"
    pages.filters["comparison"] = lambda entry: comparison_words(entry, _NAMES)
    template = pages.from_string((files("topocheck.fleet") / "page.html.j2").read_text("utf-8"))
    return (
        template.render(
            fleet=fleet,
            machine=SEPARATOR.join((*parts_of(fleet)[1:], *_kinds(fleet))),
            counts=counts_of(fleet) or fleet.reason,
            rails=rails_words(fleet.rails),
            unlike=[_odd(entry, several=len(fleet.kinds) > 1) for entry in fleet.unlike[:_ENTRIES]],
            option=option(fleet),
            job=_job(fleet.job),
            unread=unread_words(fleet.unread),
            grid=grid(fleet),
            marks=MARKS,
            most=_ENTRIES,
            style=Markup(style),
            script=Markup(script),
            script_hash=script_hash(script),
        )
        + "\n"
    )


def _kinds(fleet: Fleet) -> list[str]:
    kinds = kinds_of(fleet)
    return kinds if len(kinds) <= _KINDS else [*kinds[:_KINDS], f"{len(kinds) - _KINDS} more kinds"]


def _odd(entry: Unlike, *, several: bool) -> Odd:
    words = unlike_words(entry, entry.others, kind=several, most=_NAMES)
    if not entry.unexplained and entry.others:
        return Odd("told by findings", words)
    return Odd(entry.severity if entry.accused else "only shown", words)


def _job(job: Job | None) -> Sequence[str]:
    """The nodes of a job, its pace, who stays out and why."""
    if job is None:
        return ()
    reasons = left_out_of(job)
    out = [f"left out {brief(hosts, _NAMES)}: {why}" for hosts, why in reasons[:_REASONS]]
    more = [f"and {len(reasons) - _REASONS} more reasons"] if len(reasons) > _REASONS else []
    return [f"{nodes(job.wanted)}: {job_words(job, _NAMES)}", *filter(None, [pace_words(job)]), *out, *more]
