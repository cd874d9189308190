"""One optimizer step: a function of weights, optimizer state, batches and settings, and of nothing else.

The loop and recomputation both call it, so what one did the other can repeat.

Shapes: R rollouts of the step, K sampled tokens.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from learner.model import token_logprobs
from learner.objectives import (
    Floats,
    Ints,
    Tokens,
    has_outliers,
    num_epochs,
    outliers,
    row_advantages,
    row_weights,
    token_terms,
)
from learner.optimizer import set_hyperparameters
from learner.packing import Pass, Rollout, pack
from schemas.batches import Batch
from schemas.config import LearnerSettings
from schemas.errors import DivergenceError
from schemas.ids import derive_seed
from schemas.objectives import Objective
from schemas.steps import ObjectiveStats

LARGEST_LOG_RATIO = 300.0
"""Keeps figures finite whatever a batch claims; the objectives bound or mask such a token by themselves."""
SMALLEST = 1e-300


class StepResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a step did, besides changing weights and optimizer."""

    loss: float
    """Minus the objective, before the last update of the step."""
    grad_norm: float
    """Before clipping, of the last update."""
    learning_rate: float
    stats: ObjectiveStats
    by_domain: dict[str, ObjectiveStats]
    num_positions: int
    num_padding: int
    timings_s: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Material:
    """The rollouts of a step, in the order of its batches."""

    rollouts: list[Rollout]
    group_R: Ints
    domain_R: list[str]
    reward_R: Floats
    centred_R: Floats
    """Advantages as the batches have them: reward minus the group's mean."""
    num_sampled_R: Ints


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the rollouts of a step are worth, before any pass."""

    objective: Objective
    advantage_R: Floats
    weight_R: Floats
    """Of each sampled token of the rollout."""
    version: int
    """The learner's, before the step."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a pass showed of its tokens, as numpy, for the figures."""

    rollout_K: Ints
    log_ratio_K: Floats
    """log rho at the start of the step."""
    clipped_K: Floats
    masked_K: Floats
    """Shares of the updates in which the token was clipped or masked."""
    staleness_K: Ints


def take_step(
    model: nn.Module,
    optimizer: torch.optim.AdamW,
    batches: Sequence[Batch],
    settings: LearnerSettings,
    *,
    step: int,
    seed: int,
    on_pass: Callable[[], None] = lambda: None,
) -> StepResult:
    """Change `model` and `optimizer` by step number `step` (from 1); `on_pass` is called after every forward pass.

    Raises DivergenceError, and leaves the weights as they were, where loss or gradient is not finite.
    """
    started_s = time.perf_counter()
    torch.manual_seed(derive_seed(seed, "step", step))
    material = read_batches(batches)
    packed = pack(material.rollouts, pack_tokens=settings.pack_tokens, rows_per_pass=settings.rows_per_pass)
    plan = Plan(
        objective=settings.objective,
        advantage_R=row_advantages(settings.objective, material.centred_R, material.group_R),
        weight_R=row_weights(settings.objective, material.num_sampled_R, material.group_R),
        version=step - 1,
    )
    learning_rate = set_hyperparameters(optimizer, settings, step=step)
    packed_s = time.perf_counter()
    proximal = look_ahead(model, packed, on_pass=on_pass) if has_outliers(settings.objective) else []
    outlier = outliers_of(settings.objective, packed, proximal)
    seen: list[list[Seen]] = []
    loss = grad_norm = 0.0
    for _ in range(num_epochs(settings.objective)):
        loss, looks = accumulate(model, packed, plan, proximal, outlier, on_pass=on_pass)
        grad_norm = update(model, optimizer, loss, settings.max_grad_norm, step=step)
        seen.append(looks)
    stats, by_domain = summarise(merge_looks(seen), material)
    return StepResult(
        loss=loss,
        grad_norm=grad_norm,
        learning_rate=learning_rate,
        stats=stats,
        by_domain=by_domain,
        num_positions=sum(one.num_positions for one in packed),
        num_padding=sum(one.num_padding for one in packed),
        timings_s={"pack": packed_s - started_s, "update": time.perf_counter() - packed_s},
    )


def read_batches(batches: Sequence[Batch]) -> Material:
    """Unpack the batches' rows."""
    rows = [(group, batch.domain, row) for group, batch in enumerate(batches) for row in batch.rows]
    rollouts = [
        Rollout(
            token_ids_S=row.token_ids.unpack(),
            loss_mask_S=row.loss_mask.unpack(),
            logprobs_S=row.logprobs.unpack().astype(np.float32),
            versions_S=row.versions.unpack(),
            temperature=row.temperature,
        )
        for _, _, row in rows
    ]
    return Material(
        rollouts=rollouts,
        group_R=np.array([group for group, _, _ in rows], np.int64),
        domain_R=[domain for _, domain, _ in rows],
        reward_R=np.array([row.reward for _, _, row in rows], np.float64),
        centred_R=np.array([row.advantage for _, _, row in rows], np.float64),
        num_sampled_R=np.array([len(rollout.sampled_places) for rollout in rollouts], np.int64),
    )


def look_ahead(model: nn.Module, packed: Sequence[Pass], *, on_pass: Callable[[], None]) -> list[Tensor]:
    """Return the log-probabilities of the step's start by pass, before any of them has a say."""
    found = []
    with torch.no_grad():
        for one in packed:
            found.append(token_logprobs(model, one))
            on_pass()
    return found


