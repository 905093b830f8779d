"""The command line: exit codes, one line for every mistake, and never a traceback."""

import json
import os
import subprocess
import sys
import time

import click.testing
import nodes
import pytest

from topocheck import cli
from topocheck.cli import run

HEALTHY = str(nodes.healthy("hgx-h100"))


def topocheck(*arguments, **options):
    """A run of the real program."""
    command = [sys.executable, "-m", "topocheck", *map(str, arguments)]
    options = {"stdin": subprocess.DEVNULL} | options if "input" not in options else options
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


def one_line(text):
    assert text.startswith("topocheck: ")
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert "Traceback" not in text
    return text


@pytest.fixture
def failed(tmp_path):
    return str(nodes.apply("hgx-h100", nodes.edit("hgx-h100", "mlx5_3-x8"), tmp_path))


@pytest.fixture
def degraded(tmp_path):
    return str(nodes.apply("hgx-h100", nodes.edit("hgx-h100", "mlx5_2-slot-gen4"), tmp_path))


def test_the_exit_code_says_what_the_verdict_says(failed, capsys):
    assert run(["node", "--from", HEALTHY, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "healthy"
    assert run(["node", "--from", failed, "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "failed"
    assert run(["node", "--from", failed, "--exit-style", "nagios"]) == 2
    assert run(["node", "--from", failed, "--fail-on", "never"]) == 0


def test_fail_on_warning_fails_a_degraded_node(degraded):
    assert run(["node", "--from", degraded]) == 0
    assert run(["node", "--from", degraded, "--fail-on", "warning"]) == 1
    assert run(["node", "--from", degraded, "--exit-style", "nagios"]) == 1


def test_ignore_and_select_take_ids_and_globs(failed, capsys):
    assert run(["node", "--from", failed, "--ignore", "PCI*,NET001"]) == 0
    assert run(["node", "--from", failed, "--select", "pci001"]) == 1
    capsys.readouterr()
    assert run(["node", "--from", failed, "--select", "PCI001,NOPE001"]) == 2
    assert "NOPE001" in one_line(capsys.readouterr().err)


@pytest.mark.parametrize(
    "wrong",
    [
        ["node", "--bogus"],
        ["node", "--format", "yaml"],
        ["node", "--budget", "nan"],
        ["node", "--budget", "-1"],
        ["node", "--root", "/", "--from", HEALTHY],
        ["nodes"],
        ["rules", "NOPE001"],
        ["node", "--from", "/no/such/file"],
        ["node", "--from", "/dev/zero"],
        ["node", "--from", ""],
        ["node", "--root", "/no/such/folder"],
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2_or_what_the_style_says(wrong, capsys):
    assert run(wrong) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    one_line(seen.err)
    if wrong[0] == "node":
        assert run([*wrong, "--exit-style", "slurm"]) == 0
        assert run([*wrong, "--exit-style=nhc", "--fail-closed"]) == 1
        assert run([*wrong, "--exit-style=nagios"]) == 3


def test_where_nothing_is_recognised_stdout_is_empty(tmp_path):
    (tmp_path / "notes.txt").write_text("two pounds of sugar\n")
    for spec, stdin in ((tmp_path, ""), (tmp_path / "notes.txt", ""), ("-", "hello\n"), ("-", "")):
        seen = topocheck("node", "--from", spec, "--format", "json", input=stdin)
        assert (seen.returncode, seen.stdout) == (2, "")
        one_line(seen.stderr)


def test_hostile_input_through_the_program(tmp_path):
    with open("/dev/zero") as zero:  # noqa: PTH123 (a device, not a file)
        seen = topocheck("node", "--from", "-", stdin=zero)
    assert (seen.returncode, seen.stdout) == (2, "")
    one_line(seen.stderr)
    os.mkfifo(tmp_path / "pipe")
    assert "pipe" in one_line(topocheck("node", "--from", tmp_path / "pipe").stderr)
    (tmp_path / "lspci_-vvv").write_bytes(bytes(range(256)) * 1000)
    seen = topocheck("node", "--from", tmp_path)
    assert (seen.returncode, seen.stdout) == (2, "")
    one_line(seen.stderr)


@pytest.mark.parametrize("error", [KeyError("x"), RecursionError(), MemoryError(), ValueError("a\nb")])
def test_a_bug_of_ours_is_one_line_and_never_the_exit_code_of_a_finding(monkeypatch, capsys, error):
    def broken(*_args, **_options):
        raise error

    monkeypatch.setattr("topocheck.check.check", broken)
    for style, code in (("plain", 2), ("npd", 2), ("slurm", 0), ("nhc", 0), ("nagios", 3)):
        assert run(["node", "--from", HEALTHY, "--exit-style", style]) == code
        seen = capsys.readouterr()
        assert seen.out == ""
        one_line(seen.err)
    assert run(["node", "--from", HEALTHY, "--exit-style", "slurm", "--fail-closed"]) == 1


def test_a_reader_that_goes_away_is_no_error():
    command = f"{sys.executable} -m topocheck node --from {HEALTHY} --format json; echo $? >&2"
    seen = subprocess.run(["bash", "-c", f"({command}) | true"], capture_output=True, text=True, timeout=60, check=True)
    assert seen.stderr == "0\n"


def test_a_full_disk_is_one_line():
    with open("/dev/full", "w") as full:  # noqa: PTH123 (a device, not a file)
        seen = subprocess.run(
            [sys.executable, "-m", "topocheck", "rules"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert seen.returncode == 2
    assert "No space left" in one_line(seen.stderr)


def test_output_is_written_whole_or_not_at_all(tmp_path, capsys):
    file = tmp_path / "report.json"
    file.write_text("old")
    assert run(["node", "--from", HEALTHY, "--format", "json", "--output", str(file)]) == 0
    assert json.loads(file.read_text())["schema"] == "topocheck.node/1"
    assert capsys.readouterr().out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
    assert run(["node", "--from", HEALTHY, "--output", str(tmp_path / "no/folder/report")]) == 2
    assert run(["node", "--from", HEALTHY, "--output", str(tmp_path)]) == 2
    assert run(["node", "--from", HEALTHY, "--output", "/dev/null"]) == 0
    assert os.stat("/dev/null").st_rdev  # noqa: PTH116 (still the device)


def test_the_screen_is_plain_where_it_is_no_terminal():
    seen = topocheck("node", "--from", HEALTHY, env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert seen.returncode == 0
    assert seen.stdout.isascii()
    assert "\x1b" not in seen.stdout
    assert "?" not in seen.stdout.replace("(?", "")


def test_rules_are_listed_and_explained(capsys):
    assert run(["rules"]) == 0
    assert "PCI001  pcie-width-degraded" in capsys.readouterr().out
    assert run(["rules", "pci001"]) == 0
    assert capsys.readouterr().out.startswith("PCI001 pcie-width-degraded\n\n")


def test_help_and_version_and_nothing_at_all(capsys):
    assert run(["--version"]) == 0
    assert run(["node", "-h"]) == 0
    assert run([]) == 2
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(os.path.exists("/proc/driver/nvidia/version"), reason="this machine has a GPU")  # noqa: PTH110
def test_a_live_run_ends_in_time_on_a_machine_without_gpus():
    started = time.monotonic()
    seen = topocheck("node", "--format", "json", "--budget", "10")
    assert time.monotonic() - started < 20
    assert seen.returncode == 2  # no GPU seen: unknown, and the document says so
    assert json.loads(seen.stdout)["verdict"] == "unknown"


def test_every_command_has_help():
    runner = click.testing.CliRunner()
    for name in cli.MODULES:
        result = runner.invoke(cli.cli, [name, "--help"])
        assert result.exit_code == 0
        assert len(result.output.splitlines()) > 4
