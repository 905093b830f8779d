"""The command line. Each command's body imports what it needs, so that a small command starts quickly."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from contextlib import nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

import click

from topocheck import __version__
from topocheck.errors import TopocheckError, UsageError
from topocheck.exits import FAIL_ON, STYLES, FailOn, Style, exit_code, failure_code
from topocheck.output import to_file, to_stdout

if TYPE_CHECKING:
    from topocheck.report import Report


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="topocheck", message="%(prog)s %(version)s")
def cli() -> None:
    """Inspect the hardware topology of a GPU server and price what is wrong with it."""


@cli.command()
@click.option("--from", "source", metavar="S", help="A capture, a folder of outputs, one file, or - for stdin.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--fail-on", type=click.Choice(FAIL_ON), show_default="error", help="What fails.")
@click.option("--exit-style", type=click.Choice(STYLES), default="plain", show_default=True, help="Whose exit codes.")
@click.option("--fail-closed", is_flag=True, help="slurm, nhc: an unknown verdict fails too.")
@click.option("--select", multiple=True, metavar="G", help="Only these rules: ids or globs, comma-separated.")
@click.option("--ignore", multiple=True, metavar="G", help="All but these rules.")
@click.option("-v", "--verbose", is_flag=True, help="Also what was skipped and why, and the evidence in full.")
@click.option("--root", metavar="DIR", help="Where this machine's files lie (a container's /host).")
@click.option("--tools", metavar="DIR", help="The only folder its commands are looked up in.")
@click.option("--budget", type=float, default=20.0, show_default=True, metavar="SECONDS", help="For all its commands.")
@click.option("--policy", metavar="FILE", help="What this site judges otherwise or accepts; options win over it.")
@click.option("--output", metavar="FILE", help="Write the report there instead of to standard output.")
def node(
    source: str | None,
    format_: str,
    fail_on: FailOn | None,
    exit_style: Style,
    fail_closed: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    verbose: bool,
    root: str | None,
    tools: str | None,
    budget: float,
    policy: str | None,
    output: str | None,
) -> int:
    """Diagnose this node, or what --from gives: what is wrong, the line that proves it, what it costs."""
    _check_budget(budget)
    if (root is not None or tools is not None) and source is not None:
        raise UsageError("--root and --tools are for this machine's own files and commands: leave them out with --from")
    from topocheck.check import check
    from topocheck.finding import worst
    from topocheck.policy import Policy, load

    site = Policy() if policy is None else load(policy)
    chosen = {"select": _words(select), "ignore": _words(ignore)}
    report = check(source, policy=site, **chosen, root=root, tools=tools, budget_s=budget).report
    if not report.recognised:
        raise TopocheckError(_nothing(report))
    text = _render(report, format_, verbose=verbose, to_screen=output is None)
    to_stdout(text) if output is None else to_file(text, output)
    return exit_code(
        exit_style,
        worst=worst([finding.severity for finding in report.findings if not finding.waived]),
        unknown=report.verdict == "unknown",
        fail_on=fail_on or site.fail_on,
        fail_closed=fail_closed,
    )


@cli.command()
@click.option("--include-identifiers", is_flag=True, help="Keep names, addresses, serial numbers and UUIDs.")
@click.option("--root", metavar="DIR", help="Where this machine's files lie (a container's /host).")
@click.option("--tools", metavar="DIR", help="The only folder its commands are looked up in.")
@click.option("--budget", type=float, default=20.0, show_default=True, metavar="SECONDS", help="For all its commands.")
@click.option("--output", metavar="FILE", help="The file to write, instead of a new one in this folder.")
def capture(include_identifiers: bool, root: str | None, tools: str | None, budget: float, output: str | None) -> int:
    """Record everything `node` reads of this machine in one file, for `node --from`. Identifiers are replaced."""
    _check_budget(budget)
    from topocheck.capture import capture, inputs
    from topocheck.sources.live import open_live

    source = open_live(root=root, budget_s=budget, tools=tools)
    terminal = sys.stderr is not None and sys.stderr.isatty()
    bar = click.progressbar(length=inputs(), label="reading", file=sys.stderr, item_show_func=str) if terminal else None
    with bar or nullcontext():
        progress = None if bar is None else lambda name: bar.update(1, name)
        done = capture(source, output, include_identifiers=include_identifiers, progress=progress)
    said = f"replaced: {', '.join(done.scrubbed)}" if done.scrubbed else "nothing replaced"
    to_stdout(f"{done.file}: {done.inputs} inputs, {done.missing} not available; {said}\n")
    return 0


@cli.command()
@click.argument("rule", required=False, metavar="[ID]")
def rules(rule: str | None) -> int:
    """List the rules, or explain one: what is wrong, why it costs, what to do."""
    from topocheck.rules import explain, listing

    to_stdout(listing() if rule is None else explain(rule))
    return 0


def main() -> NoReturn:
    """The console script. Whatever goes wrong, the exit code is never that of a finding, and there is no traceback."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started is ended then, too
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code."""
    try:
        code = cli.main(args=arguments or ["--help"], prog_name="topocheck", standalone_mode=False)
        return code or 0 if arguments else failure_code("plain")
    except click.ClickException as error:
        return _failed(arguments, f"{error.format_message()} (topocheck --help says more)")
    except TopocheckError as error:
        return _failed(arguments, str(error))
    except (click.Abort, KeyboardInterrupt):
        return _failed(arguments, "interrupted")
    except Exception as error:
        if os.environ.get("TOPOCHECK_DEBUG"):
            sys.excepthook(type(error), error, error.__traceback__)
        reason = f"internal error: {type(error).__name__}: {error}"
        return _failed(arguments, f"{reason}: please report it (TOPOCHECK_DEBUG=1 shows where)")


def _failed(arguments: list[str], reason: str) -> int:
    """Say in one line what was wrong; the exit code for it in the style asked for."""
    if sys.stderr is not None:
        print("topocheck:", " ".join(reason.split()), file=sys.stderr)
    return failure_code(_asked_style(arguments), fail_closed="--fail-closed" in arguments)


def _asked_style(arguments: list[str]) -> Style:
    """The exit style of a command line that may be wrong elsewhere."""
    words = [word for argument in arguments for word in argument.split("=", 1)]
    named = [value for flag, value in pairwise(words) if flag == "--exit-style"]
    return next((style for style in STYLES if style in named), "plain")


def _check_budget(seconds: float) -> None:
    if not 0 < seconds <= 86_400:
        raise UsageError(f"--budget {seconds}: give a number of seconds above 0 and up to a day")


def _words(options: tuple[str, ...]) -> tuple[str, ...]:
    """The values of an option that may be given several times and may hold commas."""
    return tuple(word.strip() for option in options for word in option.split(",") if word.strip())


def _render(report: Report, format_: str, *, verbose: bool, to_screen: bool) -> str:
    """The report in the format asked for, as wide and as colourful as where it goes."""
    if format_ == "json":
        from topocheck.formats import json

        return json.render(report)
    from topocheck.formats import text

    terminal = to_screen and sys.stdout is not None and sys.stdout.isatty()
    encoding = (sys.stdout.encoding if to_screen and sys.stdout is not None else None) or "utf-8"
    return text.render(
        report,
        verbose=verbose,
        width=shutil.get_terminal_size().columns if terminal else 80,
        color=terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
        ascii="utf" not in encoding.lower(),
    )


def _nothing(report: Report) -> str:
    """Why there is nothing to report, and what to give instead."""
    name, gaps = report.source.name, report.gaps
    said = "; ".join(gap.reason if gap.input == name else f"{gap.input}: {gap.reason}" for gap in gaps[:3])
    more = f"; {len(gaps) - 3} more" if len(gaps) > 3 else ""
    return f"{name}: {said or 'no file in it'}{more}: give a capture, or what lspci -vv or nvidia-smi topo -m printed"
