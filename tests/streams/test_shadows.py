"""Shadows score beside the live verifier, are compared with it, and train nothing."""

import asyncio
import time
from typing import Any

import msgspec
import pytest

from schemas.batches import Batch
from schemas.config import AssemblerSettings, VerifierSettings
from schemas.errors import ConfigError
from schemas.events import Event
from schemas.ids import derive_id
from schemas.rewards import RewardScored
from schemas.scorings import LIVE, VerifierChoice
from schemas.tasks import VerifierSpec
from streams.assembler import GroupStage
from streams.rescoring.judge import scoring_for
from streams.shadows import Shadows
from streams.verifier import RewardStage
from tests import samples
from tests.streams.stage_fakes import Acks, FakeWriter, placed, read, telemetry
from tests.streams.test_verifier import DirectScorer

LENIENT = VerifierChoice(kind="exact_match", partial="prefix")
SETTINGS = VerifierSettings(
    named={"lenient": LENIENT}, shadows={"repair": ("lenient",), "verbs": ("exact_match",), "*": ("stdout_match",)}
)
SHADOW = scoring_for(LENIENT).scoring_id


def events(*texts: str) -> list[Event[Any]]:
    verifier = VerifierSpec(kind="exact_match", expected="right")
    found = [read(samples.task(num_samples=len(texts), verifier=verifier, execution=None), time_s=time.time())]
    for sample, text in enumerate(texts):
        tokens = samples.ids(8, 100 + sample, 1)
        found += [read(samples.turn(sample, text=text, action=None, token_ids=tokens)), read(samples.ended(sample))]
    return found


class Rig:
    """A verifier with shadows, whose scorers are held or not."""

    def __init__(self, shadow_scorer: DirectScorer | None = None) -> None:
        self.writer, self.acks, self.telemetry = FakeWriter(), Acks(), telemetry()
        self.shadow_scorer = shadow_scorer or DirectScorer()
        self.stage = RewardStage(SETTINGS, self.writer, self.telemetry, DirectScorer(), self.shadow_scorer)

    async def take(self, found: list[Event[Any]]) -> None:
        for event in found:
            await self.stage.take(event, self.acks.of(event))
        await self.settle()

    async def settle(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    @property
    def values(self) -> dict[tuple[str, int], float | None]:
        return {(r.scoring_id, r.sample): r.value for r in self.writer.records if isinstance(r, RewardScored)}

    def count(self, outcome: str) -> float | None:
        labels = {"scoring": SHADOW, "domain": "repair", "outcome": outcome}
        return self.telemetry.registry.get_sample_value("rollog_shadow_rewards_total", labels)


async def test_every_sample_gets_a_live_reward_and_one_of_each_shadow_of_its_domain() -> None:
    rig = Rig()
    await rig.take(events("right", "righ"))
    assert rig.values == {(LIVE, 0): 1.0, (LIVE, 1): 0.0, (SHADOW, 0): 1.0, (SHADOW, 1): 0.8}
    assert len({event.id for event in rig.writer.events}) == 4
    assert (rig.count("agree"), rig.count("up"), rig.count("down")) == (1, 1, None)


async def test_a_shadow_that_hangs_holds_up_no_live_reward_but_the_acknowledgement() -> None:
    rig = Rig(DirectScorer(is_held=True))
    found = events("right", "wrong")
    await rig.take(found)
    assert rig.values == {(LIVE, 0): 1.0, (LIVE, 1): 0.0}
    assert rig.acks.ids == []
    rig.shadow_scorer.score()
    await rig.settle()
    assert len(rig.values) == 4
    assert sorted(rig.acks.ids) == sorted(event.id for event in found)


async def test_what_is_out_of_time_is_so_for_the_shadow_too() -> None:
    rig = Rig()
    await rig.take(events("right")[:1])
    await rig.stage.tick(time.time() + 1000)
    await rig.settle()
    assert rig.values == {(LIVE, 0): None, (SHADOW, 0): None}


async def test_rewards_that_are_there_already_are_not_made_again() -> None:
    rig = Rig()
    await rig.take(events("right"))
    again = Rig()
    again.stage.recall([event for event in rig.writer.events if event.record.scoring_id == SHADOW])
    await again.take(events("right"))
    assert again.values == {(LIVE, 0): 1.0}


def test_a_shadow_that_cannot_judge_a_task_is_left_out_for_it() -> None:
    shadows = Shadows.of(SETTINGS)
    textual, running = samples.task(execution=None), samples.task()
    assert [one.scoring_id for one in shadows.wanted(textual)] == [LIVE, SHADOW]
    assert [one.spec.kind for one in shadows.wanted(running)][1:] == ["exact_match", "stdout_match"]


def test_a_shadow_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"verifier.shadows: 'strict' is not known"):
        Shadows.of(VerifierSettings(shadows={"verbs": ("strict",)}))


