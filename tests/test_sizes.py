"""Files and functions stay small enough to be read."""

import ast

from tests.source_tree import PARTS, ROOT, files, tree

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 80
EVERYWHERE = (*PARTS, "tests", "bench", "demo")


def test_no_file_is_over_400_lines() -> None:
    lengths = {path: len((ROOT / path).read_text().splitlines()) for path in files(*EVERYWHERE)}
    assert {path: length for path, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_no_function_is_over_80_lines() -> None:
    functions = [
        (f"{path}:{node.lineno} {node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for path in files(*EVERYWHERE)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert functions
    assert [(name, length) for name, length in functions if length > MAX_FUNCTION_LINES] == []
