"""What is maximised: one scalar over a step's sampled tokens, as settings in schemas/objectives.py say.

Per token: rho = current / behaviour, w = proximal / behaviour, q = current / proximal. `behaviour` was recorded when
the token was drawn, `proximal` is the learner at the start of the step, `current` is what the gradient flows through;
the other two are constants. Advantages and weights depend on rewards and lengths alone.

Shapes: K sampled tokens, R rollouts of the step.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from schemas.objectives import Cispo, DecoupledPpo, Grpo, M2po, Objective, Topr

EPSILON = 1e-6
"""Added to a standard deviation that something is divided by."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Sampled tokens of whole rollouts, each tensor of shape [K], float32 where nothing else is said; in nats."""

    current_K: Tensor
    proximal_K: Tensor
    behaviour_K: Tensor
    advantage_K: Tensor
    rollout_K: Tensor
    """int64: the rollout of each token."""
    outlier_K: Tensor
    """bool: what `outliers` found over all tokens of the step."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What each token adds to the objective before its weight."""

    value_K: Tensor
    """[K], differentiable in `current_K`."""
    clipped_K: Tensor
    """[K] bool: the ratio was bounded, or the clipped branch is the one that counts."""
    masked_K: Tensor
    """[K] bool: left out."""


def token_terms(objective: Objective, tokens: Tokens) -> Terms:
    """Return every token's term; the objective to maximise is their sum under `row_weights`."""
    match objective:
        case Cispo():
            return cispo_terms(objective, tokens)
        case Grpo():
            return grpo_terms(objective, tokens)
        case DecoupledPpo():
            return decoupled_ppo_terms(objective, tokens)
        case Topr():
            return topr_terms(objective, tokens)
        case M2po():
            return m2po_terms(tokens)


def cispo_terms(objective: Cispo, tokens: Tokens) -> Terms:
    """sg(clip(rho, low, high)) * A * log pi (MiniMax-M1, arXiv 2506.13585, eq. 4)."""
    rho_K = (tokens.current_K.detach() - tokens.behaviour_K).exp()
    bounded_K = rho_K.clamp(objective.low, objective.high)
    return Terms(
        value_K=bounded_K * tokens.advantage_K * tokens.current_K,
        clipped_K=(rho_K < objective.low) | (rho_K > objective.high),
        masked_K=torch.zeros_like(rho_K, dtype=torch.bool),
    )


def grpo_terms(objective: Grpo, tokens: Tokens) -> Terms:
    """min(q A, clip(q, 1 - low, 1 + high) A) (DeepSeekMath, arXiv 2402.03300, eq. 3, without its KL term)."""
    q_K = (tokens.current_K - tokens.proximal_K).exp()
    value_K, clipped_K = pessimistic(q_K, tokens.advantage_K, low=objective.clip_low, high=objective.clip_high)
    return Terms(value_K=value_K, clipped_K=clipped_K, masked_K=torch.zeros_like(clipped_K))


def decoupled_ppo_terms(objective: DecoupledPpo, tokens: Tokens) -> Terms:
    """W * min(q A, clip(q, 1 - clip, 1 + clip) A), 0 where w is too large (arXiv 2110.00641, eq. 3; 2505.24298)."""
    w_K = (tokens.proximal_K - tokens.behaviour_K).exp()
    masked_K = w_K > objective.max_behaviour_weight
    q_K = (tokens.current_K - tokens.proximal_K).exp()
    value_K, clipped_K = pessimistic(q_K, tokens.advantage_K, low=objective.clip, high=objective.clip)
    kept_w_K = torch.where(masked_K, torch.zeros_like(w_K), w_K)
    return Terms(value_K=kept_w_K * value_K, clipped_K=clipped_K & ~masked_K, masked_K=masked_K)


