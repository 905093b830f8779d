"""`gate`: whether a job may start here."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Any

import click

from topocheck.cli.common import check_budget, check_place, machine_options
from topocheck.errors import TopocheckError, UsageError
from topocheck.exits import STYLES, Style
from topocheck.kit import KIT
from topocheck.output import to_stdout


@click.command()
@click.option("--from", "source", metavar="S", help="A capture instead of this machine.")
@click.option("--exit-style", type=click.Choice(STYLES), default="slurm", show_default=True, help="Whose exit codes.")
@click.option("--fail-closed", is_flag=True, help="slurm, nhc: what could not be told fails the job too.")
@click.option("--cache", type=float, default=0.0, show_default=True, metavar="SECONDS", help="How old a pass may be.")
@click.option("--state", metavar="DIR", help="Where reports and log are kept [default: /var/lib/topocheck].")
@click.option("--show", type=click.Choice(KIT), metavar="NAME", help="Print what it takes: " + ", ".join(KIT) + ".")
@click.option("--drill", metavar="RULE[:DEVICE]", help="Answer as if this fault were there.")
@machine_options(
    policy="What this site judges otherwise or accepts.",
    output="Write this run's report there, too.",
    budget="For everything.",
    budget_s=8.0,
)
def gate(show: str | None, budget: float, cache: float, exit_style: Style, **options: Any) -> int:  # noqa: ANN401
    """Whether this node is fit for the job that is about to start: silent if it is, one line if not."""
    started_s = time.monotonic()
    if show is not None:
        from topocheck.kit import text_of

        to_stdout(text_of(show))
        return 0
    check_budget(budget)
    if not 0 <= cache <= 86_400:
        raise UsageError(f"--cache {cache}: give a number of seconds from 0 to a day")
    check_place(options["source"], options["root"], options["tools"])
    if options["drill"] is not None:
        from topocheck.gate.drill import parsed

        parsed(options["drill"])
    from topocheck.gate.guard import guarded
    from topocheck.gate.work import Call

    answer = guarded(Call(exit_style, budget_s=budget, cache_s=cache, **options), started_s)
    with suppress(TopocheckError):  # nobody listens: the exit code says it, too
        to_stdout(answer.out)
    if answer.err and sys.stderr is not None:
        sys.stderr.write(answer.err)
    return answer.code
