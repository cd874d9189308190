"""An optimizer step and all that it takes to do it again."""

import msgspec


class BatchRef(msgspec.Struct, frozen=True, kw_only=True):
    """Where a batch stood and what it was."""

    topic: str
    partition: int
    offset: int
    event_id: str
    digest: str
    """sha256 of the record's content."""


class ObjectiveStats(msgspec.Struct, frozen=True, kw_only=True):
    """What the objective saw, over one domain or all of a step's sampled tokens."""

    num_tokens: int
    num_rows: int
    reward_mean: float
    ess: float
    """Effective sample size of the per-token importance ratios, over their number: in (0, 1]."""
    mismatch_kl: float
    """Mean of the k3 estimator of KL(behaviour, current) per token, in nats."""
    ratio_max: float
    clipped_fraction: float
    """Tokens whose ratio or update the objective clipped."""
    masked_fraction: float
    """Tokens that the objective left out."""
    staleness_mean: float
    """Learner version minus the version that sampled the token."""
    staleness_max: int


class StepTaken(msgspec.Struct, frozen=True, kw_only=True):
    """The weights changed. With the log alone this suffices to compute the same change again."""

    run_id: str
    policy: str
    step: int
    """From 1; the policy version it made."""
    batches: tuple[BatchRef, ...]
    """In the order of training."""
    policy_version_in: int
    policy_version_out: int
    weights_digest_in: str
    weights_digest_out: str
    optimizer_digest_out: str
    """sha256 over optimizer and random-number state after the step."""
    config: str
    """The learner's settings, as JSON: objective, optimizer, packing, seed."""
    config_digest: str
    code_version: str
    kernels: str
    """What the arithmetic depends on: library versions, processor features, number of threads."""
    seed: int
    loss: float
    grad_norm: float
    """Before clipping."""
    learning_rate: float
    stats: ObjectiveStats
    by_domain: dict[str, ObjectiveStats] = {}
    num_padding: int = 0
    """Positions computed that held no token."""
    timings_s: dict[str, float] = {}
    """Seconds by part of the step; the one thing that a recomputation does not repeat."""
    restored_from: int | None = None
    """For a step that trained on nothing: the version whose weights and optimizer came back, by a rollback command."""
