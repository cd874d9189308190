"""Working programs to be cleaned up, without changing what they do."""

import json
import random

from producers.domains.catalogue import domain
from producers.domains.code.cases import called, fenced, results
from producers.domains.code.messes import MESSES, Mess, call_of, honest
from producers.domains.code.problem import Example, Program
from producers.domains.interface import Item
from schemas.tasks import VerifierSpec

NUM_CASES = 4
DISPATCH = "\n\ndef _called(name, *arguments):\n    return globals()[name](*arguments)\n"
ASKS = ("Refactor this module.", "Clean up the following code.", "This works, but it has to be tidied up.")
ANSWER = (
    "What the functions return must stay the same, and so must their names and arguments. Answer with the whole module "
    "in one block between lines of ```, without comments and docstrings."
)


@domain(family="code", levels=3, max_tokens=1536)
def code_refactor(rng: random.Random, level: int) -> Item:
    """Clean a program up so that it does the same and a property of it is better."""
    mess = rng.choice(MESSES)(rng, level + 2)
    examples = draw_calls(rng, mess)
    execution = called("(lambda name, *rest: globals()[name](*rest))", examples)
    return Item(
        prompt=f"{rng.choice(ASKS)} {mess.ask}.\n\n{fenced(mess.before)}\n\n{ANSWER}\n",
        gold=(fenced(mess.after),),
        verifier=VerifierSpec(kind="parts", parts=(*mess.gates, honest(), results(examples))),
        execution=execution,
        partials=((fenced(wrong_once(mess, examples[0])),),),
        wrongs=((fenced(mess.before),), (fenced("pass"),), (fenced("print('ok')\nraise SystemExit(0)"),)),
        difficulty=mess.weight,
    )


def draw_calls(rng: random.Random, mess: Mess) -> list[Example]:
    """Return calls with different results."""
    program = Program(mess.before + DISPATCH, "_called")
    found: dict[str, Example] = {}
    while len(found) < NUM_CASES:
        call = call_of(rng, mess)
        result = program(call)
        found.setdefault(result, Example(call, result))
    return list(found.values())


def wrong_once(mess: Mess, example: Example) -> str:
    """Return the cleaned program with a fault in what one call needs."""
    name, first, *_ = json.loads(example.arguments)
    head = f"def {name}("
    before, _, after = mess.after.partition(head)
    line, _, rest = after.partition("\n")
    argument = line.partition(",")[0].partition(")")[0]
    return f"{before}{head}{line}\n    if {argument} == {first!r}:\n        return 0\n{rest}"
