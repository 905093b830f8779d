"""What the gate costs a job: a pass by a kept reading, in CPU time, against importing click; a node that is read, in
seconds, against its slowest input alone (NVML, made to take a second to start). Each pair is run in turn in one loop.

    .venv/bin/python benchmarks/gate.py [ROUNDS]          needs gcc, for the fake NVML
"""

import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

REPOSITORY = Path(__file__).parents[1]
sys.path.insert(0, str(REPOSITORY / "tests"))

import nodes  # noqa: E402
from gates import machine, slurm  # noqa: E402
from livenode import livenode  # noqa: E402

MOST_OF_CLICK = 1.3  # the gate issue's limits
MOST_MORE_S = 0.35
SLOW = "~nvmlInitWithFlags * * 1000"


def taken(command, environ):
    """CPU time and time of one run."""
    before, started_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after, ended_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ended_s - started_s


def main():
    """Print both figures and end with 1 when one is above its limit."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with TemporaryDirectory() as folder:
        node = machine(Path(folder) / "machine")
        (Path(folder) / "nvml").mkdir()
        slow = livenode(nodes.healthy("hgx-h100"), Path(folder) / "nvml", also=SLOW).environ
        environ = {"PYTHONPATH": str(REPOSITORY), **slow, **slurm("0,1")}
        gate = [sys.executable, "-c", "from topocheck.cli import main; main()", "gate", *node.arguments()]
        kept = [*gate, "--cache", "86400"]
        taken(kept, environ)
        click, nvml = [
            [sys.executable, *words] for words in (["-c", "import click"], ["-m", "topocheck.sources.nvml_child"])
        ]
        pairs = [(taken(kept, environ)[0], taken(click, environ)[0]) for _ in range(rounds)]
        reads = [(taken(gate, environ)[1], taken(nvml, environ)[1]) for _ in range(rounds)]
    ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    whole, slowest = (statistics.median(column) for column in zip(*reads, strict=True))
    ratio = ours / theirs
    print(f"kept pass {ours * 1000:.0f} ms CPU, import click {theirs * 1000:.0f}: {ratio:.2f}, at most {MOST_OF_CLICK}")
    print(f"node read {whole:.2f} s, NVML alone {slowest:.2f} s: {whole - slowest:.2f} s more, at most {MOST_MORE_S}")
    return int(ratio > MOST_OF_CLICK or whole - slowest > MOST_MORE_S)


if __name__ == "__main__":
    sys.exit(main())
