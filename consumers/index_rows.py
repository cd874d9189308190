"""The index's tables, and an event's rows in them. Pure.

A place is a position in one number: topic, partition and offset from the highest bit down, so that places of a
partition are in the order of the log.
"""

from collections.abc import Iterator
from typing import Any

from schemas.batches import Batch
from schemas.content import record_digest
from schemas.deadletters import DeadLetter
from schemas.decisions import Decision
from schemas.evals import EvalScored
from schemas.events import Event
from schemas.policies import PolicyPublished
from schemas.rewards import RewardScored
from schemas.rollouts import RolloutEnded, TurnGenerated
from schemas.steps import StepTaken
from schemas.tasks import TaskIssued
from schemas.topics import get_topic
from schemas.trajectory import sample_of

Row = tuple[Any, ...]
FORMAT = 2
"""Of the tables; an index of another one is made anew."""
OFFSET_BITS, PARTITION_BITS = 40, 16

TABLES: dict[str, tuple[str, ...]] = {
    "events": (
        "place INTEGER PRIMARY KEY",
        "id TEXT",
        "kind TEXT",
        "cause TEXT",
        "task TEXT",
        "sample INTEGER",
        "turn INTEGER",
        "time_s REAL",
    ),
    "undecodable": ("place INTEGER PRIMARY KEY", "error TEXT"),
    "letters": ("place INTEGER PRIMARY KEY", "origin INTEGER"),
    "tasks": (
        "place INTEGER PRIMARY KEY",
        "task TEXT",
        "run TEXT",
        "domain TEXT",
        "level INTEGER",
        "split TEXT",
        "num_samples INTEGER",
        "policy TEXT",
        "verifier TEXT",
        "issued_s REAL",
        "scoring TEXT",
    ),
    "drawn": ("place INTEGER PRIMARY KEY", "task TEXT", "policy TEXT", "low INTEGER", "high INTEGER"),
    "rollouts": (
        "place INTEGER PRIMARY KEY",
        "task TEXT",
        "sample INTEGER",
        "why TEXT",
        "num_turns INTEGER",
        "num_tokens INTEGER",
        "ended_s REAL",
    ),
    "rewards": (
        "place INTEGER PRIMARY KEY",
        "task TEXT",
        "sample INTEGER",
        "scoring TEXT",
        "value REAL",
        "why TEXT",
        "config TEXT",
    ),
    "batch_rows": (
        "place INTEGER",
        "sample INTEGER",
        "reward REAL",
        "advantage REAL",
        "PRIMARY KEY (place, sample)",
    ),
    "batches": (
        "place INTEGER PRIMARY KEY",
        "id TEXT",
        "task TEXT",
        "run TEXT",
        "digest TEXT",
        "scoring TEXT",
        "rebuilt INTEGER",
        "number INTEGER",
    ),
    "decisions": (
        "place INTEGER PRIMARY KEY",
        "id TEXT",
        "task TEXT",
        "run TEXT",
        "stage TEXT",
        "reason TEXT",
        "batch TEXT",
        "num_valid INTEGER",
        "reward_mean REAL",
    ),
    "steps": (
        "place INTEGER PRIMARY KEY",
        "id TEXT",
        "run TEXT",
        "step INTEGER",
        "policy TEXT",
        "version_in INTEGER",
        "version_out INTEGER",
        "weights_in TEXT",
        "weights_out TEXT",
        "restored INTEGER",
    ),
    "trained": (
        "step_place INTEGER",
        "number INTEGER",
        "batch TEXT",
        "batch_place INTEGER",
        "digest TEXT",
        "run TEXT",
        "step INTEGER",
        "PRIMARY KEY (step_place, number)",
    ),
    "policies": (
        "place INTEGER PRIMARY KEY",
        "id TEXT",
        "run TEXT",
        "policy TEXT",
        "version INTEGER",
        "parent INTEGER",
        "digest TEXT",
    ),
    "evals": ("place INTEGER PRIMARY KEY", "run TEXT", "policy TEXT", "version INTEGER", "domain TEXT"),
}
INDEXES: dict[str, str] = {
    "events_id": "events(id)",
    "events_task": "events(task) WHERE task != ''",
    "letters_origin": "letters(origin)",
    "tasks_task": "tasks(task)",
    "rollouts_task": "rollouts(task, sample)",
    "rewards_task": "rewards(task, sample)",
    "drawn_policy": "drawn(policy, high, low, task)",
    "batches_task": "batches(task)",
    "decisions_task": "decisions(task)",
    "steps_step": "steps(run, step)",
    "trained_batch": "trained(batch)",
    "policies_version": "policies(policy, version)",
    "evals_version": "evals(policy, version)",
}


