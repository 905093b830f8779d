"""Imports go one way only, and what is slow to import is imported where it is used."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "topocheck"

# Top first. A part imports itself and parts of lower layers; parts of one layer do not know each other.
LAYERS = (
    ("__main__",),
    ("cli",),
    ("drawings", "launch", "fleet"),
    ("gate", "kit"),
    ("check", "formats", "output", "capture", "predict"),
    ("assemble", "judgement", "hops", "whatif"),
    ("policy", "baseline"),
    ("report", "toml_file", "exits"),
    ("rules", "pricing", "follows"),
    ("judging", "absent", "guards"),
    ("finding",),
    ("cabling", "missing", "refused"),
    ("patches", "nearness", "nvlink", "nccl", "as_built", "pcie_counts"),
    ("model",),
    ("ring",),
    ("build",),
    ("graph", "view"),
    ("expected",),
    ("names",),
    ("probes",),
    ("facts",),
    ("sources",),
)
BELOW_ALL = ("__init__", "errors", "hardware")  # the version, the exceptions, the figures: importable by all
FRIENDS = {("graph", "view"), ("view", "graph"), ("hardware", "facts")}
SLOW = {
    "networkx": ("graph", "view", "build", "model", "drawings"),
    "rich": ("formats", "drawings"),
    "jinja2": ("formats", "fleet"),
    "psutil": ("sources",),
    "pynvml": ("sources",),
}

LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
FILES = sorted(PACKAGE.rglob("*.py"))


def part_of(file: Path) -> str:
    return file.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (
                [f"topocheck.{name.name}" for name in node.names] if node.module == "topocheck" else [node.module]
            )
        elif isinstance(node, ast.Import):
            yield from [name.name for name in node.names]


def parts_imported(file: Path) -> set[str]:
    names = [name.split(".") for name in imported(ast.parse(file.read_text("utf-8"))) if name.startswith("topocheck.")]
    return {name[1] for name in names if name[1] != "__version__"}


def may_import(part: str, other: str) -> bool:
    if other == part or other in BELOW_ALL or (part, other) in FRIENDS:
        return True
    return part in LEVEL and other in LEVEL and LEVEL[part] < LEVEL[other]


def test_every_module_has_its_place():
    assert {part_of(file) for file in FILES} - set(LEVEL) - set(BELOW_ALL) == set()


def test_imports_go_one_way():
    wrong = [
        f"{file.relative_to(PACKAGE)} imports {other}"
        for file in FILES
        for other in sorted(parts_imported(file))
        if not may_import(part_of(file), other)
    ]
    assert wrong == []


def test_a_rule_knows_no_probe_and_a_format_only_the_report():
    for file in FILES:
        if part_of(file) == "rules":
            assert parts_imported(file) & {"probes", "sources"} == set(), file
        if part_of(file) == "formats":
            assert parts_imported(file) <= {"formats", "report", "finding", "facts", "errors"}, file


def top_level(tree: ast.Module) -> Iterator[str]:
    """What is imported as soon as the module is: not in functions, not for type checkers only."""
    for statement in tree.body:
        checking = isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test)
        if not checking and not isinstance(statement, ast.FunctionDef):
            yield from imported(statement)


def test_slow_packages_are_imported_only_where_they_are_used():
    for file in FILES:
        tree = ast.parse(file.read_text("utf-8"))
        for name in {name.split(".")[0] for name in imported(tree)} & set(SLOW):
            assert part_of(file) in SLOW[name], f"{file} imports {name}"
        at_top = {name.split(".")[0] for name in top_level(tree)} & set(SLOW)
        assert at_top == set(), f"{file} imports {at_top} at its top"
