import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from learner.model import load_model, token_logprobs, weights_bytes
from learner.optimizer import make_optimizer, optimizer_bytes, restore_optimizer
from learner.packing import pack
from learner.step import StepResult, read_batches, take_step
from schemas.arrays import PackedArray
from schemas.batches import Batch, BatchRow
from schemas.config import LearnerSettings
from schemas.errors import CheckpointError, DivergenceError
from schemas.objectives import Cispo, DecoupledPpo, Grpo, M2po, Objective, Topr
from tests.learner.policies import make_batch, make_policy

SETTINGS = LearnerSettings(pack_tokens=24, rows_per_pass=2, learning_rate=0.01)
OBJECTIVES = [Cispo(), Grpo(num_epochs=3), DecoupledPpo(num_epochs=2), Topr(), M2po(tau=1.0)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_policy(tmp_path_factory.mktemp("policy"))


def change(folder: Path, batches: list[Batch], settings: LearnerSettings = SETTINGS, *, num_steps: int = 1) -> Any:
    model = load_model(folder)
    optimizer = make_optimizer(model)
    results = [take_step(model, optimizer, batches, settings, step=n + 1, seed=0) for n in range(num_steps)]
    return model, optimizer, results


def current_logprobs(model: Any, batch: Batch) -> list[np.ndarray[Any, Any]]:
    """Of the sampled tokens of each row, computed alone."""
    found = []
    for row in batch.rows:
        ids = torch.from_numpy(row.token_ids.unpack().astype(np.int64))[None]
        with torch.no_grad():
            logprobs = torch.log_softmax(model(input_ids=ids).logits[0] / (row.temperature or 1.0), -1)
        places = [p for p in np.flatnonzero(row.loss_mask.unpack()) if p > 0]
        found.append(np.array([logprobs[p - 1, ids[0, p]].item() for p in places]))
    return found


def test_the_loss_of_cispo_is_the_formula_over_all_tokens(folder: Path) -> None:
    batches = [make_batch(0), make_batch(1)]
    model = load_model(folder)
    rows = [row for batch in batches for row in batch.rows]
    currents = [logprobs for batch in batches for logprobs in current_logprobs(model, batch)]
    sigma = np.std([row.advantage for row in rows]) + 1e-6
    total = sum(
        (np.clip(np.exp(c - r.logprobs.unpack()[r.loss_mask.unpack() == 1]), 0, 5) * r.advantage / sigma * c).sum()
        for r, c in zip(rows, currents, strict=True)
    )
    (result,) = change(folder, batches)[2]
    assert result.loss == pytest.approx(-total / sum(map(len, currents)), rel=1e-4)


def test_the_figures_are_those_of_the_tokens(folder: Path) -> None:
    batches = [make_batch(0, version=-3), make_batch(1, version=-1)]
    model = load_model(folder)
    (result,) = change(folder, batches, msgspec.structs.replace(SETTINGS, objective=Cispo(high=1.0)))[2]
    everything = []
    for batch, domain in zip(batches, ("verbs", "repair"), strict=True):
        log_ratio = np.concatenate(
            [
                c - r.logprobs.unpack()[r.loss_mask.unpack() == 1]
                for r, c in zip(batch.rows, current_logprobs(model, batch), strict=True)
            ]
        )
        everything.append(log_ratio)
        check(result.by_domain[domain], log_ratio, staleness=-batch.oldest_version, reward_mean=batch.reward_mean)
    check(result.stats, np.concatenate(everything), staleness=None, reward_mean=None)
    assert result.stats.staleness_max == 3
    assert result.stats.num_rows == 6


def check(stats: Any, log_ratio: np.ndarray[Any, Any], *, staleness: int | None, reward_mean: float | None) -> None:
    ratio = np.exp(log_ratio)
    assert stats.num_tokens == len(ratio)
    assert stats.ess == pytest.approx(ratio.sum() ** 2 / len(ratio) / (ratio**2).sum(), rel=1e-4)
    assert 0 < stats.ess <= 1
    assert stats.mismatch_kl == pytest.approx((ratio - 1 - log_ratio).mean(), rel=1e-4)
    assert stats.ratio_max == pytest.approx(ratio.max(), rel=1e-4)
    assert stats.clipped_fraction == pytest.approx((ratio > 1).mean())
    if staleness is not None:
        assert (stats.staleness_mean, stats.staleness_max) == (staleness, staleness)
        assert stats.reward_mean == pytest.approx(reward_mean)


def test_masked_tokens_are_counted(folder: Path) -> None:
    batches = [make_batch(0), make_batch(1)]
    (result,) = change(folder, batches, msgspec.structs.replace(SETTINGS, objective=DecoupledPpo()))[2]
    ratios = np.exp(
        np.concatenate(
            [
                c - r.logprobs.unpack()[r.loss_mask.unpack() == 1]
                for b in batches
                for r, c in zip(b.rows, current_logprobs(load_model(folder), b), strict=True)
            ]
        )
    )
    assert result.stats.masked_fraction == pytest.approx((ratios > 5).mean())
    assert result.stats.masked_fraction > 0


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: type(o).__name__)
def test_a_step_is_repeatable_to_the_bit(folder: Path, objective: Objective) -> None:
    settings = msgspec.structs.replace(SETTINGS, objective=objective)
    first, second = (change(folder, [make_batch(0), make_batch(1)], settings, num_steps=3) for _ in range(2))
    assert weights_bytes(first[0]) == weights_bytes(second[0])
    assert optimizer_bytes(first[1], first[0]) == optimizer_bytes(second[1], second[0])
    assert [figures(r) for r in first[2]] == [figures(r) for r in second[2]]


