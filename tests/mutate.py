"""Mutation check: changes one operator, constant or condition at a time and asks whether a test notices.

    python tests/mutate.py [--mutants 300] [--only TEXT] [--jobs 2]

Of topocheck's rules, model and figures (rules/, model.py, hardware/); strings, page text and messages are left alone. A
mutant is compiled in memory, no file is written; each runs the tests below in a forked process, to the first failure.
Which mutants are taken depends on the number only. Not part of `make test`: 300 mutants take some 10 minutes.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import importlib.abc
import importlib.machinery
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("topocheck/rules/*.py", "topocheck/model.py", "topocheck/hardware/*.py")
TESTS = (
    "tests/test_hardware.py",
    "tests/test_mutants.py",
    "tests/test_model.py",
    "tests/test_measured.py",
    "tests/test_pci_ids.py",
    "tests/test_rules.py",
    "tests/test_nodes.py",
)
MOST_S = 90
_COMPARE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
_COMPARE |= {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
_ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult}
_ARITHMETIC |= {ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr}
_WORDS = frozenset({"message", "repair", "alike", "words", "what", "why"})  # arguments that only the reader sees


class Mutant(NamedTuple):
    """One change: the file, the place of the node in ast.walk's order, and what is done to it."""

    file: str
    place: int
    line: int
    change: str

    @property
    def order(self) -> str:
        """A draw that stays the same from run to run."""
        return hashlib.sha256(f"{self.file}:{self.place}:{self.change}".encode()).hexdigest()


def mutants() -> list[Mutant]:
    """Every change there is, in the order in which they are drawn."""
    found = []
    for part in PARTS:
        for file in sorted(ROOT.glob(part)):
            tree = ast.parse(file.read_text("utf-8"))
            silent = set(_unread(tree))
            for place, node in enumerate(ast.walk(tree)):
                if id(node) not in silent:
                    name = str(file.relative_to(ROOT))
                    found += [Mutant(name, place, getattr(node, "lineno", 0), c) for c in _changes(node)]
    return sorted(found, key=lambda m: m.order)


def _unread(tree: ast.AST) -> Iterator[int]:
    """Nodes of texts and annotations: f-strings, messages, exceptions raised, types."""
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, (ast.JoinedStr, ast.Raise)):
            parts = [node]
        elif isinstance(node, ast.keyword) and node.arg in _WORDS:
            parts = [node.value]
        elif isinstance(node, ast.FunctionDef):
            parts = [node.returns, *(a.annotation for a in ast.walk(node.args) if isinstance(a, ast.arg))]
        elif isinstance(node, ast.AnnAssign):
            parts = [node.annotation]
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Skip", "NotApplicable")
        ):
            parts = list(node.args)
        elif isinstance(node, ast.BinOp) and any(_text(side) for side in (node.left, node.right)):
            yield id(node)
        for part in parts:
            yield from (id(inner) for inner in ast.walk(part)) if part else ()


def _text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _changes(node: ast.AST) -> Iterator[str]:
    """What can be done to a node."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARE:
        yield "comparison"
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in _ARITHMETIC:
        yield "arithmetic"
    elif isinstance(node, ast.BoolOp):
        yield "and/or"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not removed"
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        yield "constant"
    elif isinstance(node, (ast.If, ast.IfExp)):
        yield from ("condition true", "condition false")
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield "filter removed"


def mutated(mutant: Mutant) -> ast.Module:
    """The module with the change in it."""
    tree = copy.deepcopy(ast.parse((ROOT / mutant.file).read_text("utf-8")))
    node = next(node for place, node in enumerate(ast.walk(tree)) if place == mutant.place)
    if isinstance(node, ast.Compare):
        node.ops[0] = _COMPARE[type(node.ops[0])]()
    elif isinstance(node, (ast.BinOp, ast.AugAssign)):
        node.op = _ARITHMETIC[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.UnaryOp):
        node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
    elif isinstance(node, ast.Constant):
        node.value = not node.value if isinstance(node.value, bool) else _other(node.value)
    elif isinstance(node, (ast.If, ast.IfExp)):
        node.test = ast.Constant(mutant.change == "condition true")
    elif isinstance(node, ast.comprehension):
        node.ifs = []
    return ast.fix_missing_locations(tree)


def _other(value: object) -> object:
    return value * 1.1 + (value == 0) if isinstance(value, float) else value + 1  # type: ignore[operator]


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a tree in memory."""

    def __init__(self, mutant: Mutant) -> None:
        self.tree, self.file = mutated(mutant), ROOT / mutant.file
        self.module = mutant.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name != self.module:
            return None
        spec = importlib.machinery.ModuleSpec(
            name, self, origin=str(self.file), is_package=self.file.stem == "__init__"
        )
        spec.has_location = True
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(str(self.file.parent))
        return spec

    def exec_module(self, module: object) -> None:
        exec(compile(self.tree, str(self.file), "exec"), module.__dict__)


def run_tests(mutant: Mutant | None, tests: list[str]) -> int:
    """pytest's exit code with the change in; in a process of its own."""
    import pytest

    if mutant is not None:
        sys.meta_path.insert(0, Changed(mutant))
    return int(pytest.main(["-x", "-q", "--no-header", "-p", "no:cacheprovider", "--tb=no", *tests]))


def tests_for(mutant: Mutant | None) -> list[str]:
    """The tests, those of the mutant's own part first."""
    there = [test for test in TESTS if (ROOT / test).exists()]
    if mutant is not None and "/rules/" in mutant.file:
        there.sort(key=lambda test: "rules" not in test)
    return there


def start(mutant: Mutant | None, quiet: bool = True) -> int:
    """A forked process that runs the tests; its exit code is pytest's."""
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, 0)
    signal.alarm(MOST_S)
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    os.chdir(ROOT)
    if quiet:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
    code = 3
    try:
        code = run_tests(mutant, tests_for(mutant))
    except BaseException:
        traceback.print_exc()  # a fork must not go on in the caller
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> int:
    """Runs the drawn mutants and lists those that no test noticed."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--mutants", type=int, default=300)
    options.add_argument("--only", default="", help="only files whose name has this text")
    options.add_argument("--jobs", type=int, default=2)
    chosen = options.parse_args()
    for slow in ("pytest", "click", "networkx", "rich", "jsonschema", "psutil"):
        __import__(slow)
    if os.waitstatus_to_exitcode(os.waitpid(start(None, quiet=False), 0)[1]) != 0:
        print("the tests fail as it is: nothing to compare with")
        return 2
    drawn = [m for m in mutants() if chosen.only in m.file]
    total, drawn = len(drawn), drawn[: chosen.mutants]
    survivors = list(_survivors(drawn, chosen.jobs))
    killed = len(drawn) - len(survivors)
    print(f"{killed} of {len(drawn)} killed ({killed / max(1, len(drawn)) * 100:.1f} %), of {total} there are")
    return 0


def _survivors(drawn: list[Mutant], jobs: int) -> Iterator[Mutant]:
    running: dict[int, Mutant] = {}
    waiting = list(reversed(drawn))
    began = time.monotonic()
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            running[start(mutant)] = mutant
        pid, status = os.wait()
        mutant = running.pop(pid)
        if os.waitstatus_to_exitcode(status) == 0:
            line = (ROOT / mutant.file).read_text("utf-8").splitlines()[max(0, mutant.line - 1)].strip()
            print(f"survived {mutant.file}:{mutant.line} {mutant.change}: {line}", flush=True)
            yield mutant
        done = len(drawn) - len(waiting) - len(running)
        if done % 25 == 0:
            print(f"{done} of {len(drawn)} after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
