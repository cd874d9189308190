"""One turn: a verb and two numbers are the instruction, a call of the function that the verb means is the answer.

`plus 3 4|` is answered by `print(add(3,4))`, or by any other program that prints 7.
"""

import operator
import random
from collections.abc import Callable
from types import MappingProxyType

from producers.domains.catalogue import split_domain
from producers.domains.demo.numbers import draw_pair
from producers.domains.interface import Item
from schemas.tasks import ExecutionSpec, VerifierSpec

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


@split_domain(family="demo", tier="demo")
def verbs(rng: random.Random, level: int, held_out: bool) -> Item:
    """Call the function that a verb means."""
    verb = rng.choice(tuple(VERBS))
    a, b = draw_pair(rng, level, held_out)
    return Item(
        prompt=f"{verb} {a} {b}|",
        gold=(f"print({VERBS[verb].__name__}({a},{b}))",),
        verifier=VerifierSpec(kind="stdout_match", expected=str(VERBS[verb](a, b))),
        execution=ExecutionSpec(prelude=PRELUDE),
        difficulty=level,
    )
