"""The formats of one line and of metrics: what they say of every fault of our nodes, and that they stay small."""

import re
import subprocess
import sys

import nodes
import pytest
from gates import REPOSITORY

from topocheck.check import check
from topocheck.formats import line, nagios, prometheus

FAULTS = [(node, edit.name) for node in nodes.names() for edit in nodes.edits(node)]
SAMPLE = re.compile(r'([a-z_]+)(?:\{([a-z]+="[^"\n]*"(?:,[a-z]+="[^"\n]*")*)\})? (-?[0-9.e+]+)')


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    return {
        (node, fault): check(str(nodes.apply(node, nodes.edit(node, fault), folder / f"{node}-{fault}"))).report
        for node, fault in FAULTS
    }


def test_a_line_names_rule_and_device_in_eighty_bytes(reports):
    for report in reports.values():
        for finding in report.findings:
            text = line.line_of(finding)
            assert len(text.encode("ascii")) <= 80 and "\n" not in text
            assert text.startswith(f"{finding.rule} {finding.subjects[0] if finding.subjects else ''}")


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        # 26.9 of 49.0, 26.0 of 49.0 (Gen4 x16), 24.5 of 49.0; one rail of eight
        ("mlx5_3-x8", "PCI001 mlx5_3 x8 of x16 -45%"),
        ("mlx5_6-gen4", "PCI002 mlx5_6 PCIe 4.0 of 5.0 -47%"),
        ("mlx5_1-200", "NET002 mlx5_1 200 of 400 Gb/s -50%"),
        ("mlx5_8-polling", "NET001 mlx5_8 Down/Polling -12%"),
        ("gpu2-one-nvlink", "NVL001 gpu2 17 of 18 NVLinks"),
        ("gpu4-lost", "GPU001 gpu4 gone"),
    ],
)
def test_the_worst_fault_in_one_line(reports, fault, text):
    assert line.render(reports["hgx-h100", fault]) == f"{text}\n"


def test_a_healthy_node_in_one_line():
    text = line.render(check(str(nodes.healthy("hgx-h100"))).report)
    assert re.fullmatch(r"healthy: no fault seen by the [0-9]+ rules that could run\n", text)


def test_nagios_by_the_command_line(faulty):
    call = [sys.executable, "-m", "topocheck", "node", "--format", "line", "--exit-style", "nagios", "--from"]
    done = subprocess.run(
        [*call, faulty("mlx5_3-x8")], capture_output=True, text=True, check=False, env={"PYTHONPATH": str(REPOSITORY)}
    )
    text = "TOPOCHECK CRITICAL - PCI001 mlx5_3 x8 of x16 -45% | errors=1;;1 warnings=0;1 worst_loss=45%\n"
    assert (done.returncode, done.stdout) == (2, text)
    assert (
        nagios.status_line(3, "a | b", 0, 2, 0.0)
        == "TOPOCHECK UNKNOWN - a / b | errors=0;;1 warnings=2;1 worst_loss=0%\n"
    )


def test_metrics_of_every_fault(reports):
    for report in reports.values():
        lines = prometheus.render(report).splitlines()
        samples = [SAMPLE.fullmatch(text) for text in lines if not text.startswith("#")]
        assert all(samples)
        series = [match[0].rpartition(" ")[0] for match in samples]
        assert len(series) == len(set(series)) <= prometheus.MOST_SERIES
        told = {match[1] for match in samples}
        assert [text.split()[2] for text in lines if text.startswith("# HELP")] == [
            n for n in prometheus._HELP if n in told
        ]


def test_metrics_say_state_and_loss(reports):
    text = prometheus.render(reports["hgx-h100", "mlx5_3-x8"])
    assert 'topocheck_check_status{check="PCI001",device="mlx5_3"} 3\n' in text
    assert 'topocheck_path_loss_ratio{from="gpu3",to="mlx5_3"} 0.451\n' in text
    assert 'topocheck_path_bandwidth_bytes_per_second{from="gpu3",to="mlx5_3",kind="found"} 26900000000\n' in text
    assert 'topocheck_findings{severity="error"} 1\n' in text
    assert "topocheck_last_run_timestamp_seconds 1794711845\n" in text  # 2026-11-15T03:04:05Z


def test_metrics_are_cut_at_two_hundred_and_the_worst_stay(reports):
    from dataclasses import replace

    from topocheck.facts import Gap

    report = reports["hgx-h100", "mlx5_3-x8"]
    many = replace(report, gaps=tuple(Gap(f"input {number}", "gone") for number in range(500)))
    text = prometheus.render(many)
    assert sum(not row.startswith("#") for row in text.splitlines()) == 200
    assert 'topocheck_check_status{check="PCI001",device="mlx5_3"} 3\n' in text
