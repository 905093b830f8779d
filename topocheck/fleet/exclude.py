"""`--format exclude`: the nodes no job should get, for `sbatch --exclude="$(…)"`; nothing where there is none."""

from __future__ import annotations

import re
from collections import Counter

from topocheck.fleet.hosts import short_name
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
    names = _slurm_names(fleet)
    return folded(tuple(name for host in fleet.exclude if _NAME.fullmatch(name := names.get(host, host))))


def _slurm_names(fleet: Fleet) -> dict[str, str]:
    """Host → what Slurm calls it: as it is expected to be called, else without a domain that all have who have one."""
    expected = set(fleet.expected)
    shorts = {host: short_name(host) for host in fleet.hosts}
    one_domain = len({host.removeprefix(short) for host, short in shorts.items() if short != host}) == 1
    alone = Counter(shorts.values())
    return {
        host: short
        for host, short in shorts.items()
        if host not in expected and (short in expected or (one_domain and alone[short] == 1))
    }
