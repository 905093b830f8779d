"""Tests marked `real("package")` need a component of the machine: absent, they are skipped, or fail in CI."""

import os
import shutil

import pytest


def pytest_runtest_setup(item):
    marker = item.get_closest_marker("real")
    if marker is None:
        return
    package = marker.args[0]
    program = marker.kwargs.get("program", package)
    if shutil.which(program) is not None:
        return
    reason = f"{program} is not installed: apt-get install {package}"
    if os.environ.get("TOPOCHECK_REAL") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
