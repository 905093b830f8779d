"""What `topocheck fleet` costs: reports of simulated fleets (tests/fleetsim.py; 8 GPUs and 10 or 12 NICs a node, four
platforms, three faults), with and without a fabric listing.

    .venv/bin/python benchmarks/fleet.py [NODES…]

Prints a Markdown table and ends with 1 when a figure is above its limit, or when time grows faster than the nodes.
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from costs import cost  # noqa: E402
from fleetsim import simulate  # noqa: E402

NODES = (1_000, 2_000, 5_000, 10_000)
MOST_S = 6e-3  # a node: 6 s for 1,000, 60 s for 10,000
MOST_MB = 1024
MOST_GROWTH = 1.3  # seconds a node of the largest fleet over those of the smallest


def main():
    """Measure, print, compare."""
    sizes = [int(word) for word in sys.argv[1:]] or NODES
    print("| nodes | reports | wall | CPU | peak | with a fabric listing | CPU | peak |")
    print("|---" * 8 + "|")
    costs = []
    for size in sizes:
        fleet = simulate(size, faults=3, seed=size)
        with tempfile.TemporaryDirectory() as folder:
            reports, listing = fleet.write(Path(folder) / "nodes.jsonl"), Path(folder) / "ibnetdiscover"
            listing.write_text(fleet.listing())
            size_mb = reports.stat().st_size / 1e6
            both = [cost("fleet", reports), cost("fleet", reports, "--fabric", listing)]
        figures = " | ".join(f"{c.wall_s:.1f} s | {c.cpu_s:.1f} s | {c.peak_mb:.0f} MB" for c in both)
        print(f"| {size:,} | {size_mb:.0f} MB | {figures} |", flush=True)
        costs.append((size, both))
    above = any(c.wall_s > MOST_S * size or c.peak_mb > MOST_MB for size, both in costs for c in both)
    (least, first), (most, last) = costs[0], costs[-1]
    growth = max((b.cpu_s / most) / (a.cpu_s / least) for a, b in zip(first, last, strict=True))
    print(f"\ntime a node, {most:,} over {least:,} nodes: {growth:.2f}, at most {MOST_GROWTH}")
    return int(above or growth > MOST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