def place_of(topic: int, partition: int, offset: int) -> int:
    """Return a position as a number, its topic given by number."""
    return ((topic << PARTITION_BITS | partition) << OFFSET_BITS) | offset


def split_place(place: int) -> tuple[int, int, int]:
    """Return number of topic, partition and offset of a place."""
    partition = place >> OFFSET_BITS & (1 << PARTITION_BITS) - 1
    return place >> OFFSET_BITS + PARTITION_BITS, partition, place & (1 << OFFSET_BITS) - 1


def kind_of(type_name: str) -> str:
    """Return the record's name in a CloudEvents type: `rollog.turn_generated.v1` is `turn_generated`."""
    return type_name.removeprefix("rollog.").rpartition(".v")[0]


def rows_of(event: Event[Any], place: int, topics: dict[str, int]) -> Iterator[tuple[str, Row]]:
    """Yield table and row of all that an event adds."""
    record, where = event.record, event.position
    assert where is not None
    task = event.key if get_topic(where.topic).by_task else ""
    turn = getattr(record, "turn", None)
    kind = kind_of(event.type)
    yield "events", (place, event.id, kind, event.causation_id, task, sample_of(record), turn, event.time_s)
    match record:
        case TurnGenerated():
            versions = record.versions.unpack()
            if len(versions):
                yield "drawn", (place, task, record.policy, int(versions.min()), int(versions.max()))
        case RolloutEnded():
            sizes = (record.num_turns, record.num_tokens)
            yield "rollouts", (place, task, record.sample, record.why, *sizes, event.time_s)
        case RewardScored():
            what = (record.scoring_id, record.value, record.invalid_reason, record.config_digest)
            yield "rewards", (place, task, record.sample, *what)
        case TaskIssued():
            whole = (record.run_id, record.domain, record.level, record.split, record.num_samples, record.policy)
            yield "tasks", (place, task, *whole, record_digest(record.verifier), event.time_s, record.scoring_id)
        case Batch():
            digest = record_digest(record)
            number = record.number if record.is_recorded else None
            yield (
                "batches",
                (place, event.id, task, record.run_id, digest, record.scoring_id, record.is_rebuilt, number),
            )
            for row in record.rows:
                yield "batch_rows", (place, row.sample, row.reward, row.advantage)
        case Decision():
            why = (record.stage, record.reason, record.batch_id, record.num_valid, record.reward_mean)
            yield "decisions", (place, event.id, task, record.run_id, *why)
        case DeadLetter() if record.topic in topics:
            yield "letters", (place, place_of(topics[record.topic], record.partition, record.offset))
        case _:
            yield from rows_of_policy(event, place, topics)


def rows_of_policy(event: Event[Any], place: int, topics: dict[str, int]) -> Iterator[tuple[str, Row]]:
    """Yield the rows of what is about a run's policy."""
    record = event.record
    match record:
        case StepTaken():
            versions = (record.policy_version_in, record.policy_version_out)
            weights = (record.weights_digest_in, record.weights_digest_out)
            back = record.restored_from
            yield "steps", (place, event.id, record.run_id, record.step, record.policy, *versions, *weights, back)
            for number, ref in enumerate(record.batches):
                batch_place = place_of(topics.get(ref.topic, 0), ref.partition, ref.offset)
                row = (place, number, ref.event_id, batch_place, ref.digest, record.run_id, record.step)
                yield "trained", row
        case PolicyPublished():
            version = (record.version, record.parent, record.digest)
            yield "policies", (place, event.id, record.run_id, record.policy, *version)
        case EvalScored():
            yield "evals", (place, record.run_id, record.policy, record.version, record.domain)
