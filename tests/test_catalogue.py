"""All rules at once, against the catalogue: names and order, the page each one shows, its length, where it fires."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import nodes
import pytest

from topocheck.check import check
from topocheck.errors import UsageError
from topocheck.finding import Finding, Skip
from topocheck.graph import Device
from topocheck.report import Report
from topocheck.rules import ALL, explain, listing

MAX_RULE_LINES = 120
ID = re.compile(r"(PCI|GPU|P2P|NVL|AFF|NUM|NET|RAIL|VIRT)\d{3}")
# The names are an interface: policies, waivers and tickets hold them. A new rule is added here by hand.
NAMES = {
    "PCI": "pcie-width-degraded pcie-speed-degraded pcie-slot-capped nic-outruns-pcie uplink-shared "
    "pcie-payload-small pcie-errors bar1-small relaxed-ordering-off",
    "GPU": "gpu-missing gpu-unlike-peers driver-unusable xid gpu-memory-unsound gpu-held-back",
    "P2P": "p2p-missing acs-redirect iommu-translates ring-leaves-nvlink",
    "NVL": "nvlink-down nvlink-uneven nvlink-slow nvlink-errors fabric-not-ready",
    "AFF": "gpu-nic-remote gpu-nic-far gpu-nic-shared gpudirect-unavailable cpus-remote nccl-picks-other-nic",
    "NUM": "numa-unknown numa-disagrees numa-balancing-on",
    "NET": "port-down port-slow port-errors port-mtu nic-missing nic-unlike-peers gid-missing port-congested",
    "RAIL": "rail-crossed rail-wrong-leaf rail-missing rail-subnet",
    "VIRT": "tree-hidden",
}
MAY_BE_ERROR = {"PCI001", "PCI002", "GPU001", "GPU003", "GPU004", "GPU005", "P2P001", "P2P003", "NVL001", "NVL002"}
MAY_BE_ERROR |= {"NVL005", "NET001", "NET002", "NET005", "RAIL001", "RAIL002"}
PARTS = ("Why it (?:costs|matters):", "Usual cause:", "Repair:", "Silent when:")
EDITS = [edit for name in nodes.names() for edit in nodes.edits(name)]
by_id = pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.ID)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """What is said of every node, healthy and with each of its faults."""
    found = {name: check(str(nodes.healthy(name))).report for name in nodes.names()}
    for edit in EDITS:
        capture = nodes.apply(edit.node, edit, tmp_path_factory.mktemp("node"))
        found[f"{edit.node}/{edit.name}"] = check(str(capture)).report
    return found


def said(reports: dict[str, Report]) -> list[Finding]:
    return [finding for report in reports.values() for finding in report.findings]


def test_ids_and_names_are_those_of_the_catalogue():
    expected = [(f"{family}{n:03}", name) for family, names in NAMES.items() for n, name in enumerate(names.split(), 1)]
    assert [(rule.ID, rule.NAME) for rule in ALL] == expected
    assert all(ID.fullmatch(rule.ID) for rule in ALL)


def test_a_page_is_found_by_id_and_by_name():
    lines = listing().splitlines()
    assert [line.split()[:2] for line in lines] == [[rule.ID, rule.NAME] for rule in ALL]
    for rule, line in zip(ALL, lines, strict=True):
        title = (rule.__doc__ or "").strip().splitlines()[0]
        assert line.endswith(f" {title}")
        page = explain(rule.ID.lower())
        assert page == explain(rule.NAME)
        assert page.startswith(f"{rule.ID} {rule.NAME}\n\n{title}\n")
    with pytest.raises(UsageError, match="PCI999: no such rule"):
        explain("PCI999")


def test_no_rule_is_left_out():
    files = {file.stem for file in Path(__file__).parents[1].glob("topocheck/rules/[a-z]*.py")}
    assert {str(getattr(rule, "__name__", "")).rpartition(".")[2] for rule in ALL} == files


@by_id
def test_a_file_is_short_and_named_after_its_rule(rule: ModuleType):
    file = Path(str(rule.__file__))
    assert file.stem.replace("_", "-") == rule.NAME
    assert len(file.read_text("utf-8").splitlines()) <= MAX_RULE_LINES


@by_id
def test_a_page_has_its_parts_in_order(rule: ModuleType):
    page = (rule.__doc__ or "").strip()
    assert page.splitlines()[0].endswith(".")
    places = [re.search(rf"^{part} \S", page, re.MULTILINE) for part in PARTS]
    assert all(places), page
    starts = [place.start() for place in places if place]
    assert starts == sorted(starts)


@by_id
def test_it_fires_on_a_fault_and_is_silent_on_a_healthy_node(rule: ModuleType, reports: dict[str, Report]):
    assert [edit.name for edit in EDITS if edit.expect.rule == rule.ID], "no edit of a fixture is about it"
    assert any(all(f.rule != rule.ID for f in reports[name].findings) for name in nodes.names())


def test_every_finding_is_whole(reports: dict[str, Report]):
    for finding in said(reports):
        assert finding.repair, finding
        assert finding.evidence or finding.severity == "info", finding
        assert "\n" not in finding.message, finding
        assert finding.severity != "error" or finding.rule in MAY_BE_ERROR, finding


def test_a_message_begins_with_the_device_and_chains_no_colons(reports: dict[str, Report]):
    for report in reports.values():
        gpus = {device.id for device in report.devices if device.kind == "gpu"}
        for finding in report.findings:
            few = 0 < len(finding.subjects) <= 2 and not gpus <= set(finding.subjects)  # else "all 8 GPUs", "the tree"
            assert not few or re.split(r"[ ,']", finding.message)[0] in finding.subjects, finding.message
            assert re.sub(r"\([^)]*\)", "", finding.message).count(": ") <= 1, finding.message


def blind(device: Device, rule: str) -> Device:
    """The device without what the rule reads of it."""
    if rule == "NVL004":
        return replace(device, nvlinks=None, nvlinks_none=None)
    if rule == "NVL005" and device.gpu:
        return replace(device, gpu=replace(device.gpu, fabric_state=None))
    unread = {"gids": ()} if rule == "NET007" else {"mtu": None}
    return replace(device, ports=tuple(replace(port, **unread) for port in device.ports))


@pytest.mark.parametrize(
    ("rule", "node", "device"),
    [
        ("NVL004", "hgx-h100", "gpu3"),
        ("NVL005", "hgx-h100", "gpu3"),
        ("NET004", "hgx-h100-pairs", "mlx5_2"),
        ("NET007", "hgx-h100-roce", "mlx5_8"),
    ],
)
def test_one_that_was_not_read_makes_a_rule_partial(rule: str, node: str, device: str):
    healthy = check(str(nodes.healthy(node))).topology
    asked = {r.ID: r for r in ALL}[rule]
    assert not any(isinstance(answer, Skip) for answer in asked.check(healthy))
    answers = list(asked.check(healthy.replaced(blind(healthy.by_id[device], rule))))
    assert [answer.partial for answer in answers if isinstance(answer, Skip)] == [True]


@pytest.mark.parametrize(("rule", "fault"), [("NET003", "mlx5_8-link-flaps"), ("NET008", "mlx5_1-held-back")])
def test_counters_of_one_nic_say_nothing_of_the_others(rule: str, fault: str, reports: dict[str, Report]):
    skipped = reports[f"hgx-h100/{fault}"].skipped
    assert [skip.partial for skip in skipped if skip.rule == rule] == [True]
