"""The objectives that a learner can maximise, as settings; learner/objectives.py computes them.

Per token: rho = current / behaviour, w = proximal / behaviour, q = current / proximal, where the proximal policy is the
learner's weights at the start of the step. The behaviour log-probability is the one recorded at sampling.
"""

from typing import Annotated

import msgspec


class Cispo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="cispo"):
    """Clipped importance weights on REINFORCE (MiniMax-M1, arXiv 2506.13585); bounds on rho from ScaleRL."""

    low: float = 0.0
    high: float = 5.0


class Grpo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="grpo"):
    """Group-relative PPO clipping with a mean per rollout (DeepSeekMath, arXiv 2402.03300)."""

    clip_low: float = 0.2
    clip_high: float = 0.2
    num_epochs: int = 1
    """Updates on one step's batches; the ratio moves from 1 only after the first."""


class DecoupledPpo(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="decoupled_ppo"
):
    """PPO clipped against the proximal policy, corrected for the behaviour policy (arXiv 2110.00641, 2505.24298)."""

    clip: float = 0.2
    max_behaviour_weight: float = 5.0
    """Tokens with a larger w are masked."""
    num_epochs: int = 1


class Topr(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="topr"):
    """Tapered off-policy REINFORCE, for recorded rollouts of any age (arXiv 2503.14286).

    What earned more than its group's mean counts in full, however unlikely it was; what earned less counts by its whole
    rollout's ratio, bounded, so that what the policy no longer does is not pushed down without end.
    """

    high: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    """Bound on the ratio of a rollout of negative advantage."""


class M2po(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="m2po"):
    """REINFORCE on ratios whose second moment is bounded, for rollouts of any age (arXiv 2510.01161).

    The fewest tokens of the step are masked such that the mean of (log rho)^2 over the others is at most `tau`.
    """

    tau: Annotated[float, msgspec.Meta(gt=0)] = 0.04


Objective = Cispo | Grpo | DecoupledPpo | Topr | M2po
