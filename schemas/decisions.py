"""What was not trained on, and why."""

from typing import Literal

import msgspec

Reason = Literal[
    "zero_variance",
    "deadline",
    "all_invalid",
    "too_few_valid",
    "duplicate",
    "stale",
    "overlong",
    "quarantined",
    "held_out",
]


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A task's group ends without training, or a batch is passed over by the learner."""

    task_id: str
    run_id: str
    domain: str
    stage: Literal["assembler", "learner"]
    reason: Reason
    detail: str = ""
    num_samples: int = 0
    num_valid: int = 0
    reward_mean: float | None = None
    """Mean over the valid rewards; None where there is none."""
    solved: float | None = None
    """Share of valid rewards that are 1."""
    policy_version: int | None = None
    """For `held_out`: the version that was evaluated. For `stale`: the learner's."""
    batch_id: str | None = None
    """For the learner's: the batch it passed over."""
