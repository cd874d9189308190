"""Problems, bugs, messes and queries, each looked at in a second way."""

import contextlib
import io
import itertools
import random
import sqlite3
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.domains.catalogue import all_domains
from producers.domains.code.databases import THEMES, Database, answer, draw_database
from producers.domains.code.drawing import NUM_LEVELS, PLANS, draw_any, draw_tested
from producers.domains.code.messes import MESSES, call_of
from producers.domains.code.mutants import broken, places_of
from producers.domains.code.problem import Plan, Program, draw_examples, draw_problem
from producers.domains.code.programs_on_stdin import program_of, text_in, text_out
from producers.domains.code.queries import QUESTIONS, draw_values, filled
from schemas.executions import Outcome
from streams.verifiers.parts.cases import CASES

SEEDS = st.integers(0, 10_000)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_every_choice_of_a_plan_is_a_program_whose_results_differ(plan: Plan) -> None:
    rng = random.Random(plan.name)
    for _ in range(25):
        problem = draw_problem(plan, rng)
        assert "$" not in problem.statement.replace("$sign", "") + problem.source
        assert len(draw_examples(problem, rng, 6)) == 6


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_a_problem_says_what_its_program_holds(plan: Plan) -> None:
    rng = random.Random(3)
    by_source: dict[str, set[str]] = {}
    for _ in range(60):
        problem = draw_problem(plan, rng)
        by_source.setdefault(problem.source, set()).add(problem.statement)
    assert all(len(statements) == 1 for statements in by_source.values())


@given(SEEDS, st.integers(0, NUM_LEVELS - 1))
def test_a_bug_leaves_a_program_that_differs_in_one_line(seed: int, level: int) -> None:
    rng = random.Random(seed)
    source = draw_any(rng, level).source
    if not places_of(source):
        return
    wrong = broken(source, rng, 1)
    compile(wrong, "<program>", "exec")
    lines, others = source.split("\n"), wrong.split("\n")
    assert len(lines) == len(others)
    assert sum(a != b for a, b in zip(lines, others, strict=True)) == 1


def test_a_program_that_never_ends_is_stopped() -> None:
    assert Program("def f():\n    while True:\n        pass", "f")("[]") == "!TooLongError"


@given(SEEDS, st.integers(0, NUM_LEVELS - 1))
def test_a_program_reads_what_is_written_for_it(seed: int, level: int) -> None:
    problem, _, examples = draw_tested(random.Random(seed), level, num_shown=1, num_hidden=2)
    for example in examples:
        out = io.StringIO()
        lines = io.StringIO(text_in(problem, example))
        with contextlib.redirect_stdout(out), patch("sys.stdin", lines):
            exec(program_of(problem), {})
        assert out.getvalue().strip() == text_out(problem, example).strip()
        assert lines.read() == ""


@pytest.mark.parametrize("make", MESSES)
@pytest.mark.parametrize("num", [2, 3, 4])
def test_a_clean_program_does_what_the_messy_one_did(make: Callable[[random.Random, int], Any], num: int) -> None:
    rng = random.Random(num)
    for _ in range(10):
        mess = make(rng, num)
        before, after = (
            Program(f"{text}\n\ndef _called(name, *rest):\n    return globals()[name](*rest)\n", "_called")
            for text in (mess.before, mess.after)
        )
        for _ in range(10):
            call = call_of(rng, mess)
            assert before(call) == after(call)
            assert not before(call).startswith("!")


def by_group(database: Database) -> dict[int, Any]:
    return {row[0]: row[2] for row in database.parents if isinstance(row[0], int)}