def test_m2po_masks_over_the_whole_step_what_leaves_a_second_moment_within_the_bound(folder: Path) -> None:
    batches = [make_batch(0), make_batch(1)]
    settings = msgspec.structs.replace(SETTINGS, objective=M2po(tau=1.0))
    model = load_model(folder)
    log_rho = np.concatenate(
        [
            c - r.logprobs.unpack()[r.loss_mask.unpack() == 1]
            for batch in batches
            for r, c in zip(batch.rows, current_logprobs(model, batch), strict=True)
        ]
    )
    squares = np.sort(log_rho**2)
    num_kept = max(n for n in range(len(squares) + 1) if n == 0 or squares[:n].mean() <= 1.0)
    (result,) = change(folder, batches, settings)[2]
    assert 0 < num_kept < len(squares)
    assert result.stats.masked_fraction == pytest.approx(1 - num_kept / len(squares))


def test_when_everything_is_an_outlier_nothing_is_learned(folder: Path) -> None:
    settings = msgspec.structs.replace(SETTINGS, objective=M2po(tau=1e-12))
    (result,) = change(folder, [make_batch(0)], settings)[2]
    assert (result.stats.masked_fraction, result.loss, result.grad_norm) == (1.0, 0.0, 0.0)


def figures(result: StepResult) -> StepResult:
    return msgspec.structs.replace(result, timings_s={})


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: type(o).__name__)
def test_a_step_makes_good_answers_likelier_and_bad_ones_less_likely(folder: Path, objective: Objective) -> None:
    batch = make_batch(0)
    at_behaviour = with_behaviour_of(load_model(folder), batch)
    before = [c.sum() for c in current_logprobs(load_model(folder), batch)]
    settings = msgspec.structs.replace(SETTINGS, objective=objective, learning_rate=1e-3)
    after = [c.sum() for c in current_logprobs(change(folder, [at_behaviour], settings)[0], batch)]
    gain = sum(row.advantage * (b - a) for row, a, b in zip(batch.rows, before, after, strict=True))
    assert gain > 0


def with_behaviour_of(model: Any, batch: Batch) -> Batch:
    rows = []
    for row, current in zip(batch.rows, current_logprobs(model, batch), strict=True):
        logprobs = np.zeros(len(row.token_ids))
        logprobs[row.loss_mask.unpack() == 1] = current
        rows.append(msgspec.structs.replace(row, logprobs=PackedArray.pack(logprobs, dtype="f4")))
    return msgspec.structs.replace(batch, rows=tuple(rows))


def test_several_updates_clip_what_one_does_not(folder: Path) -> None:
    def clipped(num_epochs: int) -> float:
        objective = Grpo(num_epochs=num_epochs, clip_low=0.01, clip_high=0.01)
        settings = msgspec.structs.replace(SETTINGS, objective=objective)
        return float(change(folder, [make_batch(0)], settings)[2][0].stats.clipped_fraction)

    assert clipped(1) == 0.0
    assert clipped(4) > 0.0


def test_a_step_at_the_behaviour_policy_has_no_mismatch(folder: Path) -> None:
    batch = with_behaviour_of(load_model(folder), make_batch(0))
    stats = change(folder, [batch])[2][0].stats
    assert stats.ess == pytest.approx(1.0)
    assert stats.mismatch_kl == pytest.approx(0.0, abs=1e-6)
    assert stats.ratio_max == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("temperature", [0.0, 0.5, 2.0])
