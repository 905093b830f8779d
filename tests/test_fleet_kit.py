"""What collects reports, as `topocheck fleet --show` prints it: parsed by what reads it, and run where that can be."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from gates import REPOSITORY, machine

from topocheck.cli import cli
from topocheck.kit import COLLECTING

USUAL = "/usr/local/bin/topocheck"
NODES = ("n1", "n2", "n3")


def shown(name):
    done = subprocess.run(
        [sys.executable, "-m", "topocheck", "fleet", "--show", name],
        env={"PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_every_way_is_printed_and_asks_each_node_for_json():
    for name in COLLECTING:
        text = shown(name)
        assert text.endswith("\n") and max(map(len, text.splitlines())) < 160
        (call,) = re.findall(r"topocheck node .*?(?=[\"<>\n])", text)
        assert "--format json --fail-on never" in call


def test_options_in_the_kit_exist():
    options = {
        command: {o for p in cli.get_command(None, command).params for o in p.opts} for command in ("node", "fleet")
    }
    for name in COLLECTING:
        for command, words in re.findall(r"topocheck (node|fleet)\b([^<>|#\n]*)", shown(name)):
            assert set(re.findall(r"(?<=\s)--[a-z-]+", words)) <= options[command]


@pytest.mark.real("shellcheck")
@pytest.mark.parametrize("name", ["slurm", "clush"])
def test_shellcheck_finds_nothing(name, tmp_path):
    script = tmp_path / "script.sh"
    script.write_text(shown(name))
    subprocess.run(["shellcheck", str(script)], check=True)


def test_the_manifest_reads_the_host_and_changes_nothing_on_it():
    (manifest,) = yaml.safe_load_all(shown("kubernetes"))
    assert (manifest["apiVersion"], manifest["kind"]) == ("apps/v1", "DaemonSet")
    template = manifest["spec"]["template"]
    assert manifest["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    pod = template["spec"]
    (container,) = pod["containers"]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert {path for path, mount in mounts.items() if mount.get("readOnly")} == {"/host/sys", "/host/proc"}
    hosts = {volume["name"] for volume in pod["volumes"] if "hostPath" in volume}
    assert all(mount["readOnly"] for mount in mounts.values() if mount["name"] in hosts)
    assert {mount["name"] for mount in mounts.values()} == {volume["name"] for volume in pod["volumes"]}
    assert "privileged" not in container["securityContext"] and container["securityContext"]["readOnlyRootFilesystem"]
    assert not any(name.startswith("nvidia.com/") for name in container["resources"]["limits"]), "takes no GPU"
    (script,) = container["args"]
    (call,) = re.findall(r"topocheck node .*", script)
    assert "--root /host" in call and "/reports" in mounts
    subprocess.run(["/bin/sh", "-n"], input=script, text=True, check=True)


@pytest.fixture
def machines(tmp_path):
    """Three machines, the second with a fault, and a topocheck that looks at the one named in $NODE."""
    for name in NODES:
        node = machine(tmp_path / name, "gpu5-x8" if name == "n2" else None)
        (node.root / "proc/sys/kernel").mkdir(parents=True, exist_ok=True)
        (node.root / "proc/sys/kernel/hostname").write_text(f"{name}\n")
    place = f"--root {tmp_path}/$NODE/capture --tools {tmp_path}/$NODE/tools"
    call = f'exec {sys.executable} -m topocheck "$@"'
    write(tmp_path / "topocheck", f'export PYTHONPATH={REPOSITORY}\n[ "$1" = fleet ] || set -- "$@" {place}\n{call}')
    return tmp_path


def write(file, text):
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def fleet(folder, *words):
    done = subprocess.run(
        [str(folder / "topocheck"), "fleet", "--format", "json", *words], capture_output=True, text=True, cwd=folder
    )
    document = json.loads(done.stdout)
    counted = {(g["rule"], g["hosts"]) for g in document["groups"] if g["severity"] != "info"}
    return document["nodes"], document["missing"], counted, sum(document["unread"].values())


def test_clush_and_a_node_that_ssh_does_not_reach(machines):
    """The real clush; ssh runs the command on one of our machines."""
    write(
        machines / "ssh",
        'for word; do host=$command command=$word; done\n[ "$host" = n3 ] && { echo "ssh: no route" >&2; exit 255; }\n'
        'NODE=$host exec /bin/sh -c "$command"',
    )
    text = shown("clush").replace(USUAL, str(machines / "topocheck"))
    text, count = re.subn("^NODES=.*", "NODES='n[1-3]'", text, flags=re.MULTILINE)
    assert count == 1
    path = f"{machines}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", text], env={"PATH": path, "HOME": str(machines)}, cwd=machines, capture_output=True, text=True
    )
    assert "no route" in done.stderr
    assert re.search(r"\bn2\b", done.stdout) and re.search(r"\bn3\b", done.stdout), done.stdout
    assert (machines / "reports.txt").read_text().startswith(("n1: {", "n2: {"))
    assert fleet(machines, "reports.txt", "--expect", "n[1-3]") == (2, "n3", {("PCI001", "n2")}, 0)


def test_the_line_of_cron(machines):
    """As cron runs it: by /bin/sh, with next to no environment. Of two runs the second's report stands."""
    line = shown("cron").splitlines()[-1]
    assert "%" not in line, "cron makes a line end of it"
    times, user, command = line.split(None, 5)[:5], *line.split(None, 6)[5:]
    assert (len(times), user) == (5, "root")
    command = command.replace(USUAL, str(machines / "topocheck")).replace("/shared/topocheck", str(machines / "shared"))
    (machines / "shared").mkdir()
    write(machines / "sleep", "exit 0")
    for node in (*NODES, "n1"):
        write(machines / "uname", f"echo {node}")
        environ = {"NODE": node, "PATH": f"{machines}:/usr/bin:/bin"}
        subprocess.run(["/bin/sh", "-c", command], env=environ, check=True)
    assert {file.name for file in (machines / "shared").iterdir()} == {f"{node}.json" for node in NODES}
    assert fleet(machines, "shared") == (3, "", {("PCI001", "n2")}, 0)
