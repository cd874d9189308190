"""A random policy of a few ten thousand weights whose tokens are bytes, with room for long prompts.

It is not to be good, but to be sampled for and trained on. Nothing but a script writes its tokens, so that it needs no
tokenizer. It has no layer, and so is a model of pairs of bytes: attention over the longest rollouts takes a core one
second a row and layer, and what a step takes is not what it is there to show.
"""

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

from producers.samplers.spelling import ByteSpelling

VOCABULARY = 264
"""All bytes, the token that ends a turn, and a few for round numbers."""


def write_policy(folder: Path, *, context_tokens: int) -> None:
    """Write it, a Llama, as Hugging Face files."""
    disable_progress_bar()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=0,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=context_tokens,
        tie_word_embeddings=True,
        bos_token_id=None,
        pad_token_id=None,
        eos_token_id=ByteSpelling.end_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
