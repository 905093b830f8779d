"""topocheck changes nothing: every system call of a run that could is looked at, of it and of all it starts."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import nodes
import pytest
from livenode import livenode

from topocheck.probes import asked

ROOT = Path(__file__).parents[1]
CHANGES = (
    "creat,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,chmod,fchmod,fchmodat,chown,fchown,fchownat,"
    "lchown,mknod,mknodat,link,linkat,symlink,symlinkat,truncate,ftruncate,mount,umount2,init_module,finit_module,"
    "delete_module,setxattr,reboot,kexec_load,iopl,ioperm,utimensat"
)
TRACED = f"open,openat,openat2,ioctl,execve,execveat,{CHANGES}"
LINE = re.compile(r"(\d+) +(\w+)\((.*)")
WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND")
PATH = re.compile(r'"((?:[^"\\]|\\.)*)"')
MAY_WRITE = re.compile(r"/dev/(null|tty|nvidia.*|pts/\d+)")
TERMINAL = re.compile(r"TCGETS2?\b|TIOCGWINSZ|TIOCGPGRP|FIOCLEX|FIONCLEX|FIONBIO|FIONREAD")
SHELL = ("sh", "dash", "bash", "cat")  # what the fake commands are made of
FORBIDDEN = ("setpci", "modprobe", "nvidia-modprobe", "insmod", "rmmod", "nvidia-persistenced", "mlxconfig", "mst")


def traced(arguments, folder, environ):
    """(process, call, arguments) of every call of interest."""
    log = folder / "strace.log"
    ours = [sys.executable, "-B", "-c", "from topocheck.cli import main; main()", *arguments]
    line = ["strace", "-f", "-qq", "-s", "4096", "-e", f"trace={TRACED}", "-o", str(log), *ours]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
    done = subprocess.run(line, env=environ, capture_output=True, text=True, cwd=folder, timeout=120)
    assert done.returncode in (0, 1, 2) and "Traceback" not in done.stderr, done.stderr
    return [match.groups() for line in log.read_text(errors="replace").splitlines() if (match := LINE.match(line))]


def wrong(calls, may_write, programs):
    """What a read-only program does not do."""
    runs = {}
    for process, call, arguments in calls:
        paths = PATH.findall(arguments)
        failed = re.search(r"= -1 E(NOENT|ACCES|NOTDIR|EXIST)", arguments) is not None
        if call in ("execve", "execveat"):
            if not failed:
                words = [word.replace("\\", "") for word in PATH.findall(arguments.partition("[")[2].partition("]")[0])]
                runs[process] = words
                if not may_run(paths[0], words, programs):
                    yield f"runs {shlex.join(words)}"
        elif call.startswith("open"):
            path = paths[0] if paths else ""
            if WRITES.search(arguments) and not MAY_WRITE.fullmatch(path) and not is_ours(path, may_write):
                yield f"opens for writing: {arguments}"
        elif call == "ioctl":
            ours = "python" in runs.get(process, ["python"])[0]
            nvml = any("nvml_child" in word for word in runs.get(process, []))
            if ours and not nvml and not TERMINAL.search(arguments):
                yield f"ioctl {arguments}"
        elif not failed and not (paths and all(is_ours(path, may_write) for path in paths)):
            yield f"{call}({arguments}"


def is_ours(path, may_write):
    """Whether a path is what we may write, or lies in such a folder."""
    return any(path == ours or path.startswith(f"{ours}/") for ours in map(str, may_write))


def may_run(path, words, programs):
    name = Path(path).name
    if name.startswith("python"):
        return "topocheck.cli" in " ".join(words) or words[1:4] == ["-B", "-m", "topocheck.sources.nvml_child"]
    if name in FORBIDDEN or (name == "nvidia-smi" and {"-r", "-pm", "-ac", "-mig", "--gpu-reset"} & set(words)):
        return False
    return name in SHELL or shlex.join([name, *words[1:]]) in programs or words[0].endswith("/sh")


PROGRAMS = {command for command in asked()[0] if not command.endswith(".json")}


@pytest.mark.real("strace")
@pytest.mark.parametrize("command", ["node", "capture"])
def test_this_machine_is_only_read(tmp_path, command):
    options = ["--output", "c.tar.gz"] if command == "capture" else []
    calls = traced([command, *options], tmp_path, {})
    assert sum(call == "execve" for _, call, _ in calls) > 3
    assert list(wrong(calls, {"c.tar.gz"} if options else set(), PROGRAMS)) == []


@pytest.mark.real("strace")
@pytest.mark.real("gcc")
def test_a_whole_node_is_only_read(tmp_path):
    node = livenode(nodes.healthy("hgx-h100"), tmp_path)
    calls = traced(["node", "--root", str(node.root), "--tools", str(node.tools)], tmp_path, node.environ)
    assert any("nvml_child" in arguments for _, call, arguments in calls if call == "execve")
    shown = {f"{Path(command.split()[0]).name} {command.partition(' ')[2]}".strip() for command in PROGRAMS}
    assert list(wrong(calls, set(), shown)) == []


@pytest.mark.real("strace")
@pytest.mark.real("gcc")
@pytest.mark.parametrize("fault", [False, True])
def test_the_gate_writes_into_its_state_folder_alone(tmp_path, fault):
    node = livenode(nodes.healthy("hgx-h100"), tmp_path, also="!nvmlInitWithFlags * * 18" if fault else "")
    state = tmp_path / "state"
    options = ["--root", str(node.root), "--tools", str(node.tools), "--state", str(state), "--cache", "60"]
    calls = traced(["gate", *options], tmp_path, {**node.environ, "SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,1"})
    shown = {f"{Path(command.split()[0]).name} {command.partition(' ')[2]}".strip() for command in PROGRAMS}
    assert list(wrong(calls, {state}, shown)) == []
    assert any(state.glob("gate-*.json"))
    assert list(wrong(calls, set(), shown)) != [], "it did write"


@pytest.mark.parametrize(
    "line",
    [
        '7 openat(AT_FDCWD, "/sys/bus/pci/devices/0000:1b:00.0/config", O_RDWR) = 3',
        '7 openat(AT_FDCWD, "/etc/x", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3',
        '7 unlink("/tmp/x") = 0',
        '7 rename("/tmp/state/x", "/etc/x") = 0',
        '7 unlink("/tmp/state-of-others/x") = 0',
        "7 ioctl(3, _IOC(_IOC_READ|_IOC_WRITE, 0x46, 0x2a, 0x20), 0x7ffd) = 0",
        '7 execve("/usr/bin/nvidia-smi", ["nvidia-smi", "-r"], 0x55 /* 20 vars */) = 0',
        '7 execve("/usr/sbin/setpci", ["setpci", "-s", "1b:00.0"], 0x55 /* 20 vars */) = 0',
        '7 execve("/usr/bin/lspci", ["lspci", "-xxxx"], 0x55 /* 20 vars */) = 0',
    ],
)
def test_this_test_can_fail(line):
    assert list(wrong([LINE.match(line).groups()], {"/tmp/state"}, PROGRAMS)) != []