def outliers_of(objective: Objective, packed: Sequence[Pass], proximal: Sequence[Tensor]) -> list[Tensor]:
    """Return by pass which tokens are outliers among all of the step, by the policy of its start."""
    if not proximal:
        return [torch.zeros_like(one.behaviour_K, dtype=torch.bool) for one in packed]
    ratios = [(start_K - one.behaviour_K).double().numpy() for start_K, one in zip(proximal, packed, strict=True)]
    found_K = outliers(objective, np.concatenate(ratios))
    ends = np.cumsum([len(ratio_K) for ratio_K in ratios])[:-1]
    return [torch.from_numpy(part_K) for part_K in np.split(found_K, ends)]


def accumulate(
    model: nn.Module,
    packed: Sequence[Pass],
    plan: Plan,
    proximal: list[Tensor],
    outlier: Sequence[Tensor],
    *,
    on_pass: Callable[[], None],
) -> tuple[float, list[Seen]]:
    """Add the gradient of every pass; returns the loss and what was seen.

    `proximal` holds the log-probabilities of the step's start by pass; an empty one is the first update's to fill.
    `outlier` says by pass which tokens stand out among all of the step.
    """
    model.zero_grad(set_to_none=True)
    is_first = not proximal
    loss, looks = 0.0, []
    for index, one in enumerate(packed):
        current_K = token_logprobs(model, one)
        if is_first:
            proximal.append(current_K.detach())
        advantage_K = torch.from_numpy(plan.advantage_R.astype(np.float32)).index_select(0, one.rollout_K)
        weight_K = torch.from_numpy(plan.weight_R.astype(np.float32)).index_select(0, one.rollout_K)
        tokens = Tokens(
            current_K=current_K,
            proximal_K=proximal[index],
            behaviour_K=one.behaviour_K,
            advantage_K=advantage_K,
            rollout_K=one.rollout_K,
            outlier_K=outlier[index],
        )
        terms = token_terms(plan.objective, tokens)
        pass_loss = -(terms.value_K * weight_K).sum()
        pass_loss.backward()  # type: ignore[no-untyped-call]
        loss += float(pass_loss.detach())
        looks.append(
            Seen(
                rollout_K=one.rollout_K.numpy(),
                log_ratio_K=(proximal[index] - one.behaviour_K).double().numpy(),
                clipped_K=terms.clipped_K.double().numpy(),
                masked_K=terms.masked_K.double().numpy(),
                staleness_K=plan.version - one.version_K,
            )
        )
        on_pass()
    return loss, looks


def update(model: nn.Module, optimizer: torch.optim.AdamW, loss: float, max_grad_norm: float, *, step: int) -> float:
    """Clip the gradient and apply it; returns its norm before. Raises DivergenceError."""
    grad_norm = float(nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm))
    if not (np.isfinite(loss) and np.isfinite(grad_norm)):
        raise DivergenceError(
            f"step {step}: loss {loss}, gradient norm {grad_norm}; wanted finite ones. Nothing was written: lower "
            "learner.learning_rate or admission.max_staleness, or start a new run from an earlier checkpoint"
        )
    optimizer.step()
    return grad_norm


def merge_looks(seen: list[list[Seen]]) -> Seen:
    """Join the passes of the first update, with what was clipped and masked averaged over all updates."""

    def joined(name: str, looks: list[Seen]) -> npt.NDArray[Any]:
        return np.concatenate([getattr(look, name) for look in looks])

    return Seen(
        rollout_K=joined("rollout_K", seen[0]),
        log_ratio_K=joined("log_ratio_K", seen[0]),
        clipped_K=np.mean([joined("clipped_K", looks) for looks in seen], axis=0),
        masked_K=np.mean([joined("masked_K", looks) for looks in seen], axis=0),
        staleness_K=joined("staleness_K", seen[0]),
    )


def summarise(seen: Seen, material: Material) -> tuple[ObjectiveStats, dict[str, ObjectiveStats]]:
    """Return the figures over all sampled tokens, and by domain."""
    domains = sorted(set(material.domain_R))
    domain_R = np.array([domains.index(domain) for domain in material.domain_R])
    by_domain = {d: summarise_part(seen, material, domain_R == index) for index, d in enumerate(domains)}
    return summarise_part(seen, material, np.ones(len(domain_R), bool)), by_domain


def summarise_part(seen: Seen, material: Material, part_R: npt.NDArray[np.bool_]) -> ObjectiveStats:
    """Return the figures over the rollouts in `part_R`.

    ESS is (sum rho)^2 / (n sum rho^2); the KL estimator is k3, rho - 1 - log rho (J. Schulman, "Approximating KL
    Divergence", 2020), whose mean over tokens of the behaviour policy is KL(behaviour, current).
    """
    part_K = part_R[seen.rollout_K]
    log_ratio_K = seen.log_ratio_K[part_K]
    num_tokens = len(log_ratio_K)
    rewards = material.reward_R[part_R]
    if num_tokens == 0:
        return ObjectiveStats(
            num_tokens=0, num_rows=len(rewards), reward_mean=float(rewards.mean()), ess=1.0, mismatch_kl=0.0,
            ratio_max=0.0, clipped_fraction=0.0, masked_fraction=0.0, staleness_mean=0.0, staleness_max=0,
        )  # fmt: skip
    ratio_K = np.exp(np.minimum(log_ratio_K, LARGEST_LOG_RATIO))
    return ObjectiveStats(
        num_tokens=num_tokens,
        num_rows=len(rewards),
        reward_mean=float(rewards.mean()),
        ess=float(ratio_K.sum() ** 2 / max(num_tokens * (ratio_K**2).sum(), SMALLEST)),
        mismatch_kl=float((ratio_K - 1 - log_ratio_K).mean()),
        ratio_max=float(ratio_K.max()),
        clipped_fraction=float(seen.clipped_K[part_K].mean()),
        masked_fraction=float(seen.masked_K[part_K].mean()),
        staleness_mean=float(seen.staleness_K[part_K].mean()),
        staleness_max=int(seen.staleness_K[part_K].max()),
    )
