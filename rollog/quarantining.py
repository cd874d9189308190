"""What a quarantine would mean: which rollouts, what they are in, which steps trained on that, what descends from it.

The order of looking decides what may be missed. The ends of `batches` are captured first, and history after them, so
that of each batch before those ends all causes are read; whatever is assembled later is for assembler and learner.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from consumers.bounds import Bounds, read_state
from consumers.commands import read_recalls
from consumers.history.ranges import SLACK_S, Span, find_range
from consumers.history.reader import TOPICS, History
from consumers.history.rollouts import Rollouts
from consumers.offsets import Start
from consumers.reader import Reader
from learner.checkpoint import folder_of, list_steps, verify_checkpoint
from producers.admission import batch_id
from rollog.selection import Options
from schemas.batches import Batch
from schemas.config import LogSettings, Settings
from schemas.errors import CheckpointError
from schemas.recalls import Recalls, quarantine_id
from schemas.scorings import LIVE
from schemas.selections import Selection
from schemas.steps import StepTaken
from schemas.tasks import TaskIssued
from streams.rescoring.declared import read_declared

OnProgress = Callable[[int, int], None]
PROGRESS_EVERY = 5_000
MOST_SHOWN = 100
"""Steps and versions that are named; all are counted."""


class DomainFound(msgspec.Struct, kw_only=True):
    """What of one domain is meant."""

    rollouts: int = 0
    groups: int = 0


class QuarantineReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a quarantine is about, and what has come of it so far."""

    run: str
    selection: str
    quarantine_id: str
    applied: bool = False
    is_open: bool
    """Whether it holds for tasks to come too."""
    rollouts: int
    groups: int
    by_domain: dict[str, DomainFound]
    batches_trained: int
    batches_gone: int
    """Of those, what retention removed: whether it held such rollouts can't be seen, only that their groups were it."""
    batches_passed_over: int
    batches_waiting: int
    num_steps: int
    steps: tuple[int, ...]
    """That trained on them: the first of them."""
    num_versions: int
    versions: tuple[int, ...]
    """Policy versions that descend from those steps: the first of them."""
    newest_version: int
    newest_is_clean: bool
    last_clean_checkpoint: int | None
    """Newest version that is kept, verifies and does not descend from such a step."""
    broken_checkpoints: tuple[str, ...] = ()
    rollback: str = ""
    """The command that goes back there, where there is need to."""


class Scan(msgspec.Struct, kw_only=True):
    """What was found, with what the command needs."""

    report: QuarantineReport
    recalls: Recalls
    waiting: frozenset[str]
    batch_ends: dict[int, int]


def scan(
    settings: Settings,
    selection: Selection,
    *,
    blob_dir: Path,
    run_dir: Path,
    on_progress: OnProgress = lambda done, total: None,
) -> Scan:
    """Look for all that a selection means in a run. Raises LogError, ConfigError."""
    log, run_id = settings.log, settings.run
    bounds = read_state(log).bounds
    ends = {partition: end for (topic, partition), (_, end) in bounds.items() if topic == "batches"}
    recalls = read_recalls(partial(Reader, log, blob_dir=blob_dir))
    matched, by_domain = find_rollouts(log, selection, run_id, blob_dir=blob_dir, on_progress=on_progress)
    read = partial(records, log, blob_dir=blob_dir)
    since: Start = "beginning" if selection.since_s is None else max(0.0, selection.since_s - SLACK_S)
    holding = {
        event.id
        for event in read("batches", since)
        if holds_any(event.record, matched, run_id) and is_before(event, ends)
    }
    steps = {event.record.step: event.record for event in read("steps", "beginning") if event.record.run_id == run_id}
    gone = gone_batches(log, matched, bounds, blob_dir=blob_dir)
    trained = {ref.event_id for step in steps.values() for ref in step.batches}
    waiting = holding - trained
    if waiting:
        passed = {e.record.batch_id for e in read("decisions", since) if e.record.stage == "learner"}
        passed_over, waiting = waiting & passed, waiting - passed
    else:
        passed_over = set()
    bad_steps = {n for n, step in steps.items() if any(ref.event_id in holding | gone for ref in step.batches)}
    descending = descendants(steps, bad_steps)
    clean, broken = last_clean(run_dir / "checkpoints", {0, *steps} - descending)
    newest = max(steps, default=0)
    report = QuarantineReport(
        run=run_id,
        selection=selection.text,
        quarantine_id=quarantine_id(run_id, selection, commands_end=recalls.end),
        is_open=selection.until_s is None,
        rollouts=sum(found.rollouts for found in by_domain.values()),
        groups=len(matched),
        by_domain=by_domain,
        batches_trained=len((holding | gone) & trained),
        batches_gone=len((gone - holding) & trained),
        batches_passed_over=len(passed_over),
        batches_waiting=len(waiting),
        num_steps=len(bad_steps),
        steps=tuple(sorted(bad_steps)[:MOST_SHOWN]),
        num_versions=len(descending),
        versions=tuple(sorted(descending)[:MOST_SHOWN]),
        newest_version=newest,
        newest_is_clean=newest not in descending,
        last_clean_checkpoint=clean,
        broken_checkpoints=broken,
        rollback=""
        if newest not in descending or clean is None
        else f"rollog rollback {settings.policy.name} {clean} --run {run_id} --apply",
    )
    return Scan(report=report, recalls=recalls, waiting=frozenset(waiting), batch_ends=ends)


