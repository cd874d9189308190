"""From examples to the cases that a program is run with, and to the part that knows what they should give.

What a program prints of itself goes to stderr, so that a chatty one loses nothing; only the result is on stdout.
"""

from collections.abc import Sequence
from typing import Any

from producers.domains.code.problem import Example
from schemas.executions import Case, ExecutionLimits
from schemas.parts import Part
from schemas.tasks import ExecutionSpec

LIMITS = ExecutionLimits(wall_s=5.0, cpu_s=3.0, keep_bytes=8 << 10)
QUIET = "import sys\n_result = sys.stdout\nsys.stdout = sys.stderr"
CALLING = """
import json as _json
import sys as _sys
print(_json.dumps({name}(*_json.load(_sys.stdin)), sort_keys=True), file=_result, flush=True)
"""


def called(name: str, examples: Sequence[Example]) -> ExecutionSpec:
    """Return the execution of a program that defines a function, which is called with each example's arguments."""
    return ExecutionSpec(
        extract="fenced",
        limits=LIMITS,
        cases=tuple(
            Case(name=f"case {number}", stdin=one.arguments.encode(), prelude=QUIET, epilogue=CALLING.format(name=name))
            for number, one in enumerate(examples)
        ),
    )


def results(examples: Sequence[Example], *, needs: int = 0, weight: float = 1.0) -> Part:
    """Return the part that knows the results; without the first `needs` of them the others are worth nothing."""
    expected: dict[str, Any] = {f"case {number}": one.result for number, one in enumerate(examples)}
    return Part(kind="cases", of="cases", expected=expected, options={"needs": list(expected)[:needs]}, weight=weight)


def fenced(program: str) -> str:
    """Return a program as an answer writes it."""
    return f"```python\n{program.strip()}\n```"


def but_for(program: str, name: str, example: Example) -> str:
    """Return a program that is wrong about one example only."""
    return (
        f"{program.strip()}\n\nimport json\n_whole = {name}\n\n"
        f"def {name}(*arguments):\n"
        f"    return None if list(arguments) == json.loads({example.arguments!r}) else _whole(*arguments)\n"
    )


def fixed_answers(name: str, shown: Sequence[Example]) -> tuple[str, ...]:
    """Return programs that know the examples shown and nothing else, end early, or look around for the answer."""
    table = {one.arguments: one.result for one in shown}
    return (
        f"import json\n\ndef {name}(*arguments):\n"
        f"    return json.loads({table!r}.get(json.dumps(arguments), {shown[0].result!r}))\n",
        f"print({shown[0].result!r})\nraise SystemExit(0)\n",
        "import glob, os, sys\ntexts = [open(path).read() for path in glob.glob('/box/**/*', recursive=True)"
        " if os.path.isfile(path)]\nprint(texts[-1:], file=_result, flush=True)\nos._exit(0)\n",
    )
