"""The live source: commands that hang, flood, fail or are not there, and this very machine."""

import os
import selectors
import subprocess
import sys
import time
from pathlib import Path

import pytest

from topocheck.facts import Host, NumaNode, PciFunction, full_bdf
from topocheck.probes.gather import gather
from topocheck.sources import command
from topocheck.sources.base import Missing, Raw
from topocheck.sources.live import LiveSource

TOOLS = {
    "good": "echo one; echo two",
    "bad": "echo half; echo 'cannot open device' >&2; exit 3",
    "silent": "exit 0",
    "failing": "echo 'no such module' >&2; exit 1",
    "hangs": "echo before; sleep 60",
    "stubborn": "trap '' TERM; while :; do sleep 60; done",
    "floods": "yes",
    "leaves_a_child": "sleep 60 & echo done",
    "says_its_locale": 'echo "$LC_ALL $LANG"; cat',
    "nvidia-smi": "echo GPU 0",
}


@pytest.fixture
def tools(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in TOOLS.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return str(folder)


@pytest.fixture
def root(tmp_path):
    driver = tmp_path / "root/proc/driver/nvidia/version"
    driver.parent.mkdir(parents=True)
    driver.write_text("NVRM version\n")
    return driver.parents[3]


def ask(tools, *commands, paths=(), budget_s=5.0, root="/"):
    return list(LiveSource(tools=tools, budget_s=budget_s, root=str(root)).texts(commands, paths))


def test_what_commands_print_and_what_was_wrong_with_them(tools):
    assert ask(tools, "good x", "bad", "silent", "failing", "absent -v") == [
        Raw("good x", "one\ntwo\n", "good x"),
        Raw("bad", "half\n", "bad"),
        Missing("bad", "ended with exit code 3: cannot open device"),
        Missing("silent", "printed nothing"),
        Missing("failing", "ended with exit code 1: no such module"),
        Missing("absent -v", "absent is not installed"),
    ]


def test_commands_run_in_the_c_locale_without_input(tools):
    assert ask(tools, "says_its_locale") == [Raw("says_its_locale", "C C\n", "says_its_locale")]


def test_hanging_commands_end_together_within_the_budget(tools):
    started = time.monotonic()
    seen = ask(tools, "hangs", "hangs 2", "stubborn", "leaves_a_child", "good", budget_s=1.0)
    assert time.monotonic() - started < 2.5
    assert seen == [
        Raw("hangs", "before\n", "hangs"),
        Missing("hangs", "no answer within 1 s"),
        Raw("hangs 2", "before\n", "hangs 2"),
        Missing("hangs 2", "no answer within 1 s"),
        Missing("stubborn", "no answer within 1 s"),
        Raw("leaves_a_child", "done\n", "leaves_a_child"),
        Raw("good", "one\ntwo\n", "good"),
    ]


@pytest.fixture
def family(tools, tmp_path):
    """A command that starts another one, and the number of that."""
    mark = tmp_path / "pid"
    (Path(tools) / "family").write_text(f"#!/bin/sh\nsleep 60 & echo $! > {mark}\nwait\n")
    (Path(tools) / "family").chmod(0o755)
    return mark


def ended(mark):
    state = Path(f"/proc/{mark.read_text().strip()}/stat")
    for _ in range(20):
        if not state.exists() or " Z " in state.read_text():
            return True
        time.sleep(0.05)
    return False


def test_a_killed_command_leaves_no_process_of_its_group(tools, family):
    ask(tools, "family", budget_s=0.5)
    assert ended(family)


def test_what_cannot_be_killed_is_left_behind(tools, monkeypatch):
    """A process in state D takes no signal: here none is sent."""
    monkeypatch.setattr(command, "kill", lambda *_: None)
    started = time.monotonic()
    assert ask(tools, "hangs", "good", budget_s=1.0)[1:] == [
        Missing("hangs", "no answer within 1 s; it cannot be killed"),
        Raw("good", "one\ntwo\n", "good"),
    ]
    assert time.monotonic() - started < 2
    monkeypatch.undo()
    for child in command._abandoned:
        command.kill(child)


def test_a_flood_is_not_taken(tools):
    assert ask(tools, "floods") == [Missing("floods", "printed more than 16 MB: not taken")]


def test_nvidia_smi_is_not_started_without_a_driver(tools, root):
    assert ask(tools, "nvidia-smi -L", root=root) == [Raw("nvidia-smi -L", "GPU 0\n", "nvidia-smi -L")]
    (root / "proc/driver/nvidia/version").unlink()
    (gap,) = ask(tools, "nvidia-smi -L", root=root)
    assert "driver is not loaded" in gap.reason


def test_files_are_read_below_the_root(tools, root):
    (root / "proc/cmdline").write_text("quiet\n")
    path = "/proc/cmdline"
    assert ask(tools, paths=[path, "/proc/modules"], root=root) == [
        Raw(path, "quiet\n", path),
        Missing("/proc/modules", "not on this machine"),
    ]


def test_the_process_ends_while_a_command_still_runs_and_takes_it_along(tools, family):
    code = (
        "from topocheck.sources.live import LiveSource\n"
        f"texts = LiveSource(tools={tools!r}, budget_s=30).texts(['family', 'stubborn', 'good'], ['/proc/cmdline'])\n"
        "next(texts), __import__('time').sleep(0.3)"
    )
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)
    assert time.monotonic() - started < 5
    assert ended(family)


