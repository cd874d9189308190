"""The issuer: brings training tasks into the log, as fast as the learner uses them up and no faster.

What must hold: the tasks of a run are the places 0, 1, 2, ... of one fixed sequence, each issued once, whatever was
killed when. The log is the only memory: on start the issued ids are read back, and the first place missing is next.
"""

import itertools
import logging
import time
from collections.abc import Iterator

from consumers.raw import RawRecord
from consumers.reader import Reader
from consumers.runtime import Runtime
from producers.admission import Admission
from producers.publisher import Publisher
from producers.tasks import check_domains, train_task, train_task_id
from schemas.config import Settings
from schemas.errors import DecodeError

POLL_S = 0.25
"""Seconds that one wait for news may take; bounds only how fast the word to stop is heard."""
log = logging.getLogger(__name__)


def run_issuer(runtime: Runtime) -> None:
    """Issue tasks until told to stop. Raises LogError where the log cannot be read or written."""
    settings, telemetry = runtime.settings, runtime.telemetry
    check_domains(settings)
    publisher = Publisher(runtime.log, source=f"rollog/{runtime.instance}", blob_dir=runtime.blob_dir)

    def put_aside(raw: RawRecord, error: DecodeError) -> None:
        publisher.publish(publisher.dead_letter(raw, stage="issuer", error=error))

    admission = Admission.of(settings)
    reader = Reader(
        runtime.log,
        ("decisions", "steps"),
        blob_dir=runtime.blob_dir,
        start="beginning",
        on_undecodable=put_aside,
    )
    try:
        indices = places_to_issue(settings, read_issued(runtime), admission)
        while not runtime.stop.is_set():
            for event in reader.poll(timeout_s=POLL_S):
                admission.take(event.record)
                telemetry.events.labels(event.position.topic if event.position else "", "in").inc()
            if admission.num_admitted:
                issue(runtime, publisher, list(itertools.islice(indices, admission.num_admitted)), admission)
    finally:
        reader.close()
        publisher.close()


def issue(runtime: Runtime, publisher: Publisher, indices: list[int], admission: Admission) -> None:
    """Write the tasks at these places, and return once they are durable."""
    telemetry, start_s = runtime.telemetry, time.monotonic()
    telemetry.pending(len(indices))
    with telemetry.busy():
        events = []
        for index in indices:
            task = train_task(runtime.settings, index)
            admission.issue(task.task_id)
            events.append(publisher.event(task, id=task.task_id, key=task.task_id, correlation_id=task.task_id))
        publisher.send_all(events)
    telemetry.events.labels("tasks", "out").inc(len(events))
    seconds_each = (time.monotonic() - start_s) / len(events)
    for event in events:
        telemetry.seconds.labels("issue", event.record.domain).observe(seconds_each)
    telemetry.progress(num_pending=0)


def read_issued(runtime: Runtime) -> set[str]:
    """Return the ids of all tasks on the log."""
    reader = Reader(
        runtime.log,
        ("tasks",),
        blob_dir=runtime.blob_dir,
        start="beginning",
        bounded=True,
        headers_only=True,
        on_undecodable=pass_over,
    )
    try:
        return {event.id for event in reader}
    finally:
        reader.close()


def pass_over(raw: RawRecord, error: DecodeError) -> None:
    """Leave what is no task to the generator, which puts it aside."""
    log.debug("passed over %s: %s", raw.position, error)


def places_to_issue(settings: Settings, issued: set[str], admission: Admission) -> Iterator[int]:
    """Tell `admission` what was issued; returns the places that were not, in order, without end.

    A crash leaves holes no wider than what was written at once, which is at most what admission allows.
    """
    done: set[int] = set()
    index, num_missing = 0, 0
    while num_missing <= admission.max_open:
        task_id = train_task_id(settings, index)
        if task_id in issued:
            admission.issue(task_id)
            done.add(index)
            num_missing = 0
        else:
            num_missing += 1
        index += 1
    if done:
        log.info("issued so far: %d tasks, up to place %d", len(done), max(done))
    return (place for place in itertools.count() if place not in done)
