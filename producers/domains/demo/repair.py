"""Two turns: a call that lacks something fails with an error that names it, and is to be mended.

`call f 3 4|` is first answered by `print(f(3,4))`; that ends in `ValueError: mode q`, and `print(f(3,4,'q'))` is right.
Nothing in the prompt tells the mode, so a right first turn is a guess.
"""

import random

from producers.domains.catalogue import split_domain
from producers.domains.demo.numbers import draw_pair
from producers.domains.interface import Item
from schemas.tasks import ExecutionSpec, VerifierSpec

MODES = "pqrstu"

PRELUDE = """\
def f(a, b, mode=None):
    if mode != {mode!r}:
        raise ValueError("mode {mode}")
    return a * b + {offset}
"""


@split_domain(family="demo", tier="demo")
def repair(rng: random.Random, level: int, held_out: bool) -> Item:
    """Call a function that insists on a mode, and mend the call."""
    mode = rng.choice(MODES)
    a, b = draw_pair(rng, level, held_out)
    offset = MODES.index(mode)
    prelude = PRELUDE.format(mode=mode, offset=offset)
    return Item(
        prompt=f"call f {a} {b}|",
        gold=(f"print(f({a},{b}))", f"print(f({a},{b},{mode!r}))"),
        verifier=VerifierSpec(kind="stdout_match", expected=str(a * b + offset)),
        execution=ExecutionSpec(prelude=prelude),
        max_turns=2,
        difficulty=level,
    )
