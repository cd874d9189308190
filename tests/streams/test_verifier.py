import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.config import VerifierSettings
from schemas.content import record_digest
from schemas.deadletters import DeadLetter
from schemas.errors import LogError
from schemas.events import Event
from schemas.executions import Outcome
from schemas.ids import derive_id
from schemas.rewards import RewardScored
from streams.scoring import Finding, Job
from streams.verifier import RewardStage
from streams.verifiers.worker import answer
from tests import samples
from tests.streams.stage_fakes import Acks, FakeWriter, ok, placed, read, telemetry


class DirectScorer:
    """Scores in place; or holds jobs until asked."""

    def __init__(self, *, is_held: bool = False) -> None:
        self.is_held = is_held
        self.num_jobs = 0
        self.is_closed = False
        self._waiting: list[tuple[Job, Callable[[Finding], None]]] = []

    def submit(self, job: Job, then: Callable[[Finding], None]) -> None:
        self.num_jobs += 1
        self._waiting.append((job, then))
        if not self.is_held:
            self.score()

    def score(self) -> None:
        waiting, self._waiting = self._waiting, []
        for job, then in waiting:
            then(answer(job))

    async def close(self) -> None:
        self.is_closed = True


class Rig:
    """A verifier stage with its twins."""

    def __init__(self, *, writer: FakeWriter | None = None, scorer: DirectScorer | None = None) -> None:
        self.writer, self.scorer, self.acks = writer or FakeWriter(), scorer or DirectScorer(), Acks()
        self.stage = RewardStage(VerifierSettings(grace_s=15), self.writer, telemetry(), self.scorer)

    async def take(self, *events: Event[Any]) -> None:
        for event in events:
            await self.stage.take(event, self.acks.of(event))
        await self.settle()

    async def settle(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    @property
    def rewards(self) -> dict[int, RewardScored]:
        rewards = [record for record in self.writer.records if isinstance(record, RewardScored)]
        assert len({reward.sample for reward in rewards}) == len(rewards)
        return {reward.sample: reward for reward in rewards}


def task_event(num_samples: int = 1) -> Event[Any]:
    return read(samples.task(num_samples=num_samples), time_s=time.time())


def rollout(
    sample: int = 0, stdout: str = "12", why: str = "finished", outcome: Outcome | None = None
) -> list[Event[Any]]:
    return [
        read(samples.turn(sample)),
        read(samples.execution(sample, outcome=outcome or ok(stdout))),
        read(samples.ended(sample, why=why)),
    ]


async def test_a_whole_rollout_gets_its_reward_and_the_task_is_then_acknowledged() -> None:
    rig = Rig(writer=FakeWriter(is_held=True))
    task, events = task_event(), rollout()
    await rig.take(task, *events)
    reward = rig.rewards[0]
    assert (reward.value, reward.verifier, reward.verifier_version, reward.scoring_id) == (
        1.0,
        "stdout_match",
        1,
        "live",
    )
    assert reward.config_digest == record_digest(task.record.verifier)
    event = rig.writer.events[0]
    maker = f"stdout_match@1/{reward.config_digest}/live"
    assert event.id == derive_id(reward.rollout_id, "reward_scored", 0, maker)
    assert (event.key, event.causation_id, event.subject) == (samples.TASK_ID, events[-1].id, reward.rollout_id)
    assert rig.acks.ids == []
    rig.writer.deliver()
    await rig.settle()
    assert sorted(rig.acks.ids) == sorted(e.id for e in (task, *events))


@given(seed=st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_order_and_repeats_of_events_change_nothing(seed: int) -> None:
    rng = random.Random(seed)
    events = [task_event(3), *rollout(0), *rollout(1, "13"), *rollout(2, why="deadline")]
    shuffled = rng.sample(events, len(events)) + rng.choices(events, k=4)

    async def run() -> tuple[dict[int, RewardScored], int]:
        rig = Rig()
        await rig.take(*shuffled)
        return rig.rewards, len(rig.acks.ids)

    rewards, num_acks = asyncio.run(run())
    assert {s: (r.value, r.invalid_reason) for s, r in rewards.items()} == {
        0: (1.0, None),
        1: (0.0, None),
        2: (None, "deadline"),
    }
    assert num_acks == len(shuffled)


@pytest.mark.parametrize(
    ("why", "outcome", "reason"),
    [
        ("infrastructure", ok("12"), "infrastructure"),
        ("finished", Outcome(status="infra_error", error="no sandbox"), "infrastructure"),
        ("deadline", ok("12"), "deadline"),
    ],
)
async def test_trouble_that_is_not_the_policys_is_an_invalid_reward(why: str, outcome: Outcome, reason: str) -> None:
    rig = Rig()
    await rig.take(task_event(), *rollout(why=why, outcome=outcome))
    assert (rig.rewards[0].value, rig.rewards[0].invalid_reason) == (None, reason)
    assert rig.scorer.num_jobs == 0


@pytest.mark.parametrize("why", ["length", "max_turns", "context_full"])
async def test_a_rollout_that_ended_early_is_judged_like_any_other(why: str) -> None:
    rig = Rig()
    await rig.take(task_event(2), *rollout(0, why=why), *rollout(1, "no", why=why))
    assert [rig.rewards[sample].value for sample in (0, 1)] == [1.0, 0.0]


async def test_a_rollout_whose_execution_is_missing_waits_and_ends_invalid_after_deadline_and_grace() -> None:
    rig = Rig()
    task, (turn, _, ended) = task_event(2), rollout()
    await rig.take(task, turn, ended, *rollout(1))
    deadline_s = task.time_s + task.record.deadline_s + 15
    await rig.stage.tick(deadline_s - 1)
    assert list(rig.rewards) == [1]
    await rig.stage.tick(deadline_s + 1)
    await rig.stage.tick(deadline_s + 2)
    await rig.settle()
    assert rig.rewards[0].invalid_reason == "deadline"
    assert len(rig.acks.ids) == 6


async def test_a_rollout_that_is_being_scored_at_the_deadline_gets_its_score() -> None:
    rig = Rig(scorer=DirectScorer(is_held=True))
    task = task_event()
    await rig.take(task, *rollout())
    await rig.stage.tick(task.time_s + 1e6)
    assert rig.rewards == {}
    rig.scorer.score()
    assert rig.rewards[0].value == 1.0


async def test_after_a_restart_only_what_has_no_reward_yet_is_scored() -> None:
    first = Rig(writer=FakeWriter(is_held=True))
    events = [task_event(2), *rollout(0), *rollout(1)]
    await first.take(*events[:4])
    second = Rig()
    second.stage.recall([placed(event, offset=7) for event in first.writer.events])
    await second.take(*events)
    assert list(second.rewards) == [1]
    assert len(second.acks.ids) == len(events)


async def test_a_finding_for_a_lost_partition_is_not_written() -> None:
    rig = Rig(scorer=DirectScorer(is_held=True))
    await rig.take(task_event(), *rollout())
    rig.stage.revoke({0})
    rig.scorer.score()
    assert rig.writer.events == []


async def test_a_task_that_comes_back_while_its_rollout_is_scored_is_scored_once() -> None:
    rig = Rig(scorer=DirectScorer(is_held=True))
    events = [task_event(), *rollout()]
    await rig.take(*events)
    rig.stage.revoke({0})
    await rig.take(*events)
    rig.scorer.score()
    await rig.settle()
    assert rig.scorer.num_jobs == 1
    assert rig.rewards[0].value == 1.0
    assert sorted(rig.acks.ids) == sorted(event.id for event in events)


async def test_events_of_a_task_that_nobody_issued_become_dead_letters() -> None:
    rig = Rig()
    events = rollout()
    await rig.take(*events)
    await rig.stage.tick(time.time() + 20)
    assert rig.writer.events == []
    await rig.stage.tick(time.time() + 31)
    await rig.stage.tick(time.time() + 32)
    await rig.settle()
    letters = [record for record in rig.writer.records if isinstance(record, DeadLetter)]
    assert [(letter.topic, letter.offset) for letter in letters] == [
        (event.position.topic, event.position.offset) for event in events if event.position
    ]
    assert "nobody issued" in letters[0].reason
    assert sorted(rig.acks.ids) == sorted(event.id for event in events)


async def test_a_failing_send_stops_the_service_with_everything_unacknowledged() -> None:
    writer = FakeWriter()
    writer.fails = True
    rig = Rig(writer=writer)
    await rig.take(task_event(), *rollout())
    with pytest.raises(LogError):
        await rig.stage.tick(time.time())
    assert rig.acks.ids == []


async def test_draining_waits_for_scorings_and_closes_the_pool() -> None:
    rig = Rig(scorer=DirectScorer(is_held=True))
    await rig.take(task_event(), *rollout())
    draining = asyncio.create_task(rig.stage.drain(30))
    await rig.settle()
    assert not draining.done()
    rig.scorer.score()
    await draining
    assert rig.scorer.is_closed
    assert len(rig.acks.ids) == 4


async def test_a_rollout_of_a_sample_that_was_not_asked_for_gets_no_reward() -> None:
    rig = Rig()
    await rig.take(task_event(1), *rollout(5), *rollout(0))
    assert list(rig.rewards) == [0]
