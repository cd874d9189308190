"""Programs to be written, that read what nobody was shown from stdin."""

import json
import random

from producers.domains.catalogue import domain
from producers.domains.code.cases import LIMITS, fenced
from producers.domains.code.drawing import NUM_LEVELS, draw_tested
from producers.domains.code.problem import Example, Problem, weight_of
from producers.domains.code.streams_of_text import PRINT, PRINT_AS, READ, READ_AS, printed, written
from producers.domains.interface import Item
from schemas.executions import Case
from schemas.parts import Part
from schemas.tasks import ExecutionSpec, VerifierSpec

ASKS = (
    "Write a Python program that reads stdin and writes stdout.",
    "A command-line filter is needed: a Python program that reads its input from stdin.",
    "Solve this with one Python program; it gets its input on stdin and prints the result.",
)
ANSWER = "Print nothing else. Answer with the whole program in one block between lines of ```."


@domain(family="code", levels=NUM_LEVELS, max_tokens=1024)
def code_stdin(rng: random.Random, level: int) -> Item:
    """Write a program that reads its input and prints the result."""
    problem, visible, hidden = draw_tested(rng, level, num_shown=1, num_hidden=4)
    while any(not text_out(problem, one).strip() for one in (*visible, *hidden)):
        problem, visible, hidden = draw_tested(rng, level, num_shown=1, num_hidden=4)
    program = program_of(problem)
    first = text_out(problem, visible[0])
    told = f"Input:\n{text_in(problem, visible[0])}\nOutput:\n{first}"
    forms = "\n".join(f"- {name}: {READ_AS[kind]}" for name, kind in problem.params)
    return Item(
        prompt=f"{rng.choice(ASKS)}\n\n{problem.statement}\n\nInput, one after the other:\n{forms}\nOutput: "
        f"{PRINT_AS[problem.returns]}.\n\n{told}\n{ANSWER}\n",
        gold=(fenced(program),),
        verifier=VerifierSpec(kind="parts", parts=(printing(problem, hidden),)),
        execution=ExecutionSpec(
            extract="fenced",
            limits=LIMITS,
            cases=tuple(
                Case(name=f"case {number}", stdin=text_in(problem, one).encode()) for number, one in enumerate(hidden)
            ),
        ),
        partials=((fenced(f"import io, sys\n{but_for_input(text_in(problem, hidden[0]))}{program}"),),),
        wrongs=((fenced(f"print({first!r})"),), (fenced("import sys\nprint(sys.stdin.read())"),), (fenced("exit(0)"),)),
        difficulty=weight_of(problem.source),
    )


def text_in(problem: Problem, example: Example) -> str:
    """Return an example's input."""
    values = json.loads(example.arguments)
    return "".join(written(value, kind) for value, (_, kind) in zip(values, problem.params, strict=True))


def text_out(problem: Problem, example: Example) -> str:
    """Return an example's output."""
    return printed(json.loads(example.result), problem.returns)


def printing(problem: Problem, examples: list[Example]) -> Part:
    """Return the part that knows the outputs."""
    expected = {f"case {number}": text_out(problem, one) for number, one in enumerate(examples)}
    return Part(kind="cases", of="cases", expected=expected)


def program_of(problem: Problem) -> str:
    """Return a program that reads, calls the function and prints."""
    reading = "\n".join(f"{name} = {READ[kind]}" for name, kind in problem.params)
    call = f"{problem.name}({', '.join(name for name, _ in problem.params)})"
    return f"{problem.source}\n{reading}\n{PRINT[problem.returns].format(value=call)}\n"


def but_for_input(text: str) -> str:
    """Return what lets a program fail on one input."""
    return f"text = sys.stdin.read()\nif text == {text!r}:\n    sys.exit()\nsys.stdin = io.StringIO(text)\n"
