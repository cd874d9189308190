"""From logits to tokens and the log-probabilities of the distributions that they were drawn from."""

import numpy as np
import numpy.typing as npt
import torch

from producers.samplers.noise import uniforms


class Drawn:
    """What one step drew for B rows, on the host."""

    def __init__(self, tokens_B: npt.NDArray[np.int64], logprobs_B: npt.NDArray[np.float32]) -> None:
        self.tokens_B, self.logprobs_B = tokens_B, logprobs_B


class DrawParams:
    """Sampling parameters of B rows, each [B]."""

    def __init__(
        self,
        *,
        temperatures_B: npt.NDArray[np.float32],
        top_ps_B: npt.NDArray[np.float32],
        seeds_B: npt.NDArray[np.uint64],
        places_B: npt.NDArray[np.int64],
    ) -> None:
        self.temperatures_B, self.top_ps_B, self.seeds_B, self.places_B = temperatures_B, top_ps_B, seeds_B, places_B


def draw(logits_BV: torch.Tensor, params: DrawParams) -> Drawn:
    """Draw one token per row by inverting the distribution's cumulative sum at the row's own uniform number."""
    is_greedy_B = params.temperatures_B == 0
    logits_BV = logits_BV.float()
    if (params.temperatures_B != 1).any():
        scale = torch.from_numpy(np.where(is_greedy_B, 1, params.temperatures_B)).to(logits_BV.device)
        logits_BV = logits_BV / scale[:, None]
    logprobs_BV = torch.log_softmax(logits_BV, -1)
    if (params.top_ps_B[~is_greedy_B] < 1).any():
        top_ps_B = torch.from_numpy(np.where(is_greedy_B, 1, params.top_ps_B)).to(logits_BV.device)
        logprobs_BV = keep_top(logprobs_BV, top_ps_B)
    if is_greedy_B.all():
        tokens_B = logprobs_BV.argmax(-1)
    else:
        uniforms_B = torch.from_numpy(uniforms(params.seeds_B, params.places_B)).to(logits_BV.device)
        tokens_B = invert(logprobs_BV, uniforms_B)
        if is_greedy_B.any():
            mask_B = torch.from_numpy(is_greedy_B).to(logits_BV.device)
            tokens_B = torch.where(mask_B, logprobs_BV.argmax(-1), tokens_B)
    chosen_B = logprobs_BV.gather(-1, tokens_B[:, None])[:, 0]
    return Drawn(tokens_B.cpu().numpy(), chosen_B.cpu().numpy())


def invert(logprobs_BV: torch.Tensor, uniforms_B: torch.Tensor) -> torch.Tensor:
    """Return the first token whose cumulative probability exceeds the row's uniform number, [B].

    A token of probability 0 never is the first, since it adds nothing to the sum before it.
    """
    cumulative_BV = logprobs_BV.double().exp().cumsum(-1)
    thresholds_B1 = uniforms_B[:, None] * cumulative_BV[:, -1:]
    return (cumulative_BV <= thresholds_B1).sum(-1)


def keep_top(logprobs_BV: torch.Tensor, top_ps_B: torch.Tensor) -> torch.Tensor:
    """Return the distributions cut to the fewest likeliest tokens that reach `top_p`, and normalised again.

    Nucleus sampling (Holtzman et al. 2020). Tokens of equal probability stand in the order of their ids; the likeliest
    one always stays; rows with `top_p` 1 are returned as they are.
    """
    ordered_BV, order_BV = torch.sort(logprobs_BV, dim=-1, descending=True, stable=True)
    before_BV = ordered_BV.double().exp().cumsum(-1) - ordered_BV.double().exp()
    drop_BV = (before_BV >= top_ps_B[:, None].double()) & (top_ps_B[:, None] < 1)
    drop_BV[:, 0] = False
    kept_BV = logprobs_BV.masked_fill(torch.zeros_like(drop_BV).scatter(-1, order_BV, drop_BV), -torch.inf)
    return torch.where(top_ps_B[:, None] < 1, torch.log_softmax(kept_BV, -1), logprobs_BV)
