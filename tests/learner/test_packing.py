import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from learner.model import load_model, token_logprobs
from learner.packing import Pass, Rollout, first_fit_decreasing, pack
from tests.learner.policies import VOCABULARY, make_policy

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=25)


def rollout(rng: np.random.Generator, length: int, *, temperature: float = 1.0) -> Rollout:
    mask = rng.integers(0, 2, length)
    return Rollout(
        token_ids_S=rng.integers(0, VOCABULARY, length).astype(np.int32),
        loss_mask_S=mask.astype(np.uint8),
        logprobs_S=np.where(mask, -rng.random(length), 0.0).astype(np.float32),
        versions_S=np.where(mask, rng.integers(0, 9, length), -1).astype(np.int32),
        temperature=temperature,
    )


def rollouts(lengths: list[int], seed: int = 0) -> list[Rollout]:
    rng = np.random.default_rng(seed)
    return [rollout(rng, length, temperature=(0.0, 0.5, 1.0)[i % 3]) for i, length in enumerate(lengths)]


def unpacked(passes: list[Pass]) -> dict[int, list[int]]:
    """Token ids by rollout, in the order of their positions."""
    found: dict[int, list[tuple[int, int]]] = {}
    for one in passes:
        for segment, position, token in zip(
            one.segment_ids_NT.flatten().tolist(),
            one.position_ids_NT.flatten().tolist(),
            one.token_ids_NT.flatten().tolist(),
            strict=True,
        ):
            if segment >= 0:
                found.setdefault(segment, []).append((position, token))
    assert all([p for p, _ in sorted(tokens)] == list(range(len(tokens))) for tokens in found.values())
    return {segment: [token for _, token in sorted(tokens)] for segment, tokens in found.items()}


@given(LENGTHS, st.integers(1, 32), st.integers(1, 4))
def test_every_token_stands_in_exactly_one_place(lengths: list[int], pack_tokens: int, rows_per_pass: int) -> None:
    given_rollouts = rollouts(lengths)
    passes = pack(given_rollouts, pack_tokens=pack_tokens, rows_per_pass=rows_per_pass)
    assert unpacked(passes) == {i: r.token_ids_S.tolist() for i, r in enumerate(given_rollouts)}
    assert sum(one.num_positions - one.num_padding for one in passes) == sum(lengths)
    for one in passes:
        num_rows, width = one.token_ids_NT.shape
        assert width <= pack_tokens or (num_rows == 1 and width == max(len(t) for t in unpacked([one]).values()))
        assert num_rows <= rows_per_pass


@given(LENGTHS, st.integers(1, 32))
def test_what_belongs_to_a_sampled_token_goes_with_it(lengths: list[int], pack_tokens: int) -> None:
    given_rollouts = rollouts(lengths)
    expected = sorted(
        (i, int(r.token_ids_S[p]), float(r.logprobs_S[p]), int(r.versions_S[p]), r.temperature or 1.0)
        for i, r in enumerate(given_rollouts)
        for p in r.sampled_places.tolist()
    )
    found = sorted(
        row
        for one in pack(given_rollouts, pack_tokens=pack_tokens, rows_per_pass=2)
        for row in zip(
            one.rollout_K.tolist(),
            one.token_ids_NT.flatten()[one.sampled_K].tolist(),
            one.behaviour_K.tolist(),
            one.version_K.tolist(),
            one.temperature_K.tolist(),
            strict=True,
        )
    )
    assert found == expected


def test_first_fit_decreasing_by_hand() -> None:
    assert first_fit_decreasing([3, 7, 5, 2, 12, 5], 10) == [[4], [1, 0], [2, 5], [3]]


@given(LENGTHS, st.integers(1, 40))
def test_no_two_bins_of_the_common_length_could_be_one(lengths: list[int], capacity: int) -> None:
    sizes = [sum(lengths[i] for i in one) for one in first_fit_decreasing(lengths, capacity)]
    common = sorted(size for size in sizes if size <= capacity)
    assert len(common) < 2 or common[0] + common[1] > capacity


def test_attention_stays_within_a_rollout_and_looks_back_only() -> None:
    (one,) = pack(rollouts([3, 2]), pack_tokens=6, rows_per_pass=1)
    sees = one.attention_mask()[0, 0].tolist()
    assert one.token_ids_NT.shape == (1, 5)
    assert [[i for i, seen in enumerate(row) if seen] for row in sees] == [[0], [0, 1], [0, 1, 2], [3], [3, 4]]


def test_packed_logprobs_equal_those_of_each_rollout_alone(tmp_path) -> None:  # type: ignore[no-untyped-def]
    model = load_model(make_policy(tmp_path))

    @settings(max_examples=20, deadline=None)
    @given(LENGTHS, st.integers(1, 32), st.integers(1, 4), st.integers(0, 99))
    def check(lengths: list[int], pack_tokens: int, rows_per_pass: int, seed: int) -> None:
        given_rollouts = rollouts(lengths, seed)
        packed: dict[int, list[float]] = {}
        with torch.no_grad():
            for one in pack(given_rollouts, pack_tokens=pack_tokens, rows_per_pass=rows_per_pass):
                for index, value in zip(one.rollout_K.tolist(), token_logprobs(model, one).tolist(), strict=True):
                    packed.setdefault(index, []).append(value)
            for index, alone in enumerate(given_rollouts):
                ids = torch.from_numpy(alone.token_ids_S.astype(np.int64))[None]
                logits = model(input_ids=ids).logits[0] / (alone.temperature or 1.0)
                logprobs = torch.log_softmax(logits, -1)
                wanted = [logprobs[p - 1, ids[0, p]].item() for p in alone.sampled_places.tolist()]
                np.testing.assert_allclose(packed.get(index, []), wanted, rtol=1e-4, atol=1e-5)

    check()
