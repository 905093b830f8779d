"""What Python runs first where this folder is on its path: breaks one thing of topocheck, as the environment says.

BREAK=module:function  that function throws, and leaves the file MARK
WITHOUT=package        that package is not installed
"""

import importlib.abc
import os
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path


class Missing(importlib.abc.MetaPathFinder):
    """A package that is not there."""

    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == os.environ["WITHOUT"]:
            Path(os.environ["MARK"]).touch()
            raise ModuleNotFoundError(f"No module named {name!r}")


class Broken(SourceFileLoader):
    """A module whose function throws."""

    run = SourceFileLoader.exec_module

    def exec_module(self, module):
        Broken.run(self, module)
        name, _, function = os.environ["BREAK"].partition(":")
        if module.__name__ == name:
            setattr(module, function, throw)


def throw(*_, **__):
    Path(os.environ["MARK"]).touch()
    raise RuntimeError("broken on purpose")


if "WITHOUT" in os.environ:
    sys.meta_path.insert(0, Missing())
if "BREAK" in os.environ:
    SourceFileLoader.exec_module = Broken.exec_module
