"""A programming problem: what is asked, a program that does it, and inputs to draw.

Statement and program are filled with the same choices, and every expected value comes from running the program here, so
that they cannot disagree. Only programs that this package wrote are run so; a broken one may loop, and is stopped after
a number of steps that does not depend on the machine.
"""

import ast
import json
import random
from collections.abc import Callable
from functools import lru_cache
from string import Template
from types import CodeType
from typing import Any

import msgspec

MOST_STEPS = 1500
MOST_DRAWS = 120
TYPES = {
    "int": "int",
    "str": "str",
    "ints": "list[int]",
    "words": "list[str]",
    "lines": "list[str]",
    "rows": "list[list[int]]",
    "records": "list[list]",
}
"""Kinds of values: `words` hold no spaces, `lines` may; `records` are lists of texts without spaces and of numbers."""
Draw = Callable[[random.Random], list[Any]]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Problems of one kind, of which choices make many."""

    name: str
    """Of the function."""
    params: tuple[tuple[str, str], ...]
    """Name and kind of each argument."""
    returns: str
    """Kind of what it returns."""
    statement: str
    """Text with `$name` for what is chosen."""
    source: str
    draw: Draw
    choices: tuple[tuple[dict[str, Any], ...], ...] = ()
    """One of each group is taken."""
    level: int = 0


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One problem."""

    name: str
    params: tuple[tuple[str, str], ...]
    returns: str
    statement: str
    source: str
    """A program that defines the function."""
    draw: Draw

    @property
    def signature(self) -> str:
        """Return the function's first line, without `def`."""
        params = ", ".join(f"{name}: {TYPES[kind]}" for name, kind in self.params)
        return f"{self.name}({params}) -> {TYPES[self.returns]}"


class Example(msgspec.Struct, frozen=True):
    """Arguments and what the function makes of them, as JSON."""

    arguments: str
    result: str


class TooLongError(Exception):
    """A program takes more steps than any right one."""


class Program:
    """A function of a program that this package wrote."""

    def __init__(self, source: str, name: str) -> None:
        self._left = 0
        space: dict[str, Any] = {"_tick": self._tick}
        exec(compiled(source), space)  # noqa: S102  this package's own program
        self._function = space[name]

    def _tick(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise TooLongError

    def __call__(self, arguments: str) -> str:
        """Return the result as JSON, or the name of what was raised after `!`."""
        self._left = MOST_STEPS
        try:
            return json.dumps(self._function(*json.loads(arguments)), sort_keys=True)
        except Exception as error:  # noqa: BLE001  a broken program may raise anything
            return f"!{type(error).__name__}"


TICK = ast.parse("_tick()").body[0]


def count_steps(body: list[ast.stmt]) -> None:
    """Let every turn of a loop, and every call of a function, count as a step."""
    for node in body:
        for name in ("body", "orelse", "finalbody"):
            count_steps(getattr(node, name, []))
        if isinstance(node, ast.For | ast.While | ast.FunctionDef):
            node.body.insert(0, TICK)


@lru_cache(maxsize=4096)
def compiled(source: str) -> CodeType:
    """Return the program with its steps counted."""
    tree = ast.parse(source)
    count_steps(tree.body)
    return compile(tree, "<program>", "exec")


def draw_problem(plan: Plan, rng: random.Random) -> Problem:
    """Return a problem of the plan."""
    values: dict[str, Any] = {}
    for group in plan.choices:
        values |= rng.choice(group)
    return Problem(
        name=plan.name,
        params=plan.params,
        returns=plan.returns,
        statement=" ".join(Template(plan.statement).substitute(values).split()),
        source=Template(plan.source).substitute(values).strip() + "\n",
        draw=plan.draw,
    )


def draw_examples(problem: Problem, rng: random.Random, num: int) -> list[Example]:
    """Return examples of which no two have one result, so that no constant is right, and none its argument's.

    There are fewer where too few were found.
    """
    program = Program(problem.source, problem.name)
    found: dict[str, Example] = {}
    for _ in range(MOST_DRAWS):
        values = problem.draw(rng)
        arguments = json.dumps(values)
        result = program(arguments)
        if result.startswith("!"):
            raise AssertionError(f"{problem.name}{arguments}: {result}")
        if result != json.dumps(values[0]):
            found.setdefault(result, Example(arguments, result))
        if len(found) == num:
            break
    return list(found.values())


def call_of(problem: Problem, example: Example) -> str:
    """Return the call of an example as Python writes it."""
    return f"{problem.name}({', '.join(repr(value) for value in json.loads(example.arguments))})"


def shown(problem: Problem, examples: list[Example]) -> str:
    """Return examples for a prompt."""
    return "\n".join(f"{call_of(problem, example)} == {json.loads(example.result)!r}" for example in examples)


@lru_cache(maxsize=4096)
def weight_of(source: str) -> int:
    """Return how many decisions a program takes: loops, conditions, comparisons."""
    kinds = (ast.For, ast.While, ast.If, ast.IfExp, ast.comprehension, ast.Compare, ast.BoolOp, ast.Lambda)
    return sum(isinstance(node, kinds) for node in ast.walk(ast.parse(source)))
