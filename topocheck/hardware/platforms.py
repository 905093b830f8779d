"""Machines whose build is known (`platforms.toml`, each figure with its source), and which of them this one is.

A machine that is not in the table is judged by capability and equals alone.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

_TABLE = Path(__file__).with_name("platforms.toml")


class Match(NamedTuple):
    """What tells a platform; None: not looked at."""

    dmi: str | None = None
    gpu: str | None = None
    gpus: int | None = None
    nics: Mapping[str, int] | None = None


class Seen(NamedTuple):
    """What the inputs show of a machine: "vendor product asset-tag", GPUs and NIC functions on the bus by PCI id."""

    dmi: str | None
    gpus: Counter[str]
    nics: Counter[str]


@dataclass(frozen=True)
class Platform:
    """One row of the table; None where the kind has no one figure."""

    name: str
    match: Match
    source: str
    gpus: int
    nvlinks_per_gpu: int
    compute_nics: int | None = None
    nic_rate_gbit_per_s: float | None = None
    gpu_nic_class: str | None = None
    pcie: Mapping[str, int] = field(default_factory=dict)
    nic_ids: tuple[str, ...] = ()
    capped: tuple[str, ...] = ()
    verbs: bool = True
    launch: bool = False
    topology_file: bool = False

    def fits(self, seen: Seen) -> bool:
        """Whether all that the row names holds."""
        wanted = self.match
        if wanted.dmi is not None and not (seen.dmi and re.search(wanted.dmi, seen.dmi)):
            return False
        if wanted.gpu is not None and not any(re.fullmatch(wanted.gpu, id_) for id_ in seen.gpus):
            return False
        if wanted.gpus is not None and sum(seen.gpus.values()) != wanted.gpus:
            return False
        return all(seen.nics[id_] >= count for id_, count in (wanted.nics or {}).items())


@lru_cache(maxsize=1)
def platforms() -> tuple[Platform, ...]:
    """The table, read once."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tuple(_platform(row) for row in tomllib.loads(_TABLE.read_text("utf-8"))["platform"])


def _platform(row: dict[str, Any]) -> Platform:
    lists: dict[str, Any] = {key: tuple(row[key]) for key in ("nic_ids", "capped") if key in row}
    return Platform(**(row | lists | {"match": Match(**row["match"])}))


def platform_of(seen: Seen) -> Platform | None:
    """The first row that fits, None for an unknown machine."""
    return next((platform for platform in platforms() if platform.fits(seen)), None)
