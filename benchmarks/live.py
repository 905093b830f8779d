"""What `topocheck node` costs on a live node: a fake machine of 8 GPUs and 18 NICs whose commands take their time.

    .venv/bin/python benchmarks/live.py [ROUNDS]

The machine is one of tests/nodesim behind tests/livenode.py: fake commands, the real nvidia-ml-py on a fake library,
files below a root. Wall time is compared with the slowest command; CPU time is that of our process and of the NVML
child, imports included. The device tree is five such nodes in one /sys, each function with the files a kernel gives it;
real lspci and lstopo read the same. All is measured in turn in one loop. Prints a Markdown table of medians, with the
best in brackets, and ends with 1 when a median is above its limit.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from livenode import livenode  # noqa: E402
from nodesim import Numbering, place  # noqa: E402
from nodesim.capture import capture  # noqa: E402
from nodesim.shapes import build  # noqa: E402
from nodesim.sysfs import sysfs  # noqa: E402
from test_live_sysfs import NODE, SHAPE  # noqa: E402

from topocheck.probes import TREE_PROBES, gather  # noqa: E402
from topocheck.sources.live import LiveSource  # noqa: E402

SLOWEST_S = 1.5  # nvidia-smi; every other command takes a third of it
DOMAINS = 5
UNREAD = (
    "ari_enabled", "broken_parity_status", "consistent_dma_mask_bits", "d3cold_allowed", "dma_mask_bits",
    "driver_override", "local_cpus", "modalias", "msi_bus", "power_state", "remove", "rescan", "reset", "reset_method",
    "resource0", "resource0_wc", "rom", "vpd", "waiting_for_supplier",
)  # fmt: skip
AER = ("correctable", "nonfatal", "fatal")
OVERHEAD_S, CPU_S, PEAK_MB = 0.35, 0.6, 120  # the limits
RUN = """
import resource, sys
from topocheck.cli import main
try:
    main()
except SystemExit:
    pass
usage = resource.getrusage(resource.RUSAGE_SELF)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, file=sys.stderr)
"""


def slowed(node):
    """The machine with commands that wait before they print."""
    for tool in node.tools.iterdir():
        seconds = SLOWEST_S if tool.name == "nvidia-smi" else SLOWEST_S / 3
        first, _, rest = tool.read_text().partition("\n")
        tool.write_text(f"{first}\nsleep {seconds}\n{rest}")
    return node


def machine(folder):
    """The machine: every command's output, its files, its NVML."""
    layout = place(build(replace(SHAPE, each=2)))
    assert (len(layout.gpus), len(layout.nics)) == (8, 18)
    return slowed(livenode(sysfs(layout, capture(layout, folder / "node")), folder))


def one_run(node, environ):
    """Wall seconds, CPU seconds and peak MB of one run of ours."""
    line = [sys.executable, "-c", RUN, "node", "--root", str(node.root), "--tools", str(node.tools)]
    started = time.perf_counter()
    done = subprocess.run(line, env=environ, capture_output=True, text=True, check=True)
    cpu, peak = done.stderr.split()[-2:]
    return time.perf_counter() - started, float(cpu), float(peak)


def nvml_cpu_s(environ):
    """CPU seconds of the NVML child alone."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "topocheck.sources.nvml_child"], env=environ, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def device_tree(root):
    """The tree's functions: more than 300, in several PCI domains."""
    root.mkdir()
    for domain in range(DOMAINS):
        one = sysfs(place(NODE, Numbering(first_domain=domain, names="path")), root.with_name(f"domain{domain}"))
        subprocess.run(["cp", "-a", f"{one}/.", str(root)], check=True)
    functions = list((root / "sys/bus/pci/devices").iterdir())
    for function in functions:
        for name in UNREAD:
            (function / name).touch()
        for kind in AER:
            (function / f"aer_dev_{kind}").write_text(f"Undefined 0\nDLP 0\nTLP 0\nTOTAL_ERR_{kind.upper()} 0\n")
    return len(functions)


def tree_s(root):
    """Wall seconds of our probes in this process, and of lspci -vv and lstopo one after the other."""
    started = time.perf_counter()
    source = LiveSource(root=str(root))
    for module in TREE_PROBES:
        list(gather._load(module).read(source))
    ours = time.perf_counter()
    lspci = ["lspci", "-A", "linux-sysfs", "-O", f"sysfs.path={root}/sys/bus/pci", "-D", "-nn", "-vv"]
    subprocess.run(lspci, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    hwloc = {"HWLOC_FSROOT": str(root), "HWLOC_COMPONENTS": "linux,stop", "HWLOC_THISSYSTEM": "0"}
    subprocess.run(
        ["lstopo", "--whole-io", "--of", "xml"], stdout=subprocess.DEVNULL, env=os.environ | hwloc, check=True
    )
    return ours - started, time.perf_counter() - ours


def main():
    """Measure, print, compare."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with tempfile.TemporaryDirectory() as folder:
        node = machine(Path(folder))
        environ = {**os.environ, **node.environ, "PYTHONPATH": str(ROOT)}
        devices = device_tree(Path(folder) / "devices")
        tree_s(Path(folder) / "devices")  # imports
        runs = [
            (*one_run(node, environ), nvml_cpu_s(environ), *tree_s(Path(folder) / "devices")) for _ in range(rounds)
        ]
    columns = [(statistics.median(column), min(column)) for column in zip(*runs, strict=True)]
    wall, cpu, peak, nvml, ours, theirs = columns
    both = tuple(a + b for a, b in zip(cpu, nvml, strict=True))
    rows = (
        ("wall time beyond the slowest command", tuple(s - SLOWEST_S for s in wall), OVERHEAD_S, "s"),
        ("CPU time, ours and the NVML child's", both, CPU_S, "s"),
        (f"{devices} functions of /sys, read in process; limit: lspci -vv and lstopo", ours, round(theirs[0], 3), "s"),
        ("peak memory", peak, PEAK_MB, "MB"),
    )
    print("| figure | median (best) | at most |\n|---|---|---|")
    for name, (value, best), limit, unit in rows:
        print(f"| {name} | {value:.3g} ({best:.3g}) {unit} | {limit} {unit} |")
    print(f"\n/sys: ours is {ours[0] / theirs[0]:.2f} of theirs, best of each {ours[1] / theirs[1]:.2f}")
    return int(any(value > limit for _, (value, _), limit, _ in rows))


if __name__ == "__main__":
    sys.exit(main())
