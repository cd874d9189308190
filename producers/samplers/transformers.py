"""The sampler for every causal model that transformers can build: one live lane, and replicas for pinned versions."""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import torch
from tokenizers import Tokenizer

from producers.samplers.engine import make_engine
from producers.samplers.files import read_tokenizer
from producers.samplers.interface import Finished, Ids, Request, Weights
from producers.samplers.lane import Lane
from producers.samplers.weights import read_state
from schemas.errors import ConfigError

NUM_PINNED = 2
"""Pinned versions kept in memory; more only while requests of more are open."""


class TransformersSampler:
    """Continuous batching over a transformers model. See `producers.samplers.interface.Sampler`."""

    def __init__(
        self, *, num_slots: int, num_threads: int = 1, device: str | None = None, is_plain: bool = False
    ) -> None:
        """`device` is torch's name for one; None takes a GPU where there is one.

        `is_plain` runs transformers' own model also where there is a leaner one.
        """
        self._is_plain = is_plain
        torch.set_num_threads(num_threads)
        self.num_slots = num_slots
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._live: Lane | None = None
        self._pinned: OrderedDict[int, Lane] = OrderedDict()
        self._tokenizer: Tokenizer | None = None
        self._num_open = 0

    @property
    def num_open(self) -> int:
        """Return how many requests are being sampled."""
        return self._num_open

    @property
    def num_free(self) -> int:
        """Return how many more may be submitted."""
        return self.num_slots - self._num_open

    @property
    def version(self) -> int | None:
        """Return the live policy version, None before the first `load`."""
        return None if self._live is None else self._live.version

    @property
    def context_length(self) -> int:
        """Return the most tokens that prompt and answer may have."""
        return min(lane.context_length for lane in self._lanes())

    def encode(self, text: str) -> Ids:
        """Return the ids of `text`, [P] int32, no special token added."""
        return np.array(self._known_tokenizer().encode(text, add_special_tokens=False).ids, np.int32)

    def decode(self, token_ids: Sequence[int] | Ids) -> str:
        """Return the text of ids, special tokens left out."""
        ids = token_ids.tolist() if isinstance(token_ids, np.ndarray) else list(token_ids)
        return str(self._known_tokenizer().decode(ids, skip_special_tokens=True))

    def load(self, weights: Weights) -> None:
        """Make `weights` the live ones, at once, also for the open requests. Raises CheckpointError."""
        if self._live is None:
            self._live = self._lane(weights)
        else:
            self._live.load(weights, read_state(weights))

    def pin(self, weights: Weights) -> None:
        """Have a version ready for requests that name it. Raises CheckpointError."""
        if weights.version not in self._pinned:
            self._pinned[weights.version] = self._lane(weights)
        self._pinned.move_to_end(weights.version)
        idle = [version for version, lane in self._pinned.items() if not lane.num_rows and version != weights.version]
        for version in idle[: max(0, len(self._pinned) - NUM_PINNED)]:
            del self._pinned[version]

    def is_pinned(self, version: int) -> bool:
        """Return whether requests may name this version now."""
        return version in self._pinned

    def submit(self, request: Request) -> None:
        """Open a request."""
        lane = self._live if request.policy_version is None else self._pinned.get(request.policy_version)
        if lane is None:
            raise ConfigError(f"{request.id}: policy version {request.policy_version or 'live'} was not loaded")
        if self.num_free <= 0:
            raise ConfigError(f"{request.id}: all {self.num_slots} slots are taken; ask num_free first")
        lane.submit(request)
        self._num_open += 1

    def cancel(self, request_id: str) -> bool:
        """Drop an open request. Returns whether there was one."""
        was_open = any(lane.cancel(request_id) for lane in self._lanes())
        self._num_open -= was_open
        return was_open

    def step(self) -> list[Finished]:
        """Sample one token for every open request; returns those that it finished."""
        found = [finished for lane in self._lanes() for finished in lane.step()]
        self._num_open -= len(found)
        return found

    def _lanes(self) -> list[Lane]:
        live = [] if self._live is None else [self._live]
        return [*live, *self._pinned.values()]

    def _lane(self, weights: Weights) -> Lane:
        state = read_state(weights)
        if self._tokenizer is None:
            self._tokenizer = read_tokenizer(weights.address)
        engine = make_engine(weights, state, num_rows=self.num_slots, device=self.device, is_plain=self._is_plain)
        return Lane(engine, weights, num_slots=self.num_slots, device=self.device)

    def _known_tokenizer(self) -> Tokenizer:
        if self._tokenizer is None:
            raise ConfigError("no policy was loaded yet, so that there is no tokenizer; load or pin one first")
        return self._tokenizer
