"""A policy's files, read and verified: nothing is used whose bytes are not those that were published."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load as parse_safetensors
from tokenizers import Tokenizer

from producers.samplers.engine import State
from producers.samplers.interface import Weights
from schemas.errors import CheckpointError
from schemas.ids import digest_of

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
