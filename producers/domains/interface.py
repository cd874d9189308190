"""What a task family is: a function from a random source to one problem.

A domain decides nothing but the problem itself: who samples it, how often and with which limits is for the issuer to
say. It must draw from the generator that it is given and from nothing else, so that the same seed is the same problem
in any process, and it must never give a problem of one split to the other.
"""

import random
from collections.abc import Callable

import msgspec


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of a domain.

    Example: `Item(prompt="plus 3 4|", gold="7", prelude="from operator import add", max_turns=1)`.
    """

    prompt: str
    """What the policy reads first."""
    gold: str
    """What a right program prints, but for white space around it."""
    prelude: str = ""
    """Python laid before what the policy wrote."""
    max_turns: int = 1
    """Turns that the policy has; one that runs without an error is the last."""


Domain = Callable[[random.Random, int, bool], Item]
"""`(rng, level, held_out) -> Item`; `level` counts difficulty from 0, `held_out` chooses the split."""
