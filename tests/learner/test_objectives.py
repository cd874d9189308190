"""Each objective against a case computed by hand, and its gradient against finite differences."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from learner.objectives import EPSILON, Tokens, num_epochs, row_advantages, row_weights, token_terms
from schemas.objectives import Cispo, DecoupledPpo, Grpo, Objective

LN2 = math.log(2.0)


def tokens(current: list[float], proximal: list[float], behaviour: list[float], advantage: list[float]) -> Tokens:
    as_tensor: Callable[[list[float]], Tensor] = lambda values: torch.tensor(values, dtype=torch.float64)  # noqa: E731
    return Tokens(
        current_K=as_tensor(current).requires_grad_(),
        proximal_K=as_tensor(proximal),
        behaviour_K=as_tensor(behaviour),
        advantage_K=as_tensor(advantage),
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
    return total


@pytest.mark.parametrize("objective", [Cispo(), Cispo(low=0.5, high=1.5), Grpo(clip_high=0.28), DecoupledPpo()])
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
    for objective in (Cispo(), DecoupledPpo()):
        assert row_advantages(objective, centred, group) == pytest.approx(expected)


def test_advantages_of_grpo_are_scaled_within_their_group() -> None:
    centred, group = np.array([0.5, -0.5, 0.75, -0.25, -0.25, -0.25, 0.0, 0.0]), np.array([0, 0, 1, 1, 1, 1, 2, 2])
    sigma = math.sqrt((0.5625 + 3 * 0.0625) / 4) + EPSILON
    expected = [0.5 / (0.5 + EPSILON), -0.5 / (0.5 + EPSILON), 0.75 / sigma, *[-0.25 / sigma] * 3, 0.0, 0.0]
    assert row_advantages(Grpo(), centred, group) == pytest.approx(expected)


def test_weights_are_a_mean_over_tokens_or_over_rollouts_and_groups() -> None:
    lengths, group = np.array([1, 3, 2, 2, 0]), np.array([0, 0, 1, 1, 1])
    assert row_weights(Cispo(), lengths, group) == pytest.approx([1 / 8] * 5)
    assert row_weights(Grpo(), lengths, group) == pytest.approx([1 / 4, 1 / 12, 1 / 12, 1 / 12, 1 / 6])


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(1, 4))
def test_weights_of_all_sampled_tokens_add_up_to_one(lengths: list[int], num_groups: int) -> None:
    counts = np.array(lengths)
    group = np.sort(np.arange(len(lengths)) % min(num_groups, len(lengths)))
    for objective in (Cispo(), Grpo(), DecoupledPpo()):
        assert (row_weights(objective, counts, group) * counts).sum() == pytest.approx(1.0)


def test_only_clipped_objectives_take_several_updates() -> None:
    assert [num_epochs(o) for o in (Cispo(), Grpo(num_epochs=3), DecoupledPpo(num_epochs=2))] == [1, 3, 2]
