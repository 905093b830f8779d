"""Fleets built by hand: an ordinary day of 128 nodes, a healthy one, an empty one, and a very bad one."""

from __future__ import annotations

from dataclasses import replace

from topocheck.fleet.record import Kind
from topocheck.fleet.report import (
    Change,
    Comparison,
    Fleet,
    Group,
    Job,
    Leaf,
    LeftOut,
    Other,
    Pod,
    RailEnd,
    RailFault,
    Rails,
    Unlike,
    Unread,
)

HGX = Kind("HGX H100 8-GPU", "NVIDIA H100 80GB HBM3", 8, 10)
PCIE = Kind(None, "NVIDIA L40S", 4, 2)
EVIL = "\x1b]0;owned\x07\x1b[2J[bold red]名前‮\x9b31m\r\n\udcff<script>window.owned=1</script>\"'><img src=x>{{7*7}}"


def hosts(*numbers):
    return tuple(f"gpu{number:03}" for number in numbers)


def end(number, nic, leaf, expected, port="17"):
    return RailEnd(f"gpu{number:03}", nic, "0000:5e:00.0", f"b83f:d203:0001:{number:04x}", 1, leaf, port, expected)


ALL = hosts(*range(1, 129))
HEALTHY = Fleet(
    version="1.0.0", time="2026-11-20T03:04:05Z", verdict="healthy", reason="no fault in 128 nodes", hosts=ALL,
    verdicts={"healthy": ALL}, kinds=((HGX, 128),), groups=(), unlike=(), rails=Rails("no leaf is known of any port"),
    missing=(), unexpected=(), exclude=(), unread=Unread(), versions=("1.0.0",),
    skipped=(("NET003", 128), ("P2P003", 12)),
)  # fmt: skip
EMPTY = replace(
    HEALTHY, verdict="unknown", reason="no report was read", hosts=(), verdicts={}, kinds=(), versions=(),
    unread=Unread(foreign=1, examples=("notes.txt: no topocheck report",)),
)  # fmt: skip
WIDTH = Group(
    "PCI001", "pcie-width-degraded", "error", "mlx5_3", "0000:5e:00.0", hosts(17, 44), 0.451,
    "mlx5_3 PCIe 5.0 x8 of x16: gpu3 -> mlx5_3 GPUDirect RDMA 26.9 of 49.0 GB/s (−45 %)", "slows",
)  # fmt: skip
ORDERING = Group(
    "PCI009", "relaxed-ordering-off", "warning", "mlx5_6", "0000:9c:00.0", hosts(90), None,
    "mlx5_6 relaxed ordering off, 7 peers on", "slows",
)  # fmt: skip
NOTE = Group(
    "NUM003", "numa-balancing-on", "info", "", None, hosts(*range(1, 129)), None, "NUMA balancing is on", "risks"
)
SWAPPED = RailFault(
    "RAIL002", "error", (end(3, "mlx5_3", "leaf-4", "leaf-3", "3"), end(3, "mlx5_4", "leaf-3", "leaf-4", "3")),
    "gpu003 mlx5_3 and mlx5_4 are swapped", "Swap the cables of gpu003 at leaf-3 port 3 and leaf-4 port 3",
)  # fmt: skip
RAILS = Rails(
    None, ("lldp",), (Pod(ALL, tuple((rail, 1, f"leaf-{rail}") for rail in range(8))),), (SWAPPED,),
    (Leaf("leaf-0", 128, 128, 51200.0, 64, 25600.0), Leaf("leaf-1", 128, 128, 51200.0, 0, None)), 25600.0,
)  # fmt: skip
FIRMWARE = Unlike(
    "mlx5_3 firmware", "info", HGX, 128, "28.43.1014", 127 / 128, True, (Other("28.39.2048", hosts(44)),)
)  # fmt: skip
TOLD = Unlike(
    "PCIe width of 0000:5e:00.0", "warning", HGX, 128, "x16", 126 / 128, True,
    (Other("x8", hosts(17, 44), ("PCI001",)),),
)  # fmt: skip
SHOWN = Unlike("driver", "info", HGX, 128, "580.95.05", 0.5, False, (Other("570.1", hosts(*range(1, 65))),))
FAULTY = replace(
    HEALTHY, verdict="failed", reason="2 nodes failed",
    verdicts={
        "failed": hosts(17, 44), "degraded": hosts(90), "healthy": tuple(h for h in ALL if h not in hosts(17, 44, 90)),
    },
    groups=(WIDTH, ORDERING, NOTE), unlike=(FIRMWARE, TOLD, SHOWN), rails=RAILS, missing=hosts(129, 130),
    unexpected=("login1",), exclude=hosts(3, 17, 44),
    unread=Unread(1, 2, 0, 1, ("nodes.jsonl:17: cut off after 4096 bytes",)),
    states={
        **{h: {"NUM003": "info"} for h in ALL},
        "gpu017": {"PCI001": "error", "NUM003": "info"}, "gpu044": {"PCI001": "error", "NUM003": "info"},
        "gpu090": {"PCI009": "warning", "NUM003": "info"}, "gpu003": {"RAIL002": "error", "NUM003": "info"},
    },
    comparisons=(
        Comparison(
            "yesterday.jsonl", 127, hosts(130), hosts(1), (Change("new PCI001 mlx5_3", "error", hosts(17, 44)),)
        ),
    ),
    job=Job(
        64, hosts(*range(51, 115)), (LeftOut("gpu017", "PCI001"), LeftOut("gpu044", "PCI001")), "gpu090", 196.0, 392.0,
        True,
    ),
)  # fmt: skip


