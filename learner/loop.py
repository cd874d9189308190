"""The training loop: batches from the log, one step, a checkpoint, and only then the word that there is a new version.

Order of what must be durable: decisions about batches that were passed over; then the checkpoint, which holds weights,
optimizer, offsets and the step's events; then those events. Killed anywhere, it goes on as if it had not been. Between
steps it hears of commands: what is quarantined is passed over, and a rollback is a step that goes back.
"""

import time
from collections.abc import Callable
from contextlib import closing
from functools import partial

from consumers.feed import BatchEvent, BatchFeed, Fault, OpenReader
from consumers.reader import RawRecord, Reader
from consumers.recorded import RecordedFeed
from consumers.runtime import Runtime
from learner.checkpoint import only_learner
from learner.gate import Gate
from learner.manifest import describe_restored, describe_step
from learner.model import code_version, set_determinism, vocabulary_size
from learner.orders import Orders
from learner.publishing import decision_event, step_event
from learner.resuming import checkpoints_of, is_due, restore, resume, save_and_name
from learner.step import StepResult
from learner.training import Training
from producers.publisher import Publisher
from schemas.batches import Batch
from schemas.config import LearnerSettings
from schemas.errors import CheckpointError, DecodeError
from schemas.recalls import Rollback

POLL_S = 0.5
"""Seconds from one look at the commands to the next, once all steps are taken."""

Feed = BatchFeed | RecordedFeed
OnStep = Callable[[int], None]


def run_learner(runtime: Runtime) -> None:
    """Train until `learner.steps`, then wait; return once told to stop. Raises RollogError.

    A step that has begun is finished; one that waits for batches is not taken.
    """
    publisher = Publisher(
        runtime.log,
        source=f"rollog/{runtime.instance}",
        blob_dir=runtime.blob_dir,
        code_version=code_version(),
    )
    try:
        learn(runtime, publisher, partial(Reader, runtime.log, blob_dir=runtime.blob_dir))
    finally:
        publisher.close()


def learn(runtime: Runtime, publisher: Publisher, open_reader: OpenReader) -> None:
    """Do what `run_learner` does, through these two doors of the log."""
    with only_learner(checkpoints_of(runtime)), orders_of(runtime, open_reader) as orders:
        training = begin(runtime, publisher, open_reader, orders)
        with closing(open_feed(training, runtime, publisher, open_reader)) as feed:
            while not runtime.stop.is_set():
                train(training, feed, orders, runtime, publisher)
                runtime.stop.wait(POLL_S)


def train_on(
    runtime: Runtime, publisher: Publisher, open_reader: OpenReader, on_step: OnStep = lambda step: None
) -> int:
    """Go on where the run was until it is over; returns how many batches are on the log that no step took.

    The caller owns the run's checkpoints (`only_learner`).
    """
    with orders_of(runtime, open_reader) as orders:
        training = begin(runtime, publisher, open_reader, orders)
        with closing(open_feed(training, runtime, publisher, open_reader)) as feed:
            train(training, feed, orders, runtime, publisher, on_step=on_step)
            return feed.lag()


def follow_on(
    runtime: Runtime,
    publisher: Publisher,
    open_reader: OpenReader,
    await_more: Callable[[], int],
    on_step: OnStep = lambda step: None,
) -> None:
    """Train a fork on what is recorded for it and on what comes, until it is over or told to stop.

    `await_more` returns how many batches there are, once there are more of them or it is told to stop. The caller owns
    the run's checkpoints.
    """
    with orders_of(runtime, open_reader) as orders:
        training = begin(runtime, publisher, open_reader, orders)
        while not (runtime.stop.is_set() or is_over(runtime.settings.learner, training.step)):
            with closing(open_feed(training, runtime, publisher, open_reader, total=await_more())) as feed:
                train(training, feed, orders, runtime, publisher, on_step=on_step)


