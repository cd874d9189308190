"""Quarantined rollouts in the assembler: in neither rows nor baseline, and what was known is in the batch."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from schemas.batches import Batch
from schemas.codec import new_event
from schemas.commands import CommandGiven
from schemas.config import AssemblerSettings
from schemas.decisions import Decision
from schemas.events import Event, Position
from schemas.recalls import Recalls, lift_command, quarantine_command
from schemas.rewards import RewardScored
from schemas.selections import Selection, parse_conditions
from streams.assembler import GroupStage
from tests import samples
from tests.samples import ids
from tests.streams.stage_fakes import Acks, FakeWriter, read, telemetry


class FakeCommands:
    """Commands that are there at the start, and those that come with the next poll."""

    def __init__(self, *commands: CommandGiven) -> None:
        self.recalls, self.coming = Recalls(), list(commands)
        self.poll()

    def poll(self) -> bool:
        coming, self.coming = self.coming, []
        for command in coming:
            offset = self.recalls.end
            event = new_event(command, id=f"command {offset}", key=command.target, source="test")
            self.recalls.take(msgspec.structs.replace(event, position=Position("commands", 0, offset)))
        return bool(coming)


def given(*where: str, run: str = "golden", **fields: Any) -> CommandGiven:
    selection = Selection(conditions=parse_conditions(where), **fields)
    return quarantine_command(run, selection, batches=frozenset(), batch_ends={}, given_by="test")


def group(*values: float, **task: Any) -> Iterator[Event[Any]]:
    yield read(samples.task(num_samples=len(values), **task), time_s=time.time())
    for sample, value in enumerate(values):
        yield read(samples.turn(sample, token_ids=ids(8, 100 + sample, 1), text=f"answer {sample}"))
        yield read(samples.ended(sample))
        yield read(samples.reward(sample, value=value))


def end_of(commands: FakeCommands, *values: float, **task: Any) -> Batch | Decision:
    async def run() -> Batch | Decision:
        writer, acks = FakeWriter(), Acks()
        stage = GroupStage(AssemblerSettings(), writer, telemetry(), commands=commands)  # type: ignore[arg-type]
        events = list(group(*values, **task))
        for event in events[:-1]:
            await stage.take(event, acks.of(event))
        await stage.tick(time.time())
        await stage.take(events[-1], acks.of(events[-1]))
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(acks.ids) == len(events)
        (record,) = writer.records
        return record

    return asyncio.run(run())


def test_a_quarantined_rollout_is_in_neither_rows_nor_baseline() -> None:
    end = end_of(FakeCommands(given("answer.text=answer 1")), 1.0, 0.5, 0.0, 0.0)
    assert isinstance(end, Batch)
    assert [row.sample for row in end.rows] == [0, 2, 3]
    assert (end.reward_mean, end.commands_end) == (1 / 3, 1)
    assert [row.advantage for row in end.rows] == [1 - 1 / 3, -1 / 3, -1 / 3]


def test_the_reward_that_is_meant_is_the_one_that_trains() -> None:
    async def run() -> Any:
        writer, acks = FakeWriter(), Acks()
        commands: Any = FakeCommands(given("reward.value=1"))
        stage = GroupStage(AssemblerSettings(), writer, telemetry(), commands=commands)
        for event in group(1.0, 0.5, 0.0, scoring_id="lax"):
            record = event.record
            is_reward = isinstance(record, RewardScored)
            changed = msgspec.structs.replace(record, scoring_id="lax", own=True) if is_reward else record
            await stage.take(msgspec.structs.replace(event, record=changed), acks.of(event))
        return writer.records[0]

    end = asyncio.run(run())
    assert [row.sample for row in end.rows] == [1, 2]
    assert (end.scoring_id, end.commands_end) == ("lax", 1)


def test_too_few_that_are_left_is_a_decision_that_names_the_quarantine() -> None:
    end = end_of(FakeCommands(given("reward.value=1")), 1.0, 1.0, 0.0)
    assert isinstance(end, Decision)
    assert (end.reason, end.num_valid, end.reward_mean) == ("quarantined", 1, 0.0)
    assert end.detail == "2 of 3 by quarantine command 0"


def test_a_group_that_would_not_have_trained_anyway_says_why_as_ever() -> None:
    end = end_of(FakeCommands(given("reward.value=1")), 0.0, 0.0)
    assert isinstance(end, Decision)
    assert end.reason == "zero_variance"


def test_what_comes_while_a_group_is_open_holds_for_it() -> None:
    commands = FakeCommands()
    commands.coming = [given(domain="repair")]
    end = end_of(commands, 1.0, 0.0)
    assert isinstance(end, Decision)
    assert end.reason == "quarantined"


def test_other_runs_held_out_tasks_lifted_and_ended_quarantines_are_left_alone() -> None:
    everything = {"domain": "repair"}
    for commands, task in (
        (FakeCommands(given(run="other", **everything)), {}),
        (FakeCommands(given(until_s=1.0, **everything)), {}),
        (FakeCommands(given(since_s=time.time() + 60, **everything)), {}),
    ):
        end = end_of(commands, 1.0, 0.0, **task)
        assert isinstance(end, Batch)
        assert end.commands_end == 1
    held_out = end_of(FakeCommands(given(**everything)), 1.0, 0.0, split="held_out", policy_version=3)
    assert (held_out.reason, held_out.num_valid) == ("held_out", 2)  # type: ignore[union-attr]
    lifted = FakeCommands(given(**everything))
    lifted.coming = [lift_command(lifted.recalls.find("command 0"), given_by="test")]
    lifted.poll()
    assert isinstance(end_of(lifted, 1.0, 0.0), Batch)
