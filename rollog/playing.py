"""One rollout of a task here and now, without a log: the same functions as in the services, one after the other.

For a person who tries a domain, and for the admission of domains. What the policy would say comes from a function.
"""

from collections.abc import Callable, Iterable

from producers.actions import action_of
from producers.turns import end_id, make_end, turn_id
from schemas.arrays import PackedArray
from schemas.codec import new_event
from schemas.events import Event
from schemas.executions import ExecutionFinished
from schemas.ids import rollout_id
from schemas.rollouts import TurnGenerated
from schemas.tasks import TaskIssued
from schemas.trajectory import End, Generate, Trajectory, next_step
from streams.executor import execution_id
from streams.running import Runner, carry_out
from streams.scoring import Finding, without_worth
from streams.verifiers.worker import find

Say = Callable[[Generate], str]
SAMPLE, SOURCE = 0, "rollog/playing"
ATTEMPTS = 2
NONE = PackedArray.pack([], dtype="i4")


def play(task: TaskIssued, say: Say, runner: Runner | None) -> Trajectory:
    """Return the rollout that `say` makes of the task, turn by turn. `runner` may be None where nothing runs."""
    trajectory = Trajectory()
    while True:
        step = next_step(task, trajectory)
        match step:
            case Generate():
                event = turn_of(task, trajectory, step.turn, say(step))
                trajectory.turns[step.turn] = event
                if event.record.action is not None:
                    trajectory.executions[step.turn] = execution_of(event, runner)
            case End():
                end = make_end(task, trajectory, sample=SAMPLE, why=step.why)
                trajectory.ended[None] = new_event(end, id=end_id(end.rollout_id), key=task.task_id, source=SOURCE)
                return trajectory
            case _:
                raise AssertionError(f"{task.task_id}: {step} though every turn was answered")


def say_all(texts: Iterable[str]) -> Say:
    """Return what says these texts, one a turn, and then nothing."""
    left = iter(texts)
    return lambda _: next(left, "")


def judge(task: TaskIssued, trajectory: Trajectory) -> Finding:
    """Return what the task's verifier finds, in this process."""
    return without_worth(trajectory) or find(task.verifier, trajectory)


def turn_of(task: TaskIssued, trajectory: Trajectory, turn: int, text: str) -> Event[TurnGenerated]:
    """Return a turn that says the text; its tokens are bytes, since no policy has drawn any."""
    tokens = list(text.encode(errors="replace"))
    record = TurnGenerated(
        task_id=task.task_id,
        rollout_id=rollout_id(task.task_id, SAMPLE),
        sample=SAMPLE,
        turn=turn,
        domain=task.domain,
        policy=task.policy,
        context_ids=NONE,
        token_ids=PackedArray.pack(tokens, dtype="i4"),
        logprobs=PackedArray.pack([0.0] * len(tokens), dtype="f4"),
        versions=PackedArray.pack([0] * len(tokens), dtype="i4"),
        text=text,
        finish_reason="stop",
        sampling=task.sampling,
        seed=task.seed,
        action=action_of(task, trajectory, text),
    )
    return new_event(record, id=turn_id(record.rollout_id, turn), key=task.task_id, source=SOURCE)


def execution_of(turn: Event[TurnGenerated], runner: Runner | None) -> Event[ExecutionFinished]:
    """Return what comes of a turn's action."""
    record, action = turn.record, turn.record.action
    assert action is not None
    assert runner is not None, f"domain {record.domain} runs programs; a sandbox is needed"
    ran = carry_out(runner, action, attempts=ATTEMPTS)
    finished = ExecutionFinished(
        task_id=record.task_id,
        rollout_id=record.rollout_id,
        turn=record.turn,
        domain=record.domain,
        outcome=ran.outcome,
        cases=ran.cases,
    )
    return new_event(finished, id=execution_id(turn.id), key=record.task_id, source=SOURCE, cause=turn)