def topr_terms(objective: Topr, tokens: Tokens) -> Terms:
    """Take A * log pi for A >= 0, else sg(clip(pi(rollout) / mu(rollout), 0, high)) * A * log pi (arXiv 2503.14286).

    The sum over a rollout's tokens is its log-probability, so that each rollout has one weight; that all are divided by
    the step's number of tokens is one factor for the whole step.
    """
    log_rho_K = tokens.current_K.detach() - tokens.behaviour_K
    num_rollouts = int(tokens.rollout_K.max()) + 1 if len(log_rho_K) else 0
    log_rho_R = torch.zeros(num_rollouts, dtype=log_rho_K.dtype)
    log_rho_R.index_add_(0, tokens.rollout_K, log_rho_K)
    # Bounded before it is a ratio, which could be infinite.
    bound = math.log(objective.high) if objective.high > 0 else -math.inf
    ratio_K = log_rho_R.clamp(max=bound).exp().index_select(0, tokens.rollout_K)
    is_negative_K = tokens.advantage_K < 0
    weight_K = torch.where(is_negative_K, ratio_K, torch.ones_like(ratio_K))
    return Terms(
        value_K=weight_K * tokens.advantage_K * tokens.current_K,
        clipped_K=is_negative_K & (log_rho_R > bound).index_select(0, tokens.rollout_K),
        masked_K=torch.zeros_like(is_negative_K),
    )


def m2po_terms(tokens: Tokens) -> Terms:
    """Rho * A, and 0 for outliers (arXiv 2510.01161)."""
    log_rho_K = tokens.current_K - tokens.behaviour_K
    # Masked before it is a ratio: a gradient through what may be infinite is none.
    kept_K = torch.where(tokens.outlier_K, torch.zeros_like(log_rho_K), log_rho_K)
    value_K = torch.where(tokens.outlier_K, torch.zeros_like(kept_K), kept_K.exp() * tokens.advantage_K)
    return Terms(value_K=value_K, clipped_K=torch.zeros_like(tokens.outlier_K), masked_K=tokens.outlier_K)


def has_outliers(objective: Objective) -> bool:
    """Return whether the objective looks at all tokens of a step before any of them counts."""
    return isinstance(objective, M2po)


def outliers(objective: Objective, log_rho_K: Floats) -> npt.NDArray[np.bool_]:
    """Return which tokens of a step M2PO masks: the fewest that leave a mean of (log rho)^2 of at most `tau`.

    Those are the ones of the largest squares; of equal ones the later go first. None for other objectives.
    """
    if not isinstance(objective, M2po):
        return np.zeros(len(log_rho_K), bool)
    squares_K = log_rho_K**2
    order_K = np.argsort(squares_K, kind="stable")
    # Means of ever more of the smallest only rise, so those within the bound are the first ones.
    means_K = np.cumsum(squares_K[order_K]) / np.arange(1, len(squares_K) + 1)
    num_kept = int(np.count_nonzero(means_K <= objective.tau))
    is_outlier_K = np.ones(len(squares_K), bool)
    is_outlier_K[order_K[:num_kept]] = False
    return is_outlier_K


def pessimistic(q_K: Tensor, advantage_K: Tensor, *, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Return PPO's smaller of plain and clipped surrogate, and where it is the clipped one."""
    plain_K = q_K * advantage_K
    bounded_K = q_K.clamp(1 - low, 1 + high) * advantage_K
    return torch.minimum(plain_K, bounded_K), bounded_K.detach() < plain_K.detach()


def num_epochs(objective: Objective) -> int:
    """Return how many updates one step makes."""
    return objective.num_epochs if isinstance(objective, Grpo | DecoupledPpo) else 1


def row_advantages(objective: Objective, centred_R: Floats, group_R: Ints) -> Floats:
    """Scale rewards minus their group's mean: GRPO and M2PO by the group's deviation, the others by the step's.

    `group_R` numbers the groups from 0. Deviations are those of the population.
    """
    if not isinstance(objective, Grpo | M2po):
        return np.asarray(centred_R / (centred_R.std() + EPSILON))
    deviations = np.array([centred_R[group_R == group].std() for group in range(int(group_R.max()) + 1)])
    return np.asarray(centred_R / (deviations[group_R] + EPSILON))


def row_weights(objective: Objective, num_sampled_R: Ints, group_R: Ints) -> Floats:
    """Return the weight of each token of each rollout.

    GRPO takes the mean over tokens, then rollouts, then groups; the others take it over all tokens of the step at once.
    """
    if not isinstance(objective, Grpo):
        return np.full(len(num_sampled_R), 1.0 / max(int(num_sampled_R.sum()), 1))
    group_sizes = np.bincount(group_R)
    return np.asarray(1.0 / (len(group_sizes) * group_sizes[group_R] * np.maximum(num_sampled_R, 1)))
