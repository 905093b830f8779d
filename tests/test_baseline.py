"""A baseline: what an earlier report of this node had and the node has no more."""

import json
from pathlib import Path

import nodes
import pytest

from topocheck.check import check
from topocheck.cli import run
from topocheck.errors import UsageError
from topocheck.gate.grounds import grounds_of
from topocheck.policy import Policy

HEALTHY = str(nodes.healthy("hgx-h100"))
LSPCI = str(nodes.healthy("hgx-h100") / "lspci_-D_-nn_-vv")


def only(report, rule):
    (finding,) = [f for f in report.findings if f.rule == rule]
    return finding


@pytest.fixture
def baseline(tmp_path, policy):
    """A policy with a report of a node as its baseline, changed by `change`."""

    def made(spec=HEALTHY, change=None, name="baseline.json"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        assert run(["node", "--from", spec, "--format", "json", "--output", str(file)]) == 0
        report = json.loads(file.read_text())
        if change:
            change(report)
        file.write_text(json.dumps(report))
        return policy(f'baseline = "{name.partition("/")[0]}"\n')

    return made


def test_a_node_as_it_was_is_healthy(baseline):
    assert check(HEALTHY, policy=baseline()).report.findings == check(HEALTHY).report.findings


def test_a_link_that_ran_wider_is_an_error_whatever_its_ends_say_now(baseline, faulty):
    spec = faulty("mlx5_3-x8")
    lspci = Path(spec, "lspci_-D_-nn_-vv")
    head, port = lspci.read_text().split("0000:5b:02.0 ", 1)
    lspci.write_text(
        f"{head}0000:5b:02.0 {port.replace('Port #2, Speed 32GT/s, Width x16', 'Port #2, Speed 32GT/s, Width x8', 1)}"
    )
    assert only(check(spec).report, "PCI003").severity == "warning"
    report = check(spec, policy=baseline()).report
    finding = only(report, "PCI001")
    assert (finding.severity, finding.expected_from, finding.subjects) == ("error", "baseline", ("mlx5_3",))
    assert "x16 in the baseline of 2026-11-15" in finding.message
    assert finding.price.loss == pytest.approx(0.451, abs=0.0006)  # 26.9 of 49.0 GB/s
    assert not [f for f in report.findings if f.rule == "PCI003"]


def awake(report):
    for link in report["links"]:
        if link["b"] == "0000:84:00.0":
            link["speed_gts"] = 16.0


def test_a_link_that_ran_faster_is_an_error(baseline, faulty):
    slow = faulty("gpu5-gen3-in-p0", node="pcie-box")
    assert only(check(slow).report, "PCI002").severity == "warning"
    box = str(nodes.healthy("pcie-box"))
    finding = only(check(slow, policy=baseline(box, awake)).report, "PCI002")
    assert (finding.severity, finding.expected_from) == ("error", "baseline")
    asleep = check(box, policy=baseline(box, awake)).report
    assert [f for f in asleep.findings if f.rule == "PCI002"] == []


def other_card(report):
    awake(report)
    for device in report["devices"]:
        if device["bdf"] == "0000:84:00.0":
            device["pci_id"] = "10de:2684"


def test_another_card_at_the_same_address_proves_nothing(baseline, faulty):
    slow = faulty("gpu5-gen3-in-p0", node="pcie-box")
    report = check(slow, policy=baseline(str(nodes.healthy("pcie-box")), other_card)).report
    assert only(report, "PCI002").severity == "warning"


def lspci_without(tmp_path, address):
    """Only lspci of the node, and the function at `address` not in it."""
    text = Path(LSPCI).read_text()
    file = tmp_path / "lspci_-D_-nn_-vv"
    file.write_text(nodes.Change("lspci", at=f"^{address} ", paragraph="").of(text))
    return str(file)


def test_a_gpu_that_left_the_bus_is_an_error(baseline, tmp_path):
    spec = lspci_without(tmp_path, "0000:bb:00.0")
    assert [f for f in check(spec).report.findings if f.rule == "GPU001"] == []
    finding = only(check(spec, policy=baseline()).report, "GPU001")
    assert (finding.severity, finding.expected_from, finding.subjects) == ("error", "baseline", ("0000:bb:00.0",))
    assert "gpu5 0000:bb:00.0" in finding.evidence[0].text


def test_a_gpu_that_is_not_in_an_excerpt_is_not_gone(baseline):
    matrix = str(nodes.healthy("hgx-h100") / "nvidia-smi_topo_-m")
    assert [f for f in check(matrix, policy=baseline()).report.findings if f.rule in ("GPU001", "NET005")] == []


def test_a_lost_gpu_is_told_once(baseline, faulty):
    assert only(check(faulty("gpu4-lost"), policy=baseline()).report, "GPU001").expected_from is None


def test_a_nic_that_left_is_an_error(baseline, faulty):
    gone = faulty("mlx5_9-gone")
    assert only(check(gone).report, "NET005").severity == "warning"
    finding = only(check(gone, policy=baseline()).report, "NET005")
    assert (finding.severity, finding.expected_from, finding.subjects) == ("error", "baseline", ("0000:dc:00.0",))
    assert finding.price.loss == pytest.approx(1 / 8, abs=0.0006)


def test_all_nics_gone_at_once_are_an_error_that_fails_no_job(baseline, tmp_path):
    """rules.md: what hits every device of its kind the gate holds to a warning."""
    functions = Path(LSPCI).read_text().split("\n\n")
    (tmp_path / "lspci_-D_-nn_-vv").write_text("\n\n".join(f for f in functions if "[15b3:" not in f))
    checked = check(str(tmp_path / "lspci_-D_-nn_-vv"), policy=baseline())
    finding = only(checked.report, "NET005")
    assert (finding.severity, finding.expected_from, len(finding.subjects)) == ("error", "baseline", 8)
    grounds, held = grounds_of(checked.topology, checked.report.findings, Policy())
    assert not grounds and "NET005" in held[0]


def test_a_folder_has_a_baseline_for_each_host(baseline, faulty, tmp_path):
    chosen = baseline(name="reports/gpu-a01.json")
    assert only(check(faulty("mlx5_9-gone"), policy=chosen).report, "NET005").expected_from == "baseline"
    with pytest.raises(UsageError, match=r"inf-d03\.json: no such file"):
        check(str(nodes.healthy("pcie-box")), policy=chosen)
    with pytest.raises(UsageError, match="no host name"):
        check(LSPCI, policy=chosen)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "no such file"),
        ("{", "no JSON"),
        ("[]", "no topocheck.node/1 report"),
        ('{"schema": "topocheck.fleet/1"}', "no topocheck.node/1 report"),
        ('{"schema": "topocheck.node/1"}', "damaged"),
        ('{"schema": "topocheck.node/1", "host": null, "time": "", "devices": [1], "links": []}', "damaged"),
        (
            '{"schema": "topocheck.node/1", "host": "gpu-b07", "time": "", "devices": [], "links": []}',
            "report of gpu-b07",
        ),
        ("[" * 100_000, "no JSON"),
        ("\udcff", "no JSON"),
    ],
)
def test_a_baseline_that_cannot_be_used_ends_the_run(tmp_path, capsys, text, why):
    (tmp_path / "policy.toml").write_text('baseline = "old.json"\n')
    if text is not None:
        (tmp_path / "old.json").write_text(text, errors="surrogateescape")
    assert run(["node", "--from", HEALTHY, "--policy", str(tmp_path / "policy.toml")]) == 2
    said = capsys.readouterr().err
    assert why in said
    assert str(tmp_path / "old.json") in said
