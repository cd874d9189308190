"""Pairs of numbers, split for good into those of training and those of evaluation."""

import random

PAIRS_PER_HELD_OUT = 5
"""One pair in this many is held out."""


def is_held_out(a: int, b: int) -> bool:
    """Whether the pair belongs to evaluation. The rule is arithmetic, so that no list has to be kept."""
    return (7 * a + b) % PAIRS_PER_HELD_OUT == 0


def draw_pair(rng: random.Random, level: int, held_out: bool) -> tuple[int, int]:
    """Draw two numbers of at least 1 and at most `level + 2` digits from the split asked for."""
    highest = 10 ** (level + 2) - 1
    while True:
        a, b = rng.randint(1, highest), rng.randint(1, highest)
        if is_held_out(a, b) == held_out:
            return a, b
