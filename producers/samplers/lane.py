"""One model and the rows that it decodes: join, one token for all, leave; always dense, so that no slot idles.

What must hold: row r of every array and of the cache is the same request; rows 0..num_rows-1 are open; a filled row's
cache holds the keys of all its tokens but the last, under the weights that are loaded.
"""

import time
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from producers.samplers.draw import DrawParams, draw
from producers.samplers.engine import Engine, State
from producers.samplers.files import end_ids
from producers.samplers.interface import Finished, Request, Weights

Rows = npt.NDArray[np.int64]
FILL_TOKENS = 16_384
"""Positions of one filling pass, padding included."""
ROW = np.dtype(
    [
        ("length", np.int64),
        ("prompt", np.int64),
        ("limit", np.int64),
        ("temperature", np.float32),
        ("top_p", np.float32),
        ("seed", np.uint64),
        ("submitted_s", np.float64),
        ("first_s", np.float64),
        ("is_filled", np.bool_),
    ]
)


class Lane:
    """A model with its own cache. `num_slots` rows at most."""

    def __init__(self, engine: Engine, weights: Weights, *, num_slots: int, device: torch.device) -> None:
        self.engine, self.version, self.device = engine, weights.version, device
        self.context_length = engine.window.max_length
        self.is_end_V = np.zeros(engine.vocab_size, np.bool_)
        self.is_end_V[end_ids(weights)] = True
        self.ids: list[str] = []
        self.row_of: dict[str, int] = {}
        self.rows = np.zeros(num_slots, ROW)
        self.tokens_BT = np.zeros((num_slots, self.context_length), np.int32)
        self.logprobs_BT = np.zeros((num_slots, self.context_length), np.float32)
        self.versions_BT = np.zeros((num_slots, self.context_length), np.int32)

    @property
    def num_rows(self) -> int:
        """Return how many rows are open."""
        return len(self.ids)

    def load(self, weights: Weights, state: State) -> None:
        """Swap weights in place; open rows' keys are computed again before the next token. Raises CheckpointError."""
        self.engine.put(weights, state)
        self.version = weights.version
        self.rows["is_filled"] = False

    def submit(self, request: Request) -> None:
        """Open a row."""
        row, prompt = self.num_rows, len(request.prompt_ids)
        if not 1 <= prompt < self.context_length:
            raise ValueError(f"{request.id}: prompt of {prompt} tokens; wanted 1 to {self.context_length - 1}")
        sampling = request.sampling
        limit = min(prompt + sampling.max_tokens, self.context_length)
        fields = (prompt, prompt, limit, sampling.temperature, sampling.top_p, request.seed, time.monotonic(), 0, False)
        self.rows[row] = fields
        self.tokens_BT[row, :prompt] = request.prompt_ids
        self.ids.append(request.id)
        self.row_of[request.id] = row

    def cancel(self, request_id: str) -> bool:
        """Drop a row. Returns whether there was one."""
        row = self.row_of.get(request_id)
        if row is None:
            return False
        self._remove(np.array([row]))
        return True

    @torch.inference_mode()
    def step(self) -> list[Finished]:
        """Draw one token for every row; returns the rows that this finished."""
        if not self.ids:
            return []
        rows = self.rows[: self.num_rows]
        if not rows["is_filled"].all():
            self._fill(np.flatnonzero(~rows["is_filled"]))
        lengths_B = rows["length"].copy()
        drawn = draw(
            self._logits(lengths_B - 1),
            DrawParams(
                temperatures_B=rows["temperature"], top_ps_B=rows["top_p"], seeds_B=rows["seed"], places_B=lengths_B
            ),
        )
        open_B = np.arange(len(rows))
        self.tokens_BT[open_B, lengths_B] = drawn.tokens_B
        self.logprobs_BT[open_B, lengths_B] = drawn.logprobs_B
        self.versions_BT[open_B, lengths_B] = self.version
        rows["length"] += 1
        now_s = time.monotonic()
        rows["first_s"][lengths_B == rows["prompt"]] = now_s
        is_end_B = self.is_end_V[drawn.tokens_B]
        done_M = np.flatnonzero(is_end_B | (rows["length"] >= rows["limit"]))
        if not len(done_M):
            return []
        finished = [self._finished(row, is_end=bool(is_end_B[row]), now_s=now_s) for row in done_M.tolist()]
        self._remove(done_M)
        return finished

    def _logits(self, places_B: Rows) -> torch.Tensor:
        """Return [B, V] after each row's token at its place, whose keys are added to the cache."""
        num_rows, length = len(places_B), int(places_B.max()) + 1
        tokens_B = self.tokens_BT[np.arange(num_rows), places_B].astype(np.int64)
        return self.engine.decode(self._tensor(tokens_B), self._tensor(places_B), length)

    def _fill(self, rows_M: Rows) -> None:
        """Compute the cache of rows from their beginning, in passes of bounded size, short rows with short ones."""
        lengths_M = self.rows["length"][rows_M] - 1
        order_M = np.argsort(lengths_M, kind="stable")[np.count_nonzero(lengths_M == 0) :]
        while len(order_M):
            fits = lengths_M[order_M] * np.arange(1, len(order_M) + 1) <= FILL_TOKENS
            count = max(1, int(fits.sum()))
            self._fill_pass(rows_M[order_M[:count]], int(lengths_M[order_M[count - 1]]))
            order_M = order_M[count:]
        self.rows["is_filled"][rows_M] = True

    def _fill_pass(self, rows_M: Rows, length: int) -> None:
        """Fill rows whose longest has `length` tokens to fill; equal beginnings (a group's prompt) are computed once.

        Rows are padded on the right: what causal attention computes there is seen by nothing.
        """
        tokens_MT = self.tokens_BT[rows_M, :length].astype(np.int64)
        tokens_MT[np.arange(length) >= self.rows["length"][rows_M, None] - 1] = 0
        unique_UT, expand_M = np.unique(tokens_MT, axis=0, return_inverse=True)
        self.engine.fill(self._tensor(unique_UT), self._tensor(rows_M), self._tensor(expand_M.reshape(-1)))

    def _finished(self, row: int, *, is_end: bool, now_s: float) -> Finished:
        fields = self.rows[row]
        span = slice(int(fields["prompt"]), int(fields["length"]))
        return Finished(
            id=self.ids[row],
            token_ids=self.tokens_BT[row, span].copy(),
            logprobs=self.logprobs_BT[row, span].copy(),
            versions=self.versions_BT[row, span].copy(),
            finish_reason="stop" if is_end else "length",
            queued_s=float(fields["first_s"] - fields["submitted_s"]),
            generate_s=now_s - float(fields["first_s"]),
        )

    @torch.inference_mode()
    def _remove(self, done_M: Rows) -> None:
        """Close rows; the last open ones move into their places."""
        for row in done_M.tolist():
            del self.row_of[self.ids[row]]
        num_left = self.num_rows - len(done_M)
        holes = done_M[done_M < num_left]
        movers = np.setdiff1d(np.arange(num_left, self.num_rows), done_M, assume_unique=True)
        if len(movers):
            length = int(self.rows["length"][movers].max())
            self.rows[holes] = self.rows[movers]
            for block in (self.tokens_BT, self.logprobs_BT, self.versions_BT):
                block[holes, :length] = block[movers, :length]
            self.engine.move(self._tensor(movers), self._tensor(holes), length)
            for mover, hole in zip(movers.tolist(), holes.tolist(), strict=True):
                self.ids[hole] = self.ids[mover]
                self.row_of[self.ids[hole]] = hole
        del self.ids[num_left:]

    def _tensor(self, array: npt.NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
