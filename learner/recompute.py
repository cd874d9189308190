"""A step taken again from its manifest and the log, and what came out compared with what the log says came out.

It starts from the nearest checkpoint before the step and goes through the steps between by their manifests. On the same
kernels every figure must be equal to the bit; elsewhere within `TOLERANCE`, and the report says which it was.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import safetensors.torch
import torch

from consumers.feed import BatchEvent, OpenReader, fetch_batches
from learner.checkpoint import WEIGHTS_FILE, folder_of, list_steps, read_file, read_state
from learner.manifest import ref_of, settings_of
from learner.model import describe_kernels, set_determinism
from learner.restoring import OldVersions, compare_restored
from learner.resuming import read_published
from learner.step import StepResult
from learner.training import Training
from schemas.batches import Batch
from schemas.errors import CheckpointError, DivergenceError, LogError
from schemas.ids import digest_of
from schemas.steps import StepTaken

TOLERANCE = 1e-3
"""Relative difference allowed on other kernels: of loss and gradient norm (beside 1 where they are small), and of the
weights in the Euclidean norm."""
ADVANTAGE_TOLERANCE = 1e-6
"""Between a batch's advantage and its reward minus the group's mean; the order of summation is the assembler's."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that did not come out as recorded."""

    step: int
    what: str
    """`batch tasks..`, `advantage ..`, `weights_digest_in`, `loss`, `grad_norm`, `weights_digest_out` and the like."""
    recorded: str
    found: str


