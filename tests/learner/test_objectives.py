"""Each objective against a case computed by hand, and its gradient against finite differences."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from learner.objectives import EPSILON, Tokens, num_epochs, outliers, row_advantages, row_weights, token_terms
from schemas.objectives import Cispo, DecoupledPpo, Grpo, M2po, Objective, Topr

LN2 = math.log(2.0)


def tokens(
    current: list[float],
    proximal: list[float],
    behaviour: list[float],
    advantage: list[float],
    *,
    rollout: list[int] | None = None,
    outlier: list[bool] | None = None,
) -> Tokens:
    as_tensor: Callable[[list[float]], Tensor] = lambda values: torch.tensor(values, dtype=torch.float64)  # noqa: E731
    return Tokens(
        current_K=as_tensor(current).requires_grad_(),
        proximal_K=as_tensor(proximal),
        behaviour_K=as_tensor(behaviour),
        advantage_K=as_tensor(advantage),
        rollout_K=torch.tensor(list(range(len(current))) if rollout is None else rollout),
        outlier_K=torch.tensor([False] * len(current) if outlier is None else outlier),
    )


def gradient(objective: Objective, given_tokens: Tokens) -> list[float]:
    token_terms(objective, given_tokens).value_K.sum().backward()
    assert given_tokens.current_K.grad is not None
    return given_tokens.current_K.grad.tolist()


def test_cispo_by_hand() -> None:
    # rho = 2, 8 (bounded to 5), 1/2; log pi = ln 0.5, ln 0.8, ln 0.25
    case = tokens(
        [math.log(0.5), math.log(0.8), math.log(0.25)],
        [0.0, 0.0, 0.0],
        [math.log(0.25), math.log(0.1), math.log(0.5)],
        [1.0, 2.0, -1.0],
    )
    terms = token_terms(Cispo(), case)
    assert terms.value_K.tolist() == pytest.approx(
        [2 * math.log(0.5), 5 * 2 * math.log(0.8), -0.5 * math.log(0.25)], rel=1e-12
    )
    assert terms.clipped_K.tolist() == [False, True, False]
    assert terms.masked_K.tolist() == [False, False, False]
    assert gradient(Cispo(), case) == pytest.approx([2.0, 10.0, -0.5])


def test_cispo_bounds_below_too() -> None:
    case = tokens([-2.0], [0.0], [-1.0], [3.0])
    assert gradient(Cispo(low=0.75), case) == pytest.approx([2.25])
    assert token_terms(Cispo(low=0.75), case).clipped_K.tolist() == [True]


def test_grpo_by_hand() -> None:
    # q = 2 and 1/2, each with both signs: the pessimistic branch is 1.2, -2, 0.5, -0.8
    case = tokens([-1.0] * 4, [-1.0 - LN2, -1.0 - LN2, -1.0 + LN2, -1.0 + LN2], [0.0] * 4, [1.0, -1.0, 1.0, -1.0])
    terms = token_terms(Grpo(), case)
    assert terms.value_K.tolist() == pytest.approx([1.2, -2.0, 0.5, -0.8], rel=1e-12)
    assert terms.clipped_K.tolist() == [True, False, False, True]
    assert gradient(Grpo(), case) == pytest.approx([0.0, -2.0, 0.5, 0.0])


def test_decoupled_ppo_by_hand() -> None:
    # w = 2, 2, 8 (masked), 1/2; q = 2, 1, 1, 1/2
    case = tokens(
        [-1.0, -1.0, -1.0, -1.0],
        [-1.0 - LN2, -1.0, -1.0, -1.0 + LN2],
        [-1.0 - 2 * LN2, -1.0 - LN2, -1.0 - 3 * LN2, -1.0 + 2 * LN2],
        [1.0, -3.0, 1.0, 2.0],
    )
    terms = token_terms(DecoupledPpo(), case)
    assert terms.value_K.tolist() == pytest.approx([2 * 1.2, 2 * -3.0, 0.0, 0.5 * 0.5 * 2.0], rel=1e-12)
    assert terms.clipped_K.tolist() == [True, False, False, False]
    assert terms.masked_K.tolist() == [False, False, True, False]
    assert gradient(DecoupledPpo(), case) == pytest.approx([0.0, -6.0, 0.0, 0.5])


def test_topr_by_hand() -> None:
    # Rollout 0 gained, whatever its ratio of 1/64; of those that lost, 1 has the ratio 2 * 1/8, 2 one of 4, bounded.
    case = tokens(
        [-1.0, -1.0, -2.0, -3.0, -1.0],
        [0.0] * 5,
        [-1.0 + 3 * LN2, -1.0 + 3 * LN2, -2.0 - LN2, -3.0 + 3 * LN2, -1.0 - 2 * LN2],
        [1.0, 1.0, -2.0, -2.0, -3.0],
        rollout=[0, 0, 1, 1, 2],
    )
    terms = token_terms(Topr(), case)
    assert terms.value_K.tolist() == pytest.approx([-1.0, -1.0, 0.25 * 4.0, 0.25 * 6.0, 3.0], rel=1e-12)
    assert terms.clipped_K.tolist() == [False, False, False, False, True]
    assert gradient(Topr(), case) == pytest.approx([1.0, 1.0, -0.5, -0.5, -3.0])


def test_topr_lets_go_of_what_the_policy_no_longer_does_and_never_of_what_is_better() -> None:
    far = [-40.0, 0.0, 40.0]
    case = tokens([-50.0] * 6, [0.0] * 6, [-50.0 - f for f in far * 2], [1.0] * 3 + [-1.0] * 3)
    found = gradient(Topr(), case)
    assert found[:3] == [1.0, 1.0, 1.0]
    assert found[3:] == pytest.approx([-math.exp(-40.0), -1.0, -1.0])
    assert gradient(Topr(high=0.0), tokens([-1.0], [0.0], [-1.0], [-1.0])) == [0.0]


def test_m2po_by_hand() -> None:
    # log rho = ln 2, -ln 2, and a masked one
    case = tokens(
        [-1.0, -1.0, -1.0], [0.0] * 3, [-1.0 - LN2, -1.0 + LN2, -999.0], [1.0, -3.0, 1.0], outlier=[False, False, True]
    )
    terms = token_terms(M2po(), case)
    assert terms.value_K.tolist() == pytest.approx([2.0, -1.5, 0.0], rel=1e-12)
    assert terms.masked_K.tolist() == [False, False, True]
    assert gradient(M2po(), case) == pytest.approx([2.0, -1.5, 0.0])


@pytest.mark.parametrize(
    ("log_rho", "tau", "masked"),
    [
        ([0.1, -0.1, 0.3], 0.04, []),  # mean of squares 0.11 / 3
        ([0.1, -0.1, 0.4], 0.04, [2]),  # 0.18 / 3 is too much; 0.02 / 2 is not
        ([0.3, -0.3, 0.1], 0.04, [0, 1]),  # 0.19 / 3, then 0.1 / 2: both are too much
        ([0.3, 0.1, -0.3, 0.1, 0.1, 0.1], 0.03, [2]),  # 0.22 / 6, 0.13 / 5: of two equal ones the later goes
        ([5.0, -7.0, 6.0], 0.04, [0, 1, 2]),
        ([], 0.04, []),
        ([0.2], 0.04 + 1e-12, []),
    ],
)
def test_m2po_masks_the_fewest_tokens(log_rho: list[float], tau: float, masked: list[int]) -> None:
    found = outliers(M2po(tau=tau), np.array(log_rho))
    assert np.flatnonzero(found).tolist() == masked


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=7), st.floats(0.001, 2.0))
def test_no_smaller_choice_of_tokens_would_do_for_m2po(log_rho: list[float], tau: float) -> None:
    squares = np.array(log_rho) ** 2
    found = outliers(M2po(tau=tau), np.array(log_rho))
    assert not found.all() or squares.min() > tau
    if not found.all():
        assert np.cumsum(np.sort(squares[~found]))[-1] / (~found).sum() <= tau
    for num_masked in range(int(found.sum())):
        kept = [c for c in itertools.combinations(squares, len(squares) - num_masked) if np.mean(c) <= tau * (1 - 1e-9)]
        assert kept == [], "as good with fewer masked"


def test_only_m2po_has_outliers() -> None:
    for objective in (Cispo(), Grpo(), DecoupledPpo(), Topr()):
        assert not outliers(objective, np.array([100.0])).any()


def test_far_off_behaviour_does_not_blow_up_a_gradient() -> None:
    rng = np.random.default_rng(1)
    num = 200
    current, advantage = rng.uniform(-3, 0, num), rng.normal(size=num)
    behaviour = current + rng.normal(size=num) * 0.1
    far = rng.choice(num, 40, replace=False)
    behaviour[far] -= 300.0
    plain = gradient(Topr(), tokens(current.tolist(), [0.0] * num, behaviour.tolist(), advantage.tolist()))
    assert np.abs(plain).max() <= np.abs(advantage).max()
    masked = outliers(M2po(), current - behaviour)
    assert set(far) == set(np.flatnonzero(masked))
    bounded = gradient(
        M2po(), tokens(current.tolist(), [0.0] * num, behaviour.tolist(), advantage.tolist(), outlier=masked.tolist())
    )
    assert np.isfinite(bounded).all()
    assert np.abs(bounded).max() <= 2 * np.abs(advantage).max()


def frozen_value(objective: Objective, current: list[float], case: Tokens) -> float:
    """The scalar in float64, written out, with what carries no gradient held at `case`."""
    total = 0.0
    for x, held, p, mu, a in zip(
        current,
        *(t.tolist() for t in (case.current_K, case.proximal_K, case.behaviour_K, case.advantage_K)),
        strict=True,
    ):
        q, w = math.exp(x - p), math.exp(p - mu)
        match objective:
            case Cispo():
                total += min(max(math.exp(held - mu), objective.low), objective.high) * a * x
            case Grpo():
                total += min(q * a, min(max(q, 1 - objective.clip_low), 1 + objective.clip_high) * a)
            case DecoupledPpo():
                kept = w if w <= objective.max_behaviour_weight else 0.0
                total += kept * min(q * a, min(max(q, 1 - objective.clip), 1 + objective.clip) * a)
            case Topr():
                total += (1.0 if a >= 0 else min(math.exp(held - mu), objective.high)) * a * x
            case M2po():
                total += math.exp(x - mu) * a
    return total


@pytest.mark.parametrize(
    "objective",
    [Cispo(), Cispo(low=0.5, high=1.5), Grpo(clip_high=0.28), DecoupledPpo(), Topr(), Topr(high=0.5), M2po()],
)
def test_gradients_equal_finite_differences(objective: Objective) -> None:
    rng = np.random.default_rng(0)
    current, proximal, behaviour = (rng.uniform(-3.0, 0.0, 200) for _ in range(3))
    case = tokens(current.tolist(), proximal.tolist(), behaviour.tolist(), rng.normal(size=200).tolist())
    step, found = 1e-6, gradient(objective, case)
    assert token_terms(objective, case).value_K.sum().item() == pytest.approx(
        frozen_value(objective, current.tolist(), case), rel=1e-9
    )
    for index in range(200):
        up, down = current.copy(), current.copy()
        up[index] += step
        down[index] -= step
        slope = (frozen_value(objective, up.tolist(), case) - frozen_value(objective, down.tolist(), case)) / (2 * step)
        assert found[index] == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_ratios_that_overflow_stay_bounded_or_masked() -> None:
    case = tokens([-1.0], [-1.0], [-2000.0], [1.0])
    for objective in (Cispo(), DecoupledPpo()):
        terms = token_terms(objective, case)
        assert math.isfinite(terms.value_K.item())
        assert bool(terms.clipped_K | terms.masked_K)


def test_advantages_of_cispo_and_decoupled_ppo_are_scaled_over_the_step() -> None:
    centred, group = np.array([0.5, -0.5, 0.75, -0.25, -0.25, -0.25]), np.array([0, 0, 1, 1, 1, 1])
    expected = centred / (math.sqrt((0.25 + 0.25 + 0.5625 + 3 * 0.0625) / 6) + EPSILON)
    for objective in (Cispo(), DecoupledPpo(), Topr()):
        assert row_advantages(objective, centred, group) == pytest.approx(expected)


def test_advantages_of_grpo_are_scaled_within_their_group() -> None:
    centred, group = np.array([0.5, -0.5, 0.75, -0.25, -0.25, -0.25, 0.0, 0.0]), np.array([0, 0, 1, 1, 1, 1, 2, 2])
    sigma = math.sqrt((0.5625 + 3 * 0.0625) / 4) + EPSILON
    expected = [0.5 / (0.5 + EPSILON), -0.5 / (0.5 + EPSILON), 0.75 / sigma, *[-0.25 / sigma] * 3, 0.0, 0.0]
    for objective in (Grpo(), M2po()):
        assert row_advantages(objective, centred, group) == pytest.approx(expected)


def test_weights_are_a_mean_over_tokens_or_over_rollouts_and_groups() -> None:
    lengths, group = np.array([1, 3, 2, 2, 0]), np.array([0, 0, 1, 1, 1])
    assert row_weights(Cispo(), lengths, group) == pytest.approx([1 / 8] * 5)
    assert row_weights(Grpo(), lengths, group) == pytest.approx([1 / 4, 1 / 12, 1 / 12, 1 / 12, 1 / 6])


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(1, 4))
def test_weights_of_all_sampled_tokens_add_up_to_one(lengths: list[int], num_groups: int) -> None:
    counts = np.array(lengths)
    group = np.sort(np.arange(len(lengths)) % min(num_groups, len(lengths)))
    for objective in (Cispo(), Grpo(), DecoupledPpo(), Topr(), M2po()):
        assert (row_weights(objective, counts, group) * counts).sum() == pytest.approx(1.0)


def test_only_clipped_objectives_take_several_updates() -> None:
    several = (Cispo(), Grpo(num_epochs=3), DecoupledPpo(num_epochs=2), Topr(), M2po())
    assert [num_epochs(objective) for objective in several] == [1, 3, 2, 1, 1]
