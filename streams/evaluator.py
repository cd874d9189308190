"""The evaluator: policy versions to held-out tasks, and how those ended to results.

    policies --due--> TaskIssued (held out, version pinned) ... decisions --all ended--> EvalScored

It has no state but the log: on start it reads what was published, issued and scored, and goes on from there. Ids are
deterministic, so that what a killed instance did half is completed and not repeated.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from consumers.reader import RawRecord, Reader
from consumers.runtime import Runtime
from producers.publisher import Publisher
from producers.tasks import held_out_tasks
from schemas.errors import DecodeError
from schemas.evals import EvalScored
from schemas.events import Event
from schemas.ids import derive_id
from schemas.tasks import TaskIssued
from streams.evaluation import Evaluations

POLL_S = 0.2


def eval_id(result: EvalScored) -> str:
    """Return the event id of a result."""
    return derive_id(f"{result.run_id}/{result.policy}/{result.version}", "eval_scored", result.domain)


def run_evaluator(runtime: Runtime) -> None:
    """Run the service until it is told to stop."""
    publisher = Publisher(runtime.log, source=f"rollog/{runtime.instance}", blob_dir=runtime.blob_dir)
    open_reader = partial(Reader, runtime.log, blob_dir=runtime.blob_dir, start="beginning")

    def put_aside(raw: RawRecord, error: DecodeError) -> None:
        publisher.publish(publisher.dead_letter(raw, stage="evaluator", error=error))

    evaluations = Evaluations(runtime.settings, partial(held_out_tasks, runtime.settings))
    try:
        recall(evaluations, open_reader, put_aside)
        reader = open_reader(["policies", "evals", "decisions"], on_undecodable=put_aside)
        try:
            while not runtime.stop.is_set():
                events: list[Event[Any]] = reader.poll(timeout_s=POLL_S)
                runtime.telemetry.progress(0)
                if events:
                    take(evaluations, events, runtime, publisher)
        finally:
            reader.close()
    finally:
        publisher.close()


def recall(
    evaluations: Evaluations,
    open_reader: Callable[..., Reader],
    put_aside: Callable[[RawRecord, DecodeError], None],
) -> None:
    """Learn what was published, scored and issued before this instance started."""
    for event in read_all(open_reader(["policies", "evals"], bounded=True, on_undecodable=put_aside)):
        evaluations.take(event.record)
    # What cannot be read here is put aside by the stages that take tasks in.
    for event in read_all(
        open_reader(["tasks"], bounded=True, headers_only=True, on_undecodable=lambda raw, error: None)
    ):
        evaluations.note_issued(event.id)


def read_all(reader: Reader) -> list[Event[Any]]:
    """Return everything a bounded reader has."""
    try:
        return list(reader)
    finally:
        reader.close()


def take(evaluations: Evaluations, events: list[Event[Any]], runtime: Runtime, publisher: Publisher) -> None:
    """Take events, issue what is due by then, and write results that are known by then."""
    with runtime.telemetry.busy():
        for event in events:
            assert event.position is not None
            runtime.telemetry.events.labels(event.position.topic, "in").inc()
            evaluations.take(event.record)
        write(evaluations.to_issue(), publisher, runtime, topic="tasks")
        for task in evaluations.to_issue():
            evaluations.note_issued(task.task_id)
        results = evaluations.to_score()
        write(results, publisher, runtime, topic="evals")
        for result in results:
            evaluations.take(result)


def write(records: list[TaskIssued] | list[EvalScored], publisher: Publisher, runtime: Runtime, *, topic: str) -> None:
    """Write records and wait until they are durable. Raises LogError."""
    publisher.send_all(event_of(record, publisher) for record in records)
    runtime.telemetry.events.labels(topic, "out").inc(len(records))


def event_of(record: TaskIssued | EvalScored, publisher: Publisher) -> Event[Any]:
    """Return a record's event."""
    if isinstance(record, TaskIssued):
        return publisher.event(record, id=record.task_id, key=record.task_id, correlation_id=record.task_id)
    return publisher.event(
        record, id=eval_id(record), key=record.domain, subject=record.policy, correlation_id=record.run_id
    )
