"""What an answer costs: its length (`length`), and what the whole rollout used (`cost`). Only ever a penalty.

Example: `Part(kind="cost", role="penalty", weight=0.2, options={"unit": "turns", "free": 4, "full": 12})` takes 0.2
away from who needs 12 turns, nothing from who needs 4, and half of it at 8.
"""

from typing import Literal

import msgspec

from schemas.parts import Role
from schemas.tools import find_call
from schemas.trajectory import Trajectory
from streams.verifiers.parts.interface import Found, PartKind


class LengthOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From where to where it rises."""

    unit: Literal["characters", "words", "lines"] = "characters"
    free: float = 0.0
    """Up to this it is nothing."""
    full: float
    """From here on it is 1."""


class CostOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From where to where it rises."""

    unit: Literal["tokens", "turns", "calls"] = "tokens"
    free: float = 0.0
    full: float


def score_length(text: str, _expected: None, options: LengthOptions) -> Found:
    """Return how far a text is beyond what is free."""
    match options.unit:
        case "characters":
            used = len(text)
        case "words":
            used = len(text.split())
        case "lines":
            used = len(text.splitlines())
    return risen(used, options)


def score_cost(trajectory: Trajectory, _expected: None, options: CostOptions) -> Found:
    """Return how far a rollout is beyond what is free."""
    turns = [trajectory.turns[turn].record.text for turn in range(trajectory.num_turns)]
    match options.unit:
        case "tokens":
            used = 0 if trajectory.end is None else trajectory.end.num_tokens
        case "turns":
            used = len(turns)
        case "calls":
            used = sum(find_call(text) is not None for text in turns)
    return risen(used, options)


def risen(used: int, options: LengthOptions | CostOptions) -> Found:
    """Return where `used` lies between free and full."""
    value = (used - options.free) / (options.full - options.free)
    return Found(min(max(value, 0.0), 1.0), f"{used} {options.unit}")


def check(_expected: None, options: LengthOptions | CostOptions) -> None:
    """Refuse what does not rise."""
    if not 0 <= options.free < options.full < float("inf"):
        raise ValueError(f"free, full: got {options.free} and {options.full}; wanted 0 <= free < full, both numbers")


PENALTY: frozenset[Role] = frozenset({"penalty", "veto"})
LENGTH = PartKind(
    name="length", version=1, expects=None, options=LengthOptions, score=score_length, check=check, roles=PENALTY
)
COST = PartKind(
    name="cost",
    version=1,
    content="rollout",
    expects=None,
    options=CostOptions,
    score=score_cost,
    check=check,
    roles=PENALTY,
)
