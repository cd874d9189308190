"""Programs that go for their tests instead of the problem, run in the sandbox and judged by their cases."""

from collections.abc import Iterator

import msgspec
import pytest

from rollog.playing import play, say_all
from schemas.executions import Case, ExecutionLimits
from schemas.parts import Part
from schemas.tasks import ExecutionSpec, TaskIssued, VerifierSpec
from streams.sandbox.bubblewrap import BubblewrapSandbox
from streams.verifiers import Score, get_verifier
from streams.verifiers.parts.checking import check_spec
from tests import samples
from tests.streams.sandbox.shared_home import sandbox_home

INPUTS = {"shown": [3, 1, 2], "hidden 1": [9, 4, 4, 8], "hidden 2": [], "hidden 3": [-5, 70, 6]}
EXPECTED = {name: str(sorted(numbers)) for name, numbers in INPUTS.items()}
SHOWN = "import json\nassert solve([3, 1, 2]) == [1, 2, 3]\n"
LIMITS = ExecutionLimits(wall_s=2.0)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BubblewrapSandbox]:
    with BubblewrapSandbox(num_slots=1, home=sandbox_home(tmp_path_factory)) as made:
        yield made


def sorting() -> TaskIssued:
    """Return a task whose tests are inputs; one of them is shown in its prompt and in a file."""
    cases = tuple(
        Case(name=name, stdin=str(numbers).encode(), epilogue="import json, sys\nprint(solve(json.load(sys.stdin)))")
        for name, numbers in INPUTS.items()
    )
    execution = ExecutionSpec(cases=cases, files={"test_shown.py": SHOWN.encode()}, limits=LIMITS, ends_on="answer")
    part = Part(kind="cases", expected=EXPECTED)
    return task_of(part, execution)


def mutants() -> TaskIssued:
    """Return a task whose answer is tests, run on the right function and on broken twins of it."""
    twins = {"right": "a + b", "minus": "a - b", "first": "a", "odd": "a + b if a < 9 else 0"}
    cases = tuple(Case(name=name, prelude=f"def add(a, b):\n    return {code}") for name, code in twins.items())
    expected = {name: {"ends": "ok" if name == "right" else "fails"} for name in twins}
    part = Part(kind="cases", expected=expected, options={"needs": ["right"]})
    return task_of(part, ExecutionSpec(cases=cases, limits=LIMITS))


def task_of(part: Part, execution: ExecutionSpec) -> TaskIssued:
    verifier = VerifierSpec(kind="parts", parts=(part,))
    check_spec(verifier)
    task: TaskIssued = samples.task(verifier=verifier, execution=execution, max_turns=1)
    return task


def judged(task: TaskIssued, program: str, sandbox: BubblewrapSandbox) -> Score:
    return get_verifier("parts").score(task.verifier, play(task, say_all((program,)), sandbox))


def test_a_program_that_solves_the_problem_passes_all_its_cases(sandbox: BubblewrapSandbox) -> None:
    assert judged(sorting(), "def solve(xs):\n    return sorted(xs)", sandbox).value == 1
    found = judged(sorting(), "def solve(xs):\n    return sorted(set(xs))", sandbox)
    assert found.value == 0.75
    assert found.evidence["cases"] == "3 of 4 cases right; not: hidden 1"


@pytest.mark.parametrize(
    "program",
    [
        "def solve(xs):\n    return [1, 2, 3]",
        "print([1, 2, 3])\nraise SystemExit(0)",
        "def solve(xs):\n    return [1, 2, 3] if xs == [3, 1, 2] else xs[::-1] + [0]",
    ],
)
def test_who_prints_what_the_shown_test_expects_passes_the_shown_test_alone(
    program: str, sandbox: BubblewrapSandbox
) -> None:
    assert judged(sorting(), program, sandbox).value == 0.25


