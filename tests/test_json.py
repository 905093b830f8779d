"""`--format json`: the published schema holds for every report, and nothing in it is a placeholder."""

import json
from dataclasses import replace
from importlib.resources import files

import nodes
import pytest
from reports import EMPTY, FAULTY, HEALTHY, WIDTH

from topocheck.facts import Evidence
from topocheck.finding import Price
from topocheck.formats.json import render
from topocheck.report import Disagreement

SCHEMA = json.loads((files("topocheck.formats") / "node-1.schema.json").read_text("utf-8"))
TOP_LEVEL = [
    "schema", "version", "host", "time", "duration_s", "privileged", "boot_id", "versions", "source", "verdict",
    "coverage", "platform", "devices", "numa_nodes", "pairs", "links", "findings", "together", "skipped", "gaps",
    "disagreements", "assumptions",
]  # fmt: skip


def document(report):
    return json.loads(render(report))


def errors(value):
    from jsonschema import Draft202012Validator

    return [f"{list(error.path)}: {error.message[:200]}" for error in Draft202012Validator(SCHEMA).iter_errors(value)]


def test_the_schema_is_one_itself():
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("report", [HEALTHY, FAULTY, EMPTY], ids=["healthy", "faulty", "empty"])
def test_reports_hold_the_schema(report):
    assert errors(document(report)) == []
    assert list(document(report)) == TOP_LEVEL


@pytest.mark.parametrize("name", nodes.names())
def test_our_nodes_hold_the_schema_and_fit_one_screen(name):
    from topocheck.check import check
    from topocheck.formats import text

    report = check(str(nodes.healthy(name))).report
    assert errors(document(report)) == []
    # 100 kB are promised for 8 GPUs and 10 NICs, 153 pairs: an instance with more gets as much more
    assert len(render(report)) <= 100_000 * max(1, len(report.pairs) / 153)
    assert text.render(report, verbose=False, width=80, color=False, ascii=False).count("\n") <= 24


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.pop("boot_id"),
        lambda d: d.update(extra=1),
        lambda d: d["devices"][0].update(numa_node=-1),
        lambda d: d["devices"][0].pop("minor"),
        lambda d: d["links"][0].update(width=-1),
        lambda d: d["findings"][0]["price"].update(loss=45.1),
        lambda d: d.update(verdict="ok"),
        lambda d: d["pairs"][0].update({"class": "SOC"}),
    ],
)
def test_the_schema_refuses_what_is_not_in_the_interface(spoil):
    value = document(FAULTY)
    spoil(value)
    assert errors(value) != []


def test_one_short_line_for_eight_gpus_and_ten_nics():
    text = render(FAULTY)
    assert text.count("\n") == 1
    assert text.endswith("}\n")
    assert text.isascii()
    assert len(text) <= 100_000
    # 18 devices: 18 * 17 / 2 pairs
    assert len(document(FAULTY)["pairs"]) == 153


def test_a_finding_as_the_interface_shows_it():
    assert document(FAULTY)["findings"][0] == {
        "rule": "PCI001",
        "name": "pcie-width-degraded",
        "severity": "error",
        "confidence": "high",
        "subjects": ["mlx5_3"],
        "message": "mlx5_3 PCIe 5.0 x8 of x16: gpu3 -> mlx5_3 GPUDirect RDMA 26.9 of 49.0 GB/s (−45 %)",
        "repair": "7 peers run x16. Reseat the card or its riser",
        "waived": False,
        "expected_from": "both ends",
        "evidence": [
            {"input": "lspci -vv", "line": 2143, "text": "LnkSta:\tSpeed 32GT/s, Width x8 (downgraded)"},
            {"input": "lspci -vv", "line": 2100, "text": "LnkSta:\tSpeed 32GT/s, Width x8"},
        ],
        "follows": ["PCI004 mlx5_3"],
        "effect": "slows",
        "readings": 1,
        "price": {
            "scenario": "gpu3 -> mlx5_3 GPUDirect RDMA",
            "found_gb_per_s": 26.9,
            "repaired_gb_per_s": 49.0,
            "loss": 0.451,
            "range": None,
            "confidence": "computed",
        },
    }


def test_devices_and_links_as_the_interface_shows_them():
    value = document(FAULTY)
    assert value["devices"][0] == {
        "id": "gpu0", "kind": "gpu", "bdf": "0000:19:00.0", "pci_id": "10de:2330", "model": "NVIDIA H100 80GB HBM3",
        "firmware": "96.00.89.00.01", "numa_node": 0, "vf_of": None, "minor": 0, "mig": False, "pstate": "P0",
        "nearest_nics": ["mlx5_0"], "nvlinks_active": None,
    }  # fmt: skip
    card = value["devices"][11]
    assert (card["id"], card["role"], card["rail"], card["state"], card["rate_gbit_per_s"]) == (
        "mlx5_3", "compute", 3, "active", 400.0,
    )  # fmt: skip
    assert card["ports"][0]["leaf"] is None
    pcie = next(entry for entry in value["links"] if entry["kind"] == "pcie")
    assert (pcie["a"], pcie["b"], pcie["speed_gts"], pcie["width"]) == ("0000:18:01.0", "0000:19:00.0", 32.0, 16)
    nvlink = next(entry for entry in value["links"] if entry["kind"] == "nvlink")
    assert (nvlink["links"], nvlink["line_rate_gb_per_s"], nvlink["width"]) == (18, 450.0, None)


def test_numbers_are_rounded_and_never_placeholders():
    assert document(HEALTHY)["pairs"][0]["achievable_gb_per_s"] == 49.0
    assert document(HEALTHY)["duration_s"] == 0.012
    odd = replace(
        HEALTHY,
        together=Price("node NICs", float("inf"), float("nan"), -1.0, None, "computed"),
        disagreements=(Disagreement("gpu0", "numa_node", ((-1, "lspci -vv"), ((1, 2), "x")), None),),
    )
    value = document(odd)
    assert value["together"] == {
        "scenario": "node NICs", "found_gb_per_s": None, "repaired_gb_per_s": None, "loss": None
    }  # fmt: skip
    assert [entry["value"] for entry in value["disagreements"][0]["values"]] == [None, "(1, 2)"]
    assert errors(value) == []


def test_hostile_text_stays_text_and_short():
    evidence = Evidence("lspci -vv", 1, "\x1b[2J\udcff" * 10_000)
    text = render(replace(FAULTY, findings=(replace(WIDTH, evidence=(evidence,)),)))
    assert "\x1b" not in text
    assert "udcff" not in text
    assert len(text) < 100_000
    assert len(json.loads(text)["findings"][0]["evidence"][0]["text"]) == 500
