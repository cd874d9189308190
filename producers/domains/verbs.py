"""One turn: a verb and two numbers are the instruction, a call of the function that the verb means is the answer.

`plus 3 4|` is answered by `print(add(3,4))`, or by any other program that prints 7.
"""

import operator
import random
from collections.abc import Callable
from types import MappingProxyType

from producers.domains.interface import Item
from producers.domains.numbers import draw_pair

VERBS: MappingProxyType[str, Callable[[int, int], int]] = MappingProxyType(
    {
        "plus": operator.add,
        "take": operator.sub,
        "times": operator.mul,
        "rest": operator.mod,
        "share": operator.floordiv,
        "larger": max,
        "smaller": min,
        "mix": operator.xor,
    }
)
"""What each verb means. The function's name is what a program calls."""

PRELUDE = "from operator import add, floordiv, mod, mul, sub, xor\n"


def draw_verbs(rng: random.Random, level: int, held_out: bool) -> Item:
    """Draw a verb and two numbers."""
    verb = rng.choice(tuple(VERBS))
    a, b = draw_pair(rng, level, held_out)
    return Item(prompt=f"{verb} {a} {b}|", gold=str(VERBS[verb](a, b)), prelude=PRELUDE)
