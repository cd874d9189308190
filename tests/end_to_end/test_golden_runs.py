"""Runs that were recorded under each format still fold, score, assemble and train to what they were."""

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from consumers.feed import fetch_batches
from consumers.tapes.file import TapeFile
from consumers.tapes.reader import TapeReader
from consumers.tapes.verify import verify as verify_tape
from learner.manifest import ref_of, settings_of
from learner.model import describe_kernels, set_determinism
from learner.training import Training
from rollog.expected_ids import expected_id
from rollog.verify_log import verify as verify_log
from schemas.batches import Batch
from schemas.config import AssemblerSettings
from schemas.content import record_digest
from schemas.decisions import Decision
from schemas.events import Event
from schemas.rewards import RewardScored
from schemas.scorings import LIVE, VerifierChoice, scoring_of
from schemas.steps import StepTaken
from schemas.trajectory import Group, fold
from streams.assembler import end_id, read_context_tokens
from streams.assembly import assemble
from streams.scoring import Finding, reward_id, reward_of, without_worth
from streams.verifiers import get_verifier
from streams.verifiers.worker import find

ROOT = Path(__file__).parents[2]
POLICY = ROOT / "demo" / "policy"
TAPES = sorted((ROOT / "tests" / "golden").glob("*/run.tape"))
TOLERANCE = 1e-4
"""Relative, of a loss on other kernels than it was recorded on."""


@pytest.fixture(params=TAPES, ids=[tape.parent.name for tape in TAPES])
def tape(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def events_of(tape: Path, *topics: str) -> list[Event[Any]]:
    opened = TapeFile(tape)
    names = topics or tuple(opened.topics)
    opened.close()
    reader = TapeReader(tape, names, start="beginning", bounded=True)
    try:
        return list(reader)
    finally:
        reader.close()


def groups_of(tape: Path) -> dict[str, Group]:
    by_task: dict[str, list[Event[Any]]] = {}
    for event in events_of(tape, "tasks", "rollouts", "executions", "rewards"):
        by_task.setdefault(event.key, []).append(event)
    return {task_id: fold(reversed(events)) for task_id, events in by_task.items()}


def is_by_learner(end: Batch | Decision) -> bool:
    return isinstance(end, Decision) and end.stage == "learner"


def test_there_is_a_recording_of_every_format() -> None:
    assert {tape.parent for tape in TAPES} == set((ROOT / "tests" / "golden").glob("v*"))
    assert TAPES


def test_it_is_whole_and_every_id_follows_from_its_record(tape: Path) -> None:
    assert verify_tape(tape).faults == ()
    events = events_of(tape)
    derived = [(event.id, expected_id(event)) for event in events if expected_id(event) is not None]
    assert all(got == wanted for got, wanted in derived)
    assert len(derived) > 0.99 * len(events)


def test_nothing_is_wrong_with_its_causes_ends_digests_and_seals(tape: Path, tmp_path: Path) -> None:
    opened = TapeFile(tape)
    bounds = dict(opened.ranges)
    opened.close()
    report = verify_log(
        partial(TapeReader, tape), tmp_path / "blobs", judged=bounds, read_to=bounds, scratch=tmp_path / "scratch"
    )
    assert (report.details, report.counts["open"]) == ((), 0)
    assert report.counts["trained"] > 0
    assert report.seals > 0


def test_every_reward_is_found_again_under_its_id(tape: Path) -> None:
    groups, kinds = groups_of(tape), set()
    for event in events_of(tape, "rewards"):
        reward: RewardScored = event.record
        task, trajectory = groups[reward.task_id].task, groups[reward.task_id].sample(reward.sample)
        assert task is not None
        spec = task.verifier
        if reward.scoring_id != LIVE:
            choice = VerifierChoice(kind=reward.verifier)
            scoring = scoring_of(choice, version=get_verifier(reward.verifier).version)
            assert scoring.scoring_id == reward.scoring_id
            spec = scoring.spec_for(task)
        finding: Finding = without_worth(trajectory) or find(spec, trajectory)
        again = reward_of(task, reward.sample, finding, spec=spec, scoring_id=reward.scoring_id)
        assert reward_id(again) == event.id
        assert msgspec.structs.replace(again, score_s=reward.score_s) == reward
        kinds.add((reward.verifier, reward.value == 1))
    assert len(kinds) >= 3


def test_every_group_ends_again_as_it_did(tape: Path) -> None:
    groups, context_tokens = groups_of(tape), read_context_tokens(POLICY)
    ends = [
        event for event in events_of(tape, "batches", "decisions") if getattr(event.record, "stage", "") != "learner"
    ]
    assert len(ends) == len(groups)
    for event in ends:
        end = assemble(groups[event.key], settings=AssemblerSettings(), now_s=0.0, context_tokens=context_tokens)
        assert end is not None
        assert (end_id(end), record_digest(end)) == (event.id, record_digest(event.record))
    assert {type(event.record) for event in ends} == {Batch, Decision}


def test_every_step_is_taken_again_to_the_same_loss(tape: Path) -> None:
    steps: list[StepTaken] = [event.record for event in events_of(tape, "steps")]
    training = Training.from_base(POLICY, seed=steps[0].seed)
    assert training.weights_digest == steps[0].weights_digest_in
    is_exact = all(step.kernels == describe_kernels() for step in steps)
    for step in steps:
        settings = settings_of(step)
        set_determinism(settings.num_threads)
        batches = fetch_batches(partial(TapeReader, tape), step.batches)
        assert tuple(map(ref_of, batches)) == step.batches
        result = training.advance(batches, settings, seed=step.seed)
        assert result.loss == pytest.approx(step.loss, rel=TOLERANCE, abs=TOLERANCE)
        assert result.grad_norm == pytest.approx(step.grad_norm, rel=TOLERANCE, abs=TOLERANCE)
        if is_exact:
            assert (result.loss, training.weights_digest) == (step.loss, step.weights_digest_out)
            assert training.optimizer_digest == step.optimizer_digest_out
    assert len(steps) >= 3
