"""The policy file, by the command line and check(): every key changes an answer, every mistake is told by its line."""

import re
from dataclasses import fields
from datetime import date
from pathlib import Path

import nodes
import pytest

from topocheck.check import check
from topocheck.cli import run
from topocheck.policy import EVIDENCE, Policy

HEALTHY = str(nodes.healthy("hgx-h100"))
LSPCI = str(nodes.healthy("hgx-h100") / "lspci_-D_-nn_-vv")
DOC = Path(__file__).parents[1] / "docs" / "policy.md"
WAIVER = '[[waiver]]\nrule = "PCI001"\ndevice = "mlx5_3"\nreason = "riser by order"\nexpires = 2999-12-31\n'


def only(report, rule):
    (finding,) = [f for f in report.findings if f.rule == rule]
    return finding


def roles(report):
    return {d.id: (d.role, d.role_from) for d in report.devices if d.kind == "nic"}


def test_the_example_in_the_documentation_has_every_key_and_is_read(policy):
    example = re.search(r"```toml\n(.*?)```", DOC.read_text("utf-8"), re.DOTALL)[1]
    read = policy(example)
    assert read.fail_on == "error"
    assert read.require == EVIDENCE
    assert read.ignore == ("NUM003",)
    assert read.severity == {"PCI006": "info", "RAIL003": "error"}
    assert "mlx5_7" in read.compute_nics[1]
    assert "mlx5_4" not in read.compute_nics[1]
    assert len(read.rails) == 8
    assert read.waiver[0].expires == date(2027, 3, 31)
    keys = {field.name for field in fields(Policy)}
    assert {key for key in keys if re.search(rf"^(\[\[?)?{key}\b", example, re.MULTILINE)} == keys
    table = DOC.read_text("utf-8").split("## Keys")[1]
    assert {key for key in keys if re.search(rf"^\| `(\[\[?)?{key}\b", table, re.MULTILINE)} == keys


def test_the_keys_of_the_gate_are_read(policy):
    silent = policy("")
    assert (silent.job_without_gres, silent.on_hang, silent.job_opt_out) == ("pass", "pass", None)
    read = policy('job_without_gres = "whole-node"\non_hang = "fail"\njob_opt_out = "topocheck=skip"\n')
    assert (read.job_without_gres, read.on_hang, read.job_opt_out) == ("whole-node", "fail", "topocheck=skip")


@pytest.mark.parametrize(
    ("text", "line", "key", "why"),
    [
        ("schema = 2\n", 1, "schema", "schema 1"),
        ("schema = 1\n\nfail_no = 'error'\n", 3, "fail_no", "no such key"),
        ("# a\nfail_on = 'fatal'\n", 2, "fail_on", "one of error"),
        ("fail_on = ['error']\n", 1, "fail_on", "one of error"),
        ("min_loss = 5\n", 1, "min_loss", "0 to 1"),
        ("min_loss = nan\n", 1, "min_loss", "0 to 1"),
        ("min_loss = true\n", 1, "min_loss", "0 to 1"),
        ("job_without_gres = 'all'\n", 1, "job_without_gres", "whole-node"),
        ("on_hang = 1\n", 1, "on_hang", "pass, fail"),
        ("require = ['pcie-links', 'gpus']\n", 1, "require", "nic-ports"),
        ("require = 'nvlink'\n", 1, "require", "list"),
        ("select = ['PCI001',\n 'NOPE*']\n", 1, "select", "NOPE*: no such rule"),
        ("select = []\n", 1, "select", "empty"),
        ("ignore = ['PCI999']\n", 1, "ignore", "PCI999: no such rule"),
        ("ignore = [1]\n", 1, "ignore", "text"),
        ("baseline = ''\n", 1, "baseline", "text"),
        ("compute_nics = 'mlx5_*'\n", 1, "compute_nics", "list"),
        ("compute_nics = ['mlx5_[3-1]']\n", 1, "compute_nics", "ascend"),
        ("rails = []\n", 1, "rails", "empty"),
        ("[severity]\nPCI001 = 'info'\nPCI999 = 'info'\n", 3, "PCI999", "no such rule"),
        ("[severity]\nPCI001 = 'fatal'\n", 2, "PCI001", "one of info"),
        ("severity = 'info'\n", 1, "severity", "[severity]"),
        ("\nseverity.PCI001 = 'fatal'\n", 2, "PCI001", "one of info"),
        ("waiver = 1\n", 1, "waiver", "[[waiver]]"),
        ("[waiver]\nrule = 'PCI001'\n", 1, "waiver", "[[waiver]]"),
        (WAIVER + "colour = 1\n", 6, "colour", "no such key"),
        (WAIVER + "\n" + WAIVER.replace("PCI001", "PCI999"), 8, "rule", "PCI999: no such rule"),
        (WAIVER + "hosts = 'gpu[001-016'\n", 6, "hosts", "not closed"),
        (WAIVER.replace('"mlx5_3"', "3"), 3, "device", "text"),
        (WAIVER.replace("2999-12-31", "'2999-12-31'"), 5, "expires", "date"),
        (WAIVER.replace("2999-12-31", "2999-12-31T00:00:00Z"), 5, "expires", "date"),
        (WAIVER + "\n" + WAIVER.replace('reason = "riser by order"\n', ""), 7, "reason", "needs it"),
        (WAIVER.replace('device = "mlx5_3"\n', ""), 1, "device", "needs it"),
        ("fail_on = 'error'\nschema = = 1\n", 2, "no TOML", ""),
        (WAIVER.replace("2999-12-31", "2999-02-30"), 5, "no TOML", ""),
        ("schema = 1\n[severity\n", 2, "no TOML", ""),
        ("schema = 1\nignore = ['PCI001'", 2, "no TOML", ""),
        ("schema = 1\nschema = 1\n", 2, "no TOML", ""),
    ],
)
def test_a_mistake_names_file_line_and_key(tmp_path, capsys, text, line, key, why):
    file = tmp_path / "site.toml"
    file.write_text(text)
    assert run(["node", "--from", HEALTHY, "--policy", str(file)]) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err.startswith(f"topocheck: {file}:{line}: {key}: ")
    assert why in seen.err
    assert seen.err.count("\n") == 1


