"""The keys and values of many sequences at different places, in one block that rows join and leave at any step.

transformers' own caches give all rows one length. This one is told for each forward pass which rows are computed and
where their new keys go (`Window`), so that no row pads another's past, and nothing is copied as sequences grow.
"""

from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

GROWTH = 16
"""Sequence capacity is a multiple of it."""


class Window:
    """What the next forward pass is about. Shared by all layers."""

    def __init__(self, *, num_rows: int, max_length: int) -> None:
        self.num_rows, self.max_length = num_rows, max_length
        self.fill_rows_M: torch.Tensor | None = None
        """[M] rows that are filled from place 0; None while decoding."""
        self.expand_M: torch.Tensor | None = None
        """[M] which row of the pass each takes; several rows may share one."""
        self.rows_B: torch.Tensor = torch.empty(0, dtype=torch.long)
        self.places_B: torch.Tensor = torch.empty(0, dtype=torch.long)
        """[B] where each row's new key goes."""
        self.length = 0
        """Places that the pass may look at."""

    def fill(self, rows_M: torch.Tensor, expand_M: torch.Tensor) -> None:
        """Have the next pass compute rows from their beginning."""
        self.fill_rows_M, self.expand_M = rows_M, expand_M

    def decode(self, places_B: torch.Tensor, length: int) -> None:
        """Have the next pass add one token to each of the first B rows."""
        self.fill_rows_M = self.expand_M = None
        if self.rows_B.shape != places_B.shape:
            self.rows_B = torch.arange(places_B.shape[0], device=places_B.device)
        self.places_B, self.length = places_B, length


class SlotLayer(CacheLayerMixin):  # type: ignore[misc]
    """One layer's keys and values, [rows, heads, places, head size]."""

    def __init__(self, window: Window) -> None:
        super().__init__()
        self.window = window

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate for the heads and sizes that the model turns out to have."""
        self.dtype, self.device = key_states.dtype, key_states.device
        self.keys, self.values = (self._block(states, GROWTH) for states in (key_states, value_states))
        self.is_initialized = True

    def _block(self, states: torch.Tensor, capacity: int) -> torch.Tensor:
        _, num_heads, _, head_size = states.shape
        shape = (self.window.num_rows, num_heads, min(capacity, self.window.max_length), head_size)
        return torch.zeros(shape, dtype=states.dtype, device=states.device)

    def _grow(self, length: int) -> None:
        present = self.keys.shape[2]
        if length <= present:
            return
        capacity = max(2 * present, -(-length // GROWTH) * GROWTH)
        for name in ("keys", "values"):
            old = getattr(self, name)
            block = self._block(old, capacity)
            block[:, :, :present] = old
            setattr(self, name, block)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store what the pass computed; returns what its queries may look at."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        window = self.window
        if window.fill_rows_M is not None:
            length = key_states.shape[2]
            self._grow(length)
            self.keys[window.fill_rows_M, :, :length] = key_states[window.expand_M]
            self.values[window.fill_rows_M, :, :length] = value_states[window.expand_M]
            return key_states, value_states
        self._grow(window.length)
        self.keys[window.rows_B, :, window.places_B] = key_states[:, :, 0]
        self.values[window.rows_B, :, window.places_B] = value_states[:, :, 0]
        num_rows = len(window.rows_B)
        return self.keys[:num_rows, :, : window.length], self.values[:num_rows, :, : window.length]

    def move(self, sources_M: torch.Tensor, targets_M: torch.Tensor, length: int) -> None:
        """Copy the first `length` places of rows onto other rows."""
        if self.is_initialized:
            for block in (self.keys, self.values):
                block[targets_M, :, :length] = block[sources_M, :, :length]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return how many places a filling pass looks at, and from which on; decoding brings its own mask."""
        return query_length, 0

    def get_seq_length(self) -> int:
        """Return 0: a filling pass starts at the beginning, and decoding is told its places."""
        return 0

    def get_max_length(self) -> int:
        """Return the most places that a row may have."""
        return self.window.max_length


class SlotCache(Cache):  # type: ignore[misc]
    """All layers' keys and values."""

    def __init__(self, *, num_layers: int, num_rows: int, max_length: int) -> None:
        self.window = Window(num_rows=num_rows, max_length=max_length)
        super().__init__(layers=[SlotLayer(self.window) for _ in range(num_layers)])

    def move(self, sources_M: torch.Tensor, targets_M: torch.Tensor, length: int) -> None:
        """Copy rows onto others in every layer."""
        for layer in self.layers:
            layer.move(sources_M, targets_M, length)
