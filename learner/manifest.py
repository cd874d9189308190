"""StepTaken as a manifest: what a step was made of, and the settings to make it again with."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from consumers.feed import BatchEvent, place_of
from learner.model import describe_kernels
from learner.step import StepResult
from learner.training import Training
from schemas.config import LearnerSettings, Settings
from schemas.content import record_digest
from schemas.errors import DecodeError
from schemas.ids import digest_of
from schemas.policies import PolicyPublished
from schemas.steps import BatchRef, ObjectiveStats, StepTaken

NOTHING = ObjectiveStats(
    num_tokens=0,
    num_rows=0,
    reward_mean=0.0,
    ess=1.0,
    mismatch_kl=0.0,
    ratio_max=1.0,
    clipped_fraction=0.0,
    masked_fraction=0.0,
    staleness_mean=0.0,
    staleness_max=0,
)
"""Of a step that trained on no token."""


def ref_of(event: BatchEvent) -> BatchRef:
    """Return where a batch stands and what it is."""
    partition, offset = place_of(event)
    digest = record_digest(event.record)
    return BatchRef(topic="batches", partition=partition, offset=offset, event_id=event.id, digest=digest)


def describe_step(
    training: Training,
    result: StepResult,
    batches: Sequence[BatchEvent],
    settings: Settings,
    *,
    code_version: str,
    weights_digest_in: str,
    timings_s: dict[str, float],
) -> StepTaken:
    """Return the manifest of the step that `training` took last."""
    config = msgspec.json.encode(settings.learner)
    return StepTaken(
        run_id=settings.run,
        policy=settings.policy.name,
        step=training.step,
        batches=tuple(ref_of(event) for event in batches),
        policy_version_in=training.step - 1,
        policy_version_out=training.step,
        weights_digest_in=weights_digest_in,
        weights_digest_out=training.weights_digest,
        optimizer_digest_out=training.optimizer_digest,
        config=config.decode(),
        config_digest=digest_of(config),
        code_version=code_version,
        kernels=describe_kernels(),
        seed=settings.seed,
        loss=result.loss,
        grad_norm=result.grad_norm,
        learning_rate=result.learning_rate,
        stats=result.stats,
        by_domain=result.by_domain,
        num_padding=result.num_padding,
        timings_s=timings_s | result.timings_s,
    )


def describe_restored(
    training: Training, settings: Settings, *, code_version: str, weights_digest_in: str
) -> StepTaken:
    """Return the manifest of the step by which `training` went back to an older version."""
    config = msgspec.json.encode(settings.learner)
    return StepTaken(
        run_id=settings.run,
        policy=settings.policy.name,
        step=training.step,
        batches=(),
        policy_version_in=training.step - 1,
        policy_version_out=training.step,
        weights_digest_in=weights_digest_in,
        weights_digest_out=training.weights_digest,
        optimizer_digest_out=training.optimizer_digest,
        config=config.decode(),
        config_digest=digest_of(config),
        code_version=code_version,
        kernels=describe_kernels(),
        seed=settings.seed,
        loss=0.0,
        grad_norm=0.0,
        learning_rate=0.0,
        stats=NOTHING,
        restored_from=training.restored[-1].version,
    )


def describe_policy(training: Training, folder: Path, settings: Settings, *, held: str = "") -> PolicyPublished:
    """Return the version that `folder` holds or is about to hold."""
    return PolicyPublished(
        policy=settings.policy.name,
        version=training.step,
        parent=training.parent,
        run_id=settings.run,
        step=training.step,
        address=str(folder.resolve()),
        digest=training.weights_digest,
        num_bytes=len(training.weights),
        held=held,
    )


def settings_of(step: StepTaken) -> LearnerSettings:
    """Return the learner's settings that a step was taken with. Raises DecodeError."""
    try:
        return msgspec.json.decode(step.config, type=LearnerSettings)
    except msgspec.DecodeError as error:
        raise DecodeError(f"step {step.step}: its settings cannot be read by this version: {error}") from error
