"""The learner's events: made once, kept in the checkpoint, and written when that is durable, however often it takes."""

from collections.abc import Iterable
from typing import Any

import msgspec

from consumers.feed import Dropped
from learner.checkpoint import PendingEvent
from producers.publisher import Publisher
from schemas.codec import TOPIC_OF, decode_record, encode_value, known_types
from schemas.decisions import Decision
from schemas.events import Event, Position
from schemas.ids import derive_id
from schemas.policies import PolicyPublished
from schemas.steps import StepTaken


def step_event(publisher: Publisher, step: StepTaken, *, command_id: str = "") -> Event[StepTaken]:
    """Return the event that says a step was taken, by the command of this id where one asked for it."""
    event: Event[StepTaken] = publisher.event(
        step, id=step_id(step.run_id, step.step), key=step.run_id, subject=step.run_id, correlation_id=step.run_id
    )
    return msgspec.structs.replace(event, causation_id=command_id)


def policy_event(publisher: Publisher, policy: PolicyPublished) -> Event[PolicyPublished]:
    """Return the event that says a policy version may be used."""
    event: Event[PolicyPublished] = publisher.event(
        policy,
        id=policy_id(policy.run_id, policy.policy, policy.version),
        key=policy.policy,
        subject=policy.policy,
        correlation_id=policy.run_id,
    )
    return event


def step_id(run_id: str, step: int) -> str:
    """Return the id of a step's event."""
    return derive_id(run_id, "step_taken", step)


def policy_id(run_id: str, policy: str, version: int) -> str:
    """Return the id of a policy version's event."""
    return derive_id(f"{run_id}/{policy}", "policy_published", version)


def decision_event(publisher: Publisher, dropped: Dropped, *, version: int) -> Event[Decision]:
    """Return the event that says a batch was passed over by the learner at `version`."""
    batch = dropped.event.record
    decision = Decision(
        task_id=batch.task_id,
        run_id=batch.run_id,
        domain=batch.domain,
        stage="learner",
        reason=dropped.fault.reason,
        detail=dropped.fault.detail,
        num_samples=batch.num_samples,
        num_valid=len(batch.rows),
        reward_mean=batch.reward_mean,
        policy_version=version,
        batch_id=dropped.event.id,
    )
    event: Event[Decision] = publisher.event(
        decision,
        id=derive_id(dropped.event.id, "decision", 0),
        key=batch.task_id,
        subject=batch.task_id,
        cause=dropped.event,
        correlation_id=batch.task_id,
    )
    return event


def put_aside(event: Event[Any]) -> PendingEvent:
    """Return the event as a checkpoint keeps it."""
    return PendingEvent(
        id=event.id,
        type=event.type,
        source=event.source,
        time_s=event.time_s,
        key=event.key,
        subject=event.subject,
        causation_id=event.causation_id,
        correlation_id=event.correlation_id,
        value=encode_value(event.record),
    )


def take_up(pending: PendingEvent) -> Event[Any]:
    """Return the event that a checkpoint kept. Raises DecodeError."""
    record_type = known_types()[pending.type]
    where = Position(topic=TOPIC_OF[record_type], partition=0, offset=-1)
    return Event(
        id=pending.id,
        type=pending.type,
        source=pending.source,
        time_s=pending.time_s,
        key=pending.key,
        subject=pending.subject,
        causation_id=pending.causation_id,
        correlation_id=pending.correlation_id,
        record=decode_record(pending.type, pending.value, where=where),
    )


def publish_missing(publisher: Publisher, events: Iterable[Event[Any]], *, present: set[str]) -> list[Event[Any]]:
    """Write, in order and acknowledged, those that the log does not have; returns them. Raises LogError."""
    return publisher.send_all([event for event in events if event.id not in present])
