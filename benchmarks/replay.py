"""CPU time of `topocheck node --format json` on an 8-GPU capture, as a ratio to importing networkx and click.

Both are run in turn in one loop, so that the machine's noise hits both alike; the medians are compared.

    .venv/bin/python benchmarks/replay.py [CAPTURE] [ROUNDS]
"""

import resource
import statistics
import subprocess
import sys
from pathlib import Path

CAPTURE = Path(__file__).parents[1] / "fixtures/nodes/hgx-h100/capture"
AT_MOST = 3.0  # the spine issue's limit


def cpu_s(command):
    """User and system time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    """Print the table and end with 1 when the ratio is above the limit."""
    capture = sys.argv[1] if len(sys.argv) > 1 else str(CAPTURE)
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    node = [sys.executable, "-m", "topocheck", "node", "--from", capture, "--format", "json"]
    imports = [sys.executable, "-c", "import networkx, click"]
    taken = [(cpu_s(node), cpu_s(imports)) for _ in range(rounds)]
    ours, theirs = (statistics.median(column) for column in zip(*taken, strict=True))
    print(f"node --format json   {ours * 1000:6.0f} ms CPU\nimport networkx, click {theirs * 1000:4.0f} ms CPU")
    print(f"ratio {ours / theirs:.2f}, at most {AT_MOST}, median of {rounds}")
    return int(ours / theirs > AT_MOST)


if __name__ == "__main__":
    sys.exit(main())
