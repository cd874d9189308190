"""Functions with planted bugs, to be mended."""

import random

from producers.domains.catalogue import domain
from producers.domains.code.cases import but_for, called, fenced, fixed_answers, results
from producers.domains.code.drawing import draw_any
from producers.domains.code.mutants import broken
from producers.domains.code.problem import Example, Problem, Program, call_of, draw_examples, shown, weight_of
from producers.domains.interface import Item
from schemas.tasks import VerifierSpec

NUM_HIDDEN = 3
ASKS = (
    "This function has {num}. Find and mend {it}.",
    "A colleague reports that the function below is wrong at times; it has {num}. Repair it.",
    "Review and repair: the code has {num}.",
)
ANSWER = "Answer with the whole mended program in one block between lines of ```."


@domain(family="code", levels=4, max_tokens=1024)
def code_fix_bug(rng: random.Random, level: int) -> Item:
    """Mend a function that does not do what its description says."""
    problem, wrong, seen, failing, passing = draw_broken(rng, level)
    num_bugs = num_bugs_of(level)
    told = Program(wrong, problem.name)(seen.arguments)
    result = f"raises {told[1:]}" if told.startswith("!") else f"returns {told} as JSON"
    num = "one bug" if num_bugs == 1 else f"{num_bugs} bugs"
    ask = rng.choice(ASKS).format(num=num, it="it" if num_bugs == 1 else "them")
    return Item(
        prompt=f"{ask}\n\nWhat it should do: {problem.statement}\n\n{fenced(wrong)}\n\n{call_of(problem, seen)} "
        f"{result}; right is:\n{shown(problem, [seen])}\n\n{ANSWER}\n",
        gold=(fenced(problem.source),),
        verifier=VerifierSpec(kind="parts", parts=(results([*passing, *failing], needs=len(passing)),)),
        execution=called(problem.name, [*passing, *failing]),
        partials=((fenced(but_for(problem.source, problem.name, failing[0])),),),
        wrongs=tuple((fenced(program),) for program in (wrong, fixed_answers(problem.name, [seen])[0])),
        difficulty=num_bugs * 20 + weight_of(problem.source),
    )


def draw_broken(rng: random.Random, level: int) -> tuple[Problem, str, Example, list[Example], list[Example]]:
    """Return a problem, a broken program, an example that shows it, others that it fails, one that it passes if any."""
    while True:
        problem = draw_any(rng, level)
        examples = draw_examples(problem, rng, 8)
        for _ in range(3):
            program = broken(problem.source, rng, num_bugs_of(level))
            call = Program(program, problem.name)
            fails = [call(one.arguments) != one.result for one in examples]
            failing = [one for one, fail in zip(examples, fails, strict=True) if fail]
            passing = [one for one, fail in zip(examples, fails, strict=True) if not fail]
            if len(failing) > NUM_HIDDEN:
                return problem, program, failing[0], failing[1 : NUM_HIDDEN + 1], passing[:1]


def num_bugs_of(level: int) -> int:
    """Return how many bugs a level plants."""
    return 1 + level // 2
