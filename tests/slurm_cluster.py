"""A real Slurm on loopback: munged, slurmctld and a slurmd for each of three nodes, from Debian's packages, as root.

Everything lies in one folder; keys, sockets and ports are its own. Each node is a machine of tests/gates.py, and its
prolog is the kit's, with a gate that looks at that machine.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp

import nodes
import pytest
from gates import HANGS, NODE, REPOSITORY, Machine, machine
from livenode import write_tool

from topocheck.kit import text_of

NODES = ("n1", "n2", "n3")
CONF = """
ClusterName=topocheck
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
GresTypes=gpu
ReturnToService=0
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
KillWait=2
MessageTimeout=10
Prolog={folder}/prolog.sh
PrologFlags=Alloc
NodeName=DEFAULT Sockets=2 CoresPerSocket=8 CPUs=16 RealMemory=1000 Gres=gpu:8
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]}
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]}
NodeName=n3 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[3]}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    """Three nodes, and what one does with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self.nodes: dict[str, Machine] = {}
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> Cluster:
        """Bring it up; RuntimeError if not all nodes are idle after half a minute."""
        for name in ("munge", "state", "spool", "dev", "log"):
            (self.folder / name).mkdir()
        (self.folder / "munge").chmod(0o700)
        for number in range(8):
            os.mknod(self.folder / f"dev/nvidia{number}", 0o020666, os.makedev(1, 3))
        self._write_conf()
        for name in NODES:
            (self.folder / "spool" / name).mkdir()
            self.nodes[name] = machine(self.folder / "nodes" / name)
            hostname = self.nodes[name].root / "proc/sys/kernel/hostname"
            hostname.parent.mkdir(parents=True, exist_ok=True)
            hostname.write_text(f"{name}\n")
        self._write_scripts()
        self._daemons()
        self.wait(lambda: self.states() == dict.fromkeys(NODES, "idle"), 30)
        return self

    def stop(self) -> None:
        """End every process that was started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for daemon in reversed(self._started):
                if daemon.poll() is None:
                    os.killpg(daemon.pid, number)
            end_s = time.monotonic() + 3
            while any(d.poll() is None for d in self._started) and time.monotonic() < end_s:
                time.sleep(0.05)

    def run(self, *words: str, timeout_s: float = 40) -> str:
        """A command of Slurm's, its output and errors together."""
        done = subprocess.run(
            words, env=self.environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=timeout_s, check=False, cwd=self.folder,
        )  # fmt: skip
        return done.stdout

    def submit(self, *options: str, script: str = "echo $SLURMD_NODENAME") -> str:
        """A batch job that asks for GPUs; its id."""
        words = ["sbatch", "--parsable", "--requeue", "-o", f"{self.folder}/log/%j.out", "--gres=gpu:8", *options]
        return self.run(*words, "--wrap", script).strip()

    def output(self, job: str) -> list[str]:
        """The lines that a job has printed by now."""
        file = self.folder / f"log/{job}.out"
        return file.read_text().splitlines() if file.exists() else []

    def states(self) -> dict[str, str]:
        """Each node's state."""
        rows = self.run("sinfo", "-h", "-N", "-o", "%N %T").splitlines()
        return {row.split()[0]: row.split()[1].rstrip("*") for row in rows if len(row.split()) == 2}

    def reason(self, node: str) -> str | None:
        """Why a node is drained, as Slurm has it."""
        match = re.search(r"^\s*Reason=(.*) \[", self.run("scontrol", "show", "node", node), re.MULTILINE)
        return match[1] if match else None

    def queue(self, job: str) -> str:
        """State and reason of a job; "" when it is over."""
        return self.run("squeue", "-h", "-j", job, "-t", "all", "-o", "%T %r").strip()

    def release(self, job: str) -> None:
        """Let a job start that was requeued and held; slurmd refuses a credential made in the very second in which it
        revoked the job's last one."""
        time.sleep(2)
        self.run("scontrol", "release", job)
        self.run("scontrol", "update", f"jobid={job}", "StartTime=now")

    def break_node(self, node: str, fault: str | None) -> None:
        """The node's lspci with one of our faults, or none, in it; nvidia-smi answers again."""
        place = self.nodes[node]
        changes = () if fault is None else nodes.edit(NODE, fault).changes
        shutil.copy(nodes.healthy(NODE) / "lspci_-D_-nn_-vv", place.root)
        for change in changes:
            file = place.root / change.file
            file.write_text(change.of(file.read_text()))
        smi = place.tools / "nvidia-smi"
        if smi.read_text() == HANGS:
            shutil.copy(smi.with_name("nvidia-smi.kept"), smi)

    def hang(self, node: str) -> None:
        """The node's nvidia-smi never ends."""
        smi = self.nodes[node].tools / "nvidia-smi"
        if smi.read_text() != HANGS:
            shutil.copy(smi, smi.with_name("nvidia-smi.kept"))
        write_tool(smi.parent, "nvidia-smi", HANGS)

    def at_rest(self) -> None:
        """Healthy, idle nodes and the usual prolog, as at the start."""
        self.run("scancel", "-p", "main")
        self.write_prolog()
        for node in NODES:
            self.break_node(node, None)
        self.wait(lambda: not self.run("squeue", "-h"))
        for node, state in self.states().items():
            if state.startswith(("drain", "down")):
                self.resume(node)

    def resume(self, node: str) -> None:
        """Take back a drain."""
        self.run("scontrol", "update", f"nodename={node}", "state=resume")
        self.wait(lambda: self.states()[node] == "idle")

    def wait(self, until: Callable[[], bool], most_s: float = 25) -> None:
        """Until something holds; AssertionError if it does not come to that."""
        end_s = time.monotonic() + most_s
        while not until():
            assert time.monotonic() < end_s, self.told()
            time.sleep(0.1)

    def told(self) -> str:
        """What is known of a test that went wrong."""
        logs = [(self.folder / f"log/{name}.out") for name in ("slurmctld", *NODES)]
        tails = [f"{log.name}: {log.read_text(errors='replace')[-600:]}" for log in logs if log.exists()]
        return "\n".join([self.run("sinfo", "-N", "-o", "%N %T %E"), self.run("squeue"), *tails])

    def write_prolog(self, **settings: str) -> None:
        """The kit's prolog, with these settings of its own lines."""
        here = f"{self.folder}/nodes/$SLURMD_NODENAME"
        usual = {"GATE": f"{self.folder}/topocheck", "STATE": f"{here}/state", "DRAIN": f"{self.folder}/drain.sh"}
        text = text_of("slurm")
        for name, value in {**usual, "OPTIONS": '"--budget 6"', **settings}.items():
            text = re.sub(rf"^{name}=(?:\"[^\"]*\"|\S*)", f"{name}={value}", text, flags=re.MULTILINE)
        self._script("prolog.sh", text)

    def write_healthcheck(self) -> None:
        """The kit's HealthCheckProgram."""
        values = {"GATE": f"{self.folder}/topocheck", "DRAIN": f"{self.folder}/drain.sh"}
        text = text_of("slurm-healthcheck").replace("/etc/slurm/slurm.conf", str(self.folder / "slurm.conf"))
        for name, value in values.items():
            text = re.sub(rf"^{name}=\S*", f"{name}={value}", text, flags=re.MULTILINE)
        state = f"--state {self.folder}/nodes/$SLURMD_NODENAME/state"
        self._script("healthcheck.sh", re.sub("^OPTIONS=.*", f'OPTIONS="{state}"', text, flags=re.MULTILINE))

    def healthcheck(self, node: str) -> None:
        """Run it as slurmd does: with the node's name and nothing else."""
        environ = {"SLURMD_NODENAME": node}
        subprocess.run([str(self.folder / "healthcheck.sh")], env=environ, stdin=subprocess.DEVNULL, check=True)

    def _write_scripts(self) -> None:
        here = f"{self.folder}/nodes/$SLURMD_NODENAME"
        call = f'exec {sys.executable} -m topocheck "$@"'
        on_a_node = f'[ "$1" = fleet ] || set -- "$@" --root {here}/capture --tools {here}/tools'
        self._script("topocheck", f"#!/bin/sh\nexport PYTHONPATH={REPOSITORY}\n{on_a_node}\n{call}\n")
        self._script("drain.sh", text_of("slurm-drain"))
        self.write_prolog()

    def _script(self, name: str, text: str) -> None:
        beside = self.folder / f".{name}"
        beside.write_text(text)
        beside.chmod(0o755)
        beside.replace(self.folder / name)

    def _write_conf(self) -> None:
        host = socket.gethostname().partition(".")[0]
        text = CONF.format(host=host, ports=_free_ports(4), folder=self.folder)
        (self.folder / "slurm.conf").write_text(text)
        gres = f"AutoDetect=off\nNodeName=n[1-3] Name=gpu File={self.folder}/dev/nvidia[0-7]\n"
        (self.folder / "gres.conf").write_text(gres)

    def _daemons(self) -> None:
        munge = self.folder / "munge"
        (munge / "key").write_bytes(os.urandom(128))
        (munge / "key").chmod(0o400)
        munge.chmod(0o755)
        places = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        files = [f"--{option}={munge}/{name}" for option, name in places.items()]
        self._daemon("munged", "munged", "-F", "--force", *files)
        self.wait(lambda: (munge / "socket").exists(), 10)
        self._daemon("slurmctld", "slurmctld", "-D", "-i")
        for name in NODES:
            self._daemon(name, "slurmd", "-D", "-N", name)

    def _daemon(self, name: str, program: str, *options: str) -> None:
        path = shutil.which(program, path="/usr/sbin:/usr/bin")
        assert path, f"{program} is not installed"
        with (self.folder / f"log/{name}.out").open("wb") as log:
            self._started.append(
                subprocess.Popen(
                    [path, *options], env=self.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True, cwd=self.folder,
                )
            )  # fmt: skip


def running() -> Iterator[Cluster]:
    """For a fixture: a cluster, and its end."""
    if os.geteuid() != 0:
        told = pytest.fail if os.environ.get("TOPOCHECK_REAL") == "1" else pytest.skip
        told("only root can run slurmd for others")
    cluster = Cluster(Path(mkdtemp(prefix="topocheck-slurm-")))  # a short path: sockets have 108 characters
    try:
        yield cluster.start()
    finally:
        cluster.stop()
        shutil.rmtree(cluster.folder, ignore_errors=True)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
