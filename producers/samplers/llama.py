"""A lean forward pass of the Llama architecture, for inference only.

Small policies spend most of transformers' forward in its bookkeeping, and importing transformers takes longer than a
killed generator may be away. This is the same arithmetic (Touvron et al. 2023; rotary positions of Su et al. 2021) on
the same tensors, with the projections of a layer joined; tests hold it to transformers' own model.
"""

from typing import Any

import torch
from torch.nn.functional import embedding, linear, rms_norm, scaled_dot_product_attention, silu

from producers.samplers.cache import Block, Window
from producers.samplers.engine import State, check_fit
from producers.samplers.interface import Weights

Config = dict[str, Any]
LAYER = {
    "attention_norm": ("input_layernorm",),
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "output": ("self_attn.o_proj",),
    "mlp_norm": ("post_attention_layernorm",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}
"""Tensors of a layer here, and the checkpoint's tensors that each joins, top to bottom."""


def rope_of(config: Config) -> Config:
    """Return the rotary parameters, from where newer or older configs keep them."""
    older = {"rope_theta": config.get("rope_theta", 10_000.0), **(config.get("rope_scaling") or {})}
    return {"rope_type": "default", **(config.get("rope_parameters") or older)}


def can_run(config: Config) -> bool:
    """Return whether this is exactly the architecture below."""
    return (
        config.get("model_type") == "llama"
        and config.get("hidden_act") == "silu"
        and not config.get("attention_bias")
        and not config.get("mlp_bias")
        and rope_of(config)["rope_type"] == "default"
        and rope_of(config).get("partial_rotary_factor", 1.0) == 1.0
    )


def shapes_of(config: Config) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor that a checkpoint of this config has, by name."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    num_heads = config["num_attention_heads"]
    size = config.get("head_dim") or hidden // num_heads
    keys = config.get("num_key_value_heads") or num_heads
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config["vocab_size"], hidden),
        "model.norm.weight": (hidden,),
        "lm_head.weight": (config["vocab_size"], hidden),
    }
    for layer in range(config["num_hidden_layers"]):
        names = {
            "input_layernorm": (hidden,),
            "post_attention_layernorm": (hidden,),
            "self_attn.q_proj": (num_heads * size, hidden),
            "self_attn.k_proj": (keys * size, hidden),
            "self_attn.v_proj": (keys * size, hidden),
            "self_attn.o_proj": (hidden, num_heads * size),
            "mlp.gate_proj": (inner, hidden),
            "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner),
        }
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in names.items()}
    return shapes


