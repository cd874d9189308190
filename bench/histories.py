"""A history of any length, made fast: groups of each kind are encoded once, and others' ids are put in their place.

A group is a task with eight one-turn rollouts, their ends and their live rewards; a third of the answers are right.
Ids, causes and digests are those that the services would give.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from confluent_kafka import Producer

from producers.publisher import producer_options
from producers.turns import end_id, turn_id
from rollog.topics import create_topics
from schemas.arrays import PackedArray
from schemas.codec import TOPIC_OF, encode_headers, encode_value, new_event
from schemas.config import LogSettings
from schemas.events import Event
from schemas.ids import deriver, task_id
from schemas.rollouts import RolloutEnded, TurnGenerated
from schemas.tasks import SamplingParams, TaskIssued, VerifierSpec
from streams.scoring import Finding, reward_id, reward_of
from streams.verifiers import Score

NUM_SAMPLES, NUM_TOKENS = 8, 48
NUM_KINDS = 3
"""Of groups: which samples are right."""
TASK_S = 0.1
"""From one task to the next."""
FLUSH_S = 400.0
SAMPLING = SamplingParams(max_tokens=NUM_TOKENS)
Headers = list[tuple[str, bytes]]
Record = tuple[str, bytes, bytes, Headers, int]
"""Topic, key, value, headers, time in ms."""


class Part(msgspec.Struct, frozen=True):
    """One record of an encoded group."""

    topic: str
    value: bytes
    headers: Headers
    after_s: float


def task_of(index: int) -> TaskIssued:
    """Return a task."""
    return TaskIssued(
        task_id=task_id("bench", "train", index),
        run_id="bench",
        index=index,
        domain="verbs",
        prompt="call f 3 4|",
        verifier=VerifierSpec(kind="exact_match", expected="print(f(3,4))" * 4, partial="prefix"),
        num_samples=NUM_SAMPLES,
        sampling=SAMPLING,
        seed=index,
        deadline_s=600.0,
    )


def group(index: int) -> Iterator[tuple[Event[Any], float]]:
    """Yield a task's events in the order of `ids_of`, each with its seconds after the issue."""
    ids = PackedArray.pack(range(NUM_TOKENS), dtype="i4")
    logprobs = PackedArray.pack([-0.5] * NUM_TOKENS, dtype="f4")
    task = task_of(index)
    key = task.task_id
    issued = new_event(task, id=key, key=key, source="rollog/issuer-0", correlation_id=key)
    yield issued, 0.0
    for sample in range(NUM_SAMPLES):
        rollout_id = f"{key}/{sample}"
        is_right = (index + sample) % NUM_KINDS == 0
        turn = TurnGenerated(
            task_id=key,
            rollout_id=rollout_id,
            sample=sample,
            turn=0,
            domain=task.domain,
            policy="policy",
            context_ids=ids,
            token_ids=ids,
            logprobs=logprobs,
            versions=ids,
            text="print(f(3,4))" * (4 if is_right else 3),
            finish_reason="stop",
            sampling=SAMPLING,
            seed=sample,
        )
        ended = RolloutEnded(
            task_id=key,
            rollout_id=rollout_id,
            sample=sample,
            domain=task.domain,
            why="finished",
            num_turns=1,
            num_tokens=NUM_TOKENS,
        )
        value = 1.0 if is_right else 0.75
        reward = reward_of(task, sample, Finding(score=Score(value=value, parts={"text": value})))
        made = (
            (turn, turn_id(rollout_id, 0), 1.0),
            (ended, end_id(rollout_id), 1.001),
            (reward, reward_id(reward), 1.5),
        )
        cause = issued
        for record, event_id, after_s in made:
            cause = new_event(record, id=event_id, key=key, source="rollog/any-0", subject=rollout_id, cause=cause)
            yield cause, after_s + sample / 100


def parts_of(index: int) -> list[Part]:
    """Return a group encoded."""
    return [
        Part(TOPIC_OF[type(event.record)], encode_value(event.record), encode_headers(event), after_s)
        for event, after_s in group(index)
    ]


def records(num_rollouts: int, start_s: float) -> Iterator[Record]:
    """Yield every record of a history."""
    kinds = [parts_of(index) for index in range(NUM_KINDS)]
    first = [task_of(index).task_id.encode() for index in range(NUM_KINDS)]
    turn, ended, reward = (deriver("turn_generated", 0), deriver("rollout_ended", 0), rewards_deriver())
    for index in range(num_rollouts // NUM_SAMPLES):
        task, old = task_of(index), first[index % NUM_KINDS]
        key = task.task_id.encode()
        rollouts = [f"{task.task_id}/{sample}" for sample in range(NUM_SAMPLES)]
        ids = [task.task_id, *(derive(rollout) for rollout in rollouts for derive in (turn, ended, reward))]
        causes = iter(["", *(ids[0] if number % 3 == 1 else ids[number - 1] for number in range(1, len(ids)))])
        for event_id, cause, part in zip(ids, causes, kinds[index % NUM_KINDS], strict=True):
            changed = {"ce_id": event_id.encode(), "ce_causationid": cause.encode()}
            headers = [(name, changed.get(name) or value.replace(old, key)) for name, value in part.headers]
            value = encode_value(task) if event_id == task.task_id else part.value.replace(old, key)
            yield part.topic, key, value, headers, int((start_s + index * TASK_S + part.after_s) * 1000)


def rewards_deriver() -> Callable[[str], str]:
    """Return how a live reward's id comes from its rollout's: all tasks have one verifier and expect one thing."""
    reward = reward_of(task_of(0), 0, Finding(score=Score(value=1.0)))
    maker = f"{reward.verifier}@{reward.verifier_version}/{reward.config_digest}/{reward.scoring_id}"
    derive = deriver("reward_scored", 0, maker)
    assert derive(reward.rollout_id) == reward_id(reward)
    return derive


def fill(log: LogSettings, num_rollouts: int) -> int:
    """Write a history that began a week ago, and return the number of its records."""
    create_topics(log)
    producer, num = Producer({**producer_options(log), "linger.ms": 50}), 0
    for record in records(num_rollouts, time.time() - 86_400 * 7):
        produce(producer, f"{log.namespace}{record[0]}", record)
        num += 1
    assert producer.flush(FLUSH_S) == 0
    return num


def produce(producer: Producer, topic: str, record: Record) -> None:
    """Give a record to the client, for that topic, as soon as it has room."""
    _, key, value, headers, time_ms = record
    while True:
        try:
            producer.produce(topic, value, key, headers=headers, timestamp=time_ms)
            return
        except BufferError:
            producer.poll(0.05)