def test_a_file_that_cannot_be_read_is_one_line(tmp_path, capsys):
    (tmp_path / "latin").write_bytes(b"schema = 1\nreason = '\xe9'\n")
    (tmp_path / "large").write_bytes(b"#" * 1_000_001)
    for name, why in (("none", "no such file"), (".", "no plain file"), ("latin", "latin:2: "), ("large", "larger")):
        assert run(["node", "--from", HEALTHY, "--policy", str(tmp_path / name)]) == 2
        assert why in capsys.readouterr().err
    assert run(["node", "--from", HEALTHY, "--policy", "/dev/zero"]) == 2
    assert run(["node", "--from", HEALTHY, "--policy", "/no/file", "--exit-style", "slurm", "--fail-closed"]) == 1


# What it decides


def test_fail_on_decides_the_exit_code_and_the_option_wins(tmp_path, faulty):
    degraded = faulty("mlx5_2-slot-gen4")
    file = tmp_path / "policy.toml"
    file.write_text('fail_on = "warning"\n')
    assert run(["node", "--from", degraded]) == 0
    assert run(["node", "--from", degraded, "--policy", str(file)]) == 1
    assert run(["node", "--from", degraded, "--policy", str(file), "--fail-on", "error"]) == 0


def test_min_loss_decides_what_an_error_is(policy, faulty):
    # The NIC at x8 moves 26.9 of 49.0 GB/s: 45 % are lost.
    narrow = faulty("mlx5_3-x8")
    assert only(check(narrow, policy=policy("min_loss = 0.44\n")).report, "PCI001").severity == "error"
    assert only(check(narrow, policy=policy("min_loss = 0.46\n")).report, "PCI001").severity == "warning"
    assert check(narrow, policy=policy("min_loss = 0\n")).report.verdict == "failed"


def test_min_loss_leaves_alone_what_stops(policy, faulty):
    assert only(check(faulty("gpu4-lost"), policy=policy("min_loss = 1\n")).report, "GPU001").severity == "error"


def test_select_and_ignore_choose_rules_and_the_options_win(policy, faulty):
    narrow = faulty("mlx5_3-x8")

    def said(text, **options):
        return {f.rule for f in check(narrow, policy=policy(text), **options).report.findings}

    assert "PCI001" in said("")
    assert "PCI001" not in said("ignore = ['pci001']\n")
    assert said("select = ['NET*']\n") == set()
    assert check(narrow, policy=policy("select = ['NET*']\n")).report.coverage.ran <= 8
    assert said("select = ['NET*']\n", select=("PCI001",)) == {"PCI001"}
    assert said("ignore = ['PCI001']\n", select=("PCI001",)) == {"PCI001"}
    assert "PCI001" in said("ignore = ['PCI*']\n", ignore=("NET001",))


def test_severity_has_the_last_word(policy, faulty):
    narrow, capped = faulty("mlx5_3-x8"), faulty("mlx5_2-slot-gen4")
    assert check(narrow, policy=policy('[severity]\nPCI001 = "warning"\n')).report.verdict == "degraded"
    assert check(narrow, policy=policy('[severity]\nPCI001 = "info"\n')).report.verdict == "healthy"
    raised = policy('min_loss = 0.9\n[severity]\nPCI003 = "error"\n')
    assert only(check(capped, policy=raised).report, "PCI003").severity == "error"


