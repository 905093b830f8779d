"""The gate broken in every part: never a drain by us, never a pass where it is closed, and always an honest line.

300 runs in `make soak` (TOPOCHECK_SOAK=1), a drawn sample of 60 in `make test`.
"""

import os
import random
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from gates import REPOSITORY, machine, slurm

from topocheck.probes import TEXT_PROBES, TREE_PROBES
from topocheck.rules import ALL

BROKEN = Path(__file__).with_name("broken")
FUNCTIONS = (
    *(f"topocheck.probes.{entry.module}:parse" for entry in TEXT_PROBES),
    *(f"topocheck.probes.{module}:read" for module in TREE_PROBES),
    *(f"{rule.__name__}:check" for rule in ALL),
    *(f"topocheck.formats.{name}" for name in ("json:render", "json:as_dict", "line:line_of", "line:cut")),
    *(f"topocheck.{name}" for name in ("build:build", "pricing:priced", "judgement:judged", "assemble:pairs_of")),
    *(
        f"topocheck.gate.{name}"
        for name in ("state:open_folder", "job:job_of", "decision:decide", "grounds:grounds_of")
    ),
)
PACKAGES = ("click", "networkx", "psutil", "pynvml", "rich", "tomli", "json", "ctypes")
EVERY = [
    (kind, what, *options)
    for kind, names in (("BREAK", FUNCTIONS), ("WITHOUT", PACKAGES))
    for what in names
    for options in ((), ("--fail-closed",), ("--budget", "1"))
][:300]
DRAWN = EVERY if os.environ.get("TOPOCHECK_SOAK") else random.Random(5).sample(EVERY, 60)
FOUND = "topocheck: PCI001 gpu5 x8 of x16 -45%\n"
MOST_BYTES = 81


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    return machine(tmp_path_factory.mktemp("healthy"))


@pytest.fixture(scope="module")
def ill(tmp_path_factory):
    return machine(tmp_path_factory.mktemp("ill"), "gpu5-x8")


def broken(node, folder, kind, what, *options):
    """Run the gate with one thing broken; what it came to, and whether the broken thing was used."""
    mark = folder / f"{node.folder.name}-{kind}-{what}-{'-'.join(options)}".replace(":", "-")
    environ = {"PYTHONPATH": f"{BROKEN}:{REPOSITORY}", kind: what, "MARK": str(mark)}
    ran = replace(node, environ=environ).gate("--state", f"{mark}.state", *options, job=slurm("5"))
    log = Path(f"{mark}.state/gate.log")
    return ran, mark.exists(), log.read_text() if log.exists() else ""


def test_one_thing_broken_at_a_time(healthy, tmp_path):
    """On a healthy node."""

    def wrong(case):
        kind, what, *options = case
        ran, used, log = broken(healthy, tmp_path, kind, what, *options)
        said = ran.out + ran.err
        told = log + ("" if log else said)  # without click there is no log
        if what == "click":  # what cannot even read its command line is what the prolog script is for
            return None if ran.code not in (0, 124) and ran.code < 126 else (case, ran)
        if "--fail-closed" in options:
            good = ran.code == (1 if used or "no verdict" in said else 0)
        else:
            good = ran.code == 0 and ran.out == ""
        honest = "pass, exit 0" in log if not said else said.startswith("topocheck: no verdict: ") and "exit" in told
        return None if good and (honest or not log) else (case, ran, used, log)

    with ThreadPoolExecutor(4) as pool:
        assert [case for case in pool.map(wrong, DRAWN) if case] == []


@pytest.mark.parametrize("what", ["topocheck.rules.gpu_nic_far:check", "topocheck.probes.lspci:parse"])
def test_a_broken_gate_says_so_in_its_line_and_log(healthy, tmp_path, what):
    ran, used, log = broken(healthy, tmp_path, "BREAK", what)
    assert used
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("topocheck: no verdict: ") and len(ran.err.encode()) <= MOST_BYTES
    assert "internal error" in log and "broken on purpose" in log
    ran, _, _ = broken(healthy, tmp_path, "BREAK", what, "--fail-closed")
    assert ran.code == 1 and ran.err == ""


