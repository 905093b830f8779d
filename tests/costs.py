"""What one run of topocheck costs: in a process of its own, which tells its own peak (ru_maxrss would count what the
process held that started it)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_RUN = """
import sys
from topocheck.cli import run
code = run(sys.argv[1:])
with open("/proc/self/status") as status:
    print(code, next(line.split()[1] for line in status if line.startswith("VmHWM:")), file=sys.stderr)
"""


class Cost(NamedTuple):
    """One run."""

    code: int
    wall_s: float
    cpu_s: float
    peak_mb: float


def cost(*words: object) -> Cost:
    """Run `topocheck WORDS` and say what it took; what it prints on standard output goes nowhere."""
    command = [sys.executable, "-c", _RUN, *map(str, words)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    started_s = time.perf_counter()
    child = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    with child.stderr as errors:
        said = errors.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, said
    code, peak_kb = said.split()[-2:]
    return Cost(int(code), time.perf_counter() - started_s, usage.ru_utime + usage.ru_stime, int(peak_kb) / 1024)
