"""The issuer: brings training tasks into the log, as fast as the learner uses them up and no faster.

What must hold: the tasks of a run are the places 0, 1, 2, ... of one fixed sequence, each issued once, whatever was
killed when. The log is the only memory: on start the issued ids are read back, and the first place missing is next.
Every command to use a scoring that is on the log at the start is obeyed before the first task is issued, a later one
from the first task after it was read; a task says itself under which scoring it was issued. Where the curriculum is on,
the mix decides domain and level, and each task says which one did.
"""

import itertools
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Any

import msgspec

from consumers.raw import RawRecord
from consumers.reader import Reader, Start
from consumers.runtime import Runtime
from producers.admission import Admission
from producers.balancing import Balance, read_ledger, read_mixes
from producers.blobs import BlobStore
from producers.distinct import Distinct
from producers.publisher import Publisher
from producers.tasks import check_domains, train_task, train_task_id
from schemas.commands import CommandGiven
from schemas.config import Settings
from schemas.errors import DecodeError
from schemas.events import Event
from schemas.scorings import LIVE
from schemas.tasks import TaskIssued
from schemas.uses import InUse

POLL_S = 0.25
"""Seconds that one wait for news may take; bounds only how fast the word to stop is heard."""
CLOCK_SLACK_S = 60.0
"""How far the clocks of who gives commands and of who issues tasks may differ."""
log = logging.getLogger(__name__)


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What decides about a place, beside the settings."""

    balance: Balance | None = None
    """None: the settings alone say which domain comes."""
    distinct: Distinct | None = None
    """None: questions may come again."""

    def task(self, settings: Settings, index: int, in_use: InUse) -> TaskIssued:
        """Return the task of a place; call it once for each, in their order."""
        choice = None if self.balance is None else self.balance.choose(index)
        if self.distinct is None:
            return train_task(settings, index, in_use, choice)
        return self.distinct.draw(lambda draw: train_task(settings, index, in_use, choice, draw=draw))


def run_issuer(runtime: Runtime) -> None:
    """Issue tasks until told to stop. Raises LogError where the log cannot be read or written."""
    settings, telemetry = runtime.settings, runtime.telemetry
    check_domains(settings)
    publisher = Publisher(runtime.log, source=f"rollog/{runtime.instance}", blob_dir=runtime.blob_dir)

    def put_aside(raw: RawRecord, error: DecodeError) -> None:
        publisher.publish(publisher.dead_letter(raw, stage="issuer", error=error))

    admission = Admission.of(settings)
    is_mixed = settings.curriculum.enabled
    reader = Reader(
        runtime.log,
        ("decisions", "steps", "commands", *(["mixes"] if is_mixed else [])),
        blob_dir=runtime.blob_dir,
        start="beginning",
        on_undecodable=put_aside,
    )
    try:
        in_use = read_in_use(runtime)
        indices = places_to_issue(settings, read_issued(runtime, in_use), admission)
        order = Order(
            balance=read_balance(runtime) if is_mixed else None,
            distinct=read_distinct(runtime) if settings.tasks.distinct else None,
        )
        while not runtime.stop.is_set():
            for event in reader.poll(timeout_s=POLL_S):
                if isinstance(event.record, CommandGiven) and in_use.take(event):
                    log.info("%s: obeyed from here on: %s", event.position, event.record.arguments)
                admission.take(event.record)
                if order.balance is not None:
                    order.balance.take(event.record)
                telemetry.events.labels(event.position.topic if event.position else "", "in").inc()
            if admission.num_admitted and (order.balance is None or order.balance.is_open):
                places = list(itertools.islice(indices, admission.num_admitted))
                issue(runtime, publisher, places, admission, in_use, order=order)
    finally:
        reader.close()
        publisher.close()


def issue(
    runtime: Runtime,
    publisher: Publisher,
    indices: list[int],
    admission: Admission,
    in_use: InUse,
    *,
    order: Order,
) -> None:
    """Write the tasks at these places, and return once they are durable."""
    telemetry, start_s = runtime.telemetry, time.monotonic()
    telemetry.pending(len(indices))
    with telemetry.busy():
        events = []
        for index in indices:
            task = order.task(runtime.settings, index, in_use)
            admission.issue(task.task_id, task.scoring_id)
            events.append(publisher.event(task, id=task.task_id, key=task.task_id, correlation_id=task.task_id))
        publisher.send_all(events)
    telemetry.events.labels("tasks", "out").inc(len(events))
    seconds_each = (time.monotonic() - start_s) / len(events)
    for event in events:
        telemetry.seconds.labels("issue", event.record.domain).observe(seconds_each)
    telemetry.progress(num_pending=0)


def read_balance(runtime: Runtime) -> Balance:
    """Return the order of domains, as far as tasks and mixes on the log have decided it. Raises LogError."""
    open_reader = partial(Reader, runtime.log, blob_dir=runtime.blob_dir)
    ledger = read_ledger(open_reader, runtime.settings.run, BlobStore(runtime.blob_dir))
    balance = Balance(runtime.settings)
    balance.recall(ledger, read_mixes(open_reader))
    return balance


def read_distinct(runtime: Runtime) -> Distinct:
    """Return the questions that were asked last. Raises LogError."""
    distinct = Distinct(runtime.settings.tasks.distinct)
    reader = Reader(runtime.log, ("tasks",), blob_dir=runtime.blob_dir, start="beginning", bounded=True)
    with closing(reader):
        distinct.recall(reader.records(), runtime.settings.run, BlobStore(runtime.blob_dir))
    return distinct


def read_in_use(runtime: Runtime) -> InUse:
    """Return the scorings that commands on the log made the ones that train."""
    in_use = InUse(runtime.settings.run)
    for event in read_all(runtime, "commands"):
        in_use.take(event)
    return in_use


def read_issued(runtime: Runtime, in_use: InUse) -> dict[str, str]:
    """Return all tasks on the log, each with the id of its scoring."""
    issued = dict.fromkeys((event.id for event in read_all(runtime, "tasks", headers_only=True)), LIVE)
    if in_use.first_s is not None:
        # Only what was issued since can be under another scoring, and only a whole record says so.
        since_s = max(0.0, in_use.first_s - CLOCK_SLACK_S)
        issued |= {event.id: event.record.scoring_id for event in read_all(runtime, "tasks", start=since_s)}
    return issued


def read_all(
    runtime: Runtime, topic: str, *, start: Start = "beginning", headers_only: bool = False
) -> Iterator[Event[Any]]:
    """Yield what is on a topic now."""
    reader = Reader(
        runtime.log,
        (topic,),
        blob_dir=runtime.blob_dir,
        start=start,
        bounded=True,
        headers_only=headers_only,
        on_undecodable=pass_over,
    )
    try:
        yield from reader
    finally:
        reader.close()


def pass_over(raw: RawRecord, error: DecodeError) -> None:
    """Leave what is no task to the generator, which puts it aside."""
    log.debug("passed over %s: %s", raw.position, error)


def places_to_issue(settings: Settings, issued: Mapping[str, str], admission: Admission) -> Iterator[int]:
    """Tell `admission` what was issued; returns the places that were not, in order, without end.

    A crash leaves holes no wider than what was written at once, which is at most what admission allows.
    """
    done: set[int] = set()
    index, num_missing = 0, 0
    while num_missing <= admission.max_open:
        task_id = train_task_id(settings, index)
        if task_id in issued:
            admission.issue(task_id, issued[task_id])
            done.add(index)
            num_missing = 0
        else:
            num_missing += 1
        index += 1
    if done:
        log.info("issued so far: %d tasks, up to place %d", len(done), max(done))
    return (place for place in itertools.count() if place not in done)
