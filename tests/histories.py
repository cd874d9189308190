"""A history of scored rollouts: two domains, answers that are right, nearly right, wrong or invalid by their index."""

from collections.abc import Iterator
from typing import Any

from schemas.codec import new_event
from schemas.events import Event
from schemas.ids import derive_id, task_id
from schemas.scorings import LIVE
from schemas.tasks import TaskIssued, VerifierSpec
from streams.scoring import Finding, reward_id, reward_of
from streams.verifiers import Score
from tests import samples

NUM_SAMPLES = 4
START_S = 1_700_000_000.0
ANSWERS = ("right", "righ", "wrong", "")
VALUES = {"right": 1.0, "righ": 0.75, "wrong": 0.25, "": 0.5}
"""What a lenient verifier gave live; not what any verifier of today would."""


def task_of(index: int, **changes: Any) -> TaskIssued:
    fields: dict[str, Any] = {
        "task_id": task_id("history", "train", index),
        "run_id": "history",
        "index": index,
        "domain": ("verbs", "repair")[index % 2],
        "verifier": VerifierSpec(kind="exact_match", expected="right", partial="prefix"),
        "execution": None,
        "num_samples": NUM_SAMPLES,
    }
    return samples.task(**(fields | changes))


def answer_of(index: int, sample: int) -> str:
    """Return what a sample answered: tasks of every third index agree among themselves."""
    return ANSWERS[0 if index % 3 == 0 else (index * 7 + sample * 3) % len(ANSWERS)]


def finding_of(index: int, sample: int) -> Finding:
    """Return what was found live: every seventh task has one rollout that the verifier failed on."""
    if index % 7 == 0 and sample == 1:
        return Finding(invalid_reason="verifier_timeout", detail="no answer")
    return Finding(score=Score(value=VALUES[answer_of(index, sample)]))


def event(record: Any, event_id: str, key: str, time_s: float, cause: Event[Any] | None = None) -> Event[Any]:
    return new_event(record, id=event_id, key=key, source="test", time_s=time_s, cause=cause)


def task_events(index: int, *, time_s: float, is_scored: bool = True, **changes: Any) -> Iterator[Event[Any]]:
    """Yield all events of one task, in the order of their times."""
    task = task_of(index, **changes)
    key = task.task_id
    yield event(task, key, key, time_s)
    for sample in range(task.num_samples):
        rollout_id = f"{key}/{sample}"
        about = {"task_id": key, "rollout_id": rollout_id, "domain": task.domain}
        text = answer_of(index, sample)
        turn = samples.turn(sample, text=text, action=None, token_ids=samples.ids(8, 100 + sample, 1), **about)
        yield event(turn, derive_id(rollout_id, "turn_generated", 0), key, time_s + 1)
        ended = event(samples.ended(sample, **about), derive_id(rollout_id, "rollout_ended", 0), key, time_s + 1.1)
        yield ended
        if is_scored:
            reward = reward_of(task, sample, finding_of(index, sample), scoring_id=LIVE)
            yield event(reward, reward_id(reward), key, time_s + 2, ended)


def history(num_tasks: int, *, start_s: float = START_S, step_s: float = 1.0, **changes: Any) -> Iterator[Event[Any]]:
    """Yield the events of many tasks, one task after the other."""
    for index in range(num_tasks):
        yield from task_events(index, time_s=start_s + index * step_s, **changes)
