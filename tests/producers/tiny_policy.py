"""A random Llama of a few thousand weights in ordinary Hugging Face files, for tests of samplers."""

from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from producers.samplers.interface import Weights
from schemas.ids import digest_of

CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789 |()',\n"
END_ID = 1


def write_policy(folder: Path, *, version: int, hidden_size: int = 32) -> Weights:
    """Write a policy whose weights its version decides."""
    torch.manual_seed(version)
    vocab = {token: i for i, token in enumerate(["<pad>", "<eos>", *CHARACTERS])}
    config = LlamaConfig(
        vocab_size=len(vocab), hidden_size=hidden_size, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=96, tie_word_embeddings=True,
        eos_token_id=END_ID, bos_token_id=None, pad_token_id=0, initializer_range=0.3,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="<pad>"))
    tokenizer.add_special_tokens(["<pad>", "<eos>"])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.save(str(folder / "tokenizer.json"))
    digest = digest_of((folder / "model.safetensors").read_bytes())
    return Weights(version=version, address=str(folder), digest=digest)
