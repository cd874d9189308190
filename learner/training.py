"""What training changes: weights, optimizer, how many steps were taken, and which batches are behind it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from consumers.feed import BatchEvent, BatchFeed
from consumers.recorded import RecordedFeed
from learner.checkpoint import (
    WEIGHTS_FILE,
    LearnerState,
    PendingEvent,
    Restored,
    folder_of,
    list_steps,
    read_file,
    verify_checkpoint,
    write_checkpoint,
)
from learner.model import load_model, policy_files, weights_bytes
from learner.optimizer import OPTIMIZER_FILE, make_optimizer, optimizer_bytes, restore_optimizer
from learner.step import StepResult, take_step
from schemas.config import LearnerSettings
from schemas.errors import CheckpointError
from schemas.ids import digest_of
from schemas.steps import BatchRef


@dataclass
class Training:
    """The learner between two steps; only `advance` and `restore` change weights."""

    model: nn.Module
    optimizer: torch.optim.AdamW
    companions: dict[str, bytes]
    """Configuration and tokenizer files that go with the weights."""
    step: int = 0
    """Steps taken, and the policy version that the weights are."""
    offsets: dict[int, int] = field(default_factory=dict)
    seen: tuple[str, ...] = ()
    restored: tuple[Restored, ...] = ()
    """Steps that went back to an older version, in their order."""
    weights: bytes = b""
    """The weights as `model.safetensors`."""
    optimizer_state: bytes = b""
    weights_digest: str = ""
    optimizer_digest: str = ""

    def __post_init__(self) -> None:
        """Take the bytes of what it starts with."""
        self.refresh()

    @classmethod
    def from_base(cls, base: Path, *, seed: int) -> "Training":
        """Start with a Hugging Face folder's weights. Raises CheckpointError."""
        model = load_model(base)
        torch.manual_seed(seed)
        return cls(model=model, optimizer=make_optimizer(model), companions=policy_files(model, base))

    @classmethod
    def from_checkpoint(cls, folder: Path) -> tuple["Training", LearnerState]:
        """Go on from a checkpoint, compared with its digests. Raises CheckpointError."""
        state = verify_checkpoint(folder)
        model = load_model(folder)
        optimizer = restore_optimizer(read_file(folder, OPTIMIZER_FILE, state), model)
        companions = {n: read_file(folder, n, state) for n in state.digests if n not in (WEIGHTS_FILE, OPTIMIZER_FILE)}
        training = cls(
            model=model,
            optimizer=optimizer,
            companions=companions,
            step=state.step,
            offsets=dict(state.offsets),
            seen=state.seen,
            restored=state.restored,
        )
        found = {WEIGHTS_FILE: training.weights_digest, OPTIMIZER_FILE: training.optimizer_digest}
        for name, digest in found.items():
            if digest != state.digests[name]:
                raise CheckpointError(
                    f"{folder}/{name}: comes back as {digest}, wanted {state.digests[name]} as written"
                )
        return training, state

    def advance(
        self,
        batches: Sequence[BatchEvent],
        settings: LearnerSettings,
        *,
        seed: int,
        on_pass: Callable[[], None] = lambda: None,
    ) -> StepResult:
        """Take the next step. Raises DivergenceError."""
        records = [event.record for event in batches]
        result = take_step(
            self.model, self.optimizer, records, settings, step=self.step + 1, seed=seed, on_pass=on_pass
        )
        self.step += 1
        self.refresh()
        return result

    def restore(self, other: "Training", restored: Restored) -> None:
        """Take the next step, which goes back to the weights and optimizer of `other`; what is behind stays behind."""
        self.model, self.optimizer = other.model, other.optimizer
        self.step, self.restored = restored.step, (*self.restored, restored)
        self.refresh()

    @property
    def parent(self) -> int | None:
        """Return the version that these weights were made from, None for the base."""
        if self.restored and self.restored[-1].step == self.step:
            return self.restored[-1].version
        return self.step - 1 if self.step else None

    def refresh(self) -> None:
        """Take weights and optimizer as bytes, and their digests."""
        self.weights = weights_bytes(self.model)
        self.optimizer_state = optimizer_bytes(self.optimizer, self.model)
        self.weights_digest = digest_of(self.weights)
        self.optimizer_digest = digest_of(self.optimizer_state)

    def note_taken(self, feed: BatchFeed | RecordedFeed) -> None:
        """Take from the feed what is behind the step that comes."""
        self.offsets, self.seen = feed.offsets, feed.seen

    def note_manifest(self, refs: Sequence[BatchRef], *, window: int) -> None:
        """Move past the batches of a step that is done again; all before them in their partitions is behind it too."""
        for ref in refs:
            self.offsets[ref.partition] = max(ref.offset + 1, self.offsets.get(ref.partition, 0))
        self.seen = (*self.seen, *(ref.event_id for ref in refs))[-window:]

    def save(self, root: Path, *, run_id: str, policy: str, seed: int, pending: Sequence[PendingEvent]) -> Path:
        """Make all of it durable, and return the folder. Raises CheckpointError."""
        state = LearnerState(
            run_id=run_id,
            policy=policy,
            step=self.step,
            seed=seed,
            offsets=self.offsets,
            seen=self.seen,
            pending=tuple(pending),
            digests={},
            restored=self.restored,
        )
        files = {**self.companions, WEIGHTS_FILE: self.weights, OPTIMIZER_FILE: self.optimizer_state}
        return write_checkpoint(root, state, files)


def newest(root: Path) -> Path | None:
    """Return the last checkpoint's folder, None before the first."""
    steps = list_steps(root)
    return folder_of(root, steps[-1]) if steps else None
