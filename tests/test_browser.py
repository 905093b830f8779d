"""The page and the drawing in a real browser: no error, everything there, nothing overlaps, and the what-if counts.

Screenshots go to $TOPOCHECK_SCREENSHOTS, where it is set, to be looked at.
"""

import json
import os
from itertools import combinations
from pathlib import Path

import fleets
import nodes
import pictures
import pytest

from topocheck.cli import run
from topocheck.fleet import page as fleet_page

pytestmark = [
    pytest.mark.real("chromium"),
    pytest.mark.real("chromium-driver", program="chromedriver"),
]
BOXES = """return [...document.querySelectorAll("[data-device]")].map(g => {
  const r = g.querySelector("rect").getBoundingClientRect();
  return [g.dataset.device, r.x, r.y, r.width, r.height]; })"""
TEXTS = """return [...document.querySelectorAll("svg text")].map(t => {
  const r = t.getBoundingClientRect(); return [t.textContent, r.x, r.y, r.width, r.height]; })"""


@pytest.fixture(scope="module")
def browser():
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--window-size=1300,1000"):
        options.add_argument(flag)
    options.binary_location = "/usr/bin/chromium"
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, tmp_path, request):
    """Opens what a command wrote; the console must have stayed silent."""

    def load(*arguments, suffix):
        file = tmp_path / f"page.{suffix}"
        run([*arguments, "--output", str(file)])
        browser.get(file.as_uri())
        _screenshot(browser, f"{request.node.name}-{suffix}")
        assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
        return browser

    return load


def _screenshot(browser, name):
    if folder := os.environ.get("TOPOCHECK_SCREENSHOTS"):
        place = Path(folder) / f"{''.join(c if c.isalnum() else '-' for c in name)}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        size = browser.execute_script(
            "return [document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
        )
        browser.set_window_size(max(1300, size[0]), min(6000, size[1] + 150))
        browser.save_screenshot(str(place))


def source_of(name, tmp_path):
    if "/" in name:
        node, fault = name.split("/")
        return str(nodes.apply(node, nodes.edit(node, fault), tmp_path))
    if name != "box":
        return str(nodes.healthy(name))
    file = tmp_path / "nccl-topo.xml"
    file.write_text(pictures.big_box())
    return str(file)


FAULTY = ["gb200-tray/mlx5_3-x8", "dgx-a100/mlx5_2-x8", "hgx-h100/gpu2-one-nvlink", "p5-vm/rdmap96s0-down"]


@pytest.mark.parametrize("name", [*nodes.names(), *FAULTY, "box"])
@pytest.mark.parametrize(("command", "suffix"), [("graph", "svg"), ("node", "html")])
def test_all_devices_are_there_and_nothing_overlaps(opened, tmp_path, capsys, name, command, suffix):
    source = source_of(name, tmp_path)
    run(["node", "--from", source, "--format", "json"])
    wanted = {d["id"] for d in json.loads(capsys.readouterr().out)["devices"] if d["kind"] != "nvswitch"}
    page = opened(command, "--from", source, "--format", suffix, suffix=suffix)
    boxes = [pictures.Rectangle(*box) for box in page.execute_script(BOXES)]
    assert {box.name for box in boxes} == wanted
    assert all(box.width > 50 and box.height > 20 for box in boxes)
    assert pictures.clashes(boxes) == []
    texts = [pictures.Rectangle(*text) for text in page.execute_script(TEXTS)]
    assert len(texts) > len(wanted)
    touching = [(a, b) for a, b in combinations(texts, 2) if _covers(a, b)]
    assert touching == []


def _covers(a, b):
    """Two words that lie on each other by more than the air around their letters."""
    wide = min(a.x + a.width, b.x + b.width) - max(a.x, b.x)
    high = min(a.y + a.height, b.y + b.height) - max(a.y, b.y)
    return wide > 2 and high > 4


def test_the_what_if_changes_the_figure_to_that_of_the_json(opened, faulty, capsys):
    from selenium.webdriver.common.by import By

    source = faulty("mlx5_3-x8")
    run(["node", "--from", source, "--format", "json"])
    price = json.loads(capsys.readouterr().out)["findings"][0]["price"]
    page = opened("node", "--from", source, "--format", "html", suffix="html")
    names = [element.text for element in page.find_elements(By.CSS_SELECTOR, "#what-if dt")]
    outputs = page.find_elements(By.CSS_SELECTOR, "#what-if output")
    shown = outputs[names.index(price["scenario"])]
    assert shown.text == f"{price['found_gb_per_s']:.1f} GB/s"
    box = page.find_element(By.CSS_SELECTOR, "#what-if input")
    box.click()
    assert shown.text.startswith(f"{price['repaired_gb_per_s']:.1f} GB/s (+")
    box.click()
    assert shown.text == f"{price['found_gb_per_s']:.1f} GB/s"


