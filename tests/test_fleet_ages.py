"""A folder keeps the last report of a node that is no more: whose report is a day older than the newest is told."""

import json

import pytest
import sisters

from topocheck.cli import run
from topocheck.fleet.assess import assess, read

NOW = "2026-11-20T12:00:00Z"


@pytest.fixture
def ask(tmp_path):
    """The fleet of nodes whose reports were written then: gpu000, gpu001, …"""

    def asked(*times):
        document = sisters.report()
        for number, time in enumerate(times):
            file = tmp_path / f"gpu{number:03}.json"
            file.write_text(json.dumps({**document, "host": f"gpu{number:03}", "time": time}))
        return assess(*read([str(tmp_path)]), NOW)

    return asked


@pytest.mark.parametrize(
    ("other", "old"),
    [
        ("2026-11-19T11:00:00Z", True),
        ("2026-11-19T10:59:59Z", True),
        ("2026-11-19T11:00:01Z", False),
        ("2025-11-20T11:00:00Z", True),
        ("2026-11-20T10:00:00Z", False),
        ("2026-11-20T11:59:00Z", False),
        ("last week", False),  # unread, so nothing is known of its age
        ("2026-11-31T11:00:00Z", False),
    ],
)
def test_a_day_before_the_newest_is_old(ask, other, old):
    answer = ask("2026-11-20T11:00:00Z", "2026-11-20T10:00:00Z", other)
    assert answer.old == (("gpu002",) if old else ())
    assert answer.verdict == "healthy"  # it was when it was written


def test_a_clock_that_is_ahead_makes_nobody_old(ask):
    answer = ask("2026-11-20T11:00:00Z", "2026-11-20T11:00:00Z", "2027-01-01T00:00:00Z")
    assert (answer.newest, answer.old) == ("2026-11-20T11:00:00Z", ())


def test_only_clocks_that_are_ahead(ask):
    assert ask("2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z").old == ()


def test_the_screen_names_them_and_says_of_which_day_all_are(ask, tmp_path, capsysbinary):
    ask("2026-11-15T03:04:05Z", "2026-11-15T03:04:05Z", "2026-11-12T03:04:05Z")
    assert run(["fleet", str(tmp_path)]) == 0
    screen = capsysbinary.readouterr().out.decode()
    assert ", reports 2026-11-15\n" in screen
    assert "HEALTHY  3 healthy, 1 with an old report\n" in screen
    assert " old report  1 node: gpu002\n" in screen
    assert run(["fleet", str(tmp_path), "--format", "json"]) == 0
    document = json.loads(capsysbinary.readouterr().out)
    assert (document["newest"], document["old"]) == ("2026-11-15T03:04:05Z", "gpu002")
    assert run(["fleet", str(tmp_path), "--format", "html"]) == 0
    assert "Old reports" in capsysbinary.readouterr().out.decode()
    assert run(["fleet", str(tmp_path), "--format", "prometheus"]) == 0
    assert "topocheck_fleet_old_nodes 1\n" in capsysbinary.readouterr().out.decode()
