"""What several commands share: checks of options, and words for an input that says nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from topocheck.errors import UsageError

if TYPE_CHECKING:
    from topocheck.report import Report
    from topocheck.sources.live import LiveSource
Command = TypeVar("Command", bound=Callable[..., Any])


def machine_options(
    *, policy: str, output: str, budget: str = "For all its commands.", budget_s: float = 20.0
) -> Callable[[Command], Command]:
    """The options of every command that reads this machine; what a command does with the last three it says itself."""
    options = (
        click.option("--root", metavar="DIR", help="Where this machine's files lie (a container's /host)."),
        click.option("--tools", metavar="DIR", help="The only folder its commands are looked up in."),
        click.option("--budget", type=float, default=budget_s, show_default=True, metavar="SECONDS", help=budget),
        click.option("--policy", metavar="FILE", help=policy),
        click.option("--output", metavar="FILE", help=output),
    )

    def decorated(command: Command) -> Command:
        for option in reversed(options):  # as decorators are applied: the last one first
            command = option(command)
        return command

    return decorated


def check_budget(seconds: float) -> None:
    """Refuse what is no time to work in."""
    if not 0 < seconds <= 86_400:
        raise UsageError(f"--budget {seconds}: give a number of seconds above 0 and up to a day")


def check_place(source: str | None, root: str | None, tools: str | None) -> None:
    """Refuse to look for this machine's own where another source is given."""
    if source is not None and (root, tools) != (None, None):
        raise UsageError("--root and --tools are for this machine's own files and commands: leave them out with --from")


def this_machine(*, root: str | None, tools: str | None, budget_s: float) -> LiveSource:
    """The live source, its commands started: they run while the rest of the program is imported."""
    from topocheck.probes import asked
    from topocheck.sources.live import open_live

    source = open_live(root=root, tools=tools, budget_s=budget_s)
    source.start(asked()[0])
    return source


def words(options: tuple[str, ...]) -> tuple[str, ...]:
    """The values of an option that may be given several times and may hold commas."""
    return tuple(word.strip() for option in options for word in option.split(",") if word.strip())


def nothing_said(report: Report) -> str:
    """Why there is nothing to report, and what to give instead."""
    name, gaps = report.source.name, report.gaps
    said = "; ".join(gap.reason if gap.input == name else f"{gap.input}: {gap.reason}" for gap in gaps[:3])
    more = f"; {len(gaps) - 3} more" if len(gaps) > 3 else ""
    return f"{name}: {said or 'no file in it'}{more}; give a capture, or what lspci -vv or nvidia-smi topo -m printed"


class Look(NamedTuple):
    """What the place a text goes to can show."""

    width: int
    color: bool
    ascii: bool


def look(output: str | None) -> Look:
    """Standard output's width, colours and letters; of a file the plain ones."""
    import shutil

    to_screen = output is None and sys.stdout is not None
    terminal = to_screen and sys.stdout.isatty()
    encoding = (sys.stdout.encoding if to_screen else None) or "utf-8"
    color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = shutil.get_terminal_size().columns if terminal else 80
    return Look(width, color, "utf" not in encoding.lower())