def find_rollouts(
    log: LogSettings, selection: Selection, run_id: str, *, blob_dir: Path, on_progress: OnProgress
) -> tuple[dict[str, int], dict[str, DomainFound]]:
    """Return the samples that are meant, as bits by task, and how many by domain. Raises LogError."""
    options = Options(**{name: getattr(selection, name) for name in Selection.__struct_fields__})
    found = find_range(log, TOPICS, Span(since_s=selection.since_s, until_s=selection.until_s))
    total = found.num_records(found.partitions)
    matched: dict[str, int] = {}
    by_domain: dict[str, DomainFound] = defaultdict(DomainFound)
    history = History(log, blob_dir=blob_dir, whole=options.reads)

    def wants(task: TaskIssued, time_ms: int) -> bool:
        return task.run_id == run_id and task.split == "train" and options.wants_task(task, time_ms)

    def take(rollouts: Rollouts) -> None:
        for finished in rollouts.finished:
            task = finished.group.task
            if task is None or not options.wants(finished):
                continue
            domain = by_domain[task.domain]
            domain.groups += task.task_id not in matched
            domain.rollouts += 1
            matched[task.task_id] = matched.get(task.task_id, 0) | 1 << finished.sample
        rollouts.finished.clear()
        rollouts.closed.clear()

    try:
        for partition in found.partitions:
            rollouts = Rollouts(wants=wants, waits_for_rewards=options.needs_reward)
            for number, _ in enumerate(history.read(partition, found, rollouts)):
                take(rollouts)
                if number % PROGRESS_EVERY == 0:
                    on_progress(history.num_read, total)
            rollouts.end()
            take(rollouts)
    finally:
        history.close()
    on_progress(total, total)
    return matched, dict(sorted(by_domain.items()))


def records(log: LogSettings, topic: str, start: Start, *, blob_dir: Path) -> Iterator[Any]:
    """Yield a topic's events up to its present end; what is none is passed over. Raises LogError."""
    reader = Reader(
        log, [topic], blob_dir=blob_dir, start=start, bounded=True, dedupe=0, on_undecodable=lambda _raw, _error: None
    )
    try:
        yield from reader
    finally:
        reader.close()


def holds_any(batch: Batch, matched: dict[str, int], run_id: str) -> bool:
    """Return whether a batch of the run holds a rollout that is meant."""
    bits = matched.get(batch.task_id, 0)
    return batch.run_id == run_id and any(bits >> row.sample & 1 for row in batch.rows)


def is_before(event: Any, ends: dict[int, int]) -> bool:
    """Return whether an event stands before the ends that were captured."""
    return bool(event.position.offset < ends.get(event.position.partition, 0))


def gone_batches(log: LogSettings, matched: dict[str, int], bounds: Bounds, *, blob_dir: Path) -> set[str]:
    """Return the ids of batches that the groups had or may have had, where retention has removed batches."""
    if not any(first for (topic, _), (first, _) in bounds.items() if topic == "batches"):
        return set()
    present = {event.id for event in records(log, "batches", "beginning", blob_dir=blob_dir)}
    scorings = (LIVE, *read_declared(log, blob_dir=blob_dir))
    return {name for task in matched for scoring in scorings if (name := batch_id(task, scoring)) not in present}


def descendants(steps: dict[int, StepTaken], bad: Collection[int]) -> set[int]:
    """Return the versions that a bad step made, and all that were made from such."""
    found: set[int] = set()
    for number in sorted(steps):
        if number in bad or parent_of(steps[number]) in found:
            found.add(number)
    return found


def parent_of(step: StepTaken) -> int:
    """Return the version whose weights a step went on from."""
    return step.policy_version_in if step.restored_from is None else step.restored_from


def last_clean(root: Path, clean: Collection[int]) -> tuple[int | None, tuple[str, ...]]:
    """Return the newest of the clean versions that is kept and verifies, and what is wrong with newer ones that aren't.

    What is made while one looks is not known to be clean.
    """
    broken: list[str] = []
    for version in reversed(list_steps(root)):
        if version not in clean:
            continue
        try:
            verify_checkpoint(folder_of(root, version))
        except CheckpointError as error:
            broken.append(str(error))
            continue
        return version, tuple(broken)
    return None, tuple(broken)
