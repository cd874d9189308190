import asyncio
import random
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.batches import Batch
from schemas.config import AssemblerSettings
from schemas.decisions import Decision
from schemas.errors import LogError
from schemas.events import Event
from schemas.ids import derive_id
from streams.assembler import GroupStage, read_context_tokens
from tests import samples
from tests.samples import ids
from tests.streams.stage_fakes import Acks, FakeWriter, placed, read, telemetry


class Rig:
    """An assembler stage with its twins."""

    def __init__(self, *, is_held: bool = False) -> None:
        self.writer, self.acks = FakeWriter(is_held=is_held), Acks()
        self.stage = GroupStage(AssemblerSettings(), self.writer, telemetry())

    async def take(self, *events: Event[Any]) -> None:
        for event in events:
            await self.stage.take(event, self.acks.of(event))
        await self.settle()

    async def settle(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)


def group(*values: float) -> list[Event[Any]]:
    events = [read(samples.task(num_samples=len(values)), time_s=time.time())]
    for sample, value in enumerate(values):
        events += [
            read(samples.turn(sample, token_ids=ids(8, 100 + sample, 1))),
            read(samples.ended(sample)),
            read(samples.reward(sample, value=value)),
        ]
    return events


async def test_a_complete_group_is_written_and_then_acknowledged() -> None:
    rig, events = Rig(is_held=True), group(1.0, 0.0)
    await rig.take(*events)
    (out,) = rig.writer.events
    assert isinstance(out.record, Batch)
    assert out.id == derive_id(samples.TASK_ID, "batch", 0, "live")
    assert (out.key, out.correlation_id, out.causation_id) == (samples.TASK_ID, samples.TASK_ID, events[-1].id)
    assert rig.acks.ids == []
    rig.writer.deliver()
    await rig.settle()
    assert sorted(rig.acks.ids) == sorted(event.id for event in events)


async def test_a_decision_has_its_own_id() -> None:
    rig = Rig()
    await rig.take(*group(1.0, 1.0))
    (out,) = rig.writer.events
    assert isinstance(out.record, Decision)
    assert out.id == derive_id(samples.TASK_ID, "decision", 0, "live")


@given(seed=st.integers(0, 2**32), num_late=st.integers(0, 3))
@settings(max_examples=50, deadline=None)
def test_every_group_ends_exactly_once_in_any_order_with_repeats_and_late_twins(seed: int, num_late: int) -> None:
    rng, events = random.Random(seed), group(1.0, 0.0, 0.5)
    arrivals = rng.sample(events, len(events)) + rng.choices(events, k=num_late)

    async def run() -> Rig:
        rig = Rig(is_held=rng.random() < 0.5)
        await rig.take(*arrivals)
        await rig.stage.tick(time.time() + 1e6)
        rig.writer.deliver()
        await rig.settle()
        await rig.stage.tick(time.time() + 1e6)
        return rig

    rig = asyncio.run(run())
    assert len(rig.writer.events) == 1
    assert isinstance(rig.writer.records[0], Batch)
    assert len(rig.acks.ids) == len(arrivals)


async def test_a_group_that_is_late_is_closed_by_the_clock() -> None:
    rig, events = Rig(), group(1.0, 0.0)
    await rig.take(*events[:-1])
    await rig.stage.tick(events[0].time_s + samples.task().deadline_s + 29)
    assert rig.writer.events == []
    await rig.stage.tick(events[0].time_s + samples.task().deadline_s + 31)
    await rig.settle()
    assert rig.writer.records[0].reason == "deadline"
    assert len(rig.acks.ids) == len(events) - 1
    await rig.take(events[-1])
    assert len(rig.acks.ids) == len(events)
    assert len(rig.writer.events) == 1


async def test_after_a_restart_what_has_ended_is_acknowledged_and_not_ended_again() -> None:
    first, events = Rig(), group(1.0, 0.0)
    await first.take(*events)
    second = Rig()
    second.stage.recall([placed(event, offset=3) for event in first.writer.events])
    await second.take(*events)
    assert second.writer.events == []
    assert len(second.acks.ids) == len(events)


async def test_the_learners_decisions_end_no_group_here() -> None:
    rig, events = Rig(), group(1.0, 0.0)
    stale = Decision(task_id=samples.TASK_ID, run_id="golden", domain="repair", stage="learner", reason="stale")
    rig.stage.recall([read(stale)])
    await rig.take(*events)
    assert len(rig.writer.events) == 1


async def test_lost_partitions_are_forgotten_and_end_elsewhere() -> None:
    rig, events = Rig(), group(1.0, 0.0)
    await rig.take(*events[:-1])
    rig.stage.revoke({0})
    await rig.stage.tick(time.time() + 1e6)
    assert rig.writer.events == rig.acks.ids == []


async def test_a_failing_send_stops_the_service_with_everything_unacknowledged() -> None:
    rig = Rig()
    rig.writer.fails = True
    await rig.take(*group(1.0, 0.0))
    with pytest.raises(LogError):
        await rig.stage.tick(time.time())
    assert rig.acks.ids == []


async def test_draining_waits_for_what_is_on_its_way() -> None:
    rig = Rig(is_held=True)
    await rig.take(*group(1.0, 0.0))
    draining = asyncio.create_task(rig.stage.drain(30))
    await rig.settle()
    assert not draining.done()
    rig.writer.deliver()
    await draining
    assert len(rig.acks.ids) == 7


def test_the_context_is_what_the_policys_files_say(tmp_path: Path) -> None:
    assert read_context_tokens(tmp_path) is None
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 64}')
    assert read_context_tokens(tmp_path) == 64
    (tmp_path / "config.json").write_text("{}")
    assert read_context_tokens(tmp_path) is None
