"""Programs with a bug: one place of the text that says something else.

Places are found in the syntax tree and changed in the text, which costs little and leaves the rest as it was written.
"""

import ast
import random
from collections.abc import Iterator
from functools import lru_cache

import msgspec

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: (" in ", " not in "),
    ast.NotIn: (" not in ", " in "),
}
OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "%"),
    ast.Mod: ("%", "//"),
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "reversed": "sorted", "sum": "max"}


class Place(msgspec.Struct, frozen=True):
    """Where the text is changed, from one offset to another, and to what."""

    start: int
    end: int
    text: str


class Text:
    """A program's text, with the offsets of its nodes."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.starts = [0]
        for line in source.split("\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)

    def begin(self, node: ast.expr) -> int:
        """Return where a node begins."""
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr) -> int:
        """Return where a node ends."""
        return self.starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)

    def between(self, left: ast.expr, right: ast.expr, change: tuple[str, str]) -> Place:
        """Return the change of a sign between two nodes."""
        first, last = self.end(left), self.begin(right)
        return Place(first, last, self.source[first:last].replace(*change, 1))

    def signs(self, node: ast.AST) -> Iterator[Place]:
        """Yield changes of what stands between two nodes."""
        match node:
            case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in COMPARISONS:
                yield self.between(left, right, COMPARISONS[type(operator)])
            case ast.BinOp(left=left, op=operation, right=right) if type(operation) in OPERATORS:
                yield self.between(left, right, OPERATORS[type(operation)])
            case ast.AugAssign(target=left, op=operation, value=right) if type(operation) in OPERATORS:
                yield self.between(left, right, OPERATORS[type(operation)])
            case ast.BoolOp(op=operation, values=[left, right, *_]):
                words = (" and ", " or ")
                yield self.between(left, right, words if isinstance(operation, ast.And) else (words[1], words[0]))

    def words(self, node: ast.AST) -> Iterator[Place]:
        """Yield changes of single nodes."""
        match node:
            case ast.Constant(value=bool() as value):
                yield Place(self.begin(node), self.end(node), str(not value))
            case ast.Constant(value=int() as value):
                yield Place(self.begin(node), self.end(node), str(value + 1))
            case ast.Name(id=name) if name in NAMES:
                yield Place(self.begin(node), self.end(node), NAMES[name])
            case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
                yield Place(self.begin(node), self.begin(operand), "")


@lru_cache(maxsize=4096)
def places_of(source: str) -> tuple[Place, ...]:
    """Return where a bug can be put into a program of ASCII text."""
    text = Text(source)
    return tuple(place for node in ast.walk(ast.parse(source)) for place in (*text.signs(node), *text.words(node)))


def broken(source: str, rng: random.Random, num_bugs: int) -> str:
    """Return a program with bugs in as many places; one without any where none can be put."""
    places = places_of(source)
    chosen = rng.sample(places, min(num_bugs, len(places)))
    for place in sorted(chosen, key=lambda one: -one.start):
        source = source[: place.start] + place.text + source[place.end :]
    return source
