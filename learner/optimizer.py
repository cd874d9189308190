"""AdamW, its state and the random-number state as bytes, and what the gradient is clipped to.

Bytes in, bytes out, equal bytes for equal state: the digest of these bytes is the step's `optimizer_digest_out`.
"""

import safetensors.torch
import torch
from torch import Tensor, nn

from schemas.config import LearnerSettings
from schemas.errors import CheckpointError

OPTIMIZER_FILE = "optimizer.safetensors"
MOMENTS = ("step", "exp_avg", "exp_avg_sq")
RANDOM = "random/torch"


def make_optimizer(model: nn.Module) -> torch.optim.AdamW:
    """Return AdamW over all parameters; every step sets its own hyperparameters."""
    return torch.optim.AdamW(model.parameters())


def set_hyperparameters(optimizer: torch.optim.AdamW, settings: LearnerSettings, *, step: int) -> float:
    """Set what `step` is taken with. Returns the learning rate: constant after a linear warm-up."""
    learning_rate = settings.learning_rate * min(1.0, step / max(settings.warmup_steps, 1))
    for group in optimizer.param_groups:
        group.update(lr=learning_rate, betas=settings.betas, weight_decay=settings.weight_decay)
    return learning_rate


def optimizer_bytes(optimizer: torch.optim.AdamW, model: nn.Module) -> bytes:
    """Return the moments of every parameter and torch's random-number state, as safetensors."""
    tensors = {RANDOM: torch.get_rng_state()}
    for name, parameter in model.named_parameters():
        state = optimizer.state.get(parameter, {})
        tensors |= {f"{moment}/{name}": tensor_of(state[moment]) for moment in MOMENTS if moment in state}
    content: bytes = safetensors.torch.save(tensors)
    return content


def tensor_of(value: Tensor | float) -> Tensor:
    """Return the value as a contiguous tensor."""
    return torch.as_tensor(value).contiguous()


def restore_optimizer(content: bytes, model: nn.Module) -> torch.optim.AdamW:
    """Return an optimizer in that state, and set torch's random-number state. Raises CheckpointError."""
    optimizer = make_optimizer(model)
    try:
        tensors = safetensors.torch.load(content)
        torch.set_rng_state(tensors.pop(RANDOM))
    except (safetensors.SafetensorError, KeyError, RuntimeError) as error:
        raise CheckpointError(f"{OPTIMIZER_FILE}: not an optimizer's state: {error}") from error
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        moment, _, name = key.partition("/")
        if name not in parameters:
            raise CheckpointError(f"{OPTIMIZER_FILE}: has {key!r}, but the model has no such parameter")
        optimizer.state[parameters[name]][moment] = value
    return optimizer