class RecomputeReport(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a step came out again as the log has it."""

    step: int
    match: bool
    bitwise: bool
    """Whether equality to the bit was asked for: the kernels are those of the step."""
    tolerance: float
    """0 where `bitwise`."""
    started_from: int
    """Step of the checkpoint that it started from."""
    num_steps: int
    """Steps taken again, the last of them `step`."""
    num_batches: int
    weights_digest: str
    kernels_recorded: str
    kernels_here: str
    differences: tuple[Difference, ...]
    """In the order in which they appear; the first one is where to look."""


def recompute(open_reader: OpenReader, run_dir: Path, *, run_id: str, step: int) -> RecomputeReport:
    """Take step number `step` of the run again, reading through `open_reader`.

    Raises LogError, CheckpointError where that cannot be done.
    """
    root = run_dir / "checkpoints"
    recorded = read_published(open_reader, run_id).steps
    before = [kept for kept in list_steps(root) if kept < step]
    if step not in recorded:
        known = f"{min(recorded)} to {max(recorded)}" if recorded else "none"
        raise LogError(f"no step {step} of run {run_id!r} on the log; there are {known}")
    if not before:
        raise CheckpointError(f"{root}: no checkpoint before step {step}; wanted one to start from")
    set_determinism(settings_of(recorded[step]).num_threads)
    training, _ = Training.from_checkpoint(folder_of(root, before[-1]))
    bitwise = all(recorded[s].kernels == describe_kernels() for s in range(before[-1] + 1, step + 1) if s in recorded)
    differences: list[Difference] = []
    old = OldVersions(root, {s.restored_from for s in recorded.values() if s.restored_from is not None})
    for number in range(before[-1] + 1, step + 1):
        if number not in recorded:
            raise LogError(f"step {number} of run {run_id!r} is not on the log; it is needed to get to step {step}")
        old.note(training)
        differences += again(training, recorded[number], open_reader, old, bitwise=bitwise)
        if training.step != number:
            break
    if not bitwise and training.step == step:
        differences += compare_weights(training, root, step)
    last = recorded[step]
    return RecomputeReport(
        step=step,
        match=not differences,
        bitwise=bitwise,
        tolerance=0.0 if bitwise else TOLERANCE,
        started_from=before[-1],
        num_steps=training.step - before[-1],
        num_batches=len(last.batches),
        weights_digest=training.weights_digest,
        kernels_recorded=last.kernels,
        kernels_here=describe_kernels(),
        differences=tuple(differences),
    )


def again(
    training: Training, step: StepTaken, open_reader: OpenReader, old: OldVersions, *, bitwise: bool
) -> list[Difference]:
    """Take a step again; returns what differs. Where it cannot be taken, `training` stays where it was."""

    def differ(what: str, recorded: object, found: object) -> Difference:
        return Difference(step=step.step, what=what, recorded=str(recorded), found=str(found))

    if step.restored_from is not None:
        starts = training.weights_digest
        try:
            old.restore(training, step)
        except CheckpointError as error:
            return [differ("restored_from", step.restored_from, error)]
        found = [differ(*what) for what in compare_restored(training, step, bitwise=bitwise)]
        if bitwise and starts != step.weights_digest_in:
            found.insert(0, differ("weights_digest_in", step.weights_digest_in, starts))
        return found
    try:
        batches = fetch_batches(open_reader, step.batches)
    except LogError as error:
        return [differ("batches", f"{len(step.batches)} batches", error)]
    found = [differ(what, recorded, got) for what, recorded, got in compare_batches(step, batches)]
    if digest_of(step.config.encode()) != step.config_digest:
        found.append(differ("config_digest", step.config_digest, digest_of(step.config.encode())))
    if bitwise and training.weights_digest != step.weights_digest_in:
        found.append(differ("weights_digest_in", step.weights_digest_in, training.weights_digest))
    try:
        result = training.advance(batches, settings_of(step), seed=step.seed)
    except DivergenceError as error:
        return [*found, differ("update", "a finite one", error)]
    outcome = compare_exactly(training, step, result) if bitwise else compare_nearly(step, result)
    return found + [differ(what, recorded, got) for what, recorded, got in outcome]


def compare_batches(step: StepTaken, batches: list[BatchEvent]) -> Iterator[tuple[str, object, object]]:
    """Yield where the batches are not those of the manifest, and where advantages do not follow from rewards."""
    for ref, event in zip(step.batches, batches, strict=True):
        here = ref_of(event)
        if here.event_id != ref.event_id:
            yield f"batch {event.position} event_id", ref.event_id, here.event_id
        if here.digest != ref.digest:
            yield f"batch {event.position} digest", ref.digest, here.digest
        for index, wanted in enumerate(advantages_of(event.record)):
            row = event.record.rows[index]
            if not abs(row.advantage - wanted) <= ADVANTAGE_TOLERANCE:
                yield f"batch {event.position} advantage of {row.rollout_id}", row.advantage, wanted


def advantages_of(batch: Batch) -> list[float]:
    """Return each row's reward minus the mean of the group's."""
    rewards = np.array([row.reward for row in batch.rows], np.float64)
    return [float(value) for value in rewards - rewards.mean()]


def compare_exactly(training: Training, step: StepTaken, result: StepResult) -> Iterator[tuple[str, object, object]]:
    """Yield every figure that is not equal to the bit."""
    pairs: dict[str, tuple[object, object]] = {
        "loss": (step.loss, result.loss),
        "grad_norm": (step.grad_norm, result.grad_norm),
        "learning_rate": (step.learning_rate, result.learning_rate),
        "num_padding": (step.num_padding, result.num_padding),
        "stats": (step.stats, result.stats),
        "by_domain": (step.by_domain, result.by_domain),
        "weights_digest_out": (step.weights_digest_out, training.weights_digest),
        "optimizer_digest_out": (step.optimizer_digest_out, training.optimizer_digest),
    }
    return ((what, recorded, found) for what, (recorded, found) in pairs.items() if recorded != found)


def compare_nearly(step: StepTaken, result: StepResult) -> Iterator[tuple[str, object, object]]:
    """Yield the figures that are further apart than the tolerance."""
    pairs = {"loss": (step.loss, result.loss), "grad_norm": (step.grad_norm, result.grad_norm)}
    for what, (recorded, found) in pairs.items():
        if not abs(recorded - found) <= TOLERANCE * max(abs(recorded), 1.0):
            yield what, recorded, found


def compare_weights(training: Training, root: Path, step: int) -> list[Difference]:
    """Return whether the weights are too far from those that were kept; nothing where that step's were not."""
    folder = folder_of(root, step)
    if step not in list_steps(root):
        return []
    kept = safetensors.torch.load(read_file(folder, WEIGHTS_FILE, read_state(folder)))
    found = safetensors.torch.load(training.weights)
    distance = torch.stack([(found[name] - kept[name]).double().norm() for name in kept]).norm()
    size = torch.stack([kept[name].double().norm() for name in kept]).norm()
    relative = float(distance / size)
    if relative <= TOLERANCE:
        return []
    return [Difference(step=step, what="weights", recorded=f"at most {TOLERANCE} apart", found=f"{relative:.3g} apart")]
