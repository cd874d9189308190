"""How a scripted answer is spelled: as bytes, or as the tokens of a policy, so that a policy can train on it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from producers.samplers.interface import Ids, Weights
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class Spelling(Protocol):
    """Text to token ids and back."""

    @property
    def end_id(self) -> int:
        """Return the id that ends a turn."""
        ...

    def learn(self, weights: Weights) -> None:
        """Take what it needs from a policy's folder. Raises CheckpointError."""
        ...

    def encode(self, text: str) -> Ids:
        """Return [P] int32."""
        ...

    def decode(self, token_ids: Sequence[int] | Ids) -> str:
        """Return the text of ids, without those that end a turn."""
        ...


class ByteSpelling:
    """One byte is one token; needs no policy."""

    end_id = 256

    def learn(self, weights: Weights) -> None:
        """Need nothing."""

    def encode(self, text: str) -> Ids:
        """Return the UTF-8 bytes of `text`."""
        return np.frombuffer(text.encode(), np.uint8).astype(np.int32)

    def decode(self, token_ids: Sequence[int] | Ids) -> str:
        """Return the text of bytes."""
        return bytes(int(token) for token in token_ids if token < self.end_id).decode(errors="replace")


class PolicySpelling:
    """The tokens of the first policy version that is loaded."""

    def __init__(self) -> None:
        self._tokenizer: Tokenizer | None = None
        self._end_id = -1

    @property
    def end_id(self) -> int:
        """Return the id that ends a turn, as the policy's configuration has it."""
        return self._end_id

    def learn(self, weights: Weights) -> None:
        """Read the tokenizer, once. Raises CheckpointError."""
        if self._tokenizer is None:
            from producers.samplers.files import end_ids, read_tokenizer

            self._end_id = end_ids(weights)[0]
            self._tokenizer = read_tokenizer(weights.address)

    def encode(self, text: str) -> Ids:
        """Return the policy's ids of `text`, no special token added."""
        return np.array(self._known().encode(text, add_special_tokens=False).ids, np.int32)

    def decode(self, token_ids: Sequence[int] | Ids) -> str:
        """Return the text of ids, special tokens left out."""
        return str(self._known().decode([int(token) for token in token_ids], skip_special_tokens=True))

    def _known(self) -> "Tokenizer":
        if self._tokenizer is None:
            raise ConfigError("no policy was loaded yet, so that there is no tokenizer; load or pin one first")
        return self._tokenizer
