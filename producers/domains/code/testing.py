"""Tests to be written, which the right program passes and broken ones fail."""

import json
import random
import re
from functools import lru_cache
from typing import Any

from producers.domains.catalogue import domain
from producers.domains.code.cases import LIMITS, QUIET, fenced
from producers.domains.code.drawing import draw_planned
from producers.domains.code.mutants import broken
from producers.domains.code.problem import Example, Problem, Program, call_of, draw_examples, shown, weight_of
from producers.domains.interface import Item
from schemas.executions import Case
from schemas.parts import Part
from schemas.tasks import ExecutionSpec, VerifierSpec

LEAST_MUTANTS = (1, 1, 2, 2)
MOST_MUTANTS = 3
NUM_EXAMPLES, NUM_TRIED = 6, 8
NUM_RIGHTS = 5
"""Runs of the right program. Tests that pass by the toss of a coin earn p^n (1 - p) at most: with two runs 0.15."""
DEFINES = re.compile(r"^def .*:\n", re.MULTILINE)
RUN_TESTS = """
for _name, _test in list(globals().items()):
    if _name.startswith("test") and callable(_test):
        _test()
"""
ASKS = (
    "Write tests for `{signature}`, which is already defined.",
    "The function `{signature}` exists; nobody has tested it. Write its tests.",
    "Cover `{signature}` with tests that would notice a mistake.",
)
ANSWER = (
    "Write functions named test_..., without arguments, that use `assert`; do not define {name} yourself. Your tests "
    "are run on a right implementation, which must pass them all, and on wrong ones, each of which must fail some. "
    "Answer with the tests in one block between lines of ```."
)


@domain(family="code", levels=len(LEAST_MUTANTS), max_tokens=1024)
def code_write_tests(rng: random.Random, level: int) -> Item:
    """Write tests that tell a right implementation from wrong ones."""
    problem, mutants, seen, examples = draw_mutants(rng, level)
    rights = [f"right {number}" for number in range(NUM_RIGHTS)]
    names = [*rights, *(f"wrong {number}" for number in range(len(mutants)))]
    sources = [*[problem.source] * NUM_RIGHTS, *mutants]
    pads = rng.sample(range(2 * len(sources)), len(sources))
    sources = [padded(source, pad) for source, pad in zip(sources, pads, strict=True)]
    expected: dict[str, Any] = {name: {"ends": "ok" if name.startswith("right") else "fails"} for name in names}
    return Item(
        prompt=f"{rng.choice(ASKS).format(signature=problem.signature)}\n\n{problem.statement}\n\nFor example:\n"
        f"{shown(problem, [seen])}\n\n{ANSWER.format(name=problem.name)}\n",
        gold=(fenced(tests(problem, examples)),),
        verifier=VerifierSpec(
            kind="parts", parts=(Part(kind="cases", of="cases", expected=expected, options={"needs": rights}),)
        ),
        execution=ExecutionSpec(
            extract="fenced",
            limits=LIMITS,
            cases=tuple(
                Case(name=name, prelude=f"{source}\n{QUIET}", epilogue=RUN_TESTS)
                for name, source in zip(names, sources, strict=True)
            ),
        ),
        partials=tuple((fenced(tests(problem, [one])),) for one in partly(problem, mutants, examples)),
        wrongs=tuple((fenced(text),) for text in (tests(problem, [seen]), "def test_it():\n    assert False", "pass")),
        difficulty=10 * level + len(mutants) + weight_of(problem.source),
    )


def padded(source: str, num: int) -> str:
    """Return a program that does the same with `num` lines more: tests that look at its text cannot tell by it."""
    return DEFINES.sub(lambda found: found[0] + "".join(f"    _{place} = {place}\n" for place in range(num)), source, 1)


def draw_mutants(rng: random.Random, level: int) -> tuple[Problem, list[str], Example, list[Example]]:
    """Return a problem, wrong programs, an example on which all of them are right, and others that find them out."""
    while True:
        problem = draw_planned(rng, level)
        found = subtle_mutants(problem)
        examples = draw_examples(problem, rng, NUM_EXAMPLES) if len(found) >= LEAST_MUTANTS[level] else []
        rights = {source: rights_of(problem, source, examples) for source in found}
        deceived = [
            [source for source in found if rights[source][place] and not all(rights[source])]
            for place in range(len(examples))
        ]
        for place, mutants in sorted(enumerate(deceived), key=lambda one: -len(one[1]))[:1]:
            if len(mutants) >= LEAST_MUTANTS[level]:
                return problem, mutants[:MOST_MUTANTS], examples[place], examples[:place] + examples[place + 1 :]


@lru_cache(maxsize=4096)
def subtle_mutants(problem: Problem) -> tuple[str, ...]:
    """Return wrong programs that are right at times; the same ones for the same problem."""
    rng = random.Random(problem.source)
    examples = draw_examples(problem, rng, NUM_EXAMPLES)
    found = dict.fromkeys(broken(problem.source, rng, 1) for _ in range(NUM_TRIED))
    rights = {source: sum(rights_of(problem, source, examples)) for source in found}
    subtle = [source for source in found if 0 < rights[source] < len(examples)]
    return tuple(sorted(subtle, key=lambda source: -rights[source])[:MOST_MUTANTS])


def rights_of(problem: Problem, source: str, examples: list[Example]) -> list[bool]:
    """Return on which examples a program is right."""
    program = Program(source, problem.name)
    return [program(one.arguments) == one.result for one in examples]


def partly(problem: Problem, mutants: list[str], examples: list[Example]) -> list[Example]:
    """Return an example that finds some of the wrong programs out and not all, if there is one."""
    rights = [rights_of(problem, source, examples) for source in mutants]
    return [one for place, one in enumerate(examples) if 0 < sum(row[place] for row in rights) < len(rights)][:1]


def tests(problem: Problem, examples: list[Example]) -> str:
    """Return tests that ask for the examples' results."""
    return "\n\n".join(
        f"def test_{number}():\n    assert {call_of(problem, one)} == {json.loads(one.result)!r}"
        for number, one in enumerate(examples)
    )
