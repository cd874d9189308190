"""What the generator does with what is on the log, with a scripted sampler and a log in memory."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from producers import turns
from producers.samplers.interface import Weights
from producers.samplers.scripted import ScriptedSampler, scripted
from schemas.deadletters import DeadLetter
from schemas.errors import CheckpointError, LogError
from schemas.rollouts import RolloutEnded, TurnGenerated
from schemas.tasks import SamplingParams, TaskIssued
from tests import samples
from tests.producers.generator_fakes import MemoryLog, World, execution_id, execution_of, failed, infra_error, ok


def long(prompt: str, seed: int) -> str:
    return "x" * 40


class Refusing(ScriptedSampler):
    """A sampler for which some versions' files are gone."""

    def __init__(self, *gone: int) -> None:
        super().__init__(num_slots=64)
        self._gone = gone

    def load(self, weights: Weights) -> None:
        self._check(weights)
        super().load(weights)

    def pin(self, weights: Weights) -> None:
        self._check(weights)
        super().pin(weights)

    def _check(self, weights: Weights) -> None:
        if weights.version in self._gone:
            raise CheckpointError(f"policy version {weights.version} is gone")


def test_a_task_becomes_one_turn_per_sample_that_asks_for_a_run() -> None:
    world = World(version=3)
    task = world.task(num_samples=4)
    world.run()
    assert sorted(turn.sample for turn in world.turns) == [0, 1, 2, 3]
    assert not world.ends
    for turn in world.turns:
        assert turn.action is not None
        assert task.execution is not None
        assert (turn.action.code, turn.action.prelude) == (turn.text, task.execution.prelude)
        assert turn.action.limits == task.execution.limits
        assert world.sampler.decode(turn.context_ids.unpack()) == task.prompt
        assert world.sampler.decode(turn.token_ids.unpack()) == turn.text
        assert set(turn.versions.unpack().tolist()) == {3}
        assert turn.sampling == task.sampling
        assert turn.seed == turns.turn_seed(task, turn.sample, 0)
    assert len({turn.seed for turn in world.turns}) == 4


def test_a_run_without_error_ends_the_rollout_and_the_last_end_acknowledges_the_task() -> None:
    world = World()
    task = world.task(num_samples=2)
    world.run()
    first, second = world.turns
    world.execute(first, ok())
    world.run()
    assert [(end.sample, end.why, end.num_turns) for end in world.ends] == [(first.sample, "finished", 1)]
    assert world.ends[0].num_tokens == len(first.token_ids)
    assert not world.log.acked
    world.execute(second, ok())
    world.generator.work(2)
    assert not world.log.acked, "an end that is not durable yet must not acknowledge its task"
    world.run()
    assert world.log.acked == {task.task_id, execution_id(first), execution_id(second)}
    assert not world.generator.jobs


def test_a_failed_run_is_answered_by_a_turn_that_goes_on_from_the_exact_tokens() -> None:
    world = World()
    world.task(num_samples=1)
    world.run()
    first = world.turns[0]
    seen: list[np.ndarray] = []
    submit = world.sampler.submit
    world.sampler.submit = lambda request: (seen.append(request.prompt_ids), submit(request))[1]  # type: ignore[method-assign]
    world.execute(first, failed())
    world.run()
    second = world.turns[1]
    assert (second.turn, second.sample) == (1, 0)
    assert world.sampler.decode(second.context_ids.unpack()) == "\nValueError: mode q|"
    whole = np.concatenate([a.unpack() for a in (first.context_ids, first.token_ids, second.context_ids)])
    assert seen[0].tolist() == whole.tolist()
    world.execute(second, failed())
    world.run()
    assert [(end.why, end.num_turns) for end in world.ends] == [("max_turns", 2)]