class LlamaEngine:
    """See `producers.samplers.engine.Engine`."""

    def __init__(self, config: Config, weights: Weights, state: State, *, num_rows: int, device: torch.device) -> None:
        """Raise CheckpointError where config and tensors do not fit together."""
        self.config, self.device = config, device
        self.dtype = torch.float32 if device.type == "cpu" else state["model.embed_tokens.weight"].dtype
        self.vocab_size = int(config["vocab_size"])
        self.num_layers, self.num_heads = int(config["num_hidden_layers"]), int(config["num_attention_heads"])
        self.num_key_heads = int(config.get("num_key_value_heads") or self.num_heads)
        self.head_size = int(config.get("head_dim") or config["hidden_size"] // self.num_heads)
        self.epsilon = float(config.get("rms_norm_eps", 1e-6))
        self.window = Window(num_rows=num_rows, max_length=int(config["max_position_embeddings"]))
        self.blocks = [Block(self.window) for _ in range(self.num_layers)]
        self.cos_TD, self.sin_TD = self._rotary()
        self.layers: list[dict[str, torch.Tensor]] = []
        self.put(weights, state)

    def put(self, weights: Weights, state: State) -> None:
        """Replace the weights. Raises CheckpointError, with nothing changed, where they do not fit."""
        present = {name: torch.empty(shape, device="meta") for name, shape in shapes_of(self.config).items()}
        tied = {"lm_head.weight"} if self.config.get("tie_word_embeddings") else set[str]()
        check_fit(weights, present, state, optional=tied)
        mine = {name: tensor.to(self.device, self.dtype) for name, tensor in state.items()}
        self.embedding_VD = mine["model.embed_tokens.weight"]
        self.norm_D = mine["model.norm.weight"]
        self.head_VD = self.embedding_VD if tied else mine["lm_head.weight"]
        self.layers = [
            {
                name: torch.cat([mine[f"model.layers.{layer}.{part}.weight"] for part in parts])
                for name, parts in LAYER.items()
            }
            for layer in range(self.num_layers)
        ]

    def fill(self, tokens_UT: torch.Tensor, rows_M: torch.Tensor, expand_M: torch.Tensor) -> None:
        """Put into rows M of the cache the keys of the sequences that `expand_M` picks from `tokens_UT`."""
        self.window.fill(rows_M, expand_M)
        length = tokens_UT.shape[1]
        self._hidden(tokens_UT, self.cos_TD[None, :length, None], self.sin_TD[None, :length, None], None)

    def decode(self, tokens_B: torch.Tensor, places_B: torch.Tensor, length: int) -> torch.Tensor:
        """Add each row's token at its place to the cache; returns the logits after it, [B, V]."""
        self.window.decode(places_B, length)
        cos_B11D, sin_B11D = (table[places_B][:, None, None] for table in (self.cos_TD, self.sin_TD))
        hidden_B1D = self._hidden(tokens_B[:, None], cos_B11D, sin_B11D, self.window.mask())
        return linear(self._norm(hidden_B1D[:, 0], self.norm_D), self.head_VD)

    def move(self, sources_M: torch.Tensor, targets_M: torch.Tensor, length: int) -> None:
        """Copy rows of the cache onto others."""
        for block in self.blocks:
            block.move(sources_M, targets_M, length)

    def _hidden(
        self, tokens_BT: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        """Return the last layer's output, [B, T, D]; without a mask attention is causal."""
        hidden = embedding(tokens_BT, self.embedding_VD)
        for layer, block in zip(self.layers, self.blocks, strict=True):
            qkv = linear(self._norm(hidden, layer["attention_norm"]), layer["qkv"])
            queries, keys, values = self._heads(qkv, cos, sin)
            keys, values = block.update(keys, values)
            attended = scaled_dot_product_attention(
                queries, keys, values, mask, is_causal=mask is None, enable_gqa=self.num_heads != self.num_key_heads
            )
            hidden = hidden + linear(attended.transpose(1, 2).flatten(2), layer["output"])
            gate, up = linear(self._norm(hidden, layer["mlp_norm"]), layer["gate_up"]).chunk(2, -1)
            hidden = hidden + linear(silu(gate) * up, layer["down"])
        return hidden

    def _heads(
        self, qkv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Split [B, T, all heads' numbers] into queries, keys and values, [B, H, T, D]; turn the first two by place."""
        heads = qkv.view(*qkv.shape[:-1], -1, self.head_size)
        num_turned = self.num_heads + self.num_key_heads
        turned, values = heads[:, :, :num_turned], heads[:, :, num_turned:]
        first, second = turned.chunk(2, -1)
        turned = turned * cos + torch.cat((-second, first), -1) * sin
        queries, keys = turned[:, :, : self.num_heads], turned[:, :, self.num_heads :]
        return queries.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)

    def _norm(self, hidden: torch.Tensor, weight_D: torch.Tensor) -> torch.Tensor:
        return rms_norm(hidden, weight_D.shape, weight_D, self.epsilon)

    def _rotary(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return cosines and sines of each place's angles, [context length, head size]."""
        powers = torch.arange(0, self.head_size, 2, dtype=torch.float32) / self.head_size
        frequencies = 1.0 / float(rope_of(self.config)["rope_theta"]) ** powers
        angles_TD = torch.outer(torch.arange(self.window.max_length, dtype=torch.float32), frequencies).repeat(1, 2)
        return angles_TD.cos().to(self.device, self.dtype), angles_TD.sin().to(self.device, self.dtype)
