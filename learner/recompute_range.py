"""Many steps taken again in one pass, each judged for itself.

It starts from the newest checkpoint before the first step and goes on from step to step. At a checkpoint that was kept
it takes up the recorded weights where its own have become others, so that a difference is told of those that have it
and not of all that follow. What must hold: one step's batches in memory at a time, and of the run only where its steps
stand.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from consumers.feed import OpenReader
from learner.checkpoint import WEIGHTS_FILE, folder_of, list_steps, read_state
from learner.manifest import settings_of
from learner.model import describe_kernels, set_determinism
from learner.optimizer import OPTIMIZER_FILE
from learner.publishing import step_id
from learner.recompute import TOLERANCE, Difference, again, compare_weights
from learner.restoring import OldVersions
from learner.training import Training
from schemas.errors import CheckpointError, ConfigError, LogError
from schemas.steps import StepTaken

Check = Literal["loss", "weights"]
Verdict = Literal["match", "differ", "unreached"]
OF_WEIGHTS = ("weights", "weights_digest_in", "weights_digest_out", "optimizer_digest_out")
"""What `--check loss` does not ask for."""
RANGE = re.compile(r"(\d+)(?:\.\.(\d+))?")
MOST_DETAILS = 100
"""Steps that a report names; all are counted."""


class StepVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one step."""

    step: int
    verdict: Verdict
    """`unreached`: a step before it could not be taken, and no checkpoint lies between."""
    bitwise: bool
    """Whether equality to the bit was asked for."""
    differences: tuple[Difference, ...] = ()


class RangeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a range of steps; `steps` is the sum of `match`, `differ` and `unreached`."""

    run: str
    first: int
    last: int
    steps: int
    match: int
    differ: int
    unreached: int
    check: Check
    num_bitwise: int
    """Steps of which equality to the bit was asked for; the others were given `tolerance`."""
    tolerance: float
    started_from: int
    """Step of the checkpoint that it started from."""
    kernels_here: str
    first_difference: Difference | None
    details: tuple[StepVerdict, ...]
    """The first steps that did not match; those before `first` among them, which were gone through to get there."""


def parse_steps(text: str) -> tuple[int | None, int | None]:
    """Return first and last of `7`, `3..9` or `all`, which has neither. Raises ConfigError."""
    if text == "all":
        return None, None
    match = RANGE.fullmatch(text)
    if match is None:
        raise ConfigError(f"--steps {text!r}: wanted a step, a range (3..9) or `all`")
    first, last = int(match[1]), int(match[2] or match[1])
    if not 1 <= first <= last:
        raise ConfigError(f"--steps {text!r}: wanted steps from 1, the smaller one first")
    return first, last


def recompute_range(
    open_reader: OpenReader,
    run_dir: Path,
    *,
    run_id: str,
    steps: tuple[int | None, int | None],
    check: Check = "weights",
    on_step: Callable[[StepVerdict, int], None] = lambda verdict, total: None,
) -> RangeReport:
    """Take steps first..last of the run again; None is the run's own first or last.

    `on_step` hears of each, with their number. Raises LogError, CheckpointError where it cannot begin.
    """
    places, restored = find_steps(open_reader, run_id)
    first, last = bounds_of(steps, places, run_id)
    root = run_dir / "checkpoints"
    before = [kept for kept in list_steps(root) if kept < first]
    if not before:
        raise CheckpointError(f"{root}: no checkpoint before step {first}; wanted one to start from")
    verdicts: dict[Verdict, int] = {"match": 0, "differ": 0, "unreached": 0}
    details: list[StepVerdict] = []
    num_bitwise = 0
    walk = Walk(open_reader, root, run_id, places, check=check, restored=restored)
    for found in walk.run(before[-1], last):
        if found.verdict != "match" and len(details) < MOST_DETAILS:
            details.append(found)
        if found.step < first:
            continue
        verdicts[found.verdict] += 1
        num_bitwise += found.bitwise
        on_step(found, last - first + 1)
    return RangeReport(
        run=run_id,
        first=first,
        last=last,
        steps=last - first + 1,
        **verdicts,
        check=check,
        num_bitwise=num_bitwise,
        tolerance=TOLERANCE,
        started_from=before[-1],
        kernels_here=describe_kernels(),
        first_difference=next((d for verdict in details for d in verdict.differences), None),
        details=tuple(details),
    )


def bounds_of(steps: tuple[int | None, int | None], places: dict[int, int], run_id: str) -> tuple[int, int]:
    """Return first and last step in numbers. Raises LogError where the log does not have them."""
    if not places:
        raise LogError(f"no step of run {run_id!r} is on the log")
    first = min(places) if steps[0] is None else steps[0]
    last = max(places) if steps[1] is None else steps[1]
    if first < min(places) or last > max(places):
        raise LogError(
            f"no steps {first} to {last} of run {run_id!r} on the log; there are {min(places)} to {max(places)}"
        )
    return first, last


def find_steps(open_reader: OpenReader, run_id: str) -> tuple[dict[int, int], frozenset[int]]:
    """Return the offset of each step of the run, of repeats the first; and what steps went back to. Raises LogError."""
    places: dict[int, int] = {}
    restored: set[int] = set()
    for step, offset in read_steps(open_reader, run_id, "beginning"):
        places.setdefault(step.step, offset)
        if step.restored_from is not None:
            restored.add(step.restored_from)
    return places, frozenset(restored)


def read_steps(
    open_reader: OpenReader, run_id: str, start: Literal["beginning"] | dict[tuple[str, int], int]
) -> Iterator[tuple[StepTaken, int]]:
    """Yield the run's steps and their offsets in the order of the log. Raises LogError."""
    reader = open_reader(["steps"], start=start, bounded=True, dedupe=0, on_undecodable=lambda _raw, _error: None)
    try:
        for event in reader:
            step = event.record
            if isinstance(step, StepTaken) and event.position and event.id == step_id(run_id, step.step):
                yield step, event.position.offset
    finally:
        reader.close()


