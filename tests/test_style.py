"""The house style as numbers: no file over 400 lines, no function over 50."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = [file for folder in ("topocheck", "tests", "benchmarks") for file in sorted((ROOT / folder).rglob("*.py"))]
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50


def test_no_file_is_over_400_lines():
    lengths = {str(file.relative_to(ROOT)): len(file.read_text("utf-8").splitlines()) for file in FILES}
    assert {file: lines for file, lines in lengths.items() if lines > MAX_FILE_LINES} == {}


def test_no_function_is_over_50_lines():
    long = [
        f"{file.relative_to(ROOT)}:{function.lineno} {function.name}"
        for file in FILES
        for function in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(function, ast.FunctionDef) and function.end_lineno - function.lineno >= MAX_FUNCTION_LINES
    ]
    assert long == []
