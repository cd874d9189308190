"""Steps that went back, taken again.

The older version's weights and optimizer come from its checkpoint, or are kept while the pass comes by that version.
"""

import copy
from collections.abc import Collection, Iterator
from pathlib import Path

from torch import nn

from learner.checkpoint import Restored, folder_of, list_steps
from learner.optimizer import restore_optimizer
from learner.training import Training
from schemas.errors import CheckpointError
from schemas.steps import StepTaken


class OldVersions:
    """Versions that a pass over steps will go back to."""

    def __init__(self, root: Path, wanted: Collection[int]) -> None:
        """`wanted` are the versions that some step restored."""
        self._root, self._wanted = root, frozenset(wanted)
        self._kept: dict[int, tuple[nn.Module, bytes]] = {}
        """Model, and optimizer with random-number state, as bytes."""

    def note(self, training: Training) -> None:
        """Keep the training as it is now, if a later step goes back to it and its checkpoint is gone."""
        if training.step in self._wanted and training.step not in list_steps(self._root):
            self._kept[training.step] = (copy.deepcopy(training.model), training.optimizer_state)

    def restore(self, training: Training, step: StepTaken) -> None:
        """Take the step. Raises CheckpointError, and changes nothing, where the version cannot be had."""
        version = step.restored_from
        assert version is not None
        if version in list_steps(self._root):
            other, _ = Training.from_checkpoint(folder_of(self._root, version))
        elif version in self._kept:
            model, optimizer_state = self._kept[version]
            model = copy.deepcopy(model)
            optimizer = restore_optimizer(optimizer_state, model)
            other = Training(model=model, optimizer=optimizer, companions=training.companions)
        else:
            raise CheckpointError(
                f"{self._root}: step {step.step} went back to version {version}, which is neither kept nor among the "
                "steps taken again; begin before it"
            )
        training.restore(other, Restored(step=step.step, version=version, rollback_id=""))


def compare_restored(training: Training, step: StepTaken, *, bitwise: bool) -> Iterator[tuple[str, object, object]]:
    """Yield what did not come back as recorded; on other kernels the weights are compared elsewhere."""
    if step.batches:
        yield "batches", "none, of a step that went back", len(step.batches)
    if not bitwise:
        return
    if training.weights_digest != step.weights_digest_out:
        yield "weights_digest_out", step.weights_digest_out, training.weights_digest
    if training.optimizer_digest != step.optimizer_digest_out:
        yield "optimizer_digest_out", step.optimizer_digest_out, training.optimizer_digest
