"""A verifier's word on a rollout: a value, or that there is none and why. Corrections are new events."""

import msgspec


class RewardScored(msgspec.Struct, frozen=True, kw_only=True):
    """A verifier scored a rollout, or could not."""

    task_id: str
    rollout_id: str
    sample: int
    domain: str
    value: float | None
    """In [0, 1]; None is invalid: nothing is known about the rollout's worth."""
    invalid_reason: str | None = None
    """Set exactly where `value` is None: `infrastructure`, `deadline`, `verifier_timeout`, `verifier_error`."""
    detail: str = ""
    """For people: the error behind an invalid reward."""
    parts: dict[str, float] = {}
    """Partial results by name, each in [0, 1]."""
    verifier: str
    verifier_version: int
    config_digest: str
    """Digest of the `VerifierSpec` that was applied."""
    scoring_id: str = "live"
    """Which pass over history this belongs to."""
    attempts: int = 1
    score_s: float = 0.0
    own: bool = False
    """Whether the task was issued under this scoring; not said under `live`, which always is a task's own."""
    abstained: tuple[str, ...] = ()
    """Parts that could not be judged and count for nothing either way: a judge where none is served."""
    evidence: dict[str, str] = {}
    """By part, what its value rests on: what was found, a judge's model, prompt and answer."""

    @property
    def is_own(self) -> bool:
        """Return whether it is the task's own reward, which it trains on: a shadow's or a later scoring's is not."""
        return self.scoring_id == "live" or self.own

    def __post_init__(self) -> None:
        """Refuse a reward that is neither a value in [0, 1] nor invalid with a reason."""
        if (self.value is None) == (self.invalid_reason is None):
            raise ValueError(f"value {self.value} with invalid_reason {self.invalid_reason!r}; wanted exactly one")
        if self.value is not None and not 0 <= self.value <= 1:
            raise ValueError(f"reward {self.value} is not in [0, 1]")
