"""A random model of a few thousand weights in ordinary Hugging Face files, for tests of samplers."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen2Config

from producers.samplers.interface import Weights
from schemas.ids import digest_of

CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789 |()',\n"
END_ID = 1


FAMILIES: dict[str, Callable[..., Any]] = {
    "llama": partial(LlamaConfig, num_key_value_heads=2, tie_word_embeddings=True),
    "untied llama": partial(LlamaConfig, num_key_value_heads=4, tie_word_embeddings=False, rope_theta=500.0),
    "qwen2": partial(Qwen2Config, num_key_value_heads=2, tie_word_embeddings=False),
    "gpt2": GPT2Config,
}
"""Configs by family: what the lean engine knows, and what only transformers does."""


def write_policy(folder: Path, *, version: int, hidden_size: int = 32, family: str = "llama") -> Weights:
    """Write a policy whose weights its version decides."""
    torch.manual_seed(version)
    vocab = {token: i for i, token in enumerate(["<pad>", "<eos>", *CHARACTERS])}
    config = FAMILIES[family](
        vocab_size=len(vocab), hidden_size=hidden_size, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=96, eos_token_id=END_ID, bos_token_id=None, pad_token_id=0,
        initializer_range=0.3,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="<pad>"))
    tokenizer.add_special_tokens(["<pad>", "<eos>"])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.save(str(folder / "tokenizer.json"))
    digest = digest_of((folder / "model.safetensors").read_bytes())
    return Weights(version=version, address=str(folder), digest=digest)
