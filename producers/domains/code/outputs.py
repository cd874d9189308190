"""Programs whose output is to be told without running them."""

import json
import random
from collections.abc import Sequence

from producers.domains.catalogue import domain
from producers.domains.code.cases import fenced
from producers.domains.code.drawing import draw_any
from producers.domains.code.problem import Example, Problem, call_of, draw_examples, weight_of
from producers.domains.code.quirks import draw_quirk
from producers.domains.interface import Item
from schemas.parts import Part
from schemas.tasks import VerifierSpec

ASKS = (
    "What does this Python program print?",
    "Without running it: which output does this Python 3 program give?",
    "Read the program and say what it prints.",
)
ANSWER = "It prints one line. Write exactly that line as the last line of your answer."


@domain(family="code", levels=4, max_tokens=1024)
def code_predict_output(rng: random.Random, level: int) -> Item:
    """Tell what a program prints."""
    if rng.random() < 0.4:
        program, printed, wrongs, weight = draw_quirk(rng, level + 1)
    else:
        problem, example = draw_readable(rng, level)
        program = f"{problem.source}\n\nprint({call_of(problem, example)})\n"
        printed, weight = str(json.loads(example.result)), 2.0 + weight_of(problem.source)
        wrongs = [str(json.loads(example.arguments)[0]), "None"]
    return Item(
        prompt=f"{rng.choice(ASKS)}\n\n{fenced(program)}\n\n{ANSWER}\n",
        gold=(printed,),
        verifier=VerifierSpec(kind="parts", parts=(exactly(printed),)),
        wrongs=tuple((wrong,) for wrong in wrongs if wrong != printed),
        difficulty=weight,
    )


def draw_readable(rng: random.Random, level: int) -> tuple[Problem, Example]:
    """Return a problem and an example whose result is no empty thing."""
    while True:
        problem = draw_any(rng, level)
        for example in draw_examples(problem, rng, 2):
            if example.result not in ("[]", '""', "0", "-1"):
                return problem, example


def exactly(printed: str) -> Part:
    """Return the part that knows the line; spaces do not count, since nobody can see how many there are."""
    expected: Sequence[str] = [printed, f"`{printed}`"]
    return Part(kind="exact", extract="last_line", expected=expected, options={"white_space": "all"})
