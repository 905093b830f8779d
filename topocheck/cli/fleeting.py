"""`fleet`: many nodes' reports read together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from topocheck.cli.common import look
from topocheck.errors import TopocheckError, UsageError
from topocheck.exits import FAIL_ON, STYLES, FailOn, Style, exit_code
from topocheck.kit import COLLECTING
from topocheck.output import to_file, to_stdout

if TYPE_CHECKING:
    from topocheck.fleet.report import Fleet

FORMATS = ("text", "json", "html", "prometheus", "exclude")


@click.command()
@click.argument("reports", nargs=-1, metavar="REPORT...")
@click.option("--fabric", multiple=True, metavar="FILE", help="What ibnetdiscover or iblinkinfo printed.")
@click.option("--expect", metavar="NAMES", help="The nodes there should be: gpu[001-128].")
@click.option("--job", "wanted", type=int, metavar="N", help="Choose N nodes for a job; say what the slowest costs.")
@click.option("--since", metavar="S", help="Earlier reports (yesterday's): what has changed.")
@click.option("--baseline", metavar="S", help="Reports of the fleet as it should be: what is not so.")
@click.option(
    "--policy", metavar="FILE", help="Its rails and fail_on; all else was applied when the nodes were judged."
)
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--fail-on", type=click.Choice(FAIL_ON), show_default="error", help="What fails.")
@click.option("--exit-style", type=click.Choice(STYLES), default="plain", show_default=True, help="Whose exit codes.")
@click.option("--fail-closed", is_flag=True, help="slurm, nhc: an unknown verdict fails too.")
@click.option("-v", "--verbose", is_flag=True, help="Every row, and what only follows from another.")
@click.option("--show", type=click.Choice(COLLECTING), metavar="NAME", help=f"How to collect: {', '.join(COLLECTING)}.")
@click.option("--output", metavar="FILE", help="Write the report there instead of to standard output.")
def fleet(
    reports: tuple[str, ...],
    fabric: tuple[str, ...],
    expect: str | None,
    wanted: int | None,
    since: str | None,
    baseline: str | None,
    policy: str | None,
    format_: str,
    fail_on: FailOn | None,
    exit_style: Style,
    fail_closed: bool,
    verbose: bool,
    show: str | None,
    output: str | None,
) -> int:
    """Read many nodes' reports (files, folders, tars, JSON lines, - for stdin): which are bad, which are unlike."""
    if show is not None:
        from topocheck.kit import collecting

        to_stdout(collecting(show))
        return 0
    if not reports and not fabric:
        raise UsageError("give reports: files or folders of what `topocheck node --format json` printed, or -")
    if wanted is not None and wanted < 1:
        raise UsageError(f"--job {wanted}: a job has at least one node")
    from topocheck.fleet.assess import Asked, assess, read
    from topocheck.fleet.hosts import expand
    from topocheck.policy import Policy, load

    site = Policy() if policy is None else load(policy)
    expected = () if expect is None else expand(expect)
    earlier = tuple((name, tuple(read([name])[0])) for name in (since, baseline) if name is not None)
    nodes, reading = read((*reports, *fabric))
    if not nodes and not reading.listings:
        raise TopocheckError(_nothing(reading.unread.examples))
    answer = assess(nodes, reading, _now(), Asked(expected, wanted, earlier, site.rails, fabric))
    text = _render(answer, format_, verbose=verbose, output=output)
    to_stdout(text) if output is None else to_file(text, output)
    return exit_code(
        exit_style,
        worst=answer.worst,
        unknown=answer.verdict == "unknown",
        fail_on=fail_on or site.fail_on,
        fail_closed=fail_closed,
    )


def _nothing(examples: tuple[str, ...]) -> str:
    """Why there is nothing to report on, and what to give instead."""
    said = "; ".join(examples[:3]) or "nothing in what was given"
    give = "give what `topocheck node --format json`, ibnetdiscover or iblinkinfo prints"
    return f"no report of a node and no fabric listing: {said}; {give}"


def _now() -> str:
    from datetime import datetime, timezone

    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _render(answer: Fleet, format_: str, *, verbose: bool, output: str | None) -> str:
    """The report in the format asked for, as wide and as colourful as where it goes."""
    if format_ == "text":
        from topocheck.fleet import screen

        return screen.render(answer, verbose=verbose, **look(output)._asdict())
    from importlib import import_module

    module = {"json": "document", "html": "page", "prometheus": "metrics", "exclude": "exclude"}[format_]
    return str(import_module(f"topocheck.fleet.{module}").render(answer))