def orders_of(runtime: Runtime, open_reader: OpenReader) -> closing[Orders]:
    """Return the commands that concern the run's learner, to be let go of at the end. Raises LogError."""
    settings = runtime.settings
    holds = settings.curriculum.enabled and settings.curriculum.hold
    gate = Gate(open_reader, settings.run) if holds else None
    return closing(Orders(open_reader, settings.run, settings.policy.name, gate=gate))


def begin(runtime: Runtime, publisher: Publisher, open_reader: OpenReader, orders: Orders) -> Training:
    """Return the training where the run was. Raises CheckpointError, LogError."""
    set_determinism(runtime.settings.learner.num_threads)
    return resume(runtime, publisher, open_reader, asked_for=orders.asked_for, held=orders.held)


def train(
    training: Training,
    feed: Feed,
    orders: Orders,
    runtime: Runtime,
    publisher: Publisher,
    *,
    on_step: OnStep = lambda step: None,
) -> None:
    """Take steps until there have been enough, until what was recorded is used up, or until told to stop."""
    settings, version_of_code = runtime.settings, code_version()
    while not runtime.stop.is_set():
        orders.poll()
        if (rollback := orders.due(training)) is not None:
            obey(training, rollback, orders, runtime, publisher)
            continue
        if is_over(settings.learner, training.step):
            return
        waiting_since_s = time.perf_counter()
        batches = await_batches(training, feed, orders, runtime, publisher)
        if not batches and feed.is_used_up and orders.due(training) is None:
            return
        if not batches:
            continue
        wait_s = time.perf_counter() - waiting_since_s
        with runtime.telemetry.busy():
            digest_in = training.weights_digest
            result = training.advance(batches, settings.learner, seed=settings.seed, on_pass=runtime.telemetry.progress)
            taken = describe_step(
                training,
                result,
                batches,
                settings,
                code_version=version_of_code,
                weights_digest_in=digest_in,
                timings_s={"wait": wait_s},
            )
            events = [step_event(publisher, taken)]
            if is_due(settings.learner, training.step):
                orders.poll()
                root, asked_for, held = checkpoints_of(runtime), orders.asked_for, orders.held
                events = save_and_name(
                    training, root, settings, publisher, before=events, asked_for=asked_for, held=held
                )
            publisher.send_all(events)
        report(runtime, feed, batches, result, version=training.step - 1, num_versions=len(events) - 1)
        on_step(training.step)


def obey(training: Training, rollback: Rollback, orders: Orders, runtime: Runtime, publisher: Publisher) -> None:
    """Take the step that goes back: a checkpoint with its events, and then those; or refuse, where it cannot be."""
    root, digest_in = checkpoints_of(runtime), training.weights_digest
    with runtime.telemetry.busy():
        try:
            restore(training, rollback.version, root, command_id=rollback.rollback_id)
        except CheckpointError as error:
            orders.refuse(rollback, error)
            return
        taken = describe_restored(training, runtime.settings, code_version=code_version(), weights_digest_in=digest_in)
        before = [step_event(publisher, taken, command_id=rollback.rollback_id)]
        asked_for, held = orders.asked_for, orders.held
        publisher.send_all(
            save_and_name(training, root, runtime.settings, publisher, before=before, asked_for=asked_for, held=held)
        )
    runtime.telemetry.events.labels("steps", "out").inc()
    runtime.telemetry.events.labels("policies", "out").inc()
    runtime.telemetry.progress(0)


def is_over(settings: LearnerSettings, step: int) -> bool:
    """Return whether all steps asked for are taken."""
    return 0 < settings.steps <= step


