"""Markdown for tickets, JUnit for CI views, and the HTML page as text: what they say, and that a capture only gets to
say it, never to be markup."""

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import nodes
import pictures
import pytest

from topocheck.cli import run
from topocheck.formats.markdown import plain
from topocheck.rules import ALL


def shown(capsys, source, format_):
    run(["node", "--from", str(source), "--format", format_])
    return capsys.readouterr().out


def node(capsys, source):
    return json.loads(shown(capsys, source, "json"))


def test_markdown_has_verdict_finding_proof_and_price(faulty, capsys):
    text = shown(capsys, faulty("mlx5_3-x8"), "markdown")
    assert text.startswith("# topocheck: FAILED gpu-a01\n")
    assert "### PCI001 mlx5_3 (error)" in text
    assert re.search(r"```text\nlspci -vv:\d+  LnkSta: Speed 32GT/s, Width x8 \(downgraded\)\n```", text)
    assert "26.9 of 49.0 GB/s, loss 45.1 %" in text
    rows = [line for line in text.splitlines() if re.match(r"\| \d \|", line)]
    assert len(rows) == 8
    assert len({row.count("|") for row in rows}) == 1
    assert "5.0x8 x" in rows[3]


@pytest.mark.parametrize(
    "text", ["```", "a\n# b", "| x | y |", "[a](http://x)", "![a](b)", "<img src=x>", "@all", "_x_ **b**", "- x", "> q"]
)
def test_nothing_a_capture_says_is_markdown(text):
    """Every character that would begin markup is behind a backslash, and it is one line."""
    escaped = plain(text)
    assert "\n" not in escaped
    bare = re.sub(r"\\.", "", escaped)
    assert not re.search(r"[`*\[\]<|@#!]|://|^[->]", bare)


def test_a_fence_cannot_be_ended_by_what_it_holds(tmp_path, capsys):
    text = shown(capsys, pictures.hostile(tmp_path, "```\n# owned"), "markdown")
    assert not [line for line in text.splitlines() if line.startswith("# owned")]
    fences = [line for line in text.splitlines() if line.startswith("```")]
    assert len(fences) % 2 == 0


def test_junit_has_a_case_a_rule(faulty, capsys):
    source = faulty("mlx5_3-x8")
    document = node(capsys, source)
    suite = ET.fromstring(shown(capsys, source, "junit")).find("testsuite")
    cases = {case.get("name"): case for case in suite.findall("testcase")}
    assert list(cases) == [rule.ID for rule in ALL]
    failing = {name for name, case in cases.items() if case.find("failure") is not None}
    assert failing == {f["rule"] for f in document["findings"] if f["severity"] != "info"} == {"PCI001"}
    assert cases["PCI001"].find("failure").get("type") == "error"
    assert "LnkSta" in cases["PCI001"].find("failure").text
    skipped = {
        name: case.find("skipped").get("message") for name, case in cases.items() if case.find("skipped") is not None
    }
    reasons = {s["rule"]: s["reason"] for s in document["skipped"] if not s["partial"]}
    assert {name: skipped[name] for name in reasons} == reasons
    coverage = document["coverage"]
    assert len(skipped) == coverage["skipped"] + coverage["not_applicable"]
    assert (suite.get("tests"), suite.get("failures")) == (str(len(ALL)), "1")
    assert suite.get("skipped") == str(len(skipped))


def test_notes_and_waivers_are_no_failures(tmp_path, faulty, capsys):
    source = faulty("mlx5_3-x8")
    policy = tmp_path / "policy.toml"
    policy.write_text(
        'schema = 1\n[[waiver]]\nrule = "PCI001"\ndevice = "mlx5_3"\nreason = "known"\nexpires = 2999-01-01\n'
    )
    run(["node", "--from", source, "--format", "junit", "--policy", str(policy)])
    case = ET.fromstring(capsys.readouterr().out).find(".//testcase[@name='PCI001']")
    assert case.find("failure") is None
    assert case.find("system-out").text.startswith("waived")


class Page(HTMLParser):
    """The elements of a page, and what it would load."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loads, self.handlers = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.loads += [value for key, value in attributes if key in ("src", "href", "action", "data", "srcset")]
        self.handlers += [key for key, _ in attributes if key.startswith("on")]


@pytest.mark.parametrize("name", nodes.names())
def test_the_page_loads_nothing_and_has_every_device(name, capsys):
    text = shown(capsys, nodes.healthy(name), "html")
    page = Page(text)
    assert page.loads == []
    assert not re.search(r"url\(|@import", text)
    ids = {d["id"] for d in node(capsys, nodes.healthy(name))["devices"] if d["kind"] != "nvswitch"}
    assert set(re.findall(r'data-device="([^"]+)"', text)) == ids
    assert text.count('<th scope="row">') >= len(ids) / 4


def test_a_heat_map_says_down_and_is_no_wider_than_a_page(faulty, capsys):
    """32 NICs are rows, not columns; a port that is down carries nothing to any of the 8 GPUs."""
    text = shown(capsys, faulty("rdmap96s0-down", "p5-vm"), "html")
    row = re.search(r'<th scope="row">rdmap96s0</th>(.*?)</tr>', text)[1]
    assert re.findall(r">([^<]+)</td>", row) == ["down"] * 8
    assert max(head.count('scope="col"') for head in re.findall(r"<thead>.*?</thead>", text, re.DOTALL)) <= 16


@pytest.mark.parametrize("payload", pictures.PAYLOADS)
def test_hostile_words_are_words_on_the_page(tmp_path, payload, capsys):
    clean = Page(
        shown(capsys, nodes.apply("hgx-h100", nodes.edit("hgx-h100", "mlx5_3-x8"), tmp_path / "clean"), "html")
    )
    seen = shown(capsys, pictures.hostile(tmp_path / "hostile", payload), "html")
    page = Page(seen)
    assert {tag: page.tags.count(tag) for tag in ("script", "img", "style", "svg", "article")} == {
        tag: clean.tags.count(tag) for tag in ("script", "img", "style", "svg", "article")
    }
    assert (page.handlers, page.loads) == ([], [])
    assert "\x1b" not in seen
    ET.fromstring(shown(capsys, pictures.hostile(tmp_path / "junit", payload), "junit"))


def test_what_if_is_what_the_json_says(tmp_path, capsys):
    """Two faults: the columns of one repair are the repaired figures of the findings, the last one that of all."""
    capture = nodes.apply("hgx-h100", nodes.edit("hgx-h100", "mlx5_3-x8"), tmp_path)
    for change in nodes.edit("hgx-h100", "mlx5_6-gen4").changes:
        file = capture / change.file
        file.write_text(change.of(file.read_text()))
    document = node(capsys, capture)
    text = shown(capsys, capture, "html")
    figures = json.loads(re.search(r'id="figures">(.*?)</script>', text)[1])
    names = [name.replace("&gt;", ">") for name in re.findall(r"<dt>(.*?)</dt>", text)]
    table = dict(zip(names, figures, strict=True))
    assert [len(figure) for figure in figures] == [4] * 3
    together = document["together"]
    assert table[together["scenario"]][0] == together["found_gb_per_s"]
    assert table[together["scenario"]][3] == together["repaired_gb_per_s"]
    for place, finding in enumerate(document["findings"][:2]):
        price = finding["price"]
        assert table[price["scenario"]][0] == price["found_gb_per_s"]
        assert table[price["scenario"]][1 << place] == price["repaired_gb_per_s"]
        assert table[price["scenario"]][2 >> place] == price["found_gb_per_s"]  # the other repair does nothing for it
