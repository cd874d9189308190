"""Any causal model that transformers can build, over the rows' own cache.

transformers' caches give all rows one length; here its cache interface is laid over `Block`s.
"""

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.cache_utils import Cache, CacheLayerMixin

from producers.samplers.cache import Block, Window
from producers.samplers.engine import State, check_fit
from producers.samplers.interface import Weights
from schemas.errors import CheckpointError


class SlotLayer(CacheLayerMixin):  # type: ignore[misc]
    """One layer's `Block` as transformers sees it."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        self.block = block

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Do nothing: the block sees to it."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store what the pass computed; returns what its queries may look at."""
        return self.block.update(key_states, value_states)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return how many places a filling pass looks at, and from which on; decoding brings its own mask."""
        return query_length, 0

    def get_seq_length(self) -> int:
        """Return 0: a filling pass starts at the beginning, and decoding is told its places."""
        return 0

    def get_max_length(self) -> int:
        """Return the most places that a row may have."""
        return self.block.window.max_length


class AutoEngine:
    """See `producers.samplers.engine.Engine`."""

    def __init__(self, weights: Weights, state: State, *, num_rows: int, device: torch.device) -> None:
        """Raise CheckpointError where config and tensors do not fit, or attention is not over the whole past."""
        self.device = device
        self.model = build_model(weights, device)
        text_config = self.model.config.get_text_config()
        self.vocab_size = int(text_config.vocab_size)
        self.window = Window(num_rows=num_rows, max_length=int(text_config.max_position_embeddings))
        self.blocks = [Block(self.window) for _ in range(text_config.num_hidden_layers)]
        self.cache = Cache(layers=[SlotLayer(block) for block in self.blocks])
        self.put(weights, state)

    def put(self, weights: Weights, state: State) -> None:
        """Replace the weights in place. Raises CheckpointError, with nothing changed, where they do not fit."""
        present = self.model.state_dict()
        check_fit(weights, present, state, optional=set(getattr(self.model, "all_tied_weights_keys", None) or ()))
        with torch.no_grad():
            for name, tensor in state.items():
                present[name].copy_(tensor)

    def fill(self, tokens_UT: torch.Tensor, rows_M: torch.Tensor, expand_M: torch.Tensor) -> None:
        """Put into rows M of the cache the keys of the sequences that `expand_M` picks from `tokens_UT`."""
        self.window.fill(rows_M, expand_M)
        num_rows, length = tokens_UT.shape
        places_UT = torch.arange(length, device=self.device).expand(num_rows, -1)
        self._run(input_ids=tokens_UT, position_ids=places_UT, logits_to_keep=1)

    def decode(self, tokens_B: torch.Tensor, places_B: torch.Tensor, length: int) -> torch.Tensor:
        """Add each row's token at its place to the cache; returns the logits after it, [B, V]."""
        self.window.decode(places_B, length)
        output = self._run(
            input_ids=tokens_B[:, None], position_ids=places_B[:, None], attention_mask=self.window.mask()
        )
        logits_BV: torch.Tensor = output.logits[:, -1]
        return logits_BV

    def move(self, sources_M: torch.Tensor, targets_M: torch.Tensor, length: int) -> None:
        """Copy rows of the cache onto others."""
        for block in self.blocks:
            block.move(sources_M, targets_M, length)

    def _run(self, **inputs: Any) -> Any:
        return self.model(past_key_values=self.cache, use_cache=True, **inputs)


def build_model(weights: Weights, device: torch.device) -> Any:
    """Return a model of the architecture that the folder's config.json names. Raises CheckpointError."""
    try:
        config = AutoConfig.from_pretrained(weights.address, local_files_only=True)
        dtype = torch.float32 if device.type == "cpu" else (config.dtype or torch.float32)
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    except (OSError, ValueError) as error:
        raise CheckpointError(f"policy version {weights.version}: {weights.address}: {error}") from error
    window = getattr(config, "sliding_window", None)
    if window is not None and getattr(config, "use_sliding_window", True) and window < config.max_position_embeddings:
        raise CheckpointError(f"{weights.address}: sliding-window attention over {window} tokens is not supported")
    return model.to(device).eval().requires_grad_(False)