def test_what_is_broken_beside_the_fault_hides_it_from_nobody(ill, tmp_path):
    ran, used, _ = broken(ill, tmp_path, "BREAK", "topocheck.probes.uname:parse")
    assert (ran.code, ran.out, used) == (1, FOUND, False)


@pytest.mark.parametrize("module", ["cli/__init__.py", "cli/gating.py", "gate/work.py", "rules/pcie_width_degraded.py"])
def test_a_syntax_error_in_a_module(healthy, tmp_path, module):
    """One that is read before the command line is understood ends with Python's own status 1, without our line: the
    prolog script lets the job start."""
    shutil.copytree(REPOSITORY / "topocheck", tmp_path / "topocheck", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "topocheck" / module).open("a") as file:
        file.write("\ndef (:\n")
    ran = replace(healthy, environ={"PYTHONPATH": str(tmp_path)}).gate(job=slurm("5"))
    if module == "cli/__init__.py":
        assert ran.code == 1 and "topocheck: " not in ran.out + ran.err
    else:
        assert (ran.code, ran.out) == (0, "")
        assert ran.err.startswith("topocheck: ") and "internal error: SyntaxError" in ran.err


def in_small_disk(node, tmp_path, *, filled, job, options=""):
    """Run the gate with a state folder on a 64 KB file system of its own."""
    state = tmp_path / "small"
    state.mkdir(exist_ok=True)
    call = f"{sys.executable} -m topocheck gate --root {node.root} --tools {node.tools} --state {state}/state {options}"
    script = [f"mount -t tmpfs -o size=64k,mode=0755 none {state}", filled.format(state=state), call]
    done = subprocess.run(
        ["unshare", "-m", "/bin/sh", "-c", "\n".join(script)],
        env={"PYTHONPATH": str(REPOSITORY), **slurm(job)}, capture_output=True, text=True, check=False, cwd="/",
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def can_mount(tmp_path_factory):
    place = tmp_path_factory.mktemp("mount")
    done = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", str(place)], check=False)
    if done.returncode:
        pytest.skip("no mount namespace to be had here")


FULL = "head -c 65536 /dev/zero > {state}/full 2>/dev/null"


def test_a_full_disk(healthy, ill, tmp_path, can_mount):
    assert in_small_disk(healthy, tmp_path, filled=FULL, job="5")[:2] == (0, "")
    code, out, _ = in_small_disk(ill, tmp_path, filled=FULL, job="5")
    assert code == 1
    assert out.startswith("topocheck: PCI001 gpu5 x8 of x16 -45% (no report: ")
    assert len(out.encode()) <= MOST_BYTES


def test_a_disk_that_fills_up(ill, tmp_path, can_mount):
    """The first file fits, the second does not."""
    code, out, _ = in_small_disk(ill, tmp_path, filled=":", job="5")
    assert code == 1
    assert out.startswith("topocheck: PCI001 gpu5 x8 of x16 -45%")


def test_a_read_only_file_system(ill, tmp_path, can_mount):
    read_only = "mkdir -m 700 {state}/state; mount -o remount,ro {state}"
    code, out, _ = in_small_disk(ill, tmp_path, filled=read_only, job="5")
    assert (code, out) == (1, "topocheck: PCI001 gpu5 x8 of x16 -45% (no report: no state folder)\n")
    assert in_small_disk(ill, tmp_path, filled=read_only, job="4")[0] == 0


@pytest.mark.real("faketime")
def test_a_clock_that_was_set_back(healthy, ill):
    """A pass that was kept in what is now the future is not used."""
    healthy.gate("--cache", "600", job=slurm("5"))
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    for node, code in ((healthy, 0), (ill, 1)):
        environ = {"LD_PRELOAD": str(library), "FAKETIME": "-1h"}
        ran = replace(node, environ={**node.environ, **environ}).gate("--cache", "600", job=slurm("5"))
        assert ran.code == code
        assert "by a reading" not in node.log()[-1]
