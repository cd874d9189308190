"""Programs with a bug: one place of a syntax tree that says something else."""

import ast
import random
from collections.abc import Callable, Iterator
from functools import lru_cache

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt,),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt,),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mod,
    ast.Mod: ast.FloorDiv,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "reversed": "sorted", "sum": "max"}


@lru_cache(maxsize=1024)
def mutants_of(source: str) -> tuple[str, ...]:
    """Return every program that differs from this one in one place, formatted as `plain` does."""
    num = sum(1 for _ in places(ast.parse(source)))
    return tuple(dict.fromkeys(mutant(source, place) for place in range(num)))


def plain(source: str) -> str:
    """Return a program as it is written from its syntax tree."""
    return ast.unparse(ast.parse(source)) + "\n"


@lru_cache(maxsize=8192)
def mutant(source: str, place: int) -> str:
    """Return the program with its bug at that place."""
    tree = ast.parse(source)
    for number, change in enumerate(places(tree)):
        if number == place:
            change()
            break
    return ast.unparse(tree) + "\n"


def places(tree: ast.Module) -> Iterator[Callable[[], None]]:
    """Yield what changes the tree, one place each, in the order of the tree."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(ops=[operator]):
                for other in COMPARISONS.get(type(operator), ()):
                    yield setting(node, "ops", [other()])
            case ast.BinOp(op=operation) | ast.AugAssign(op=operation) if type(operation) in OPERATORS:
                yield setting(node, "op", OPERATORS[type(operation)]())
            case ast.BoolOp(op=operation):
                yield setting(node, "op", ast.Or() if isinstance(operation, ast.And) else ast.And())
            case ast.Constant(value=int() as value):
                yield setting(node, "value", not value if isinstance(value, bool) else value + 1)
            case ast.Name(id=name) if name in NAMES:
                yield setting(node, "id", NAMES[name])
            case ast.UnaryOp(op=ast.USub()):
                yield setting(node, "op", ast.UAdd())
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield setting(node, "operand", ast.UnaryOp(op=ast.Not(), operand=operand))


def setting(node: ast.AST, field: str, value: object) -> Callable[[], None]:
    """Return what sets a field of a node."""
    return lambda: setattr(node, field, value)


@lru_cache(maxsize=4096)
def num_places(source: str) -> int:
    """Return how many mutants a program has at most."""
    return sum(1 for _ in places(ast.parse(source)))


def broken(source: str, rng: random.Random, num_bugs: int) -> str:
    """Return a program with bugs in as many places, or fewer where one hides the other."""
    for _ in range(num_bugs if num_places(source) else 0):
        source = mutant(source, rng.randrange(num_places(source)))
    return source
