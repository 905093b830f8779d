"""The examples in docstrings are what the functions give."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import topocheck

ROOT = Path(topocheck.__file__).parent
MODULES = sorted(
    ".".join(("topocheck", *file.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for file in ROOT.rglob("*.py")
    if ">>>" in file.read_text("utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name):
    result = doctest.testmod(import_module(name))
    assert result.attempted
    assert not result.failed
