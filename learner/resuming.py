"""Where the learner goes on: from its last checkpoint, through the steps that the log has beyond it.

A step's event may be older than the next checkpoint (`checkpoint_every` above 1). What is on the log is a fact: those
steps are done again, by their manifests, and must come out as they did.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consumers.feed import OpenReader, fetch_batches
from consumers.runtime import Runtime
from learner.checkpoint import Restored, folder_of, list_steps, prune
from learner.manifest import describe_policy, ref_of, settings_of
from learner.publishing import policy_event, publish_missing, put_aside, step_id, take_up
from learner.training import Training, newest
from producers.publisher import Publisher
from schemas.config import LearnerSettings, Settings
from schemas.errors import CheckpointError
from schemas.events import Event
from schemas.steps import StepTaken


@dataclass
class Published:
    """What the log has of this run's learner."""

    ids: set[str] = field(default_factory=set)
    steps: dict[int, StepTaken] = field(default_factory=dict)
    causes: dict[int, str] = field(default_factory=dict)
    """By step: the command that asked for it, if one did."""


def read_published(open_reader: OpenReader, run_id: str) -> Published:
    """Read the steps and policy versions that are on the log. Raises LogError."""
    published = Published()
    reader = open_reader(
        ["steps", "policies"], start="beginning", bounded=True, on_undecodable=lambda _raw, _error: None
    )
    try:
        for event in reader:
            published.ids.add(event.id)
            record = event.record
            if isinstance(record, StepTaken) and event.id == step_id(run_id, record.step):
                published.steps.setdefault(record.step, record)
                published.causes.setdefault(record.step, event.causation_id)
    finally:
        reader.close()
    return published


def checkpoints_of(runtime: Runtime) -> Path:
    """Return where this run's checkpoints are."""
    return runtime.run_dir / "checkpoints"


def is_due(settings: LearnerSettings, step: int) -> bool:
    """Return whether a checkpoint, and so a policy version, follows this step."""
    return step % settings.checkpoint_every == 0 or step == settings.steps


def resume(
    runtime: Runtime, publisher: Publisher, open_reader: OpenReader, *, asked_for: Collection[int] = (), held: str = ""
) -> Training:
    """Return the training as the log and the last checkpoint have it, with all its events on the log.

    Raises CheckpointError, LogError.
    """
    root, settings = checkpoints_of(runtime), runtime.settings
    if newest(root) is None:
        start(root, settings, publisher)
    folder = newest(root)
    assert folder is not None
    training, state = Training.from_checkpoint(folder)
    if (state.run_id, state.policy) != (settings.run, settings.policy.name):
        raise CheckpointError(
            f"{folder}: of run {state.run_id!r} and policy {state.policy!r}, wanted {settings.run!r} and "
            f"{settings.policy.name!r}; choose another run"
        )
    published = read_published(open_reader, settings.run)
    publish_missing(publisher, [take_up(pending) for pending in state.pending], present=published.ids)
    while training.step + 1 in published.steps and not runtime.stop.is_set():
        step = published.steps[training.step + 1]
        repeat(training, step, runtime, open_reader, command_id=published.causes[step.step])
        if is_due(settings.learner, training.step) or step.restored_from is not None:
            events = save_and_name(training, root, settings, publisher, before=[], asked_for=asked_for, held=held)
            publish_missing(publisher, events, present=published.ids)
        runtime.telemetry.progress()
    beyond = [step for step in published.steps if step > training.step]
    if beyond and not runtime.stop.is_set():
        raise CheckpointError(
            f"the log has step {min(beyond)} of run {settings.run!r}, but not step {training.step + 1}; wanted all "
            f"steps after {folder.name}: bring its later checkpoints back, or choose another run"
        )
    return training


def start(root: Path, settings: Settings, publisher: Publisher) -> None:
    """Make the base version 0: checkpoint 0, whose only event is still to be published."""
    training = Training.from_base(Path(settings.policy.base), seed=settings.seed)
    save_and_name(training, root, settings, publisher, before=[])


def save_and_name(
    training: Training,
    root: Path,
    settings: Settings,
    publisher: Publisher,
    *,
    before: list[Event[Any]],
    asked_for: Collection[int] = (),
    held: str = "",
) -> list[Event[Any]]:
    """Make a checkpoint durable that holds the events `before` and its own policy version; returns those to publish.

    Of older checkpoints those that are `asked_for` are kept, whatever the rule. `held` says why the version is for
    training alone.
    """
    policy = describe_policy(training, folder_of(root, training.step), settings, held=held)
    events = [*before, policy_event(publisher, policy)]
    pending = [put_aside(event) for event in events]
    training.save(root, run_id=settings.run, policy=settings.policy.name, seed=settings.seed, pending=pending)
    also = {restored.version for restored in training.restored} | set(asked_for)
    prune(root, keep_last=settings.learner.keep_last, keep_every=settings.learner.keep_every, also=also)
    return events


def repeat(
    training: Training, step: StepTaken, runtime: Runtime, open_reader: OpenReader, *, command_id: str = ""
) -> None:
    """Take a step again as its manifest says. Raises CheckpointError where it does not come out the same."""
    if step.restored_from is not None:
        restore(training, step.restored_from, checkpoints_of(runtime), command_id=command_id)
        check_weights(training, step)
        return
    batches = fetch_batches(open_reader, step.batches)
    for ref, event in zip(step.batches, batches, strict=True):
        if ref_of(event) != ref:
            raise CheckpointError(f"step {step.step}: {event.position} is {ref_of(event)}, wanted {ref}")
    settings = settings_of(step)
    with runtime.telemetry.busy():
        training.advance(batches, settings, seed=step.seed, on_pass=runtime.telemetry.progress)
    training.note_manifest(step.batches, window=settings.dedupe_window)
    check_weights(training, step)


def restore(training: Training, version: int, root: Path, *, command_id: str) -> None:
    """Take the step that goes back to a version's checkpoint. Raises CheckpointError, and changes nothing then."""
    if version not in list_steps(root):
        kept = ", ".join(map(str, list_steps(root)))
        raise CheckpointError(f"{root}: no checkpoint of version {version} to go back to; kept are: {kept}")
    other, _ = Training.from_checkpoint(folder_of(root, version))
    training.restore(other, Restored(step=training.step + 1, version=version, rollback_id=command_id))


def check_weights(training: Training, step: StepTaken) -> None:
    """Raise CheckpointError where a step that was done again did not come out as it did."""
    wanted, got = step.weights_digest_out, training.weights_digest
    if got != wanted:
        raise CheckpointError(
            f"step {step.step} done again gives weights {got}, wanted {wanted} as on the log; resume on a machine with "
            f"{step.kernels}, or choose another run"
        )
