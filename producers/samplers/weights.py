"""Policy files to models: nothing is used whose bytes are not those that were published."""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_safetensors
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM

from producers.samplers.interface import Weights
from schemas.errors import CheckpointError
from schemas.ids import digest_of

State = dict[str, torch.Tensor]
WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"


def read_state(weights: Weights) -> State:
    """Return the tensors of a policy version. Raises CheckpointError unless they are whole and have its digest."""
    path = Path(weights.address) / WEIGHTS_FILE
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"policy version {weights.version}: {path}: {error}") from error
    digest = digest_of(content)
    if digest != weights.digest:
        raise CheckpointError(
            f"policy version {weights.version}: {path} has digest {digest}, published was {weights.digest}; "
            "the file was changed or torn: publish the version again"
        )
    try:
        return dict(parse_safetensors(content))
    except SafetensorError as error:
        raise CheckpointError(f"policy version {weights.version}: {path}: {error}") from error


def read_tokenizer(address: str) -> Tokenizer:
    """Return the tokenizer of a policy's folder. Raises CheckpointError."""
    path = Path(address) / TOKENIZER_FILE
    try:
        return Tokenizer.from_str(path.read_text())
    except Exception as error:  # the library raises no narrower class for a file that it cannot parse
        raise CheckpointError(f"{path}: {error}; a policy's folder needs a fast tokenizer's file") from error


def build_model(weights: Weights, state: State, device: torch.device) -> Any:
    """Return a model of the architecture that the folder's config.json names, with these tensors.

    Raises:
        CheckpointError: config and tensors do not fit together, or attention is not over the whole past.
    """
    try:
        config = AutoConfig.from_pretrained(weights.address, local_files_only=True)
        dtype = torch.float32 if device.type == "cpu" else (config.dtype or torch.float32)
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    except (OSError, ValueError) as error:
        raise CheckpointError(f"policy version {weights.version}: {weights.address}: {error}") from error
    window = getattr(config, "sliding_window", None)
    if window is not None and getattr(config, "use_sliding_window", True) and window < config.max_position_embeddings:
        raise CheckpointError(f"{weights.address}: sliding-window attention over {window} tokens is not supported")
    model = model.to(device).eval().requires_grad_(False)
    put_state(model, weights, state)
    return model


def put_state(model: Any, weights: Weights, state: State) -> None:
    """Copy tensors into a model in place. Raises CheckpointError, with the model as it was, where they do not fit."""
    present = model.state_dict()
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    missing, unknown = present.keys() - state.keys() - tied, state.keys() - present.keys()
    misfits = [name for name in state.keys() & present.keys() if state[name].shape != present[name].shape]
    if missing or unknown or misfits:
        raise CheckpointError(
            f"policy version {weights.version}: tensors of {weights.address} do not fit the model: missing "
            f"{sorted(missing)[:3]}, unknown {sorted(unknown)[:3]}, of another shape {sorted(misfits)[:3]}"
        )
    with torch.no_grad():
        for name, tensor in state.items():
            present[name].copy_(tensor)


def end_ids(model: Any) -> list[int]:
    """Return the ids that end a turn, as the policy's generation config or config says."""
    for config in (model.generation_config, model.config):
        ids = getattr(config, "eos_token_id", None)
        if ids is not None:
            return [ids] if isinstance(ids, int) else list(ids)
    raise CheckpointError("the policy's config names no eos_token_id, so that no turn could end")
