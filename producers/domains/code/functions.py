"""Functions to be written, called with arguments that nobody was shown."""

import random

from producers.domains.catalogue import domain
from producers.domains.code.cases import but_for, called, fenced, fixed_answers, results
from producers.domains.code.drawing import NUM_LEVELS, draw_tested
from producers.domains.code.problem import shown, weight_of
from producers.domains.interface import Item
from schemas.tasks import VerifierSpec

ASKS = (
    "Write a Python function `{signature}`.",
    "Implement the following in Python as `{signature}`.",
    "We need a helper `{signature}` in Python.",
)
ANSWER = "Only the standard library is there. Answer with the whole function in one block between lines of ```."


@domain(family="code", levels=NUM_LEVELS, max_tokens=1024)
def code_function(rng: random.Random, level: int) -> Item:
    """Write a function by its description and two examples."""
    problem, visible, hidden = draw_tested(rng, level, num_shown=2, num_hidden=4)
    ask = rng.choice(ASKS).format(signature=problem.signature)
    return Item(
        prompt=f"{ask}\n\n{problem.statement}\n\nFor example:\n{shown(problem, visible)}\n\n{ANSWER}\n",
        gold=(fenced(problem.source),),
        verifier=VerifierSpec(kind="parts", parts=(results(hidden),)),
        execution=called(problem.name, hidden),
        partials=((fenced(but_for(problem.source, problem.name, hidden[0])),),),
        wrongs=tuple((fenced(program),) for program in fixed_answers(problem.name, visible)),
        difficulty=weight_of(problem.source),
    )
