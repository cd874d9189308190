"""Rollouts of unequal length, laid end to end in rows of equal length, so that nearly no position is computed in vain.

Every token stands in exactly one place. Positions restart and attention is confined to each rollout, so that packing
does not change what the model computes. First-fit decreasing, ties by index: equal rollouts always make equal rows.

Shapes: N packed rows, T positions, K sampled tokens, S tokens of one rollout.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """One sequence to learn from."""

    token_ids_S: npt.NDArray[np.int32]
    loss_mask_S: npt.NDArray[np.uint8]
    """1 where the policy drew the token. A first token has no context and so no log-probability: it never counts."""
    logprobs_S: npt.NDArray[np.float32]
    versions_S: npt.NDArray[np.int32]
    temperature: float = 1.0
    """0 was greedy, and is taken as 1, as are its recorded log-probabilities."""

    @property
    def sampled_places(self) -> Ints:
        """Return where the sampled tokens stand."""
        places = np.flatnonzero(self.loss_mask_S)
        return places[places > 0].astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Pass:
    """What one forward pass computes."""

    token_ids_NT: Tensor
    """int64, 0 at padding."""
    position_ids_NT: Tensor
    """int64, from 0 in each rollout."""
    segment_ids_NT: Tensor
    """int64 index of the rollout, -1 at padding."""
    sampled_K: Tensor
    """int64 places of sampled tokens in the flattened [N * T]."""
    rollout_K: Tensor
    """int64 index of the rollout that each belongs to."""
    behaviour_K: Tensor
    """float32 log-probabilities at sampling."""
    temperature_K: Tensor
    """float32."""
    version_K: Ints
    """Policy version that drew it."""

    @property
    def num_positions(self) -> int:
        """Return how many positions are computed."""
        return self.token_ids_NT.numel()

    @property
    def num_padding(self) -> int:
        """Return how many of them hold no token."""
        return int((self.segment_ids_NT < 0).sum())

    def attention_mask(self) -> Tensor:
        """Return [N, 1, T, T] bool: each token sees those before it in its own rollout, and itself."""
        same_NTT = self.segment_ids_NT[:, :, None] == self.segment_ids_NT[:, None, :]
        return torch.tril(same_NTT)[:, None]


def first_fit_decreasing(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Return the indices in each bin, longest first; what exceeds `capacity` has a bin to itself."""
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    room = np.zeros(len(lengths), np.int64)
    bins: list[list[int]] = []
    for index in order:
        fits = room[: len(bins)] >= lengths[index]
        chosen = int(fits.argmax()) if fits.any() else len(bins)
        if chosen == len(bins):
            bins.append([])
            room[chosen] = max(capacity, lengths[index])
        bins[chosen].append(index)
        room[chosen] -= lengths[index]
    return bins


def pack(rollouts: Sequence[Rollout], *, pack_tokens: int, rows_per_pass: int) -> list[Pass]:
    """Lay the rollouts out in rows of `pack_tokens`, at most `rows_per_pass` to a pass.

    A longer rollout is a pass of its own; a pass is as wide as its fullest row.
    """
    lengths = [len(rollout.token_ids_S) for rollout in rollouts]
    bins = first_fit_decreasing(lengths, pack_tokens)
    long = [[one] for one in bins if lengths[one[0]] > pack_tokens]
    short = bins[len(long) :]
    chunks = long + [short[start : start + rows_per_pass] for start in range(0, len(short), rows_per_pass)]
    return [lay_out(rollouts, chunk) for chunk in chunks]


def lay_out(rollouts: Sequence[Rollout], bins: Sequence[Sequence[int]]) -> Pass:
    """Return the pass that has these rollouts in these rows."""
    width = max(sum(len(rollouts[index].token_ids_S) for index in one) for one in bins)
    token_ids, positions = np.zeros((2, len(bins), width), np.int64)
    segments = np.full((len(bins), width), -1, np.int64)
    places: list[Ints] = []
    order: list[int] = []
    for row, one in enumerate(bins):
        start = 0
        for index in one:
            rollout = rollouts[index]
            stop = start + len(rollout.token_ids_S)
            token_ids[row, start:stop] = rollout.token_ids_S
            positions[row, start:stop] = np.arange(stop - start)
            segments[row, start:stop] = index
            places.append(rollout.sampled_places + (row * width + start))
            order.append(index)
            start = stop
    chosen = [rollouts[index] for index in order]
    counts = [len(place) for place in places]
    temperatures = np.array([rollout.temperature or 1.0 for rollout in chosen], np.float32)
    return Pass(
        token_ids_NT=torch.from_numpy(token_ids),
        position_ids_NT=torch.from_numpy(positions),
        segment_ids_NT=torch.from_numpy(segments),
        sampled_K=torch.from_numpy(np.concatenate(places)),
        rollout_K=torch.from_numpy(np.repeat(np.array(order, np.int64), counts)),
        behaviour_K=torch.from_numpy(
            np.concatenate([r.logprobs_S[r.sampled_places] for r in chosen]).astype(np.float32)
        ),
        temperature_K=torch.from_numpy(np.repeat(temperatures, counts)),
        version_K=np.concatenate([r.versions_S[r.sampled_places] for r in chosen]).astype(np.int64),
    )
