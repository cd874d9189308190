"""A policy's files, read and verified: nothing is used whose bytes are not those that were published."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load as parse_safetensors

from producers.samplers.engine import State
from producers.samplers.interface import Weights
from schemas.errors import CheckpointError
from schemas.ids import digest_of

WEIGHTS_FILE = "model.safetensors"


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
