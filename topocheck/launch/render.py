"""The mapping as a table, as a script that binds each rank, and as JSON."""

from __future__ import annotations

import json

from topocheck.formats.printable import printable
from topocheck.formats.screen import Screen
from topocheck.launch.plan import Launch, Rank, quoted

SCHEMA = "topocheck.bind/1"
# Whose number a rank has within its node, by launcher: Slurm, Open MPI, Intel MPI and MPICH, torchrun.
_LOCAL_RANK = "${SLURM_LOCALID:-${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${LOCAL_RANK:-}}}}"


def table(launch: Launch, *, width: int, color: bool, ascii: bool) -> str:  # noqa: A002 (the screen's own word)
    """A line a rank, then the launchers' options and what is missing."""
    screen = Screen(width=width, color=color, ascii=ascii)
    titles = ("rank", "GPU", "NIC", "class", "NUMA", "CPUs")
    rows = [titles, *(_cells(rank) for rank in launch.ranks)]
    widths = [max(screen.cells(row[i]) for row in rows) for i in range(len(titles))]
    for place, row in enumerate(rows):
        words = "  ".join(word + " " * (size - screen.cells(word)) for word, size in zip(row, widths, strict=True))
        screen.line((f" {words}", "bold" if place == 0 else ""))
    screen.blank()
    if launch.srun:
        screen.wrapped(" srun    ", quoted(launch.srun))
    screen.wrapped(" mpirun  ", quoted(launch.mpirun))
    screen.wrapped(" each rank: ", "topocheck bind --format shell > bind.sh; srun sh bind.sh PROGRAM")
    for note in launch.notes:
        screen.wrapped(" - ", note)
    return screen.text()


def _cells(rank: Rank) -> tuple[str, ...]:
    numa = "?" if rank.numa_node is None else str(rank.numa_node)
    nics = ", ".join(rank.nics[:2]) if len(rank.nics) <= 2 else f"{rank.nics[0]} +{len(rank.nics) - 1}"
    return (str(rank.rank), rank.gpu, nics or "none", rank.cls or "?", numa, rank.cpus or "?")


def shell(launch: Launch) -> str:
    """A POSIX script: it sets what this rank needs and becomes the program it is given.

    Every value is quoted and looks like what it should be (plan.py), every comment is one line: nothing that a capture
    says can be executed.
    """
    lines = [
        "#!/bin/sh",
        "# Written by topocheck bind. Every rank starts with it: srun sh bind.sh PROGRAM",
        *([f"# srun {quoted(launch.srun)}"] if launch.srun else []),
        f"# mpirun {quoted(launch.mpirun)}",
        *(f"# {printable(note, ascii=True)}" for note in launch.notes),
        f'case "{_LOCAL_RANK}" in',
        *(line for rank in launch.ranks for line in _branch(rank)),
        "*) echo 'bind.sh: no local rank in the environment, or more ranks than GPUs' >&2; exit 2 ;;",
        "esac",
        'exec "$@"',
    ]
    return "\n".join(lines) + "\n"


def _branch(rank: Rank) -> list[str]:
    lines = [f"{rank.rank})"]
    if rank.environment:
        settings = " ".join(f"{name}={_literal(value)}" for name, value in rank.environment)
        lines.append(f"  export {settings}")
    if rank.numactl:
        lines.append(f'  if command -v numactl >/dev/null; then set -- {quoted(rank.numactl)} "$@"')
        if rank.taskset:
            lines.append(f'  else set -- {quoted(rank.taskset)} "$@"')
        lines.append("  fi")
    return [*lines, "  ;;"]


def _literal(value: str) -> str:
    """A value in single quotes whatever it is: zsh takes even a bare "=mlx5_0" for a command to look up."""
    return "'" + value.replace("'", "'\\''") + "'"


def document(launch: Launch) -> str:
    """The same as one line of JSON."""
    ranks = [
        {
            "rank": rank.rank,
            "gpu": rank.gpu,
            "nics": rank.nics,
            "class": rank.cls,
            "numa_node": rank.numa_node,
            "cpus": rank.cpus,
            "environment": dict(rank.environment),
            "numactl": rank.numactl,
            "taskset": rank.taskset,
        }
        for rank in launch.ranks
    ]
    whole = {"schema": SCHEMA, "ranks": ranks, "srun": launch.srun, "mpirun": launch.mpirun, "notes": launch.notes}
    return json.dumps(whole, separators=(",", ":")) + "\n"
