"""The keys and values of many sequences at different places, in one block that rows join and leave at any step.

Each forward pass is told which rows it computes and where their new keys go (`Window`), so that no row pads another's
past, and nothing is copied as sequences grow.
"""

import torch

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

    def mask(self) -> torch.Tensor:
        """Return which places each decoded row may look at, [B, 1, 1, length]."""
        places_T = torch.arange(self.length, device=self.places_B.device)
        return (places_T <= self.places_B[:, None])[:, None, None]


class Block:
    """One layer's keys and values, each [rows, heads, places, head size]."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.keys = self.values = torch.empty(0)

    def update(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Store what the pass computed, [rows of the pass, heads, its places, head size]; returns what it may look at.

        A filling pass looks at its own keys only, since it starts at the beginning.
        """
        window = self.window
        if window.fill_rows_M is not None:
            length = keys.shape[2]
            self._grow(keys, length)
            self.keys[window.fill_rows_M, :, :length] = keys[window.expand_M]
            self.values[window.fill_rows_M, :, :length] = values[window.expand_M]
            return keys, values
        self._grow(keys, window.length)
        self.keys[window.rows_B, :, window.places_B] = keys[:, :, 0]
        self.values[window.rows_B, :, window.places_B] = values[:, :, 0]
        num_rows = len(window.rows_B)
        return self.keys[:num_rows, :, : window.length], self.values[:num_rows, :, : window.length]

    def move(self, sources_M: torch.Tensor, targets_M: torch.Tensor, length: int) -> None:
        """Copy the first `length` places of rows onto other rows."""
        if self.keys.numel():
            for block in (self.keys, self.values):
                block[targets_M, :, :length] = block[sources_M, :, :length]

    def _grow(self, like: torch.Tensor, length: int) -> None:
        present = self.keys.shape[2] if self.keys.numel() else 0
        if length <= present:
            return
        capacity = min(max(2 * present, -(-length // GROWTH) * GROWTH), self.window.max_length)
        _, num_heads, _, head_size = like.shape
        for name in ("keys", "values"):
            block = like.new_zeros(self.window.num_rows, num_heads, capacity, head_size)
            if present:
                block[:, :, :present] = getattr(self, name)
            setattr(self, name, block)