@pytest.mark.parametrize(
    ("needed", "verdict"), [("pcie-links", "healthy"), ("nvlink", "unknown"), ("nic-ports", "unknown")]
)
def test_required_evidence_decides_the_verdict(policy, needed, verdict):
    # lspci shows every PCIe link, and neither NVLink nor ports.
    assert check(LSPCI).report.verdict == "healthy"
    report = check(LSPCI, policy=policy(f"require = ['{needed}']\n")).report
    assert report.verdict == verdict
    assert verdict == "healthy" or "required evidence missing" in report.verdict_reason


def test_a_matrix_alone_lacks_the_pcie_links(policy):
    matrix = str(nodes.healthy("hgx-h100") / "nvidia-smi_topo_-m")
    assert check(matrix).report.verdict == "healthy"
    assert check(matrix, policy=policy("require = ['pcie-links']\n")).report.verdict == "unknown"


def test_a_live_node_must_show_everything_unless_the_file_says_otherwise(policy):
    assert Policy().evidence(live=True) == EVIDENCE
    assert Policy().evidence(live=False) == ()
    assert policy("require = []\n").evidence(live=True) == ()
    assert policy("require = ['nvlink']\n").evidence(live=False) == ("nvlink",)


def test_compute_nics_decide_roles(policy):
    report = check(HEALTHY, policy=policy("compute_nics = ['mlx5_[4-5]']\n")).report
    assert roles(report)["mlx5_4"] == roles(report)["mlx5_5"] == ("compute", "policy")
    assert roles(report)["mlx5_0"] == ("storage", "kind")
    assert {nic for own in report.nearest_nics.values() for nic in own} == {"mlx5_4", "mlx5_5"}
    by_address = check(HEALTHY, policy=policy("compute_nics = ['0000:6B:00.0']\n")).report
    assert [id_ for id_, (role, _) in roles(by_address).items() if role == "compute"] == ["mlx5_4"]
    by_part = check(HEALTHY, policy=policy("compute_nics = ['15b3:1021']\n")).report
    assert {role for role, _ in roles(by_part).values()} == {"compute"}


def test_compute_nics_that_name_none_leave_the_roles_as_found_and_say_so(policy):
    report = check(HEALTHY, policy=policy("compute_nics = ['rdmap*']\n")).report
    assert roles(report) == roles(check(HEALTHY).report)
    assert [gap.input for gap in report.gaps] == ["policy compute_nics"]


def test_a_port_that_the_policy_expects_is_an_error(policy, faulty):
    down = faulty("mlx5_1-polling", node="pcie-box")
    assert only(check(down).report, "NET001").severity == "warning"
    finding = only(check(down, policy=policy("compute_nics = ['mlx5_0', 'mlx5_1']\n")).report, "NET001")
    assert (finding.severity, finding.expected_from) == ("error", "policy")


RAILS = [f"leaf-r{i}" for i in range(1, 9)]


def test_rails_decide_which_leaf_is_right(policy, faulty):
    crossed = nodes.edits("hgx-h100-roce")[0]
    assert (crossed.expect.rule, crossed.expect.severity) == ("RAIL001", "warning")
    spec = faulty(crossed.name, node="hgx-h100-roce")
    finding = only(check(spec, policy=policy(f"rails = {RAILS}\n")).report, "RAIL001")
    assert (finding.severity, finding.expected_from) == ("error", "policy")
    assert finding.subjects == ("mlx5_2", "mlx5_3")
    as_built = [*RAILS[:2], "leaf-r4", "leaf-r3", *RAILS[4:]]
    assert [f for f in check(spec, policy=policy(f"rails = {as_built}\n")).report.findings if "RAIL" in f.rule] == []


def test_rails_are_patterns_and_one_port_may_be_wrong(policy):
    spec = str(nodes.healthy("hgx-h100-roce"))
    assert (
        check(spec, policy=policy("rails = ['leaf-r[1-8]', 'leaf-*'" + ", 'LEAF-R?'" * 6 + "]\n")).report.verdict
        == "healthy"
    )
    wrong = [*RAILS[:7], "spine[1-4]"]
    finding = only(check(spec, policy=policy(f"rails = {wrong}\n")).report, "RAIL002")
    assert (finding.severity, finding.subjects) == ("error", ("mlx5_9",))
    assert "spine[1-4]" in finding.message


def test_rails_that_cannot_be_counted_are_a_gap(policy):
    report = check(HEALTHY, policy=policy("rails = ['leaf-r1', 'leaf-r2']\n")).report
    assert report.verdict == "healthy"
    assert [gap.input for gap in report.gaps] == ["policy rails"]