async def test_the_assembler_trains_on_live_rewards_alone_and_lets_others_go() -> None:
    writer, acks = FakeWriter(), Acks()
    stage = GroupStage(AssemblerSettings(), writer, telemetry())
    others = [read(samples.reward(s, value=float(s), scoring_id=SHADOW)) for s in range(2)]
    stray = read(samples.reward(0, task_id="over", rollout_id="over/0", scoring_id=SHADOW))
    group = [read(samples.task(num_samples=2), time_s=time.time())]
    for sample in range(2):
        group += [
            read(samples.turn(sample, token_ids=samples.ids(8, 100 + sample, 1))),
            read(samples.ended(sample)),
            read(samples.reward(sample, value=1.0 - sample)),
        ]
    for event in [*others, stray, *group[:-1], *others]:
        await stage.take(event, acks.of(event))
    assert writer.records == []
    assert stray.id in acks.ids
    await stage.take(group[-1], acks.of(group[-1]))
    await stage.tick(time.time() + 10_000)
    (batch,) = writer.records
    assert isinstance(batch, Batch)
    assert [row.reward for row in batch.rows] == [1.0, 0.0]
    assert batch.scoring_id == LIVE


def issued_under(found: list[Event[Any]], scoring_id: str, verifier: VerifierSpec) -> list[Event[Any]]:
    task = msgspec.structs.replace(found[0].record, scoring_id=scoring_id, verifier=verifier)
    return [msgspec.structs.replace(found[0], record=task), *found[1:]]


async def test_a_task_issued_under_a_scoring_gets_its_reward_once_and_trains_on_it() -> None:
    rig, spec = Rig(), VerifierSpec(kind="exact_match", expected="right", partial="prefix")
    found = issued_under(events("right", "righ"), SHADOW, spec)
    await rig.take(found)
    assert rig.values == {(SHADOW, 0): 1.0, (SHADOW, 1): 0.8}
    assert all(record.is_own for record in rig.writer.records)
    assert rig.count("agree") is None
    assert sorted(rig.acks.ids) == sorted(event.id for event in found)

    writer, acks = FakeWriter(), Acks()
    stage = GroupStage(AssemblerSettings(), writer, telemetry())
    stray = [read(samples.reward(s, value=0.5)) for s in range(2)]  # `live` ones of a task that has none of its own
    rewards = [placed(event, offset=900 + place) for place, event in enumerate(rig.writer.events)]
    for event in (*stray, *found, *rewards):
        await stage.take(event, acks.of(event))
    (batch,) = writer.records
    assert [row.reward for row in batch.rows] == [1.0, 0.8]
    assert (batch.scoring_id, batch.rebuilt, batch.is_rebuilt) == (SHADOW, False, False)
    assert writer.events[0].id == derive_id(samples.TASK_ID, "batch", 0, SHADOW)


async def test_a_shadow_of_a_scoring_that_trains_elsewhere_is_no_reward_of_this_task() -> None:
    rig = Rig()
    await rig.take(events("right", "righ"))
    assert {(record.scoring_id, record.is_own) for record in rig.writer.records} == {(LIVE, True), (SHADOW, False)}
    assert all(not record.own for record in rig.writer.records)


async def test_a_rebuilt_batch_that_is_read_back_ends_no_task() -> None:
    writer, acks = FakeWriter(), Acks()
    stage = GroupStage(AssemblerSettings(), writer, telemetry())
    old = msgspec.structs.replace(samples.records()["batch"], scoring_id="strict")
    again = msgspec.structs.replace(samples.records()["batch"], scoring_id="strict", rebuilt=True)
    assert [batch.is_rebuilt for batch in (old, again, samples.records()["batch"])] == [True, True, False]
    stage.recall([read(old), read(again)])
    task = events("right")[0]
    await stage.take(task, acks.of(task))
    assert acks.ids == []
