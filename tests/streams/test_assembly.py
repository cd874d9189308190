"""How groups end: batch or decision, whatever the order in which their events came."""

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import limits
from schemas.arrays import PackedArray
from schemas.batches import Batch
from schemas.config import AssemblerSettings
from schemas.decisions import Decision
from schemas.events import Event
from schemas.tasks import SamplingParams
from schemas.trajectory import fold
from streams import assembly
from streams.assembly import assemble
from tests import samples
from tests.samples import ids
from tests.streams.stage_fakes import read

SETTINGS = AssemblerSettings(min_valid=2, grace_s=30)
LATE_S = 60.0 + 30.0
"""samples.task has 60 s, and is issued at 0."""


def sample_events(sample: int, value: float | None, *, token: int | None = None, **turn: Any) -> list[Event[Any]]:
    tokens = ids(8, 100 + sample if token is None else token, 1)
    invalid = {} if value is not None else {"invalid_reason": "infrastructure"}
    return [
        read(samples.turn(sample, **({"token_ids": tokens} | turn))),
        read(samples.ended(sample)),
        read(samples.reward(sample, value=value, **invalid)),
    ]


def group_events(*values: float | None, **task: Any) -> list[Event[Any]]:
    events = [read(samples.task(num_samples=len(values), **task))]
    for sample, value in enumerate(values):
        events += sample_events(sample, value)
    return events


def end(events: list[Event[Any]], *, now_s: float = 1.0, **fields: Any) -> Batch | Decision | None:
    return assemble(fold(events), settings=SETTINGS, now_s=now_s, **fields)


def decision(events: list[Event[Any]], **fields: Any) -> Decision:
    ended = end(events, **fields)
    assert isinstance(ended, Decision)
    return ended


def batch(events: list[Event[Any]], **fields: Any) -> Batch:
    ended = end(events, **fields)
    assert isinstance(ended, Batch)
    return ended


def test_a_complete_group_is_a_batch_with_rewards_over_their_mean() -> None:
    made = batch(group_events(1.0, 0.0, 0.0, 0.5))
    assert [row.advantage for row in made.rows] == [0.625, -0.375, -0.375, 0.125]
    assert [row.reward for row in made.rows] == [1.0, 0.0, 0.0, 0.5]
    assert (made.reward_mean, made.num_samples, made.run_id, made.level) == (0.375, 4, "golden", 1)
    assert made.reward_std == pytest.approx(math.sqrt((0.625**2 + 2 * 0.375**2 + 0.125**2) / 4))
    assert (made.oldest_version, made.newest_version) == (3, 4)


def test_a_row_is_every_turns_context_and_tokens_with_mask_logprobs_and_versions() -> None:
    events = group_events(1.0, 0.0)
    second = samples.turn(
        0,
        1,
        context_ids=ids(50, 51),
        token_ids=ids(60),
        logprobs=PackedArray.pack([-0.125], dtype="f4"),
        versions=ids(6),
    )
    events += [read(second)]
    events[2] = read(samples.ended(0, num_turns=2))
    row = batch(events).rows[0]
    assert row.token_ids.unpack().tolist() == [5, 6, 70000, 8, 100, 1, 50, 51, 60]
    assert row.loss_mask.unpack().tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 1]
    assert row.logprobs.unpack().tolist() == [0, 0, 0, -0.5, -0.25, -2.0, 0, 0, -0.125]
    assert row.versions.unpack().tolist() == [-1, -1, -1, 3, 3, 4, -1, -1, 6]
    assert batch(events).newest_version == 6
    assert row.temperature == 0.5


def test_half_precision_logprobs_stay_so_and_greedy_ones_are_of_temperature_1() -> None:
    events = group_events(1.0, 0.0)
    half = PackedArray.pack([-0.5, -0.25, -2.0], dtype="f2")
    events[1] = read(samples.turn(0, logprobs=half, sampling=SamplingParams(temperature=0.0)))
    row = batch(events).rows[0]
    assert (row.logprobs.dtype, row.temperature) == ("f2", 1.0)


def test_a_group_waits_for_every_reward_and_every_turn() -> None:
    events = group_events(1.0, 0.0)
    for missing in range(len(events)):
        assert end(events[:missing] + events[missing + 1 :]) is None


def test_a_partly_invalid_group_trains_on_its_valid_part() -> None:
    made = batch(group_events(1.0, None, 0.0, None))
    assert [row.sample for row in made.rows] == [0, 2]
    assert [row.advantage for row in made.rows] == [0.5, -0.5]
    assert made.num_samples == 4


def test_an_invalid_sample_needs_no_turns() -> None:
    events = group_events(1.0, None, 0.0)
    del events[4:6]
    assert [row.sample for row in batch(events).rows] == [0, 2]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ((1.0, 1.0, 1.0), "zero_variance"),
        ((0.0, 0.0, None), "zero_variance"),
        ((None, None, None), "all_invalid"),
        ((1.0, None, None), "too_few_valid"),
    ],
)
def test_a_group_that_teaches_nothing_is_a_decision(values: tuple[float | None, ...], reason: str) -> None:
    made = decision(group_events(*values))
    valid = [value for value in values if value is not None]
    assert (made.reason, made.stage) == (reason, "assembler")
    assert (made.num_samples, made.num_valid) == (len(values), len(valid))
    assert made.reward_mean == (sum(valid) / len(valid) if valid else None)
    assert made.solved == (valid.count(1.0) / len(valid) if valid else None)


