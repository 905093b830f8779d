"""Tests marked `real("package")` need a component of the machine: absent, they are skipped, or fail in CI."""

import os
import shutil
from functools import partial

import nodes
import pytest

from topocheck.policy import load


def pytest_runtest_setup(item):
    for marker in item.iter_markers("real"):
        package = marker.args[0]
        program = marker.kwargs.get("program", package)
        if shutil.which(program) is None:
            _missing(f"{program} is not installed: apt-get install {package}")


def _missing(reason):
    if os.environ.get("TOPOCHECK_REAL") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture
def policy(tmp_path):
    """A policy file of this text, loaded."""

    def written(text):
        file = tmp_path / "policy.toml"
        file.write_text(text)
        return load(str(file))

    return written


@pytest.fixture
def faulty(tmp_path):
    """The capture of one of our nodes with one of its faults."""

    def made(fault, node="hgx-h100"):
        return str(nodes.apply(node, nodes.edit(node, fault), tmp_path / fault))

    return made


@pytest.fixture(scope="session")
def lines():
    """Twelve healthy reports of a fleet, a line each without its end."""
    import handed

    return handed.twelve_lines()


@pytest.fixture
def ask(tmp_path):
    """The JSON answer of `topocheck fleet` to bytes or to what is named."""
    import handed

    return partial(handed.answer, tmp_path)
