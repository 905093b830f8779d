"""Waivers: what they cover, where and until when, and what becomes of what was accepted."""

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import nodes
import pytest

from topocheck.check import check
from topocheck.cli import run

WAIVER = '[[waiver]]\nrule = "PCI001"\ndevice = "mlx5_3"\nreason = "riser by order"\nexpires = 2999-12-31\n'


def today():
    return datetime.now(timezone.utc).date()


def only(report, rule):
    (finding,) = [f for f in report.findings if f.rule == rule]
    return finding


def test_a_waived_finding_stays_in_the_report_and_counts_nowhere(tmp_path, faulty, capsys):
    file = tmp_path / "policy.toml"
    file.write_text(WAIVER)
    narrow = faulty("mlx5_3-x8")
    assert run(["node", "--from", narrow]) == 1
    capsys.readouterr()
    assert run(["node", "--from", narrow, "--policy", str(file), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    (finding,) = [f for f in report["findings"] if f["rule"] == "PCI001"]
    assert (finding["waived"], finding["severity"], report["verdict"], report["together"]) == (
        True,
        "error",
        "healthy",
        None,
    )
    assert run(["node", "--from", narrow, "--policy", str(file)]) == 0
    assert "waived until 2999-12-31: riser by order" in " ".join(capsys.readouterr().out.split())


def test_waived_findings_stand_last_and_the_others_count(policy, tmp_path):
    narrow, capped = (nodes.edit("hgx-h100", name) for name in ("mlx5_3-x8", "mlx5_2-slot-gen4"))
    spec = str(nodes.apply("hgx-h100", replace(narrow, changes=narrow.changes + capped.changes), tmp_path / "two"))
    assert [f.rule for f in check(spec).report.findings] == ["PCI001", "PCI003"]
    report = check(spec, policy=policy(WAIVER)).report
    assert [(f.rule, f.waived) for f in report.findings] == [("PCI003", False), ("PCI001", True)]
    assert report.verdict == "degraded"


@pytest.mark.parametrize("device", ["mlx5_3", "MLX5_3", "0000:5e:00.0", "0000:5?:*", "mlx5_[1-3]", "*", "gpu0,mlx5_3"])
def test_a_waiver_names_devices_by_id_address_or_pattern(policy, faulty, device):
    assert only(check(faulty("mlx5_3-x8"), policy=policy(WAIVER.replace("mlx5_3", device))).report, "PCI001").waived


@pytest.mark.parametrize("text", [WAIVER.replace("mlx5_3", "mlx5_33"), WAIVER.replace("PCI001", "PCI002")])
def test_a_waiver_of_another_device_or_rule_waives_nothing(policy, faulty, text):
    report = check(faulty("mlx5_3-x8"), policy=policy(text)).report
    assert report.verdict == "failed"
    assert not any(f.waived for f in report.findings)


@pytest.mark.parametrize(
    ("hosts", "waived"),
    [
        ("gpu-a01", True),
        ("gpu-a[01-16]", True),
        ("gpu-*", True),
        ("x1,gpu-a01", True),
        ("gpu-a[02-16]", False),
        ("gpu", False),
    ],
)
def test_a_waiver_holds_on_its_hosts(policy, faulty, hosts, waived):
    text = f'{WAIVER}hosts = "{hosts}"\n'
    assert only(check(faulty("mlx5_3-x8"), policy=policy(text)).report, "PCI001").waived is waived


def test_a_waiver_for_hosts_does_not_hold_where_the_host_is_not_known(policy, faulty):
    lspci = str(Path(faulty("mlx5_3-x8"), "lspci_-D_-nn_-vv"))
    text = WAIVER.replace("mlx5_3", "0000:5e:00.0")
    assert check(lspci).report.host is None
    assert only(check(lspci, policy=policy(text)).report, "PCI001").waived
    assert not only(check(lspci, policy=policy(f'{text}hosts = "*"\n')).report, "PCI001").waived


def test_a_waiver_holds_through_its_day_and_then_says_so(policy, faulty):
    narrow = faulty("mlx5_3-x8")
    last_day = check(narrow, policy=policy(WAIVER.replace("2999-12-31", f"{today()}"))).report
    assert only(last_day, "PCI001").waived
    yesterday = today() - timedelta(days=1)
    report = check(narrow, policy=policy(WAIVER.replace("2999-12-31", f"{yesterday}"))).report
    finding = only(report, "PCI001")
    assert (finding.waived, report.verdict) == (False, "failed")
    assert finding.message.endswith(f"(waiver expired {yesterday})")
    renewed = WAIVER.replace("2999-12-31", f"{yesterday}") + WAIVER
    assert only(check(narrow, policy=policy(renewed)).report, "PCI001").waived


def test_a_finding_of_several_devices_needs_waivers_for_all(policy, faulty):
    crossed = faulty(nodes.edits("hgx-h100-roce")[0].name, node="hgx-h100-roce")
    one = WAIVER.replace("PCI001", "RAIL001").replace("mlx5_3", "mlx5_2")
    other = WAIVER.replace("PCI001", "RAIL001")
    assert not only(check(crossed, policy=policy(one)).report, "RAIL001").waived
    assert only(check(crossed, policy=policy(one + other)).report, "RAIL001").waived