def test_a_group_of_equal_token_sequences_is_a_duplicate() -> None:
    events = [read(samples.task(num_samples=3))]
    for sample, value in enumerate((1.0, 0.0, 1.0)):
        events += sample_events(sample, value, token=9)
    assert decision(events).reason == "duplicate"


def test_at_deadline_and_grace_a_group_closes_with_what_is_there() -> None:
    events = group_events(1.0, 0.0, 1.0, 0.0)
    without_last = events[:-1]
    assert end(without_last, now_s=LATE_S - 1) is None
    assert [row.sample for row in batch(without_last, now_s=LATE_S).rows] == [0, 1, 2]
    made = decision(events[:4], now_s=LATE_S)
    assert (made.reason, made.num_valid) == ("deadline", 1)
    assert "3 no reward" in made.detail


def test_a_valid_reward_whose_turns_never_came_is_no_row() -> None:
    events = group_events(1.0, 0.0, 0.5)
    del events[1]
    assert end(events) is None
    assert [row.sample for row in batch(events, now_s=LATE_S).rows] == [1, 2]


def test_a_rollout_that_ended_before_its_first_turn_is_no_row_and_holds_nobody_up() -> None:
    events = group_events(1.0, 0.0, 0.0)
    events[7:9] = [read(samples.ended(2, why="context_full", num_turns=0))]
    assert [row.sample for row in batch(events).rows] == [0, 1]
    assert decision([*events[:4], *events[7:]], now_s=LATE_S).detail == "1 no reward, 1 without turns"


def test_held_out_tasks_are_scored_and_never_trained_on() -> None:
    made = decision(group_events(1.0, split="held_out", policy_version=7))
    assert (made.reason, made.solved, made.policy_version, made.num_valid) == ("held_out", 1.0, 7, 1)
    invalid = decision(group_events(None, split="held_out", policy_version=7))
    assert (invalid.reason, invalid.solved, invalid.policy_version) == ("all_invalid", None, 7)
    late = group_events(1.0, split="held_out", policy_version=7)[:-1]
    assert end(late) is None
    assert decision(late, now_s=LATE_S).reason == "deadline"


def test_rewards_of_another_scoring_do_not_count() -> None:
    events = group_events(1.0, 0.0)
    events += [read(samples.reward(s, value=0.25, scoring_id="second")) for s in (0, 1)]
    assert [row.reward for row in batch(events).rows] == [1.0, 0.0]


def test_a_group_that_fits_neither_policy_nor_record_is_overlong(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "takes at most 5" in decision(group_events(1.0, 0.0), context_tokens=5).detail
    assert batch(group_events(1.0, 0.0), context_tokens=6)
    monkeypatch.setattr(assembly, "MAX_RECORD_BYTES", 100)
    made = decision(group_events(1.0, 0.0))
    assert made.reason == "overlong"
    assert "a record has at most 100" in made.detail
    assert limits.MAX_RECORD_BYTES > 100


VALUES = st.lists(st.one_of(st.none(), st.sampled_from([0.0, 0.25, 1.0]), st.floats(0, 1)), min_size=1, max_size=8)


@given(values=VALUES, seed=st.integers(0, 2**32), num_missing=st.integers(0, 6))
@settings(max_examples=150, deadline=None)
def test_the_end_is_independent_of_order_and_repeats(values: list[float | None], seed: int, num_missing: int) -> None:
    rng = random.Random(seed)
    task, *rest = group_events(*values)
    events = [task, *rng.sample(rest, max(0, len(rest) - num_missing))]
    shuffled = rng.sample(events, len(events)) + rng.choices(events, k=5)
    for now_s in (1.0, LATE_S):
        assert end(shuffled, now_s=now_s) == end(events, now_s=now_s)


@given(values=VALUES, num_missing=st.integers(0, 24), seed=st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_every_group_has_ended_by_its_deadline_and_grace(
    values: list[float | None], num_missing: int, seed: int
) -> None:
    task, *rest = group_events(*values)
    events = [task, *random.Random(seed).sample(rest, max(0, len(rest) - num_missing))]
    assert end(events, now_s=LATE_S) is not None


@given(values=VALUES)
@settings(max_examples=150, deadline=None)
def test_advantages_sum_to_zero_and_rows_are_the_valid_rollouts(values: list[float | None]) -> None:
    made = end(group_events(*values))
    valid = [value for value in values if value is not None]
    if not isinstance(made, Batch):
        assert len(valid) < 2 or min(valid) == max(valid)
        return
    assert math.fsum(row.advantage for row in made.rows) == pytest.approx(0.0, abs=1e-12)
    assert [row.reward for row in made.rows] == valid
    assert made.reward_std > 0 or max(valid) - min(valid) < 1e-150