def test_causes_lead_from_task_to_turn_to_execution_to_turn() -> None:
    world = World()
    task = world.task(num_samples=1)
    world.run()
    world.execute(world.turns[0], failed())
    world.run()
    world.execute(world.turns[1], ok())
    world.run()
    causes = {event.id: event.causation_id for event in world.log.events}
    rollout = f"{task.task_id}/0"
    assert causes[turns.turn_id(rollout, 0)] == task.task_id
    assert causes[turns.turn_id(rollout, 1)] == execution_id(world.turns[0])
    assert causes[turns.end_id(rollout)] == execution_id(world.turns[1])
    ours = [event for event in world.log.events if event.source == "rollog/test-0"]
    assert {event.correlation_id for event in ours} == {task.task_id}
    assert {event.subject for event in ours} == {rollout}


def test_without_an_execution_the_turn_is_the_answer() -> None:
    world = World()
    world.task(num_samples=2, execution=None)
    world.run()
    assert all(turn.action is None for turn in world.turns)
    assert [end.why for end in world.ends] == ["finished", "finished"]


def test_a_turn_that_is_cut_off_runs_nothing_and_ends_its_rollout() -> None:
    world = World(sampler=ScriptedSampler(num_slots=4, answer=scripted(long)))
    world.task(num_samples=1, sampling=SamplingParams(max_tokens=10))
    world.run()
    assert world.turns[0].finish_reason == "length"
    assert world.turns[0].action is None
    assert [end.why for end in world.ends] == ["length"]


def test_a_full_context_ends_a_rollout_before_or_in_the_middle_of_a_turn() -> None:
    world = World(sampler=ScriptedSampler(num_slots=4, answer=scripted(long), context_length=20))
    world.task(0, num_samples=1, prompt="p" * 12, sampling=SamplingParams(max_tokens=30))
    world.task(1, num_samples=1, prompt="p" * 20, sampling=SamplingParams(max_tokens=30))
    world.run()
    assert sorted((end.num_turns, end.why) for end in world.ends) == [(0, "context_full"), (1, "context_full")]
    assert len(world.turns[0].token_ids) == 8


def test_trouble_with_the_sandbox_ends_a_rollout_as_infrastructure() -> None:
    world = World()
    world.task(num_samples=1)
    world.run()
    world.execute(world.turns[0], infra_error())
    world.run()
    assert [end.why for end in world.ends] == ["infrastructure"]


@pytest.mark.parametrize("stage", ["queued", "sampling", "writing", "waiting"])
def test_the_deadline_ends_what_is_open_wherever_it_is(stage: str) -> None:
    world = World(version=None if stage == "queued" else 0)
    world.task(num_samples=2, deadline_s=60.0)
    if stage == "waiting":
        world.run()
    elif stage == "sampling":
        world.generator.work(1)
    elif stage == "writing":
        for _ in range(40):
            world.generator.work(1)
        assert len(world.log.pending) == 2
    world.now_s = 59.9
    world.generator.tick()
    assert not world.ends
    world.now_s = 60.0
    world.generator.tick()
    world.run()
    num_turns = 1 if stage in ("writing", "waiting") else 0
    assert [(end.why, end.num_turns) for end in world.ends] == [("deadline", num_turns)] * 2
    assert world.sampler.num_open == 0
    assert len(world.log.acked) == 1
    assert not world.generator.jobs


def test_an_execution_after_the_deadline_changes_nothing() -> None:
    world = World()
    world.task(num_samples=1, deadline_s=60.0)
    world.run()
    world.now_s = 61.0
    world.generator.tick()
    world.run()
    world.execute(world.turns[0], failed())
    world.run()
    assert [end.why for end in world.ends] == ["deadline"]
    assert len(world.turns) == 1
    assert len(world.log.acked) == 2


def test_rollouts_wait_for_the_first_policy_and_take_new_versions_in_the_middle() -> None:
    world = World(version=None)
    world.task(num_samples=2)
    world.run()
    assert not world.turns
    world.policy(0)
    world.generator.work(3)
    world.policy(1)
    world.run()
    assert {tuple(turn.versions.unpack()[:4].tolist()) for turn in world.turns} == {(0, 0, 0, 1)}


