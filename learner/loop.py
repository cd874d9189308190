"""The training loop: batches from the log, one step, a checkpoint, and only then the word that there is a new version.

Order of what must be durable: decisions about batches that were passed over; then the checkpoint, which holds weights,
optimizer, offsets and the step's events; then those events. Killed anywhere, it goes on as if it had not been.
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
from learner.manifest import describe_step
from learner.model import code_version, set_determinism, vocabulary_size
from learner.orders import Orders
from learner.publishing import decision_event, step_event
from learner.resuming import checkpoints_of, is_due, resume, save_and_name
from learner.step import StepResult
from learner.training import Training
from producers.publisher import Publisher
from schemas.batches import Batch
from schemas.config import LearnerSettings
from schemas.errors import DecodeError

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
    with only_learner(checkpoints_of(runtime)):
        train_on(runtime, publisher, open_reader)
        runtime.stop.wait()


def train_on(
    runtime: Runtime, publisher: Publisher, open_reader: OpenReader, on_step: OnStep = lambda step: None
) -> int:
    """Go on where the run was until it is over; returns how many batches are on the log that no step took.

    The caller owns the run's checkpoints (`only_learner`).
    """
    set_determinism(runtime.settings.learner.num_threads)
    training = resume(runtime, publisher, open_reader)
    feed = open_feed(training, runtime, publisher, open_reader)
    with closing(feed), closing(Orders(open_reader, runtime.settings.run)) as orders:
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
    set_determinism(runtime.settings.learner.num_threads)
    training = resume(runtime, publisher, open_reader)
    while not (runtime.stop.is_set() or is_over(runtime.settings.learner, training.step)):
        feed = open_feed(training, runtime, publisher, open_reader, total=await_more())
        try:
            train(training, feed, runtime, publisher, on_step)
        finally:
            feed.close()


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
    while not is_over(settings.learner, training.step):
        waiting_since_s = time.perf_counter()
        batches = await_batches(training, feed, orders, runtime, publisher)
        if not batches:
            return
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
                events = save_and_name(training, checkpoints_of(runtime), settings, publisher, before=events)
            publisher.send_all(events)
        report(runtime, feed, batches, result, version=training.step - 1, num_versions=len(events) - 1)
        on_step(training.step)


def is_over(settings: LearnerSettings, step: int) -> bool:
    """Return whether all steps asked for are taken."""
    return 0 < settings.steps <= step


def await_batches(
    training: Training, feed: Feed, orders: Orders, runtime: Runtime, publisher: Publisher
) -> list[BatchEvent]:
    """Return the next step's batches, in their order; none where told to stop, or where too few are left."""
    settings, version = runtime.settings, training.step
    num_tokens = vocabulary_size(training.model)
    max_staleness = None if settings.learner.offline else settings.admission.max_staleness

    def judge(event: BatchEvent) -> Fault | None:
        return orders.fault_of(event) or fault_of(
            event.record, version=version, max_staleness=max_staleness, num_tokens=num_tokens
        )

    while not (runtime.stop.is_set() or feed.is_used_up):
        dropped = feed.gather(settings.learner.groups_per_step, judge)
        if orders.poll():
            dropped += feed.review(judge)
        if dropped:
            # Before the offset can move past them: no batch ends without a word.
            publisher.send_all([decision_event(publisher, one, version=version) for one in dropped])
            for one in dropped:
                runtime.telemetry.dropped.labels(one.fault.reason).inc()
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
    for event in batches:
        # One observation per group: per token it would cost more than the packing.
        batch = event.record
        telemetry.staleness.labels(batch.domain).observe(version - batch.oldest_version)
