"""What the generator asks of an engine: continuous batching over requests, token by token.

What must hold for every sampler:
1. A request's tokens depend on its prompt, sampling parameters, seed and weights only: never on which other requests
   are open, and not on when it was submitted.
2. `logprobs` are those of the distribution that each token was drawn from, temperature and top-p counted; at
   temperature 0, those of temperature 1.
3. `versions` names, token by token, the weights that drew it; and its logprob is what exactly those weights give to it
   after the whole sequence before it, also where weights were swapped in the middle.
4. A request comes back once: finished, or cancelled and then never.
"""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from schemas.tasks import SamplingParams

Ids = npt.NDArray[np.int32]


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """One policy version and where its files are."""

    version: int
    address: str
    """Folder of Hugging Face files."""
    digest: str
    """sha256 of its `model.safetensors`."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One turn to sample."""

    id: str
    prompt_ids: Any
    """[P] int32: the whole sequence so far; P is at least 1 and less than the sampler's `context_length`."""
    sampling: SamplingParams
    seed: int
    """With a token's place in the sequence it decides every draw."""
    policy_version: int | None = None
    """A version given to `pin`; None is the live one, whichever that is at each token."""
    hint: str = ""
    """What a right turn says, for samplers without a model. No other one looks at it."""
    is_last_hint: bool = False
    """Whether no later turn has one; for the same."""


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """One sampled turn."""

    id: str
    token_ids: Any
    """[T] int32, the end token included where there was one."""
    logprobs: Any
    """[T] float32."""
    versions: Any
    """[T] int32."""
    finish_reason: Literal["stop", "length"]
    """`length`: `max_tokens` or `context_length` was reached before an end token."""
    queued_s: float
    """Seconds from `submit` to the first token."""
    generate_s: float
    """Seconds from the first token to the last."""


class Sampler(Protocol):
    """An engine. One thread owns it."""

    @property
    def num_open(self) -> int:
        """Return how many requests are being sampled."""

    @property
    def num_free(self) -> int:
        """Return how many more may be submitted."""

    @property
    def version(self) -> int | None:
        """Return the live policy version, None before the first `load`."""

    @property
    def context_length(self) -> int:
        """Return the most tokens that prompt and answer may have. Only after a `load` or `pin`."""

    def encode(self, text: str) -> Ids:
        """Return the ids of `text`, [P] int32, no special token added. Only after a `load` or `pin`."""

    def decode(self, token_ids: Sequence[int] | Ids) -> str:
        """Return the text of ids, special tokens left out. Only after a `load` or `pin`."""

    def load(self, weights: Weights) -> None:
        """Make `weights` the live ones, at once, also for the open requests.

        Raises:
            CheckpointError: files are missing or not what their digest says; the weights before stay live.
        """

    def pin(self, weights: Weights) -> None:
        """Have a version ready for requests that name it; the live one is not disturbed.

        Raises:
            CheckpointError: files are missing or not what their digest says.
        """

    def is_pinned(self, version: int) -> bool:
        """Return whether requests may name this version now."""

    def submit(self, request: Request) -> None:
        """Open a request. Only while `num_free` is above 0, and with its version loaded or pinned."""

    def cancel(self, request_id: str) -> bool:
        """Drop an open request. Returns whether there was one."""

    def step(self) -> list[Finished]:
        """Sample one token for every open request; returns those that it finished."""