def test_only_the_newest_version_of_this_run_is_loaded() -> None:
    world = World(version=None)
    loaded: list[int] = []
    load = world.sampler.load
    world.sampler.load = lambda weights: (loaded.append(weights.version), load(weights))[1]  # type: ignore[method-assign]
    for version, run in ((0, "golden"), (2, "golden"), (1, "golden"), (9, "another")):
        record = samples.records()["policy_published"]
        fields = {name: getattr(record, name) for name in record.__struct_fields__}
        world.generator.policies.take(type(record)(**(fields | {"version": version, "run_id": run})))
    world.generator.load_newest()
    world.generator.load_newest()
    assert loaded == [2]


def test_an_unusable_version_is_passed_over_for_the_newest_usable_one() -> None:
    world = World(sampler=Refusing(2, 3), version=None)
    for version in range(2):
        world.policy(version)
    world.policy(2)
    world.policy(3)
    assert world.sampler.version == 1
    world.policy(4)
    assert world.sampler.version == 4


def test_a_pinned_task_is_sampled_with_its_version_and_ends_where_that_is_gone() -> None:
    world = World(sampler=Refusing(1), version=None)
    for version in (0, 1, 2):
        world.policy(version)
    world.task(0, num_samples=1, split="held_out", policy_version=0)
    world.task(1, num_samples=1, split="held_out", policy_version=1)
    world.task(2, num_samples=1, split="held_out", policy_version=5)
    world.run()
    assert [set(turn.versions.unpack().tolist()) for turn in world.turns] == [{0}]
    assert [(end.task_id, end.why) for end in world.ends] == [(world.log.of(TaskIssued)[1].task_id, "infrastructure")]
    world.policy(5)
    world.run()
    assert [set(turn.versions.unpack().tolist()) for turn in world.turns] == [{0}, {5}]


def test_tasks_of_another_run_or_policy_end_at_once() -> None:
    world = World()
    world.task(0, num_samples=1, run_id="another")
    world.task(1, num_samples=1, policy="another")
    world.run()
    assert [end.why for end in world.ends] == ["infrastructure", "infrastructure"]
    assert len(world.log.acked) == 2


def test_turns_that_go_on_come_before_new_rollouts() -> None:
    world = World(num_slots=2)
    first = world.task(0, num_samples=2)
    world.run()
    for index in range(1, 5):
        world.task(index, num_samples=2)
    for turn in [turn for turn in world.turns if turn.task_id == first.task_id]:
        world.execute(turn, failed())
    world.run()
    order = [(turn.task_id == first.task_id, turn.turn) for turn in world.turns]
    assert order[:4] == [(True, 0), (True, 0), (True, 1), (True, 1)]
    assert len(order) == 12


def test_an_execution_that_comes_before_its_turn_is_known_durable_is_not_lost() -> None:
    world = World()
    world.task(num_samples=1)
    while not world.log.pending:
        world.generator.work(1)
    event, on_delivered = world.log.pending.pop()
    written = world.log.append(event)
    world.execute(written.record, failed())
    world.generator.work(1)
    assert len(world.turns) == 1
    assert on_delivered is not None
    on_delivered(None)
    world.run()
    assert [turn.turn for turn in world.turns] == [0, 1]


def test_an_event_that_nobody_issued_a_task_for_becomes_a_dead_letter() -> None:
    world = World()
    turn = samples.turn()
    record = execution_of(turn, ok())
    event = world.log.write(record, execution_id(turn))
    world.deliver(event)
    world.now_s = 29.0
    world.generator.tick()
    assert not world.log.pending
    world.now_s = 31.0
    world.generator.tick()
    world.generator.tick()
    assert world.generator.num_writing == 1
    assert not world.log.acked
    world.log.deliver()
    world.generator.tick()
    assert [(letter.stage, letter.offset) for letter in world.log.of(DeadLetter)] == [("generator", 0)]
    assert world.log.acked == {event.id}
    assert world.generator.num_writing == 0


