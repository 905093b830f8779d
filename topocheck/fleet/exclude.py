"""`--format exclude`: the nodes no job should get, for `sbatch --exclude="$(…)"`; nothing where there is none."""

from __future__ import annotations

import re

from topocheck.fleet.report import Fleet
from topocheck.fleet.words import folded

# A report may come from anywhere: what no node can be called never becomes a word of a shell or an option of sbatch.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")


def render(fleet: Fleet) -> str:
    """The names on one line with its end."""
    names = option(fleet)
    return f"{names}\n" if names else ""


def option(fleet: Fleet) -> str:
    """What `--exclude=` is given, "" for no node."""
    return folded(tuple(host for host in fleet.exclude if _NAME.fullmatch(host)))