BY_HAND: dict[int, Callable[[Database, dict[str, Any]], list[tuple[Any, ...]]]] = {
    0: lambda d, v: [(r[0], r[2]) for r in d.children if r[4] == v["one"] and r[2] is not None and r[2] >= v["bound"]],
    3: lambda d, v: [(r[0],) for r in d.children if r[3] < v["first"] and (r[2] is None or r[2] < v["bound"])],
    4: lambda d, v: [
        (group, num)
        for group in d.theme.groups
        if (num := len({r[1] for r in d.children if r[4] == v["one"] and by_group(d)[r[1]] == group}))
    ],
    8: lambda d, v: [
        (p[1], len(found), sum(r[2] or 0 for r in found))
        for p in d.parents
        for found in [[r for r in d.children if r[1] == p[0] and r[3] >= v["first"]]]
    ],
    9: lambda d, v: [(p[0], p[1]) for p in d.parents if not any(r[1] == p[0] and r[4] == v["one"] for r in d.children)],
    12: lambda d, _: [
        (group, best[0], best[2])
        for group in d.theme.groups
        for found in [[r for r in d.children if by_group(d)[r[1]] == group]]
        if found
        for best in [min(found, key=lambda r: (-(r[2] if r[2] is not None else -1), r[0]))]
    ],
    14: lambda d, _: [
        (p[1], len(found))
        for p in d.parents
        for found in [[r for r in d.children if r[1] == p[0]]]
        if {r[4] for r in found} == {r[4] for r in d.children}
    ],
    17: lambda d, v: sorted(((r[0], r[3]) for r in d.children if r[4] == v["one"]), key=lambda r: (r[1], r[0]))[
        -v["k"] :
    ],
    20: lambda d, v: [
        (p[0], p[1])
        for p in d.parents
        for states in [{r[4] for r in d.children if r[1] == p[0]}]
        if states and states <= {v["one"], v["two"]}
    ],
    21: lambda d, _: [(a[1], b[1]) for a in d.parents for b in d.parents if a[2] == b[2] and str(a[1]) < str(b[1])],
    22: lambda d, _: [
        (state, amounts[-2])
        for state in d.theme.states
        for amounts in [sorted({r[2] for r in d.children if r[4] == state and r[2] is not None})]
        if len(amounts) > 1
    ],
}
"""Questions by their place, answered without a database."""


@pytest.mark.parametrize("place", BY_HAND)
@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.child)
def test_a_query_finds_what_is_found_by_hand(place: int, theme: Any) -> None:
    rng = random.Random(place)
    for _ in range(15):
        database, values = draw_database(theme, rng), draw_values(theme, rng)
        found = answer(database, filled(QUESTIONS[place].query, values))
        by_hand = BY_HAND[place](database, values)
        assert sorted(map(repr, map(tuple, found))) == sorted(map(repr, by_hand))


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.text[:40])
def test_every_question_can_be_asked_of_every_theme(question: Any) -> None:
    rng = random.Random(1)
    for theme in THEMES:
        values = draw_values(theme, rng)
        with contextlib.closing(sqlite3.connect(":memory:")) as connection:
            connection.executescript(draw_database(theme, rng).setup)
            connection.execute(filled(question.query, values))
        assert "$" not in filled(question.text, values)


def test_tests_that_pass_by_the_toss_of_a_coin_earn_next_to_nothing() -> None:
    item = all_domains()["code_write_tests"].item(random.Random(3), 2, False)
    (part,) = item.verifier.parts
    assert item.execution is not None
    assert len({case.prelude for case in item.execution.cases}) == len(item.execution.cases)
    fail, passed = Outcome(status="nonzero", exit_code=1), Outcome(status="ok", exit_code=0)

    def worth(chance: float) -> float:
        total = 0.0
        for tossed in itertools.product((True, False), repeat=len(part.expected)):
            value = CASES.score(
                tuple(passed if one else fail for one in tossed),
                msgspec.convert(part.expected, CASES.expects),
                msgspec.convert(part.options, CASES.options),
            ).value
            total += value * chance ** sum(tossed) * (1 - chance) ** (len(tossed) - sum(tossed))
        return total

    assert max(worth(percent / 100) for percent in range(101)) < 0.07
