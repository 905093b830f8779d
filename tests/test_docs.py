"""The documentation says what the program does: generated pages are up to date, links lead somewhere, figures hold."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def generate():
    before = list(sys.path)
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = before


def test_generated_pages_are_what_the_program_says_now(generate):
    assert [page.name for page in generate.stale()] == [], "run: make docs"


def test_a_changed_page_is_seen(generate, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x -->\nold\n<!-- end x -->\nz\n")
    assert generate.filled(page, {"x": lambda: "new\n"}) == "a\n<!-- x -->\nnew\n<!-- end x -->\nz\n"
    page.write_text("no marks")
    with pytest.raises(LookupError):
        generate.filled(page, {"x": str})


def anchors(page):
    titles = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text("utf-8")):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        place = page.parent / path if path else page
        assert place.exists(), target
        assert not anchor or anchor in anchors(place), target


def test_every_rule_has_its_page():
    from topocheck.rules import ALL

    assert {f"{rule.ID.lower()}-{rule.NAME}" for rule in ALL} <= anchors(ROOT / "docs" / "rules.md")


def test_rules_named_in_the_docs_exist():
    from topocheck.rules import ALL

    known = {rule.ID for rule in ALL}
    text = "".join((ROOT / page).read_text("utf-8") for page in ("README.md", "docs/model.md"))
    assert set(re.findall(r"\b(?:PCI|GPU|P2P|NVL|AFF|NUM|NET|RAIL|VIRT)\d{3}\b", text)) - known == set()


def test_commands_and_options_named_in_the_readme_exist():
    from topocheck.cli import MODULES, cli

    text = (ROOT / "README.md").read_text("utf-8")
    assert set(re.findall(r"\btopocheck (node|rules|[a-z]+) ", text)) <= set(MODULES)
    commands = [cli.get_command(None, name) for name in MODULES]
    options = {option for command in commands for p in command.params for option in p.opts}
    named = set(re.findall(r"topocheck node (--\S+)", text)) | {"--fail-closed", "--fail-on", "-v"}
    assert named <= options


def test_the_screen_in_the_readme_is_that_of_make_demo(generate):
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert f"NODE ?= {generate.DEMO_NODE}\nFAULT ?= {generate.DEMO_FAULT}\n" in makefile


def test_the_readme_installs_the_right_package():
    text = (ROOT / "README.md").read_text("utf-8")
    assert "pip install gpu-topocheck" in text
    for place in re.finditer("pip install topocheck", text):
        assert text[: place.start()].endswith("never `")


@pytest.mark.parametrize(
    "row",
    [
        # generation 5 x16: 32 * 16 * 128/130 / 8 = 63.0; * U(256) 0.895 * 0.954 = 53.8
        "| 5 | 32 | 63.0 | 0.895 | 0.954 | 53.8 | 26.9 | 13.5 |",
        # 16 * 16 * 128/130 / 8 = 31.5; * 0.895 * 0.922 = 26.0
        "| 4 | 16 | 31.5 | 0.895 | 0.922 | 26.0 | 13.0 | 6.5 |",
        # 8 * 16 * 128/130 / 8 = 15.75; * 0.895 * 0.824 = 11.6
        "| 3 | 8 | 15.8 | 0.895 | 0.824 | 11.6 | 5.8 | 2.9 |",
        # 5 * 16 * 0.8 / 8 = 8.0; * U(256) of h = 24: 1024 / 1136 = 0.901; * 0.954 = 6.9
        "| 2 | 5 | 8.0 | 0.901 | 0.954 | 6.9 | 3.4 | 1.7 |",
        # 12 * 25 = 300; * 0.909 = 273
        "| A100-SXM4 | 12 | 25 | 300 | 0.909 | 273 |",
        # 18 * 25 = 450; * 0.870 = 391.5
        "| H100 80GB HBM3 | 18 | 25 | 450 | 0.870 | 392 |",
        "| B200 | 18 | 50 | 900 | 0.830 | 747 |",
        "| NIC: achievable over rate | 0.98 |",
    ],
)
def test_the_model_page_has_the_published_figures(row):
    assert row in (ROOT / "docs" / "model.md").read_text("utf-8").splitlines()


def test_the_model_page_has_every_scenario():
    from topocheck.model import Scenario

    kinds = set(re.findall(r"^    ([a-z][a-z-]+)  +", Scenario.__doc__, re.MULTILINE))
    assert len(kinds) >= 4
    text = (ROOT / "docs" / "model.md").read_text("utf-8")
    assert set(re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE)) == kinds


def test_the_readme_shows_the_fault_and_its_price():
    text = (ROOT / "README.md").read_text("utf-8")
    screen = text.split("<!-- screen -->")[1].split("<!-- end screen -->")[0]
    # Gen5 x8: 53.8 / 2 = 26.9 of the NIC's 400 / 8 * 0.98 = 49.0: 1 - 26.9 / 49.0 = 45 %
    assert "26.9 of 49.0 GB/s (−45 %)" in " ".join(screen.split())
    assert screen.count("\n") <= 42
    assert max(map(len, screen.splitlines())) <= 80
