"""Mutation check: changes one operator, constant or condition at a time and asks whether a test notices.

    python tests/mutate.py [--mutants 300] [--only TEXT] [--jobs 2]

Of topocheck's rules, model and figures (rules/, model.py, hardware/); strings, page text and messages are left alone.
The tests run once as they are; then each mutant is put into a fork of that process (no file is written), which runs the
tests that entered its function, to the first failure. Texts are parsed once: probes are not mutated. Which mutants are
taken depends on their number only. Not part of `make test`: 300 mutants take some 20 minutes.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import os
import resource
import sys
import time
import traceback
import types
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from topocheck.facts import Fact
    from topocheck.sources.base import Raw

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("topocheck/rules/*.py", "topocheck/model.py", "topocheck/hardware/*.py")
TESTS = (
    "tests/test_hardware.py",
    "tests/test_mutants.py",
    "tests/test_model.py",
    "tests/test_measured.py",
    "tests/test_pci_ids.py",
    "tests/test_platforms.py",
    "tests/test_ring.py",
    "tests/test_nccl.py",
    "tests/test_gpu_rules.py",
    "tests/test_readings.py",
    "tests/test_net_rules.py",
    "tests/test_rules.py",
    "tests/test_nodes.py",
    "tests/test_traps.py",
    "tests/test_traps_links.py",
    "tests/test_mistakes.py",
    "tests/test_baseline.py",
    "tests/test_pasted.py",
    "tests/test_posted.py",
    "tests/test_catalogue.py",
    "tests/test_properties.py",
    *(
        str(f.relative_to(ROOT))
        for name in ("boundaries", "limits", "posted")
        for f in ROOT.glob(f"tests/test_{name}_*.py")
    ),
)
MOST_CPU_S = 300  # a change that never ends is noticed; all the tests together take a third of it
_COMPARE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
_COMPARE |= {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
_ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult}
_ARITHMETIC |= {ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr}
_WORDS = frozenset({"message", "repair", "alike", "words", "what", "why"})  # arguments that only the reader sees


class Mutant(NamedTuple):
    """One change: the file, the place of the node in ast.walk's order, what is done to it, and the first line of the
    function around it (0: none, or one that is cached)."""

    file: str
    place: int
    line: int
    change: str
    function: int

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
            silent, around, name = set(_unread(tree)), _around(tree), str(file.relative_to(ROOT))
            for place, node in enumerate(ast.walk(tree)):
                if id(node) not in silent:
                    line = getattr(getattr(node, "target", node), "lineno", 0)
                    found += [Mutant(name, place, line, c, around.get(id(node), 0)) for c in _changes(node)]
    return sorted(found, key=lambda m: m.order)


def _around(tree: ast.AST) -> dict[int, int]:
    """Of each node in a function the line where the function starts; ast.walk comes to inner functions last."""
    functions = [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and not f.decorator_list]
    return {id(inner): f.lineno for f in functions for part in f.body for inner in ast.walk(part)}


def _unread(tree: ast.AST) -> Iterator[int]:
    """Nodes of texts and annotations: f-strings, messages, exceptions raised, types."""
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, (ast.JoinedStr, ast.Raise)) or _told(node):
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


def _told(node: ast.AST) -> bool:
    """A choice between parts of a sentence, or a list of them."""
    if isinstance(node, ast.IfExp):
        return _words(node.body) or _words(node.orelse)
    return isinstance(node, (ast.GeneratorExp, ast.ListComp)) and isinstance(node.elt, ast.JoinedStr)


def _words(node: ast.AST) -> bool:
    """Part of a sentence: empty or of several words, unlike "warning" and "computed"."""
    text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return isinstance(node, ast.JoinedStr) or (text and (not node.value or " " in node.value))


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


class Recorder:
    """A pytest plugin: which functions of the mutated files each test entered, and how long it took."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.tests_of: dict[tuple[str, int], list[str]] = {}
        self.seconds: dict[str, float] = {}
        self._files = {str(file): str(file.relative_to(ROOT)) for part in PARTS for file in ROOT.glob(part)}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        entered: set[tuple[str, int]] = set()

        def note(frame: types.FrameType, event: str, _: object) -> None:
            if event == "call" and (file := self._files.get(frame.f_code.co_filename)):
                entered.add((file, frame.f_code.co_firstlineno))

        began = time.monotonic()
        sys.setprofile(note)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            self.seconds[item.nodeid] = time.monotonic() - began
            for place in entered:
                self.tests_of.setdefault(place, []).append(item.nodeid)

    def tests_for(self, mutant: Mutant) -> list[str]:
        """Those that entered the function; of a module-level change all. Those of the rule or the figures first."""
        own = self.tests_of.get((mutant.file, mutant.function), []) if mutant.function else list(self.seconds)
        first = "test_hardware" if "/hardware/" in mutant.file else _rule_id(mutant.file)
        return sorted(own, key=lambda test: (first not in test, self.seconds[test]))[: self.most]


def _module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _rule_id(file: str) -> str:
    module = sys.modules.get(_module(file))
    return getattr(module, "ID", "test_model")