def await_batches(
    training: Training, feed: Feed, orders: Orders, runtime: Runtime, publisher: Publisher
) -> list[BatchEvent]:
    """Return the next step's batches, in their order; none where told to stop or go back, or where too few are left."""
    settings, version = runtime.settings, training.step
    num_tokens = vocabulary_size(training.model)
    max_staleness = None if settings.learner.offline else settings.admission.max_staleness

    def judge(event: BatchEvent) -> Fault | None:
        return orders.fault_of(event, training.restored) or fault_of(
            event.record, version=version, max_staleness=max_staleness, num_tokens=num_tokens
        )

    dropped = feed.review(judge)
    while not (runtime.stop.is_set() or feed.is_used_up):
        dropped += feed.gather(settings.learner.groups_per_step, judge)
        if orders.poll():
            dropped += feed.review(judge)
        if dropped:
            # Before the offset can move past them: no batch ends without a word.
            publisher.send_all([decision_event(publisher, one, version=version) for one in dropped])
            for one in dropped:
                runtime.telemetry.dropped.labels(one.fault.reason).inc()
            dropped = []
        if orders.due(training) is not None:
            return []
        if feed.num_ready == settings.learner.groups_per_step:
            batches = feed.take()
            training.note_taken(feed)
            runtime.telemetry.progress(len(batches))
            return batches
    return []


def fault_of(batch: Batch, *, version: int, max_staleness: int | None, num_tokens: int) -> Fault | None:
    """Return why the learner at `version` does not train on a batch, None where it does.

    `max_staleness` is None where rollouts of any age are trained on.
    """
    if max_staleness is not None and (fault := age_fault(batch, version, max_staleness)) is not None:
        return fault
    for row in batch.rows:
        token_ids = row.token_ids.unpack()
        if token_ids.min() < 0 or token_ids.max() >= num_tokens:
            detail = f"row of {row.rollout_id}: token id {token_ids.max()}, the policy has {num_tokens}"
            return Fault(reason="quarantined", detail=detail)
    return None


def age_fault(batch: Batch, version: int, max_staleness: int) -> Fault | None:
    """Return what is wrong with the age of a batch's tokens, for a learner that goes on live."""
    if batch.is_recorded:
        return Fault(reason="stale", detail="recorded by the run forked from, and the learner goes on live")
    if batch.oldest_version < version - max_staleness:
        detail = f"oldest token of version {batch.oldest_version}, learner at {version}, at most {max_staleness} behind"
        return Fault(reason="stale", detail=detail)
    if batch.newest_version > version:
        return Fault(
            reason="quarantined", detail=f"newest token of version {batch.newest_version}, learner at {version}"
        )
    return None


def open_feed(
    training: Training, runtime: Runtime, publisher: Publisher, open_reader: OpenReader, *, total: int | None = None
) -> Feed:
    """Return the feed that goes on where `training` is; `total` is how many batches a fork has by now.

    Raises LogError.
    """

    def put_aside(raw: RawRecord, error: DecodeError) -> None:
        publisher.send_all([publisher.dead_letter(raw, stage="learner", error=error)])

    if runtime.settings.learner.offline:
        return RecordedFeed.open(
            open_reader,
            run_id=runtime.settings.run,
            offsets=training.offsets,
            seen=training.seen,
            window=runtime.settings.learner.dedupe_window,
            on_undecodable=put_aside,
            total=total,
        )
    return BatchFeed.open(
        open_reader,
        run_id=runtime.settings.run,
        offsets=training.offsets,
        seen=training.seen,
        window=runtime.settings.learner.dedupe_window,
        on_undecodable=put_aside,
        scoring_id=runtime.settings.learner.scoring,
    )


def report(
    runtime: Runtime,
    feed: Feed,
    batches: list[BatchEvent],
    result: StepResult,
    *,
    version: int,
    num_versions: int,
) -> None:
    """Say what the step from `version` was like."""
    telemetry = runtime.telemetry
    telemetry.progress(0)
    telemetry.events.labels("batches", "in").inc(len(batches))
    telemetry.events.labels("steps", "out").inc()
    telemetry.events.labels("policies", "out").inc(num_versions)
    telemetry.lag.labels("batches").set(feed.lag())
    for part, seconds in result.timings_s.items():
        telemetry.seconds.labels(f"learner_{part}", "").observe(seconds)
    for domain, stats in result.by_domain.items():
        telemetry.trained_tokens.labels(domain).inc(stats.num_tokens)
    for event in batches:
        # One observation per group: per token it would cost more than the packing.
        batch = event.record
        telemetry.staleness.labels(batch.domain).observe(version - batch.oldest_version)
