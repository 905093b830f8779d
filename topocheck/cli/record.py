"""`capture`: what `node` reads of this machine, in one file."""

from __future__ import annotations

import sys
from contextlib import nullcontext

import click

from topocheck.cli.common import check_budget, machine_options
from topocheck.output import to_stdout


@click.command()
@click.option("--include-identifiers", is_flag=True, help="Keep names, addresses, serial numbers and UUIDs.")
@machine_options(
    policy="Checked as with node, and no more: a capture judges nothing.",
    output="The file to write, instead of a new one in this folder.",
)
def capture(
    include_identifiers: bool,
    root: str | None,
    tools: str | None,
    budget: float,
    policy: str | None,
    output: str | None,
) -> int:
    """Record everything `node` reads of this machine in one file, for `node --from`. Identifiers are replaced."""
    check_budget(budget)
    if policy is not None:
        from topocheck.policy import load

        load(policy)
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
