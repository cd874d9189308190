"""What going back to an older version of a policy would mean, and whether it can be done."""

from functools import partial
from pathlib import Path

import msgspec

from consumers.commands import read_recalls
from consumers.reader import Reader
from learner.checkpoint import LearnerState, folder_of, list_steps, verify_checkpoint
from rollog.quarantining import records
from schemas.config import Settings
from schemas.errors import CheckpointError, ConfigError, LogError
from schemas.policies import PolicyPublished
from schemas.recalls import rollback_id


class RollbackReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a rollback is about."""

    run: str
    policy: str
    version: int
    """That comes back."""
    newest_version: int
    becomes: int
    """The version that the old weights are published as, where no step is taken meanwhile."""
    digest: str
    rollback_id: str
    versions_rolled_back: int
    """What they drew trains no longer."""
    batches_rolled_back: int
    """That the steps between were taken on."""
    applied: bool = False


def plan_rollback(settings: Settings, policy: str, version: int, *, blob_dir: Path, run_dir: Path) -> RollbackReport:
    """Return what it means. Raises ConfigError, CheckpointError or LogError where it cannot be done."""
    log, run_id = settings.log, settings.run
    if policy != settings.policy.name:
        raise ConfigError(f"policy {policy!r}: run {run_id!r} trains {settings.policy.name!r}; name another --run")
    published = {
        event.record.version: event.record
        for event in records(log, "policies", "beginning", blob_dir=blob_dir)
        if isinstance(event.record, PolicyPublished) and (event.record.run_id, event.record.policy) == (run_id, policy)
    }
    if not published:
        raise LogError(f"run {run_id!r} has published no version of {policy!r}")
    if version not in published:
        raise ConfigError(f"version {version} of {policy!r} was never published; there are {span_of(published)}")
    steps = {
        event.record.step: (event.record, event.causation_id)
        for event in records(log, "steps", "beginning", blob_dir=blob_dir)
        if event.record.run_id == run_id
    }
    newest = max([*steps, *published])
    if version == newest:
        raise ConfigError(f"version {version} of {policy!r} is the newest: there is nothing to go back from")
    check_kept(run_dir / "checkpoints", version, published[version].digest)
    name = rollback_id(run_id, policy, version, at=newest)
    check_waiting(settings, {cause for _, cause in steps.values()}, blob_dir=blob_dir)
    return RollbackReport(
        run=run_id,
        policy=policy,
        version=version,
        newest_version=newest,
        becomes=newest + 1,
        digest=published[version].digest,
        rollback_id=name,
        versions_rolled_back=newest - version,
        batches_rolled_back=sum(len(step.batches) for number, (step, _) in steps.items() if number > version),
    )


def check_kept(root: Path, version: int, digest: str) -> LearnerState:
    """Return the state of a version's checkpoint. Raises CheckpointError that names those that are kept."""
    kept = list_steps(root)
    shown = f"kept are: {', '.join(map(str, kept)) or 'none'}"
    if version not in kept:
        raise CheckpointError(f"{root}: no checkpoint of version {version} is kept; {shown}")
    try:
        state = verify_checkpoint(folder_of(root, version))
    except CheckpointError as error:
        raise CheckpointError(f"{error}; {shown}") from error
    if digest not in state.digests.values():
        raise CheckpointError(
            f"{folder_of(root, version)}: holds other weights than version {version} on the log, {digest}; {shown}"
        )
    return state


def check_waiting(settings: Settings, obeyed: set[str], *, blob_dir: Path) -> None:
    """Raise ConfigError where another rollback of the policy waits to be obeyed."""
    recalls = read_recalls(partial(Reader, settings.log, blob_dir=blob_dir))
    for given in recalls.rollbacks.values():
        ours = (given.run_id, given.policy) == (settings.run, settings.policy.name)
        if ours and given.rollback_id not in obeyed:
            raise ConfigError(
                f"rollback {given.rollback_id} to version {given.version} was given at step {given.at} and not obeyed "
                "yet: the learner does so between two steps; start it, or see its log for why it refused"
            )


def span_of(published: dict[int, PolicyPublished]) -> str:
    """Return which versions there are."""
    return f"{min(published)} to {max(published)}"
