"""`environ.json` of a capture, or `env`: the NCCL_* variables. No other variable is looked at.

{"NCCL_IB_HCA": "mlx5_0,mlx5_1", "NCCL_DEBUG": "INFO"}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from topocheck.facts import Evidence, Fact, Gap, Host
from topocheck.probes.lines import lines, sniffed

INPUT = "environ.json"
COMMANDS = ("environ.json",)
PATHS: tuple[str, ...] = ()
NAME = r"environ(?:\.json)?$|(?:print)?env(?:\.txt)?$|nccl[._]conf"

_JSON = re.compile(r'\s*\{\s*(?:\}\s*$|"NCCL_)')
_ASSIGNMENT = re.compile(r"(?:export )?(NCCL_[A-Z0-9_]{1,60})\s*=\s*(.*)$")


def sniff(text: str) -> bool:
    """Whether the text is a JSON object of such variables."""
    return text.lstrip()[:1] == "{" and sniffed(_JSON, text[:200])


def parse(text: str) -> Iterable[Fact]:
    """One fact a variable; one without any where the environment is known to have none."""
    if text.lstrip().startswith("{"):
        yield from _json(text)
        return
    found = False
    for line in lines(text):
        if match := _ASSIGNMENT.match(line.text):
            found = True
            value = match[2].strip().strip("'\"")
            yield Host(INPUT, nccl_environ=((match[1], value),), line=line.evidence(INPUT))
    if not found:
        yield Host(INPUT, nccl_environ=())


def _json(text: str) -> Iterable[Fact]:
    try:
        document = json.loads(text[:1_000_000])
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        yield Gap(INPUT, "not a JSON object")
        return
    own = [(name, value) for name, value in document.items() if name.startswith("NCCL_") and isinstance(value, str)]
    for name, value in own:
        yield Host(INPUT, nccl_environ=((name, value),), line=Evidence(INPUT, None, f"{name}={value}"))
    if not own:
        yield Host(INPUT, nccl_environ=())
