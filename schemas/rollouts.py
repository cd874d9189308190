"""What a policy said, token by token, and how a rollout ended.

What trains is exactly `context_ids`, `token_ids` and `logprobs`. `text` is a view for people, sandboxes and verifiers.
"""

from typing import Literal

import msgspec
import numpy as np

from schemas.arrays import PackedArray
from schemas.executions import Action
from schemas.ids import rollout_id
from schemas.tasks import SamplingParams

FinishReason = Literal["stop", "length"]
EndReason = Literal["finished", "max_turns", "length", "context_full", "deadline", "infrastructure"]


class TurnGenerated(msgspec.Struct, frozen=True, kw_only=True):
    """One model output."""

    task_id: str
    rollout_id: str
    sample: int
    """Index in the task's group, from 0."""
    turn: int
    """Index in the rollout, from 0."""
    domain: str
    policy: str
    context_ids: PackedArray
    """[C] int32: what was appended since the turn before (turn 0: the prompt); turns join to the whole sequence."""
    token_ids: PackedArray
    """[T] int32: what was sampled, the end token included where there was one."""
    logprobs: PackedArray
    """[T] float32 or float16: natural log-probability of each sampled token as drawn, temperature and top-p counted."""
    versions: PackedArray
    """[T] int32: policy version that drew each token."""
    text: str
    finish_reason: FinishReason
    sampling: SamplingParams
    seed: int
    action: Action | None = None
    """What is to run now; None where nothing is."""
    queued_s: float = 0.0
    """Seconds between being ready to sample and its first token."""
    generate_s: float = 0.0
    """Seconds from the first token to the last."""

    def __post_init__(self) -> None:
        """Refuse what could not be trained on: arrays of unequal length, or no log-probabilities."""
        lengths = {len(self.token_ids), len(self.logprobs), len(self.versions)}
        if len(lengths) != 1:
            raise ValueError(f"token_ids, logprobs and versions have lengths {sorted(lengths)}; wanted one")
        if self.rollout_id != rollout_id(self.task_id, self.sample):
            raise ValueError(f"rollout_id {self.rollout_id!r} is not sample {self.sample} of task {self.task_id!r}")
        if not np.all(np.isfinite(self.logprobs.unpack())):
            raise ValueError("logprobs hold NaN or infinity")


class RolloutEnded(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout will have no more turns."""

    task_id: str
    rollout_id: str
    sample: int
    domain: str
    why: EndReason
    num_turns: int
    num_tokens: int
    """Sampled tokens in all turns."""
