"""`psutil.json`: the machine's CPUs and those this process may run on.

{"cpu_count": 192, "cores": 96, "affinity": [0, 1, 2, 3], "memory_bytes": 2164785946624}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from topocheck.facts import Evidence, Fact, Gap, Host
from topocheck.probes.cpu_list import MAX_CPU, spell_cpus
from topocheck.probes.lines import sniffed

INPUT = "psutil.json"
COMMANDS = ("psutil.json",)
PATHS: tuple[str, ...] = ()
NAME = r"psutil(?:\.json)?$"

_LOOKS = re.compile(r'^\{"cpu_count": ', re.MULTILINE)


def sniff(text: str) -> bool:
    """Whether the text is such a JSON object."""
    return sniffed(_LOOKS, text)


def parse(text: str) -> Iterable[Fact]:
    """One fact, of what the object holds."""
    try:
        document = json.loads(text[:1_000_000])
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        return [Gap(INPUT, "not a JSON object")]
    count, affinity = document.get("cpu_count"), document.get("affinity")
    own = {n for n in affinity if isinstance(n, int) and 0 <= n <= MAX_CPU} if isinstance(affinity, list) else set()
    allowed = spell_cpus(own) if own else None
    line = Evidence(INPUT, None, f"affinity: {allowed}") if allowed else None
    return [Host(INPUT, cpu_count=count if isinstance(count, int) else None, allowed_cpus=allowed, line=line)]