def bad_day(number=10_000):
    """Every node has faults of its own at many positions, cables are crossed everywhere, half of all are missing."""
    everyone = tuple(f"n{i}" for i in range(number))
    rules = [f"PCI{i:03}" for i in range(12)]
    groups = tuple(
        WIDTH._replace(rule=rule, device=f"mlx5_{i}", bdf=f"0000:{i:02x}:00.0", hosts=everyone[:: 1 + i % 3])
        for i in range(120)
        for rule in (rules[i % 12],)
    )
    unlike = tuple(FIRMWARE._replace(field=f"field {i}", accused=i % 2 == 0) for i in range(60))
    faults = tuple(SWAPPED._replace(ends=SWAPPED.ends * 20, message=f"cable {i}") for i in range(300))
    leaves = tuple(Leaf(f"leaf-{i}", 64, 64, 25600.0, 16, 6400.0) for i in range(600))
    return replace(
        FAULTY, hosts=everyone, verdicts={"failed": everyone}, groups=groups, unlike=unlike,
        rails=replace(RAILS, faults=faults, leaves=leaves, notes=("a note",) * 50), missing=everyone[::2],
        unexpected=everyone[1::2], exclude=everyone[::3], states={h: dict.fromkeys(rules, "error") for h in everyone},
        comparisons=(Comparison("x", 1, everyone[::2], everyone[1::2], FAULTY.comparisons[0].changes * 100),) * 2,
        job=Job(64, (), tuple(LeftOut(h, f"PCI001 and {h}") for h in everyone), None, None, None, False),
        kinds=tuple((HGX._replace(nics=i), 1) for i in range(40)),
    )  # fmt: skip


def hostile():
    """Every text would take the terminal over or run in the page."""
    bad_end = RailEnd(EVIL, EVIL, EVIL, EVIL, 1, EVIL, EVIL, EVIL + "x")
    fault = RailFault(EVIL, "error", (bad_end,) * 2, EVIL, EVIL)
    other, leaf = Other(EVIL, (EVIL,)), Leaf(EVIL, 1, 1, 2.0, 1, 1.0)
    return replace(
        FAULTY, version=EVIL, reason=EVIL, hosts=(EVIL, "gpu001"), verdicts={"failed": (EVIL,)},
        kinds=((Kind(EVIL, EVIL, 8, 10), 1), (HGX, 1)),
        groups=(Group(EVIL, EVIL, "error", EVIL, EVIL, (EVIL,), 0.5, EVIL, EVIL),) * 3,
        unlike=(Unlike(EVIL, "warning", HGX, 5, EVIL, 0.8, True, (other, other._replace(follows=(EVIL,)))),),
        rails=Rails(None, (EVIL,), (Pod((EVIL,), ((0, 1, EVIL),)),), (fault,), (leaf,), 1.0, (EVIL,)),
        missing=(EVIL,), unexpected=(EVIL,), exclude=(EVIL, "gpu001"), unread=Unread(1, 1, 1, 1, (EVIL,)),
        comparisons=(Comparison(EVIL, 1, (EVIL,), (EVIL,), (Change(EVIL, "error", (EVIL,)),)),),
        job=Job(1, (EVIL,), (LeftOut(EVIL, EVIL),), EVIL, 1.0, 2.0, True), states={EVIL: {EVIL: "error"}},
        versions=(EVIL,),
    )  # fmt: skip


def blind():
    """As good as nothing is known."""
    return replace(HEALTHY, kinds=((PCIE, 128),), rails=Rails(None), versions=())


def by_name():
    """All of them."""
    return {
        "healthy": HEALTHY, "faulty": FAULTY, "empty": EMPTY, "blind": blind(), "hostile": hostile(),
        "bad day": bad_day(2500),
    }  # fmt: skip