@pytest.mark.parametrize("payload", pictures.PAYLOADS)
def test_no_capture_runs_a_script(opened, tmp_path, payload):
    capture = str(pictures.hostile(tmp_path, payload))
    for command, suffix in (("node", "html"), ("graph", "svg")):
        page = opened(command, "--from", capture, "--format", suffix, suffix=suffix)
        assert page.execute_script("return window.owned === undefined")
        assert page.execute_script("return document.querySelectorAll('img, iframe, object').length") == 0


def test_names_for_those_who_listen(opened, faulty):
    """Every table has heads, the drawing a name, the language is said, and all boxes to tick have labels."""
    page = opened("node", "--from", faulty("mlx5_3-x8"), "--format", "html", suffix="html")
    assert page.execute_script("return document.documentElement.lang") == "en"
    assert (
        page.execute_script("return document.querySelector('svg').getAttribute('aria-label')")
        == "topology of gpu-a01: failed"
    )
    bare = "return [...document.querySelectorAll('table')].filter(t => !t.querySelector('th[scope=col]')).length"
    assert page.execute_script(bare) == 0
    assert page.execute_script("return [...document.querySelectorAll('input')].every(i => i.labels.length === 1)")


def test_without_javascript_all_but_the_choice_is_there(browser, tmp_path, faulty):
    """The static table of the what-if stands in the page itself; the form stays hidden."""
    file = tmp_path / "page.html"
    run(["node", "--from", faulty("mlx5_3-x8"), "--format", "html", "--output", str(file)])
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(file.as_uri())
        from selenium.webdriver.common.by import By

        assert not browser.find_element(By.CSS_SELECTOR, "fieldset").is_displayed()
        assert "49.0" in browser.find_element(By.CSS_SELECTOR, "#what-if table").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.fixture
def fleet_opened(browser, tmp_path, request):
    """Opens the page of a fleet; the console must have stayed silent."""

    def load(fleet):
        file = tmp_path / "fleet.html"
        file.write_text(fleet_page.render(fleet), encoding="utf-8")
        browser.get(file.as_uri())
        _screenshot(browser, request.node.name)
        assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
        return browser

    return load


def _rows_shown(page):
    return page.execute_script(
        "return [...document.querySelectorAll('#grid tbody tr')].filter(r => r.offsetParent).map(r => "
        "r.cells[0].textContent.split('nodes')[0].trim())"
    )


def _set(page, field, value):
    page.execute_script(
        "const f = document.getElementById(arguments[0]); f.value = arguments[1];"
        "f.dispatchEvent(new Event(f.tagName === 'SELECT' ? 'change' : 'input'))",
        field,
        value,
    )


def test_the_grid_of_a_fleet_can_be_searched(fleet_opened):
    page = fleet_opened(fleets.FAULTY)
    assert _rows_shown(page) == ["gpu017", "gpu044", "gpu003", "gpu090", "124"]
    _set(page, "by-severity", "error")
    assert _rows_shown(page) == ["gpu017", "gpu044", "gpu003"]
    _set(page, "by-severity", "")
    _set(page, "by-check", "PCI001")
    assert _rows_shown(page) == ["gpu017", "gpu044"]
    _set(page, "by-name", "GPU044")
    assert _rows_shown(page) == ["gpu044"]
    _set(page, "by-check", "")
    # 124 nodes are folded in the last row: one of them may be the one looked for
    assert _rows_shown(page) == ["gpu044", "124"]
    assert page.execute_script("return document.getElementById('shown').textContent") == "2 of 5 rows"


def test_no_report_runs_a_script_in_the_page_of_a_fleet(fleet_opened):
    page = fleet_opened(fleets.hostile())
    assert page.execute_script("return window.owned === undefined")
    assert page.execute_script("return document.querySelectorAll('img, iframe, object').length") == 0


def test_ten_thousand_bad_nodes_can_be_searched(fleet_opened):
    page = fleet_opened(fleets.bad_day(10_000))
    _set(page, "by-name", "n999")
    assert _rows_shown(page) == ["n999", "9000"]
