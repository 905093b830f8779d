"""`graph`, `path` and `bind`: the node drawn, a way through it, and the mapping to launch with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from topocheck.cli.common import look, nothing_said
from topocheck.errors import TopocheckError
from topocheck.output import to_file, to_stdout

if TYPE_CHECKING:
    from topocheck.check import Checked

_SOURCE = click.option(
    "--from", "source", metavar="S", help="A capture, a folder of outputs, one file, or - for stdin."
)
_OUTPUT = click.option("--output", metavar="FILE", help="Write it there instead of to standard output.")


@click.command()
@_SOURCE
@click.option("--format", "format_", type=click.Choice(["table", "shell", "json"]), default="table", show_default=True)
@_OUTPUT
def bind(source: str | None, format_: str, output: str | None) -> int:
    """The NICs, CPUs and memory for each GPU's rank: a table, a script that binds each rank, or JSON."""
    from topocheck.launch import render
    from topocheck.launch.plan import launch_of

    launch = launch_of(_checked(source).topology)
    if format_ == "table":
        text = render.table(launch, **look(output)._asdict())
    else:
        text = render.shell(launch) if format_ == "shell" else render.document(launch)
    to_stdout(text) if output is None else to_file(text, output)
    return 0


def _checked(source: str | None) -> Checked:
    """The node; TopocheckError where nothing was recognised."""
    from topocheck.check import check

    checked = check(source)
    if not checked.report.recognised:
        raise TopocheckError(nothing_said(checked.report))
    return checked


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@_SOURCE
@_OUTPUT
def path(a: str, b: str, source: str | None, output: str | None) -> int:
    """The way between two GPUs or NICs, hop by hop, with what each part carries and which one binds."""
    from topocheck.drawings import way
    from topocheck.formats.screen import Screen
    from topocheck.hops import device_of, way_between
    from topocheck.nccl import pair_in_words

    report, node = _checked(source)
    between = way_between(node, device_of(node, a), device_of(node, b))
    ends = {between.a.id, between.b.id}
    pair = next((p for p in report.pairs if {p.a, p.b} == ends), None)
    if pair is None:
        raise TopocheckError(f"path: give two of this node's GPUs and NICs, not {a} and {b}")
    nccl = pair_in_words(node, between.a, between.b)
    text = way.render(Screen(**look(output)._asdict()), between, pair, report.findings, nccl)
    to_stdout(text) if output is None else to_file(text, output)
    return 0


@click.command()
@_SOURCE
@click.option(
    "--format",
    "format_",
    type=click.Choice(["tree", "dot", "svg", "graphml", "json", "nccl-xml"]),
    default="tree",
    show_default=True,
)
@_OUTPUT
def graph(source: str | None, format_: str, output: str | None) -> int:
    """The node drawn: as a tree on the screen, as a picture, or for other programs."""
    report, node = _checked(source)
    from importlib import import_module

    drawing = import_module(f"topocheck.drawings.{format_.replace('-', '_')}")
    screen = look(output)._asdict() if format_ == "tree" else {}
    text = str(drawing.render(node, report, **screen))
    to_stdout(text) if output is None else to_file(text, output)
    return 0
