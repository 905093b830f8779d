"""The page of `topocheck fleet`, by fleets built by hand: its grid, its size, and that no script runs but its own."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import fleets
import pytest
from fleets import ALL, FAULTY, FIRMWARE, HEALTHY, NOTE, SHOWN, TOLD

from topocheck.fleet import page
from topocheck.fleet.grid import MOST_ROWS, grid
from topocheck.fleet.report import Other, Rails, Unread

FLEETS = fleets.by_name()


class Elements(HTMLParser):
    """What is in a page, and that all that is opened is closed; HTML lets td go unclosed."""

    VOID = ("meta", "input", "td", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.wrong = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID and (not self.open or self.open.pop() != tag):
            self.wrong.append(tag)

    def count(self, tag):
        return sum(name == tag for name, _ in self.found)


@pytest.mark.parametrize("name", FLEETS)
def test_a_page_is_whole_and_stands_alone(name):
    text = page.render(FLEETS[name])
    elements = Elements(text)
    assert elements.wrong == [] and elements.open == []
    assert elements.count("script") == 1 and elements.count("link") == elements.count("img") == 0
    assert all(not attrs.keys() & {"src", "href", "onerror", "onclick"} for _, attrs in elements.found)
    assert text.startswith("<!doctype html>\n<html")
    assert {char for char in text if not char.isprintable()} <= {"\n"}


def test_no_report_runs_in_the_page():
    text = page.render(fleets.hostile())
    assert "&lt;script&gt;window.owned=1&lt;/script&gt;" in text
    assert "<script>window" not in text and "<img" not in text
    assert "{{7*7}}" in text


def test_the_policy_of_the_page_knows_its_script():
    from base64 import b64encode
    from hashlib import sha256

    text = page.render(FAULTY)
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]
    assert f"script-src 'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" in text


def test_the_grid_has_a_row_for_each_that_is_not_well_and_one_for_all_others():
    found = grid(FAULTY)
    assert [column for column, _ in found.columns] == ["NUM003", "PCI001", "PCI009", "RAIL002", "unlike"]
    rows = {row.name: row for row in found.rows}
    assert list(rows) == ["gpu017", "gpu044", "gpu003", "gpu090", "124 nodes"]
    marks = {name: [cell and cell.severity for cell in row.cells] for name, row in rows.items()}
    assert marks == {
        "gpu017": ["info", "error", None, None, None],
        "gpu044": ["info", "error", None, None, "info"],
        "gpu003": ["info", None, None, "error", None],
        "gpu090": ["info", None, "warning", None, None],
        "124 nodes": ["info", None, None, None, None],
    }
    assert rows["124 nodes"].hosts == "gpu[001-002,004-016,018-043,045-089,091-128]"
    assert rows["gpu044"].cells[1].about == "mlx5_3 (0000:5e:00.0)"
    assert rows["gpu044"].cells[4].about == "mlx5_3 firmware 28.39.2048"
    assert rows["gpu003"].cells[3].about == "mlx5_3 (0000:5e:00.0), mlx5_4 (0000:5e:00.0)"


def test_a_mark_names_its_devices_but_a_note_does_not():
    note = NOTE._replace(device="gpu0", bdf="0000:19:00.0")
    text = page.render(replace(FAULTY, groups=(*FAULTY.groups, note)))
    row = '<th scope="row">gpu017</th><td class="failed">failed</td><td class="info">i<td class="error" title="'
    assert f'{row}mlx5_3 (0000:5e:00.0)">x<td>' in text


def test_alike_nodes_with_other_notes_have_their_own_row():
    states = {host: {"NUM003": "info"} for host in ALL[:28]}
    rows = grid(replace(HEALTHY, groups=(NOTE,), states=states)).rows
    assert [(row.name, row.verdict, row.worst) for row in rows] == [
        ("28 nodes", "healthy", "info"),
        ("100 nodes", "healthy", ""),
    ]


def test_nobody_is_marked_for_a_difference_that_is_only_shown():
    assert [row.name for row in grid(replace(HEALTHY, unlike=(SHOWN, TOLD))).rows] == ["128 nodes"]
    assert [row.name for row in grid(replace(HEALTHY, unlike=(FIRMWARE,))).rows] == ["gpu044", "127 nodes"]


def test_a_host_that_only_the_fabric_knows_has_no_verdict():
    known = replace(HEALTHY, hosts=("gpu001", "gpu002"), verdicts={"healthy": ("gpu001",)})
    assert {row.name: row.verdict for row in grid(known).rows} == {"gpu001": "healthy", "gpu002": "unknown"}


def test_ten_thousand_bad_nodes_make_a_page_of_two_megabytes():
    bad = fleets.bad_day(10_000)
    text = page.render(bad)
    assert len(text.encode()) <= 2_000_000
    rows = grid(bad).rows
    # all alike in what is wrong: those that do not fit a row of their own share one
    assert len(rows) == MOST_ROWS + 1 and rows[-1].name == f"{10_000 - MOST_ROWS} nodes"
    assert "and 100 more</p>" in text  # 300 cabling faults, 200 shown


def test_what_is_not_asked_for_has_no_section():
    text = page.render(replace(HEALTHY, rails=Rails(None), unread=Unread()))
    assert 'id="job"' not in text and "sbatch" not in text and "Against" not in text and 'id="unlike"' not in text
    assert "Nothing is known." in text and "<p>None.</p>" in text


def test_others_who_are_told_by_findings_say_so_in_the_page():
    both = FIRMWARE._replace(others=(Other("a", ("gpu001",)), Other("b", ("gpu002",), ("PCI001",))))
    text = page.render(replace(HEALTHY, unlike=(TOLD, SHOWN, both)))
    assert '<span class="dim">- told by findings</span> PCIe width of' in text
    assert '<span class="dim">- only shown</span> driver' in text
    assert '<span class="info">i info</span> mlx5_3 firmware: a on gpu001, b on gpu002 (told by PCI001);' in text
