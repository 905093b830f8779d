"""The integration kit as it is printed, and what its prolog makes of a gate in every state of disrepair."""

import json
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from gates import REPOSITORY, machine, slurm

from topocheck.check import check
from topocheck.formats import prometheus
from topocheck.kit import KIT

LINE = "topocheck: PCI001 gpu5 x8 of x16 -45%"


def shown(name):
    done = subprocess.run(
        [sys.executable, "-m", "topocheck", "gate", "--show", name],
        env={"PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.fixture
def prolog(tmp_path):
    """The prolog with another gate in it; what it ends with and prints."""

    def ran(gate, mode=0o755, job=None, **settings):
        place = tmp_path / "topocheck"
        if gate is not None:
            place.write_text(gate)
            place.chmod(mode)
        state = tmp_path / "state"
        state.mkdir(exist_ok=True, mode=0o700)
        text = shown("slurm")
        for name, value in {"GATE": place, "STATE": state, **settings}.items():
            text, count = re.subn(rf"^{name}=\S*", f"{name}={value}", text, flags=re.MULTILINE)
            assert count == 1, name
        script = tmp_path / "prolog"
        script.write_text(text)
        script.chmod(0o755)
        environ = slurm() if job is None else job
        done = subprocess.run(
            [str(script)], env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", check=False,
        )  # fmt: skip
        log = state / "gate.log"
        return done.returncode, done.stdout, log.read_text(errors="replace") if log.exists() else ""

    return ran


def fake(line=LINE, code=1, report=True):
    """A gate that writes its report where it is told to, prints a line and ends."""
    made = 'while [ $# -gt 0 ]; do [ "$1" = --output ] && echo "{}" > "$2"; shift; done\n' if report else ""
    return f"#!/bin/sh\n{made}echo '{line}'\nexit {code}\n"


NO_VERDICT = {
    "missing": (None, 0o755),
    "not executable": (fake(), 0o644),
    "no interpreter": ("#!/no/such/python\n", 0o755),
    "usage": (fake("topocheck: no such option", 2), 0o755),
    "status 126": (fake(code=126), 0o755),
    "killed by the OOM killer": ("#!/bin/sh\nkill -9 $$\n", 0o755),
    "segmentation fault": ("#!/bin/sh\nkill -11 $$\n", 0o755),
    "status 139": (fake(code=139), 0o755),
    "a traceback": (fake("Traceback (most recent call last):"), 0o755),
    "other words first": (fake("a warning of the interpreter\ntopocheck: PCI001 gpu5"), 0o755),
    "no report": (fake(report=False), 0o755),
    "garbage": ("#!/bin/sh\nprintf '\\377\\376\\000x\\n'\nexit 1\n", 0o755),
    "status 1 and silent": ("#!/bin/sh\nexit 1\n", 0o755),
}


@pytest.mark.parametrize("what", NO_VERDICT)
def test_whatever_is_no_verdict_lets_the_job_start_or_fails_it_if_closed(prolog, what):
    gate, mode = NO_VERDICT[what]
    code, out, log = prolog(gate, mode)
    assert code == 0
    assert "no verdict" in out
    assert log.count("\n") == 1 and "no verdict" in log
    code, _, log = prolog(gate, mode, FAIL_CLOSED="yes")
    assert code == 1
    assert log.count("\n") == 2
    assert log.splitlines()[1].partition("job ")[2].partition(": ")[2].strip(), "the log says why, whatever was printed"


def test_a_verdict_fails_the_job_and_a_dry_run_does_not(prolog):
    assert prolog(fake())[:2] == (1, f"{LINE}\n")
    code, out, log = prolog(fake(), DRY_RUN="yes")
    assert (code, out) == (0, f"would have failed the job: {LINE}\n")
    assert f"would have failed the job: {LINE}" in log


def test_a_pass_is_silent(prolog):
    assert prolog(fake("anything", 0)) == (0, "", "")


def test_a_state_folder_that_is_not_there_fails_no_job(prolog, tmp_path):
    assert prolog(None, STATE=tmp_path / "nowhere")[0] == 0


def test_the_drain_script_is_given_the_line(prolog, tmp_path):
    drain = tmp_path / "drain"
    drain.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/drained\n')
    drain.chmod(0o755)
    assert prolog(fake(), DRAIN=drain)[0] == 1
    assert (tmp_path / "drained").read_text() == f"{LINE}\n"


@pytest.mark.parametrize("fault", [None, "gpu5-x8"])
def test_the_prolog_with_the_real_gate(prolog, tmp_path, fault):
    node = machine(tmp_path / "machine", fault)
    arguments = f"--root {node.root} --tools {node.tools}"
    gate = f'#!/bin/sh\nPYTHONPATH={REPOSITORY} exec {sys.executable} -m topocheck "$@" {arguments}\n'
    code, out, log = prolog(gate)
    assert (code, out) == ((1, f"{LINE}\n") if fault else (0, ""))
    assert ("exit 1: PCI001" in log) == bool(fault)
    (report,) = (tmp_path / "state").glob("gate-job-4711-*.json")
    assert json.loads(report.read_text())["exit_code"] == code


@pytest.mark.parametrize(
    ("reason", "arguments", "update"),
    [
        ("", [LINE], f"state=drain reason={LINE}"),
        ("topocheck: NET001 mlx5_1 [root@2026-11-20T03:04:05]", [LINE], f"state=drain reason={LINE}"),
        ("NHC: check_hw_mem [root@2026-11-20T03:04:05]", [LINE], None),
        ("topocheck: NET001 mlx5_1 [root@2026-11-20T03:04:05]", [], "state=resume"),
        ("NHC: check_hw_mem [root@2026-11-20T03:04:05]", [], None),
        ("", [], None),
    ],
)
def test_only_our_own_reason_is_taken_back(tmp_path, reason, arguments, update):
    scontrol = tmp_path / "scontrol"
    (tmp_path / "node").write_text("NodeName=n1 State=IDLE\n" + (f"   Reason={reason}\n" if reason else ""))
    scontrol.write_text(
        f'#!/bin/sh\nif [ "$1" = show ]; then exec /bin/cat {tmp_path}/node; fi\necho "$@" > {tmp_path}/update\n'
    )
    scontrol.chmod(0o755)
    script = tmp_path / "drain.sh"
    script.write_text(shown("slurm-drain").replace("/usr/bin/scontrol", str(scontrol)))
    done = subprocess.run(["/bin/sh", str(script), *arguments], env={"SLURMD_NODENAME": "n1"}, check=False)
    assert done.returncode == 0
    made = tmp_path / "update"
    assert (made.read_text() if made.exists() else None) == (f"update nodename=n1 {update}\n" if update else None)


def test_every_part_of_the_kit_is_printed():
    for name in KIT:
        assert shown(name).endswith("\n")
    assert len(shown("slurm").splitlines()) < 40
    assert json.loads(shown("npd"))["pluginConfig"]["max_output_length"] == 80
    assert {panel["type"] for panel in json.loads(shown("grafana"))["panels"]} == {"stat", "table", "timeseries"}


def test_metrics_named_in_rules_and_dashboard_are_printed():
    known = set(prometheus._HELP)
    for name in ("prometheus", "grafana"):
        assert set(re.findall(r"topocheck_[a-z_]+", shown(name))) <= known


@pytest.mark.real("shellcheck")
@pytest.mark.parametrize("name", ["slurm", "slurm-drain", "slurm-healthcheck"])
def test_shellcheck_finds_nothing(name, tmp_path):
    script = tmp_path / "script.sh"
    script.write_text(shown(name))
    subprocess.run(["shellcheck", str(script)], check=True)


@pytest.mark.real("prometheus", program="promtool")
def test_promtool_accepts_the_alert_rules_and_they_fire(tmp_path):
    (tmp_path / "rules.yml").write_text(shown("prometheus"))
    (tmp_path / "test.yml").write_text(
        """
rule_files: [rules.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'topocheck_check_status{check="PCI001",device="gpu5",instance="n1"}'
        values: '3x60'
      - series: 'topocheck_check_status{check="PCI009",device="mlx5_1",instance="n1"}'
        values: '1x60'
    alert_rule_test:
      - eval_time: 30m
        alertname: TopocheckError
        exp_alerts:
          - exp_labels: {severity: critical, check: PCI001, device: gpu5, instance: n1}
            exp_annotations:
              summary: 'PCI001 on n1 gpu5'
              description: 'An error stands. topocheck rules PCI001 says what it means and what to do.'
      - eval_time: 30m
        alertname: TopocheckWarning
"""
    )
    subprocess.run(["promtool", "check", "rules", "rules.yml"], check=True, cwd=tmp_path)
    subprocess.run(["promtool", "test", "rules", "test.yml"], check=True, cwd=tmp_path)


@pytest.mark.real("prometheus", program="promtool")
@pytest.mark.parametrize("fault", ["gpu5-x8", "mlx5_8-polling"])
def test_promtool_accepts_the_metrics(faulty, fault):
    text = prometheus.render(check(faulty(fault)).report)
    subprocess.run(["promtool", "check", "metrics"], input=text, text=True, check=True)


def served(address):
    """The metrics, as soon as it listens."""
    host, port = address.split(":")
    end_s = time.monotonic() + 10
    while time.monotonic() < end_s:
        with socket.socket() as client:
            if client.connect_ex((host, int(port))) == 0:
                return urlopen(f"http://{address}/metrics", timeout=5).read().decode()
        time.sleep(0.1)
    raise AssertionError("node_exporter does not listen")


@pytest.mark.real("prometheus-node-exporter")
def test_node_exporter_serves_the_metrics(tmp_path, faulty):
    """As its unit writes them: by --output, beside their place and moved there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    (tmp_path / "metrics").mkdir()
    line = next(line for line in shown("node-exporter").splitlines() if line.startswith("ExecStart="))
    words = line.partition(" ")[2].split()
    words[-1] = str(tmp_path / "metrics" / Path(words[-1]).name)
    call = [sys.executable, "-m", "topocheck", *words, "--from", faulty("gpu5-x8")]
    subprocess.run(call, env={"PYTHONPATH": str(REPOSITORY)}, check=True)
    options = [
        "--collector.disable-defaults",
        "--collector.textfile",
        f"--collector.textfile.directory={tmp_path}/metrics",
    ]
    exporter = subprocess.Popen(
        ["prometheus-node-exporter", *options, f"--web.listen-address={address}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        text = served(address)
    finally:
        exporter.terminate()
        exporter.wait(5)
    assert 'topocheck_check_status{check="PCI001",device="gpu5"} 3' in text
    assert "node_textfile_scrape_error 0" in text


def test_the_kit_is_part_of_the_package():
    listed = (REPOSITORY / "pyproject.toml").read_text()
    assert '"kit/*"' in listed
    assert {path.suffix for path in (Path(REPOSITORY) / "topocheck/kit").iterdir() if path.is_file()} >= {".sh", ".yml"}
