"""`node` and `rules`: the diagnosis, and what each rule means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from topocheck.cli.common import check_budget, check_place, look, machine_options, nothing_said, this_machine, words
from topocheck.errors import TopocheckError
from topocheck.exits import FAIL_ON, STYLES, FailOn, Style, exit_code
from topocheck.output import to_file, to_stdout

if TYPE_CHECKING:
    from topocheck.check import Checked

FORMATS = ("text", "json", "markdown", "html", "junit", "prometheus", "line")


@click.command()
@click.option("--from", "source", metavar="S", help="A capture, a folder of outputs, one file, or - for stdin.")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--fail-on", type=click.Choice(FAIL_ON), show_default="error", help="What fails.")
@click.option("--exit-style", type=click.Choice(STYLES), default="plain", show_default=True, help="Whose exit codes.")
@click.option("--fail-closed", is_flag=True, help="slurm, nhc: an unknown verdict fails too.")
@click.option("--select", multiple=True, metavar="G", help="Only these rules: ids or globs, comma-separated.")
@click.option("--ignore", multiple=True, metavar="G", help="All but these rules.")
@click.option("-v", "--verbose", is_flag=True, help="Also what was skipped and why, and the evidence in full.")
@machine_options(
    policy="What this site judges otherwise or accepts; options win over it.",
    output="Write the report there instead of to standard output.",
)
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
    check_budget(budget)
    check_place(source, root, tools)
    opened = source if source is not None else this_machine(root=root, tools=tools, budget_s=budget)
    if source is None and format_ == "text":
        from topocheck.formats.screen import Screen

        Screen(**look(output)._asdict()).blank()  # imports what draws it, while the machine's commands run
    from topocheck.check import check
    from topocheck.finding import worst
    from topocheck.policy import Policy, load

    site = Policy() if policy is None else load(policy)
    checked = check(opened, policy=site, select=words(select), ignore=words(ignore))
    report = checked.report
    if not report.recognised:
        raise TopocheckError(nothing_said(report))
    code = exit_code(
        exit_style,
        worst=worst([finding.severity for finding in report.findings if not finding.waived]),
        unknown=report.verdict == "unknown",
        fail_on=fail_on or site.fail_on,
        fail_closed=fail_closed,
    )
    if format_ == "line" and exit_style == "nagios":
        from topocheck.formats import nagios

        text = nagios.render(report, code)
    else:
        text = _render(checked, format_, verbose=verbose, output=output)
    to_stdout(text) if output is None else to_file(text, output)
    return code


@click.command()
@click.argument("rule", required=False, metavar="[ID]")
def rules(rule: str | None) -> int:
    """List the rules, or explain one: what is wrong, why it costs, what to do."""
    from topocheck.rules import explain, listing

    to_stdout(listing() if rule is None else explain(rule))
    return 0


def _render(checked: Checked, format_: str, *, verbose: bool, output: str | None) -> str:
    """The report in the format asked for, as wide and as colourful as where it goes."""
    if format_ == "text":
        from topocheck.formats import text

        return text.render(checked.report, verbose=verbose, **look(output)._asdict())
    if format_ == "html":
        from topocheck.drawings import svg
        from topocheck.formats import html
        from topocheck.whatif import what_if

        drawing = svg.render(checked.topology, checked.report)
        return html.render(checked.report, drawing, what_if(checked.topology, checked.report))
    from importlib import import_module

    return str(import_module(f"topocheck.formats.{format_}").render(checked.report))
