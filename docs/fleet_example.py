"""The fleet of docs/fleet.md: 130 simulated nodes (tests/fleetsim.py) with a few faults in them, and the day before."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import fleetsim

NODES = 130
_CALL = re.compile(r"(?:(?:srun|clush) .*)?\S*topocheck node [^<\n]*")
NOW = "2026-11-20T03:20:00Z"
_FAULTS = {
    "gpu0017": "mlx5_3-x8",
    "gpu0044": "mlx5_3-x8",
    "gpu0051": "mlx5_7-relaxed-ordering-off",
    "gpu0060": "older-nic-firmware",
    "dgx0009": "silent",
    "eth0005": "cables-2-3-swapped",
}


def fleet(faults: dict[str, str]) -> fleetsim.Fleet:
    """The fleet with these faults, by host."""
    hosts = fleetsim.simulate(NODES).hosts
    injected = tuple(fleetsim.faults_of(hosts[h][0])[name]._replace(host=h) for h, name in faults.items())
    crossed = frozenset(host for host, name in faults.items() if name.startswith("cables"))
    return fleetsim.Fleet(hosts, injected, crossed)


def screen_block() -> str:
    """What `topocheck fleet` prints of it."""
    return f"```\n{_screen()}```\n"


def asked_block() -> str:
    """What `--job` and `--since` add to that."""
    plain, more = _screen().splitlines(), _screen(wanted=64, since=True).splitlines()
    said = [line for line in more if not line or line not in plain]
    return "```\n" + "\n".join(said).strip() + "\n```\n"


def kit_table() -> str:
    """A row a way to collect: the command that asks the nodes, or each node."""
    from topocheck.kit import COLLECTING, collecting

    rows = ["| NAME | what asks the nodes |", "|---|---|"]
    for name in COLLECTING:
        (call,) = _CALL.findall(collecting(name).replace("\\\n", " "))
        words = " ".join(call.replace("/usr/local/bin/", "").split())
        rows.append(f"| `{name}` | `{words}` |")
    return "\n".join(rows) + "\n"


def _screen(*, wanted: int | None = None, since: bool = False) -> str:
    from topocheck.fleet import screen as fleet_screen
    from topocheck.fleet.assess import Asked, assess, read

    with tempfile.TemporaryDirectory() as folder:
        today, fabric, before = (Path(folder) / name for name in ("reports", "ibnetdiscover", "yesterday"))
        ours = fleet(_FAULTS)
        ours.write(today)
        fabric.write_text(ours.listing())
        fleet({"gpu0017": "mlx5_3-x8", "gpu0070": "gpu4-lost"}).write(before)
        nodes, reading = read([str(today), str(fabric)])
        earlier = (("yesterday.jsonl", tuple(read([str(before)])[0])),) if since else ()
        answer = assess(nodes, reading, NOW, Asked(tuple(ours.hosts), wanted, earlier))
    return fleet_screen.render(answer, verbose=False, width=80, color=False, ascii=False)
