"""One task's scored group, ready to train. A projection of the log: retention is short, it can always be rebuilt."""

import msgspec

from schemas.arrays import PackedArray


class BatchRow(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout as one sequence, all turns concatenated."""

    rollout_id: str
    sample: int
    token_ids: PackedArray
    """[T] int32: contexts and sampled tokens, as generated."""
    loss_mask: PackedArray
    """[T] uint8: 1 where the policy drew the token."""
    logprobs: PackedArray
    """[T] behaviour log-probabilities; 0 where the mask is."""
    versions: PackedArray
    """[T] int32 policy versions; -1 where the mask is 0."""
    reward: float
    advantage: float
    """Reward minus the mean of the group's valid rewards."""
    temperature: float = 1.0
    """What the logits were divided by when it was sampled."""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """A group to train on."""

    task_id: str
    run_id: str
    domain: str
    level: int = 0
    rows: tuple[BatchRow, ...]
    """The valid rollouts, by sample index."""
    num_samples: int
    """Rollouts asked for; those without a row were invalid or did not finish."""
    reward_mean: float
    reward_std: float
    """Population standard deviation over the rows."""
    scoring_id: str = "live"
    oldest_version: int
    newest_version: int
    rebuilt: bool | None = None
    """Whether it was made again from history. None under `live`, as it was before there was this field: then a
    batch of another scoring could only be a rebuilt one."""
    commands_end: int = 0
    """How far `commands` had been read when it was made: what it leaves out is judged by the commands before that."""
    number: int | None = None
    """Of what a fork trains on: its place in that sequence, from 0. The group's facts are on the log forked from."""

    @property
    def is_recorded(self) -> bool:
        """Return whether it was made for a fork, of rollouts that another policy's run recorded."""
        return self.number is not None

    @property
    def is_rebuilt(self) -> bool:
        """Return whether it was made again from history, and is not how its task ended."""
        return self.scoring_id != "live" if self.rebuilt is None else self.rebuilt