def test_logits_are_divided_by_each_rows_temperature(folder: Path, temperature: float) -> None:
    model = load_model(folder)
    batch = make_batch(0)
    rows = tuple(msgspec.structs.replace(row, temperature=temperature) for row in batch.rows[:1]) + batch.rows[1:]
    changed = msgspec.structs.replace(batch, rows=rows)
    wanted = np.concatenate(current_logprobs(model, changed))
    (packed,) = pack(read_batches([changed]).rollouts, pack_tokens=64, rows_per_pass=1)
    with torch.no_grad():
        found = token_logprobs(model, packed).numpy()
    order = np.argsort(packed.rollout_K.numpy(), kind="stable")
    np.testing.assert_allclose(found[order], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: type(o).__name__)
def test_how_rollouts_are_packed_does_not_change_the_step(folder: Path, objective: Objective) -> None:
    batches = [make_batch(index) for index in range(4)]
    settings = msgspec.structs.replace(SETTINGS, objective=objective)
    wide, narrow = (
        change(folder, batches, msgspec.structs.replace(settings, pack_tokens=n, rows_per_pass=n // 8))[2][0]
        for n in (64, 8)
    )
    assert wide.stats.masked_fraction == narrow.stats.masked_fraction
    assert wide.loss == pytest.approx(narrow.loss, rel=1e-4, abs=1e-6)
    assert wide.grad_norm == pytest.approx(narrow.grad_norm, rel=1e-4)


def test_the_learning_rate_warms_up_and_stays(folder: Path) -> None:
    settings = msgspec.structs.replace(SETTINGS, warmup_steps=4)
    rates = [result.learning_rate for result in change(folder, [make_batch(0)], settings, num_steps=6)[2]]
    assert rates == pytest.approx([0.0025, 0.005, 0.0075, 0.01, 0.01, 0.01])


def test_a_gradient_that_is_not_finite_stops_before_any_weight_changes(folder: Path) -> None:
    model = load_model(folder)
    with torch.no_grad():
        next(model.parameters())[:] = math.nan
    optimizer = make_optimizer(model)
    before = weights_bytes(model)
    with pytest.raises(DivergenceError, match="step 9: loss nan"):
        take_step(model, optimizer, [make_batch(0)], SETTINGS, step=9, seed=0)
    assert weights_bytes(model) == before
    assert not optimizer.state


def test_rows_without_sampled_tokens_are_no_obstacle(folder: Path) -> None:
    batch = make_batch(0)
    silent = [silenced(row) for row in batch.rows]
    for objective in OBJECTIVES:
        settings = msgspec.structs.replace(SETTINGS, objective=objective)
        (some,) = change(folder, [msgspec.structs.replace(batch, rows=(silent[0], *batch.rows[1:]))], settings)[2]
        assert some.stats.num_tokens > 0
        assert math.isfinite(some.loss)


def silenced(row: BatchRow) -> BatchRow:
    return msgspec.structs.replace(row, loss_mask=PackedArray.pack(np.zeros(len(row.token_ids)), dtype="u1"))


def test_the_optimizer_comes_back_to_the_bit_and_goes_on_the_same(folder: Path) -> None:
    batches = [make_batch(0), make_batch(1)]
    model, optimizer, _ = change(folder, batches, num_steps=2)
    restored = restore_optimizer(optimizer_bytes(optimizer, model), model)
    assert optimizer_bytes(restored, model) == optimizer_bytes(optimizer, model)
    twin = load_model(folder)
    twin.load_state_dict(model.state_dict())
    twin_optimizer = restore_optimizer(optimizer_bytes(optimizer, model), twin)
    take_step(model, optimizer, batches, SETTINGS, step=3, seed=0)
    take_step(twin, twin_optimizer, batches, SETTINGS, step=3, seed=0)
    assert weights_bytes(model) == weights_bytes(twin)


def test_an_optimizers_state_that_is_none_is_refused(folder: Path, tmp_path: Path) -> None:
    model = load_model(folder)
    with pytest.raises(CheckpointError, match="not an optimizer's state"):
        restore_optimizer(b"\0" * 32, model)
    other = load_model(make_policy(tmp_path, num_hidden_layers=3))
    trained = make_optimizer(other)
    take_step(other, trained, [make_batch(0)], SETTINGS, step=1, seed=0)
    with pytest.raises(CheckpointError, match="no such parameter"):
        restore_optimizer(optimizer_bytes(trained, other), model)
