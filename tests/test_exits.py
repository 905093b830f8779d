"""Exit codes: the table of interface section 5, line by line."""

import pytest

from topocheck.exits import exit_code, failure_code

TABLE = {  # style: healthy, warning, error, unknown
    "plain": (0, 0, 1, 2),
    "slurm": (0, 0, 1, 0),
    "nhc": (0, 0, 1, 0),
    "npd": (0, 0, 1, 2),
    "nagios": (0, 1, 2, 3),
}


@pytest.mark.parametrize("style", TABLE)
def test_every_style_has_the_codes_of_the_table(style):
    codes = tuple(exit_code(style, worst=worst, unknown=False) for worst in (None, "warning", "error"))
    assert (*codes, exit_code(style, worst=None, unknown=True)) == TABLE[style]
    assert failure_code(style) == TABLE[style][3]


@pytest.mark.parametrize(("style", "warning"), [("plain", 1), ("npd", 1), ("nagios", 2), ("slurm", 0), ("nhc", 0)])
def test_fail_on_warning_counts_a_warning_as_an_error_except_in_a_prolog(style, warning):
    assert exit_code(style, worst="warning", unknown=False, fail_on="warning") == warning
    assert exit_code(style, worst="info", unknown=False, fail_on="warning") == TABLE[style][0]


@pytest.mark.parametrize("style", TABLE)
def test_fail_closed_matters_only_where_a_prolog_would_pass(style):
    expected = 1 if style in ("slurm", "nhc") else TABLE[style][3]
    assert exit_code(style, worst=None, unknown=True, fail_closed=True) == expected
    assert failure_code(style, fail_closed=True) == expected


def test_a_finding_at_the_threshold_goes_before_unknown_and_one_below_it_does_not():
    assert exit_code("plain", worst="error", unknown=True) == 1
    assert exit_code("plain", worst="warning", unknown=True) == 2
    assert exit_code("nagios", worst="warning", unknown=True) == 3


def test_fail_on_info_and_never():
    assert exit_code("plain", worst="info", unknown=False, fail_on="info") == 1
    assert exit_code("plain", worst="error", unknown=False, fail_on="never") == 0
    assert exit_code("nagios", worst="warning", unknown=False, fail_on="never") == 0
    assert exit_code("slurm", worst="error", unknown=False, fail_on="never") == 1  # slurm ignores --fail-on
