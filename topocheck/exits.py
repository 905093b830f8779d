"""Which exit code says what, by the caller's style (a table in the documentation)."""

from __future__ import annotations

from typing import Literal, NamedTuple

Style = Literal["plain", "slurm", "nhc", "npd", "nagios"]
FailOn = Literal["error", "warning", "info", "never"]

STYLES: tuple[Style, ...] = ("plain", "slurm", "nhc", "npd", "nagios")
FAIL_ON: tuple[FailOn, ...] = ("error", "warning", "info", "never")
_RANK = {"info": 1, "warning": 2, "error": 3}


class _Codes(NamedTuple):
    healthy: int
    warning: int
    error: int
    unknown: int


_CODES: dict[Style, _Codes] = {
    "plain": _Codes(0, 0, 1, 2),
    "slurm": _Codes(0, 0, 1, 0),
    "nhc": _Codes(0, 0, 1, 0),
    "npd": _Codes(0, 0, 1, 2),
    "nagios": _Codes(0, 1, 2, 3),
}
_PROLOGS = ("slurm", "nhc")  # any other code than 0 takes the node away from its jobs


def exit_code(
    style: Style, *, worst: str | None, unknown: bool, fail_on: FailOn = "error", fail_closed: bool = False
) -> int:
    """The code of a report: `worst` is the severity of its worst unwaived finding, `unknown` that its verdict is so."""
    codes = _CODES[style]
    rank = _RANK.get(worst or "", 0)
    threshold = "error" if style in _PROLOGS else fail_on
    if threshold != "never" and rank >= _RANK[threshold]:
        return codes.error
    if unknown:
        return failure_code(style, fail_closed=fail_closed)
    return codes.warning if rank == _RANK["warning"] and threshold != "never" else codes.healthy


def failure_code(style: Style, *, fail_closed: bool = False) -> int:
    """The code of a wrong command line, an input that cannot be read, or a fault of our own."""
    return 1 if style in _PROLOGS and fail_closed else _CODES[style].unknown
