"""Two turns: a call that lacks something fails with an error that names it, and is to be mended.

`call f 3 4|` is first answered by `print(f(3,4))`; that ends in `ValueError: mode q`, and `print(f(3,4,'q'))` is right.
Nothing in the prompt tells the mode, so a right first turn is a guess.
"""

import random

from producers.domains.interface import Item
from producers.domains.numbers import draw_pair

MODES = "pqrstu"

PRELUDE = """\
def f(a, b, mode=None):
    if mode != {mode!r}:
        raise ValueError("mode {mode}")
    return a * b + {offset}
"""


def draw_repair(rng: random.Random, level: int, held_out: bool) -> Item:
    """Draw the mode that `f` insists on and its two arguments."""
    mode = rng.choice(MODES)
    a, b = draw_pair(rng, level, held_out)
    offset = MODES.index(mode)
    prelude = PRELUDE.format(mode=mode, offset=offset)
    return Item(prompt=f"call f {a} {b}|", gold=str(a * b + offset), prelude=prelude, max_turns=2)
