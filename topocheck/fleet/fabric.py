"""An InfiniBand fabric as `ibnetdiscover` or `iblinkinfo` lists it: every cable, who hangs on which leaf, and the tiers.

What follows from it is in `cables.py` (slow, narrow and missing cables) and `rails.py` (which rail is on which leaf).
"""

from __future__ import annotations

from typing import NamedTuple


class HostCable(NamedTuple):
    """A CA's port on a switch. Host and device are of its node description, None in a factory text."""

    host: str | None  # "gpu01"
    device: str | None  # "mlx5_3"
    guid: str | None  # of the port, "b83f:d203:0001:1040"
    lid: int | None
    port: int | None  # of the CA
    switch: str
    switch_port: str
    rate_gbit_per_s: float | None
    width: int | None
    speed: str | None  # "HDR"
    by: str  # ibnetdiscover, iblinkinfo
    description: str


class Trunk(NamedTuple):
    """A cable between two switches, one entry however often it was listed; `a` < `b`."""

    a: str
    a_port: str
    b: str
    b_port: str
    rate_gbit_per_s: float | None
    width: int | None
    speed: str | None


class Listing(NamedTuple):
    """One tool's output, each cable once. `whole`: the switches whose own record is there to its end, so that what it
    does not hold is not there; `guids`: of switches, by name."""

    origin: str
    cables: tuple[HostCable, ...]
    trunks: tuple[Trunk, ...]
    switches: tuple[str, ...]
    whole: frozenset[str] = frozenset()
    guids: tuple[tuple[str, str], ...] = ()