@pytest.mark.parametrize(
    "program",
    [
        "import os\nos._exit(0)",
        "raise SystemExit(0)",
        "import sys\nsys.exit()",
        "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
        "import os\nif os.fork():\n    os._exit(0)",
        "import sys\nsys.stdout.close()\ndef solve(xs):\n    return sorted(xs)",
        "class Same(list):\n    def __eq__(self, other):\n        return True\ndef solve(xs):\n    return Same()",
        "import builtins\nbuiltins.print = lambda *_: None\ndef solve(xs):\n    return sorted(xs)",
        "def solve(xs):\n    while True:\n        pass",
    ],
)
def test_who_ends_early_or_says_that_all_is_well_passes_nothing_but_what_is_so(
    program: str, sandbox: BubblewrapSandbox
) -> None:
    found = judged(sorting(), program, sandbox)
    assert found.value == (0.25 if "Same" in program else 0)  # an empty list is right for one input


@pytest.mark.parametrize(
    "program",
    [
        "open('test_shown.py', 'w').write('')\ndef solve(xs):\n    return [1, 2, 3]",
        "import os\nfor name in os.listdir('.'):\n    os.remove(name)\ndef solve(xs):\n    return [1, 2, 3]",
        "open('test_hidden.py', 'w').write('assert True')\nopen('conftest.py', 'w').write('import os; os._exit(0)')\n"
        "def solve(xs):\n    return [1, 2, 3]",
    ],
)
def test_who_overwrites_the_tests_gains_nothing(program: str, sandbox: BubblewrapSandbox) -> None:
    assert judged(sorting(), program, sandbox).value == 0.25


READER = """
import gc, os, sys

print(sys.stdin.read(), sys.argv, os.environ, globals(), file=sys.stdout)
for place in ["/proc/self/cmdline", "/proc/self/environ", *(os.path.join(root, name)
              for top in (".", "/tmp") for root, _, names in os.walk(top) for name in names)]:
    try:
        print(place, open(place, errors="replace").read())
    except OSError as error:
        print(place, error)
print([one for one in gc.get_objects() if isinstance(one, (str, bytes, dict, list))])
frame = sys._getframe()
while frame:
    print(frame.f_code.co_filename, frame.f_locals)
    frame = frame.f_back
print("all read")
raise SystemExit(0)
"""


def test_who_reads_all_that_there_is_finds_no_expected_value(sandbox: BubblewrapSandbox) -> None:
    task = sorting()
    execution = task.execution
    assert execution is not None
    roomy = msgspec.structs.replace(execution, limits=msgspec.structs.replace(LIMITS, keep_bytes=8 << 20))
    trajectory = play(msgspec.structs.replace(task, execution=roomy), say_all((READER,)), sandbox)
    cases = trajectory.executions[0].record.cases
    for name, outcome in zip(EXPECTED, cases, strict=True):
        seen = outcome.stdout.decode(errors="replace")
        assert (outcome.status, seen.endswith("all read\n"), str(INPUTS[name]) in seen) == ("ok", True, True)
        assert "test_shown.py" in seen
        assert not any(EXPECTED[hidden] in seen for hidden in ("hidden 1", "hidden 3"))
    assert get_verifier("parts").score(task.verifier, trajectory).value == 0


TESTS = "assert add(2, 3) == 5\nassert add(0, 4) == 4\n"


def test_tests_are_worth_the_broken_twins_that_they_find(sandbox: BubblewrapSandbox) -> None:
    assert judged(mutants(), TESTS + "assert add(9, 1) == 10", sandbox).value == 1
    assert judged(mutants(), TESTS, sandbox).value == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "program", ["", "pass", "raise SystemExit(0)", "assert False", "import os\nos._exit(1)", "add(1)"]
)
def test_tests_that_pass_or_fail_whatever_they_test_are_worth_nothing(program: str, sandbox: BubblewrapSandbox) -> None:
    assert judged(mutants(), program, sandbox).value == 0
