from typing import Any

import msgspec
import pytest

from rollog.diff_cli import MOST_STEPS, some, tables_of
from rollog.diffing import Line, Taken, add_to, first_difference, in_force, settings_diff, trained_tree
from schemas.config import Settings, load_settings
from schemas.steps import BatchRef
from tests import samples


def taken(weights: str, batches: str = "same") -> Taken:
    return Taken(loss=0.0, reward_mean=0.5, grad_norm=1.0, num_batches=1, batches=batches, weights=weights)


def line(*weights: str, start: int = 1, batches: str = "same") -> Line:
    steps = {step: taken(one, batches) for step, one in enumerate(weights, start)}
    return Line(run="r", namespace="r.", steps=steps)


@pytest.mark.parametrize(
    ("first", "second", "step"),
    [
        (line("a", "b", "c"), line("a", "b", "c"), None),
        (line("a", "b", "c"), line("a", "x", "c"), 2),
        (line("a", "b", "c"), line("a", "b"), 3),
        (line("a"), line("b", start=2), 1),
        (line(), line(), None),
    ],
)
def test_the_first_step_that_differs_or_that_one_run_has_alone(first: Line, second: Line, step: int | None) -> None:
    assert first_difference(first, second, "weights") == step
    assert first_difference(second, first, "weights") == step


def test_batches_and_weights_are_compared_for_themselves() -> None:
    assert first_difference(line("a"), line("a", batches="others"), "batches") == 1
    assert first_difference(line("a"), line("a", batches="others"), "weights") is None


def step(number: int, *ids: str, **changes: Any) -> Any:
    refs = tuple(BatchRef(topic="batches", partition=0, offset=0, event_id=one, digest="") for one in ids)
    return msgspec.structs.replace(samples.step(), step=number, batches=refs, **changes)


def test_batches_of_two_logs_are_the_same_where_their_tasks_are() -> None:
    one, other = Line(run="golden", namespace="a."), Line(run="golden", namespace="b.")
    add_to(one, step(1, "x", "y"), {"x": "task-1", "y": "task-2"}, None)
    add_to(other, step(1, "p", "q"), {"p": "task-1", "q": "task-2"}, None)
    add_to(one, step(2, "x"), {"x": "task-1"}, None)
    add_to(other, step(2, "gone"), {}, None)
    assert first_difference(one, other, "batches") == 2


def test_a_line_ends_where_it_is_told_and_takes_a_step_once() -> None:
    made = Line(run="golden", namespace="a.")
    for record in (step(1, loss=1.0), step(1, loss=9.0), step(2), step(3)):
        add_to(made, record, {}, 2)
    assert sorted(made.steps) == [1, 2]
    assert made.steps[1].loss == 1.0
    assert trained_tree(made, "repair") == {"num_rows": 4, "num_tokens": 12, "share": 1.0, "reward_mean": 0.5}
    assert trained_tree(made, "verbs")["num_rows"] == 0


def test_settings_that_differ_are_named_with_both_values_and_names_of_runs_are_not() -> None:
    first = load_settings(flags=["run=a", "log.namespace=a.", "learner.steps=3", "tasks.verifiers={verbs = 'x'}"])
    second = load_settings(flags=["run=b", "log.namespace=b.", "learner.objective={type = 'm2po'}"])
    found = settings_diff(in_force(first, line()), in_force(second, line()))
    assert found == {
        "learner.objective.high": [5.0, None],
        "learner.objective.low": [0.0, None],
        "learner.objective.tau": [None, 0.04],
        "learner.objective.type": ["cispo", "m2po"],
        "learner.steps": [3, 0],
        "tasks.verifiers": [None, {}],
        "tasks.verifiers.verbs": ["x", None],
    }
    ran = msgspec.structs.replace(Settings().learner, learning_rate=0.5)
    made = Line(run="a", namespace="a.", config=msgspec.json.encode(ran).decode())
    assert settings_diff(in_force(Settings(), made), in_force(Settings(), line())) == {
        "learner.learning_rate": [0.5, 5e-4]
    }


def test_a_long_curve_is_cut_for_people_and_keeps_what_matters() -> None:
    rows = [{"step": number, "a": None, "b": None} for number in range(500)]
    shown = [row["step"] for row in some(rows, 137)]
    assert {0, 137, 499} <= set(shown)
    assert len(shown) <= MOST_STEPS + 1
    assert some(rows[:5], 2) == rows[:5]


def test_the_tables_have_a_row_for_whatever_differs() -> None:
    taken_tree = msgspec.to_builtins(taken("w"))
    pair = {"num_rows": 4, "num_tokens": 8, "share": 1.0, "reward_mean": 0.5}
    found = {
        "a": {"run": "one"},
        "b": {"run": "two"},
        "settings": {"learner.steps": [1, 2]},
        "first_difference": {"batches": None, "weights": 2},
        "trained": {"verbs": {"a": pair, "b": pair}},
        "curves": [{"step": 1, "a": taken_tree, "b": taken_tree}, {"step": 2, "a": taken_tree, "b": None}],
        "held_out": [{"version": 0, "domain": "verbs", "a": 0.25, "b": None}],
    }
    assert [table.row_count for table in tables_of(found)] == [1, 1, 2, 1]