def run(tests: list[str], *plugins: object) -> int:
    """pytest's exit code."""
    return int(pytest.main(["-x", "-q", "--no-header", "-p", "no:cacheprovider", "--tb=short", *tests], list(plugins)))


def parse_once() -> dict[tuple[str, str, str], list[object]]:
    """Texts are parsed once each; returns what remembers them."""
    from topocheck.probes import gather

    read, known = gather.read_text, {}

    def remembered(raw: Raw) -> list[Fact]:
        key = (raw.input, raw.name, raw.text)
        if key not in known:
            known[key] = read(raw)
        return list(known[key])

    gather.read_text = remembered
    return known


def put_in(mutant: Mutant) -> None:
    """Gives the functions of the loaded module the code of the mutated one, and its values to all who took them."""
    module = sys.modules[_module(mutant.file)]
    changed = {"__name__": module.__name__, "__file__": module.__file__, "__package__": module.__package__}
    exec(compile(mutated(mutant), str(ROOT / mutant.file), "exec"), changed)
    for name, new in changed.items():
        old = vars(module).get(name)
        if name.startswith("__") or old is new:
            continue
        if isinstance(new, type):
            for attribute, inner in vars(new).items():
                _recode(vars(old).get(attribute), inner)
        elif not _recode(old, new) and repr(old) != repr(new):
            for user in list(sys.modules.values()):
                if getattr(user, name, None) is old:
                    setattr(user, name, new)
    for user in [m for name, m in sys.modules.items() if name.startswith("topocheck")]:
        for value in list(vars(user).values()):
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def _recode(old: object, new: object) -> bool:
    old, new = getattr(old, "__wrapped__", old), getattr(new, "__wrapped__", new)
    if not (isinstance(old, types.FunctionType) and isinstance(new, types.FunctionType)):
        return False
    if old.__module__ == new.__module__ or old.__name__ == "__new__":
        if len(old.__code__.co_freevars) == len(new.__code__.co_freevars):
            old.__code__ = new.__code__
        old.__defaults__, old.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
    return True


def start(mutant: Mutant, tests: list[str], known: dict[tuple[str, str, str], list[object]]) -> int:
    """A forked process that runs the tests with the change in; its exit code is pytest's."""
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    code = 1
    try:
        if "/hardware/" in mutant.file:
            known.clear()  # probes ask it what is a GPU
        put_in(mutant)
        code = run(tests)
    except BaseException:
        traceback.print_exc()  # a fork must not go on in the caller; a module that cannot be loaded is noticed
    os._exit(code)


def _unchanged(tests: list[str]) -> int:
    """The exit code of all tests in a fork like a mutant's, with nothing changed."""
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os._exit(run(tests))


def main() -> int:
    """Runs the drawn mutants and lists those that no test noticed."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--mutants", type=int, default=300)
    options.add_argument("--only", default="", help="only files whose name has this text")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--tests", type=int, default=10_000, help="so many a mutant: quicker, and fewer are noticed")
    chosen = options.parse_args()
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    os.chdir(ROOT)
    os.environ["TOPOCHECK_MUTANT"] = "1"
    known, recorder = parse_once(), Recorder(chosen.tests)
    if run([test for test in TESTS if (ROOT / test).exists()], recorder) != 0:
        print("the tests fail as it is: nothing to compare with")
        return 2
    if _unchanged(sorted(recorder.seconds)) != 0:
        print("the tests fail when they run a second time: every mutant would seem killed")
        return 2
    drawn = [m for m in mutants() if chosen.only in m.file]
    total, drawn = len(drawn), drawn[: chosen.mutants]
    for file in {mutant.file for mutant in drawn}:
        import_module(_module(file))  # what no test imports is no mutant killed
    survivors = list(_survivors(drawn, chosen.jobs, recorder, known))
    killed = len(drawn) - len(survivors)
    print(f"{killed} of {len(drawn)} killed ({killed / max(1, len(drawn)) * 100:.1f} %), of {total} there are")
    return 0


def _survivors(
    drawn: list[Mutant], jobs: int, recorder: Recorder, known: dict[tuple[str, str, str], list[object]]
) -> Iterator[Mutant]:
    running: dict[int, Mutant] = {}
    waiting = list(reversed(drawn))
    began = time.monotonic()
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            tests = recorder.tests_for(mutant)
            if not tests:
                print(f"no test enters {mutant.file}:{mutant.line} {mutant.change}", flush=True)
                yield mutant
                continue
            running[start(mutant, tests, known)] = mutant
        if not running:
            break
        pid, status = os.wait()
        mutant = running.pop(pid)
        if os.waitstatus_to_exitcode(status) == 0:
            line = (ROOT / mutant.file).read_text("utf-8").splitlines()[max(0, mutant.line - 1)].strip()
            print(f"survived {mutant.file}:{mutant.line} {mutant.change}: {line}", flush=True)
            yield mutant
        done = len(drawn) - len(waiting) - len(running)
        if done % 10 == 0:
            print(f"{done} of {len(drawn)} after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
