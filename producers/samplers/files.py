"""What a policy's folder says beside its weights: configuration, tokenizer, and which ids end a turn."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from producers.samplers.interface import Weights
from schemas.errors import CheckpointError

TOKENIZER_FILE = "tokenizer.json"


def read_config(weights: Weights) -> dict[str, Any]:
    """Return the folder's config.json. Raises CheckpointError."""
    return read_json(Path(weights.address) / "config.json")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object that a file holds. Raises CheckpointError."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: got {type(found).__name__}, wanted an object")
    return found


def end_ids(weights: Weights) -> list[int]:
    """Return the ids that end a turn, as generation_config.json or config.json says. Raises CheckpointError."""
    path = Path(weights.address) / "generation_config.json"
    for config in (read_json(path) if path.exists() else {}, read_config(weights)):
        ids = config.get("eos_token_id")
        if ids is not None:
            return [ids] if isinstance(ids, int) else list(ids)
    raise CheckpointError(f"{weights.address}: neither config names an eos_token_id, so that no turn could end")


def read_tokenizer(address: str) -> Tokenizer:
    """Return the tokenizer of a policy's folder. Raises CheckpointError."""
    path = Path(address) / TOKENIZER_FILE
    try:
        return Tokenizer.from_str(path.read_text())
    except Exception as error:  # the library raises no narrower class for a file that it cannot parse
        raise CheckpointError(f"{path}: {error}; a policy's folder needs a fast tokenizer's file") from error
