"""A checkpoint of one run as the beginning of another: the same bytes under another name, with nothing behind them."""

from pathlib import Path

from learner.checkpoint import (
    WEIGHTS_FILE,
    LearnerState,
    folder_of,
    list_steps,
    only_learner,
    read_file,
    read_state,
    verify_checkpoint,
    write_checkpoint,
)
from learner.publishing import policy_event, put_aside
from producers.publisher import Publisher
from schemas.config import Settings
from schemas.errors import CheckpointError
from schemas.policies import PolicyPublished


def source_checkpoint(root: Path, run_id: str, step: int) -> LearnerState:
    """Return the state of a run's checkpoint, all its files compared with their digests. Raises CheckpointError."""
    kept = list_steps(root)
    if step not in kept:
        known = ", ".join(map(str, kept)) or "none"
        raise CheckpointError(f"{root}: no checkpoint of step {step} is kept; there are those of steps {known}")
    state = verify_checkpoint(folder_of(root, step))
    if state.run_id != run_id:
        raise CheckpointError(f"{folder_of(root, step)}: of run {state.run_id!r}, wanted {run_id!r}")
    return state


def copy_checkpoint(source: Path, root: Path, settings: Settings, *, step: int, publisher: Publisher) -> bool:
    """Make the checkpoint the first of the run that the settings name; returns False where it is there already.

    Its only event, that there is this version, is still to be published. Raises CheckpointError.
    """
    with only_learner(root):
        state = source_checkpoint(source, read_state(folder_of(source, step)).run_id, step)
        target = folder_of(root, step)
        kept = list_steps(root)
        if kept and kept[0] != step:
            raise CheckpointError(f"{root}: has a checkpoint of step {kept[0]}, so it is not a fork at step {step}")
        if kept:
            if verify_checkpoint(target).digests != state.digests:
                raise CheckpointError(f"{target}: is not a copy of {folder_of(source, step)}; choose another --as")
            return False
        files = {name: read_file(folder_of(source, step), name, state) for name in state.digests}
        policy = PolicyPublished(
            policy=settings.policy.name,
            version=step,
            parent=None,
            run_id=settings.run,
            step=step,
            address=str(target.resolve()),
            digest=state.digests[WEIGHTS_FILE],
            num_bytes=len(files[WEIGHTS_FILE]),
        )
        begun = LearnerState(
            run_id=settings.run,
            policy=settings.policy.name,
            step=step,
            seed=settings.seed,
            offsets={},
            seen=(),
            pending=(put_aside(policy_event(publisher, policy)),),
            digests={},
        )
        write_checkpoint(root, begun, files)
    return True
