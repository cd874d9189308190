"""One action to what came of it: its cases, a tool's call as a program, trying again where the sandbox failed."""

from typing import Protocol

import msgspec

from schemas.errors import SandboxError
from schemas.executions import Action, Case, Outcome
from schemas.limits import MAX_RECORD_BYTES

MAX_KEPT_BYTES = MAX_RECORD_BYTES // 2
"""Of the streams of an execution, all cases together."""
MAX_TIMEOUTS = 2
"""Cases that may use up their time before the rest is not run: a program that hangs hangs on all."""
OUT_OF_TIME = ("timed_out", "cpu_limit")
EXIT_REFUSED = 2

CALL = """
import json as _json
import sys as _sys

_call = _json.load(_sys.stdin)
try:
    with open("world.json") as _file:
        _world = _json.load(_file)
except FileNotFoundError:
    _world = {}
try:
    _answer = globals()[_call["name"]](_world, **_call["arguments"])
except ValueError as _error:
    print(_json.dumps({"error": str(_error)}))
    raise SystemExit(1)
with open("world.json", "w") as _file:
    _json.dump(_world, _file, sort_keys=True)
print(_json.dumps(_answer))
"""
"""Runs a function of the prelude on `world.json`. What raises ValueError is refused, and changes nothing."""


class Runner(Protocol):
    """What is needed of a sandbox."""

    def run(self, action: Action) -> Outcome:
        """Run one action, however it ends. Blocking, thread-safe."""
        ...


class Ran(msgspec.Struct, frozen=True):
    """What came of an action."""

    outcome: Outcome
    cases: tuple[Outcome, ...] = ()


def carry_out(runner: Runner, action: Action, *, attempts: int) -> Ran:
    """Return what came of an action, each of its cases run on its own."""
    if action.kind == "refusal":
        said = action.code.encode(errors="replace")
        return Ran(
            Outcome(
                status="nonzero",
                exit_code=EXIT_REFUSED,
                stderr=said,
                stderr_bytes=len(said),
                backend="none",
                tree=action.tree or None,
            )
        )
    if not action.cases:
        return fitted(Ran(run_action(runner, program_of(action), attempts=attempts)))
    outcomes: list[Outcome] = []
    for case in action.cases:
        outcomes.append(run_action(runner, of_case(action, case), attempts=attempts))
        if sum(outcome.status in OUT_OF_TIME for outcome in outcomes) >= MAX_TIMEOUTS:
            break
    return fitted(Ran(telling(outcomes), tuple(outcomes)))


def telling(outcomes: list[Outcome]) -> Outcome:
    """Return the outcome that stands for all: a sandbox's trouble, else the first that was not ok, else the first."""
    by_trouble = sorted(outcomes, key=lambda outcome: (outcome.status != "infra_error", outcome.status == "ok"))
    return by_trouble[0]


def of_case(action: Action, case: Case) -> Action:
    """Return the action that runs a program with one of its cases."""
    return msgspec.structs.replace(
        action,
        prelude="\n".join(part for part in (action.prelude, case.prelude) if part),
        code=f"{action.code}\n{case.epilogue}" if case.epilogue else action.code,
        stdin=case.stdin,
        files=action.files | case.files,
        cases=(),
    )


def program_of(action: Action) -> Action:
    """Return a tool's call as the program that a sandbox runs; anything else as it is."""
    if action.kind != "call":
        return action
    return msgspec.structs.replace(action, kind="python", code=CALL, stdin=action.code.encode())


def run_action(runner: Runner, action: Action, *, attempts: int) -> Outcome:
    """Return the outcome of an action, running it again where the sandbox itself failed."""
    for attempt in range(1, attempts + 1):
        try:
            outcome = runner.run(action)
        except SandboxError as error:
            outcome = Outcome(status="infra_error", error=str(error))
        if outcome.status != "infra_error" or attempt == attempts:
            return msgspec.structs.replace(outcome, attempt=max(attempt, outcome.attempt))
    raise AssertionError("attempts is at least 1")


def fitted(ran: Ran) -> Ran:
    """Return it with streams that fit a record, whatever a task's `keep_bytes` allowed; what is cut shows."""
    if ran.cases:
        # The one that stands for all is among them, and so is written twice.
        share = MAX_KEPT_BYTES // (2 * (len(ran.cases) + 1))
        return Ran(cut(ran.outcome, share), tuple(cut(outcome, share) for outcome in ran.cases))
    return Ran(cut(ran.outcome, MAX_KEPT_BYTES // 2))


def cut(outcome: Outcome, most: int) -> Outcome:
    """Return the outcome with at most so many bytes of each stream, where both together are more than twice that."""
    if len(outcome.stdout) + len(outcome.stderr) <= 2 * most:
        return outcome
    return msgspec.structs.replace(outcome, stdout=outcome.stdout[:most], stderr=outcome.stderr[:most])