@pytest.mark.real("pciutils", program="lspci")
def test_lspci_of_this_machine_shows_what_sysfs_has():
    facts = gather(LiveSource())
    functions = {fact.bdf for fact in facts if isinstance(fact, PciFunction) and fact.witness == "lspci -vv"}
    assert functions == {full_bdf(path.name) for path in Path("/sys/bus/pci/devices").iterdir()}
    assert any(isinstance(fact, Host) and fact.kernel == os.uname().release for fact in facts)


@pytest.mark.real("numactl")
def test_numactl_of_this_machine_shows_the_nodes_of_sysfs():
    nodes = {fact.id for fact in gather(LiveSource()) if isinstance(fact, NumaNode) and fact.witness == "numactl -H"}
    assert nodes == {int(path.name[4:]) for path in Path("/sys/devices/system/node").glob("node[0-9]*")}


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="a machine with GPUs")
def test_a_machine_without_a_gpu_is_told_so_with_what_was_looked_at():
    """This very machine."""
    line = [sys.executable, "-c", "from topocheck.cli import main; main()", "node"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
    said = " ".join(done.stdout.split())
    functions = len(list(Path("/sys/bus/pci/devices").iterdir()))
    assert f"UNKNOWN no NVIDIA GPU found among {functions} PCI functions; the NVIDIA driver is not loaded" in said
    assert (done.returncode, done.stderr) == (2, "")


def test_nvidia_smi_is_not_started_where_it_would_make_its_devices(tools, monkeypatch):
    """On this machine, with a driver but without /dev/nvidiactl, the library would run nvidia-modprobe."""
    source = LiveSource(tools=tools)
    monkeypatch.setattr(source._tree, "read", lambda path: "NVRM version")
    monkeypatch.setattr(source._tree, "glob", lambda pattern: [])
    (gap,) = source.texts(["nvidia-smi -L"], [])
    assert gap == Missing("nvidia-smi -L", "not run: /dev/nvidiactl is not there, and to ask would make it")


def test_what_is_printed_at_the_very_end_is_not_lost(tools, monkeypatch):
    """The child prints and ends between a look at its pipe and the question whether it still runs."""

    class Late(selectors.DefaultSelector):
        looks = 0

        def select(self, timeout=None):
            self.looks += 1
            if self.looks > 1:
                return super().select(timeout)
            time.sleep(0.3)
            return []

    monkeypatch.setattr(command.selectors, "DefaultSelector", Late)
    assert ask(tools, "good") == [Raw("good", "one\ntwo\n", "good")]


def test_what_may_lie_in_sys(root):
    """A value, one of several pages, a link to one, links in a circle, a folder, a pipe, nothing."""
    folder = root / "sys/devices/x"
    folder.mkdir(parents=True)
    values = {"value": b"16.0 GT/s PCIe\n", "page": b"p" * 4096, "pages": b"p" * 10_000, "none": b""}
    for name, data in values.items():
        (folder / name).write_bytes(data)
    (root / "sys/class").mkdir()
    (root / "sys/class/x").symlink_to("../devices/x")
    for name, target in {"link": "../x/value", "a": "b", "b": "a/b", "out": "/etc/passwd"}.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe")
    source = LiveSource(root=str(root))
    for path in "/sys/devices/x", "/sys/class/x":
        assert {name: source.read_bytes(f"{path}/{name}") for name in values} == values
        assert source.read(f"{path}/link") == "16.0 GT/s PCIe"
        assert [source.read_bytes(f"{path}/{name}") for name in ("a", "b", "out", "", "..", "absent", "value/x")] == [
            None
        ] * 7
        assert not source.read_bytes(f"{path}/pipe")
    assert source.realpath("/sys/class/x/value") == "/sys/devices/x/value"
    assert source.realpath("/sys/class/x/a") is None
    assert source.glob("/sys/class/x/p*") == [f"/sys/class/x/{name}" for name in ("page", "pages", "pipe")]
