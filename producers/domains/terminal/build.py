"""A build that fails, stage by stage, each for a reason of its own."""

import json
import random
from collections.abc import Callable
from typing import Any

import msgspec

from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.terminal.builder import BUILDER
from producers.domains.terminal.verdicts import asked, bash, heredoc, machine, untouched
from schemas.executions import Case
from schemas.parts import Part
from schemas.tasks import VerifierSpec

NAMES = ("tally", "pricer", "shipper", "grader", "planner", "mixer")
NOUNS = ("orders", "parcels", "lessons", "meters", "tickets", "samples")


class Project(msgspec.Struct):
    """Files of a project, and what its stages make of it."""

    name: str
    noun: str
    files: dict[str, str]
    outputs: dict[str, str]
    numbers: tuple[int, ...]
    factor: int
    offset: int


class Fault(msgspec.Struct, frozen=True):
    """What one file says instead of what it should."""

    stage: int
    path: str
    text: str
    moved_to: str = ""


def draw_project(rng: random.Random) -> Project:
    """Return a project that builds."""
    name, noun = rng.choice(NAMES), rng.choice(NOUNS)
    factor, offset, least = rng.randint(2, 9), rng.randint(1, 60), rng.randint(5, 40)
    numbers = tuple(rng.randint(1, 99) for _ in range(rng.randint(5, 9)))
    version = f"{rng.randint(0, 4)}.{rng.randint(0, 12)}.{rng.randint(0, 30)}"
    manifest = {"name": name, "version": version, "modules": ["core", "rules"], "entry": f"score_{noun}"}
    values = [number * factor + offset for number in numbers if number >= least]
    highest = max(values, default=0)
    files = {
        "project.json": json.dumps(manifest, indent=2) + "\n",
        "src/rules.py": f"FACTOR = {factor}\nOFFSET = {offset}\nLEAST = {least}\n\n\ndef admits(number):\n"
        "    return number >= LEAST\n",
        "src/core.py": f"from rules import FACTOR, OFFSET, admits\n\n\ndef score_{noun}(numbers):\n"
        "    return [number * FACTOR + OFFSET for number in numbers if admits(number)]\n",
        f"data/{noun}.csv": "value\n" + "".join(f"{number}\n" for number in numbers),
        "data/README": f"One file: {noun}.csv, a column named value.\n",
        "tests/expected.json": json.dumps({str(least): [least * factor + offset], str(least - 1): []}) + "\n",
    }
    outputs = {
        "out/1-manifest.txt": f"{name} {version}\ncore\nrules\n",
        "out/2-modules.txt": f"core: score_{noun}\nrules: admits\n",
        "out/3-tests.txt": "2 passed\n",
        "dist/report.txt": f"{name} {version}\n{len(values)} {noun}, total {sum(values)}, highest {highest}\n",
    }
    return Project(name=name, noun=noun, files=files, outputs=outputs, numbers=numbers, factor=factor, offset=offset)


def in_file(stage: int, path: str, old: str, new: str) -> Callable[[Project], Fault]:
    """Return what spoils one place of a file."""

    def spoil(project: Project) -> Fault:
        where, before, after = (text.replace("NOUN", project.noun) for text in (path, old, new))
        assert before in project.files[where], (where, before)
        return Fault(stage, where, project.files[where].replace(before, after, 1))

    return spoil


def moved(stage: int, path: str, to: str) -> Callable[[Project], Fault]:
    """Return what puts a file where it is not looked for."""

    def spoil(project: Project) -> Fault:
        where = path.replace("NOUN", project.noun)
        return Fault(stage, where, project.files[where], to.replace("NOUN", project.noun))

    return spoil


