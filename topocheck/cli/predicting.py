"""`predict`: what communication costs on this node, and what its faults cost a job."""

from __future__ import annotations

import sys

import click

from topocheck.cli.common import nothing_said, words
from topocheck.errors import TopocheckError
from topocheck.output import to_file, to_stdout

FORMATS = ("text", "json", "csv", "svg")


@click.command()
@click.option("--from", "source", metavar="S", help="A capture, a folder of outputs, one file, or - for stdin.")
@click.option("--nodes", type=int, default=1, show_default=True, metavar="N", help="So many nodes like this one.")
@click.option("--op", "ops", multiple=True, metavar="OP", help="allreduce, allgather, alltoall, …, or all.")
@click.option("--bytes", "sizes_", metavar="SIZES", help="Sizes, 1M or 1K:16G.  [default: 1K:16G]")
@click.option("--job", metavar="FILE", help="A training job (TOML): what its step takes, and what waits for what.")
@click.option("--repaired", is_flag=True, help="As if everything that was found were repaired.")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Also every algorithm by the book, and what other links would do.")
@click.option("--output", metavar="FILE", help="Write it there instead of to standard output.")
def predict(
    source: str | None,
    nodes: int,
    ops: tuple[str, ...],
    sizes_: str | None,
    job: str | None,
    repaired: bool,
    format_: str,
    verbose: bool,
    output: str | None,
) -> int:
    """What communication costs on this node, by level and by collective; what its faults cost a job."""
    from topocheck.check import check
    from topocheck.predict.job import load
    from topocheck.predict.prediction import checked_ops
    from topocheck.predict.prediction import predict as ask
    from topocheck.predict.sizes import sizes

    # wrong options are told before the machine is read
    asked = checked_ops(words(ops)) or (("allreduce",) if sizes_ or format_ in ("csv", "svg") else ())
    range_ = sizes(sizes_ or "1K:16G")
    plan = None if job is None else load(job)
    checked = check(source)
    if not checked.report.recognised:
        raise TopocheckError(nothing_said(checked.report))
    answer = ask(
        checked.topology, checked.report.findings, nodes=nodes, ops=asked, sizes=range_, job=plan, repaired=repaired
    )
    if format_ == "text":
        from topocheck.formats.printable import printable
        from topocheck.predict import screen

        encoding = (sys.stdout.encoding if output is None and sys.stdout is not None else None) or "utf-8"
        lines = screen.render(answer, verbose=verbose).split("\n")
        text = "\n".join(printable(line, ascii="utf" not in encoding.lower()) for line in lines)
    elif format_ == "svg":
        from topocheck.predict import drawing

        text = drawing.render(answer)
    else:
        from topocheck.predict import document

        text = document.as_json(answer) if format_ == "json" else document.as_csv(answer)
    to_stdout(text) if output is None else to_file(text, output)
    return 0