class Walk:
    """From a checkpoint through the steps that follow it."""

    def __init__(
        self,
        open_reader: OpenReader,
        root: Path,
        run_id: str,
        places: dict[int, int],
        *,
        check: Check,
        restored: frozenset[int] = frozenset(),
    ) -> None:
        """`places` has the offset of each step on the log, `restored` the versions that some step went back to."""
        self._open_reader, self._root, self._run_id = open_reader, root, run_id
        self._places, self._check = places, check
        self._kept = set(list_steps(root))
        self._old = OldVersions(root, restored)
        self._is_exact = True
        """Whether all since the last checkpoint was taken on these kernels."""

    def run(self, start: int, last: int) -> Iterator[StepVerdict]:
        """Yield what came of each step after the checkpoint of `start`. Raises CheckpointError, LogError."""
        training: Training | None = None
        for number, step in self._steps(start + 1, last):
            if number - 1 in self._kept:
                training = self._anchored(training, number - 1)
            if step is None:
                yield StepVerdict(step=number, verdict="differ", bitwise=False, differences=(missing(number),))
                training = None
                continue
            if training is None:
                yield StepVerdict(step=number, verdict="unreached", bitwise=False)
                continue
            verdict = self._take(training, step)
            if training.step != number:
                training = None
            yield verdict

    def _anchored(self, training: Training | None, number: int) -> Training:
        """Return the training as the checkpoint has it; the one in hand where it is the same to the bit."""
        folder = folder_of(self._root, number)
        if training is not None and self._is_exact and is_same(training, folder):
            return training
        self._is_exact = True
        return Training.from_checkpoint(folder)[0]

    def _take(self, training: Training, step: StepTaken) -> StepVerdict:
        set_determinism(settings_of(step).num_threads)
        self._is_exact = self._is_exact and step.kernels == describe_kernels()
        self._old.note(training)
        found = again(training, step, self._open_reader, self._old, bitwise=self._is_exact)
        if not self._is_exact and training.step == step.step and self._check == "weights":
            found += compare_weights(training, self._root, step.step)
        if self._check == "loss":
            found = [difference for difference in found if difference.what not in OF_WEIGHTS]
        verdict: Verdict = "differ" if found else "match"
        return StepVerdict(step=step.step, verdict=verdict, bitwise=self._is_exact, differences=tuple(found))

    def _steps(self, first: int, last: int) -> Iterator[tuple[int, StepTaken | None]]:
        """Yield each step's record in order; None for one that the log does not have."""
        present = [self._places[number] for number in range(first, last + 1) if number in self._places]
        stream = read_steps(self._open_reader, self._run_id, {("steps", 0): min(present)}) if present else iter(())
        early: dict[int, StepTaken] = {}
        for number in range(first, last + 1):
            while number in self._places and number not in early:
                step, offset = next(stream, (None, 0))
                if step is None:
                    raise LogError(
                        f"steps[0]@{self._places[number]}: step {number} was there a moment ago; read it again"
                    )
                if offset == self._places.get(step.step) and number <= step.step <= last:
                    early[step.step] = step
            yield number, early.pop(number, None)


def is_same(training: Training, folder: Path) -> bool:
    """Return whether a checkpoint holds the weights and the optimizer that are in hand. Raises CheckpointError."""
    digests = read_state(folder).digests
    return (digests.get(WEIGHTS_FILE), digests.get(OPTIMIZER_FILE)) == (
        training.weights_digest,
        training.optimizer_digest,
    )


def missing(step: int) -> Difference:
    """Return what to tell of a step that the log has steps before and after of, and not itself."""
    return Difference(
        step=step, what="step", recorded="nothing: it is not on the log", found="steps before and after it"
    )
