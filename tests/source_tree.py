"""The project's own Python files, for tests about them."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("schemas", "producers", "streams", "consumers", "learner", "rollog")


def files(*folders: str) -> list[str]:
    """Return paths relative to the root."""
    found = [path.relative_to(ROOT).as_posix() for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted(found)


@cache
def tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(), filename=path)


def imported(module: ast.Module, *, package: str = "") -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of all that a module of `package` imports, in functions too.

    `from a import b` gives `a.b`.
    """
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, name.name
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *filter(None, [node.module])])
            for name in node.names:
                yield node.lineno, f"{origin}.{name.name}"


def imported_by(path: str) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of all that a file imports."""
    return imported(tree(path), package=path.rpartition("/")[0].replace("/", "."))


def within(name: str, *packages: str) -> bool:
    """Say whether a dotted name is one of these packages or lies in one."""
    return any(name == package or name.startswith(package + ".") for package in packages)