FAULTS: tuple[tuple[Callable[[Project], Fault], ...], ...] = (
    (
        in_file(1, "project.json", '"rules"\n', '"rules",\n'),
        in_file(1, "project.json", '"modules"', '"module"'),
        in_file(1, "project.json", '"entry"', '"entry_point"'),
        in_file(1, "project.json", '"rules"', '"ruels"'),
    ),
    (
        in_file(2, "src/core.py", "def score_NOUN(numbers):", "def score_NOUN(numbers)"),
        in_file(2, "src/core.py", "    return [", "return ["),
        in_file(2, "src/core.py", "admits(number)]", "admits(number)"),
        in_file(2, "src/core.py", "score_NOUN", "scores_NOUN"),
    ),
    (
        in_file(3, "src/rules.py", "number >= LEAST", "number > LEAST"),
        in_file(3, "src/rules.py", "OFFSET =", "OFSET ="),
        in_file(3, "src/rules.py", "return number >= LEAST", "number >= LEAST"),
        moved(3, "tests/expected.json", "tests/expect.json"),
    ),
    (
        moved(4, "data/NOUN.csv", "data/NOUN.csv.old"),
        moved(4, "data/NOUN.csv", "NOUN.csv"),
        in_file(4, "data/NOUN.csv", "value\n", "values\n"),
        in_file(4, "data/NOUN.csv", "value\n", "value\nn/a\n"),
    ),
)
"""By stage: what goes wrong there and nowhere before."""


REBUILD = "rm -rf out dist; python3 -I build.py > /dev/null 2>&1; cat {}"
SHOWN = ("out/1-manifest.txt", "out/2-modules.txt", "out/3-tests.txt tests/expected.json", "dist/report.txt")
CASES = tuple(Case(name=f"stage {stage}", epilogue=REBUILD.format(paths)) for stage, paths in enumerate(SHOWN, 1))
"""What a build makes once the rollout is over: files that somebody wrote by hand are none of it, nor are modules that
somebody put beside it (`-I`)."""


def reached(project: Project, stage: int) -> Part:
    """Return the credit for one stage, the later the more; the tests must be those that were there."""
    outputs = list(project.outputs.values())
    text = outputs[stage - 1] + (project.files["tests/expected.json"] if stage == 3 else "")
    expected: dict[str, Any] = {case.name: None for case in CASES} | {f"stage {stage}": {"stdout": text, "ends": "any"}}
    return Part(kind="cases", name=f"stage {stage}", of="cases", expected=expected, weight=float(stage))


@domain(family="terminal", levels=4, max_tokens=768)
def terminal_build_fix(rng: random.Random, level: int) -> Item:
    """Mend a project until its build goes through."""
    project = draw_project(rng)
    stages = sorted({0, *rng.sample(range(1, 4), level)})
    faults = [rng.choice(FAULTS[stage])(project) for stage in stages]
    files = project.files | {"build.py": BUILDER} | {fault.path: fault.text for fault in faults}
    for fault in faults:
        if fault.moved_to:
            files[fault.moved_to] = files.pop(fault.path)
    execution = msgspec.structs.replace(machine(files), cases=CASES)
    question = (
        f"The build of {project.name} is broken: `python3 build.py` stops. Mend the project until it goes through and "
        "dist/report.txt is there. Leave build.py and the numbers in the data alone. Answer with a short note on what "
        "was wrong."
    )
    repairs = [bash(repair(project, fault)) for fault in faults]
    build = bash("python3 build.py")
    parts = (untouched("build.py", BUILDER), *(reached(project, stage) for stage in range(1, 5)))
    forged = [heredoc(path, text) for path, text in project.outputs.items()]
    first = (build, repairs[0], build, "One fault is mended.")
    return Item(
        prompt=asked(rng, question, execution),
        gold=(build, *(turn for mend in repairs for turn in (mend, build)), f"{len(faults)} faults are mended."),
        verifier=VerifierSpec(kind="parts", parts=parts),
        execution=execution,
        max_turns=8 + 4 * level,
        partials=(first,) if len(faults) > 1 else (),
        wrongs=(
            (build, "The build goes through."),
            (bash("mkdir -p dist out; touch dist/report.txt; echo '2 passed'"), "Done."),
            (bash("echo 'print(\"ok\")' > build.py"), build, "Done."),
            (bash("\n".join(["mkdir -p out dist", *forged])), "Done."),
            (bash("echo '{}' > tests/expected.json; mkdir -p out; echo '2 passed' > out/3-tests.txt"), build, "Done."),
        ),
        difficulty=len(faults),
    )


def repair(project: Project, fault: Fault) -> str:
    """Return the line that mends a fault."""
    if fault.moved_to:
        return f"mv {fault.moved_to} {fault.path}"
    return heredoc(fault.path, project.files[fault.path])
