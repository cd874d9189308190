"""What a lane asks of a model, and which implementation answers."""

from typing import Protocol

import torch

from producers.samplers.cache import Window
from producers.samplers.files import read_config
from producers.samplers.interface import Weights
from schemas.errors import CheckpointError

State = dict[str, torch.Tensor]


class Engine(Protocol):
    """A model with its cache. Called under `torch.inference_mode`, but for `put`."""

    window: Window
    vocab_size: int

    def put(self, weights: Weights, state: State) -> None:
        """Replace the weights in place. Raises CheckpointError, with nothing changed, where they do not fit."""

    def fill(self, tokens_UT: torch.Tensor, rows_M: torch.Tensor, expand_M: torch.Tensor) -> None:
        """Put into rows M of the cache the keys of the sequences that `expand_M` picks from `tokens_UT`."""

    def decode(self, tokens_B: torch.Tensor, places_B: torch.Tensor, length: int) -> torch.Tensor:
        """Add each row's token at its place to the cache; returns the logits after it, [B, V]."""

    def move(self, sources_M: torch.Tensor, targets_M: torch.Tensor, length: int) -> None:
        """Copy rows of the cache onto others."""


def make_engine(
    weights: Weights, state: State, *, num_rows: int, device: torch.device, is_plain: bool = False
) -> Engine:
    """Return an engine with these weights: the lean one where it knows the architecture, else transformers' own model.

    `is_plain` takes transformers' own model in any case.
    """
    from producers.samplers import llama

    config = read_config(weights)
    if not is_plain and llama.can_run(config):
        engine: Engine = llama.LlamaEngine(config, weights, state, num_rows=num_rows, device=device)
        return engine
    from producers.samplers.auto import AutoEngine  # transformers takes seconds to import

    return AutoEngine(weights, state, num_rows=num_rows, device=device)


def check_fit(weights: Weights, present: State, state: State, *, optional: set[str]) -> None:
    """Raise CheckpointError where tensors are missing, unknown or of another shape."""
    missing, unknown = present.keys() - state.keys() - optional, state.keys() - present.keys()
    misfits = [name for name in state.keys() & present.keys() if state[name].shape != present[name].shape]
    if missing or unknown or misfits:
        raise CheckpointError(
            f"policy version {weights.version}: tensors of {weights.address} do not fit the model: missing "
            f"{sorted(missing)[:3]}, unknown {sorted(unknown)[:3]}, of another shape {sorted(misfits)[:3]}"
        )