def test_a_failed_write_stops_the_service() -> None:
    world = World()
    world.task(num_samples=1)
    while not world.log.pending:
        world.generator.work(1)
    world.log.deliver(error=LogError("the broker refused"))
    with pytest.raises(LogError, match="refused"):
        world.generator.work(1)
    assert not world.log.acked


def test_revoked_partitions_free_their_slots_and_come_again() -> None:
    world = World()
    world.task(num_samples=4)
    world.generator.work(1)
    assert world.sampler.num_open == 4
    world.generator.revoke({0})
    assert (world.sampler.num_open, world.generator.jobs, world.generator.tasks.open) == (0, {}, {})
    world.deliver(world.log.events[0])
    world.run()
    assert len(world.turns) == 4


def settle(log: MemoryLog, rng: random.Random, num_kills: int, num_tasks: int) -> World:
    """Run tasks to their ends with an executor that answers at random, killing the generator at random moments."""
    answered: set[str] = set()
    delivered: list[Any] = []
    world = World(log, num_slots=5)
    script = [samples.task(task_id=f"{i:032x}", index=i, num_samples=3, max_turns=3) for i in range(num_tasks)]
    for _ in range(20_000):
        if num_kills and rng.random() < 0.03:
            num_kills -= 1
            landed = [item for item in log.pending if rng.random() < 0.5]
            log.pending.clear()
            for event, _ in landed:
                log.append(event)
            world = World(log, num_slots=5)
            world.generator.recall([e for e in log.events if isinstance(e.record, TurnGenerated | RolloutEnded)])
            for event in delivered:
                if event.id not in log.acked:
                    world.deliver(event)
        if script and rng.random() < 0.3:
            task = script.pop()
            delivered.append(log.write(task, task.task_id))
            world.deliver(delivered[-1])
        for turn in world.turns:
            if execution_id(turn) not in answered and rng.random() < 0.2:
                answered.add(execution_id(turn))
                record = execution_of(turn, rng.choice([ok(), failed(), failed()]))
                delivered.append(log.write(record, execution_id(turn)))
                world.deliver(delivered[-1])
        world.generator.work(rng.randint(1, 4))
        log.deliver(rng.randint(0, len(log.pending)))
        if not script and not world.generator.tasks.open and not log.pending:
            return world
    raise AssertionError("tasks were forgotten")


@pytest.mark.parametrize("seed", range(8))
def test_killed_at_random_no_rollout_is_forgotten_and_none_is_done_twice(seed: int) -> None:
    log = MemoryLog()
    settle(log, random.Random(seed), num_kills=12, num_tasks=8)
    ended = [event.id for event in log.events if isinstance(event.record, RolloutEnded)]
    turned = [event.id for event in log.events if isinstance(event.record, TurnGenerated)]
    tasks = log.of(TaskIssued)
    assert sorted(ended) == sorted(turns.end_id(f"{task.task_id}/{i}") for task in tasks for i in range(3))
    assert len(turned) == len(set(turned))
    assert {task.task_id for task in tasks} <= log.acked
    for end in log.of(RolloutEnded):
        assert turned.count(turns.turn_id(end.rollout_id, end.num_turns - 1)) == 1
        assert turns.turn_id(end.rollout_id, end.num_turns) not in turned


def test_kills_change_no_rollout(tmp_path: Path) -> None:
    def answers(num_kills: int) -> dict[str, str]:
        log = MemoryLog()
        rng = random.Random(5)
        settle(log, rng, num_kills, num_tasks=4)
        firsts = (turn for turn in log.of(TurnGenerated) if turn.turn == 0)
        return {turn.rollout_id: turn.text for turn in firsts}

    assert answers(0) == answers(10)
