"""The executor: turns that ask for a run, to what came of it.

    rollouts --take--> running (bounded) --slot--> sandbox --> ExecutionFinished --durable--> ack

What must hold: a turn is acknowledged only once its execution is on the log; the same turn never runs twice at once;
runs end in any order, and none waits for another but for a slot, or for a twin whose run answers for it (`sharing`).
While `max_in_flight` turns are unanswered `take` does not return, and so the log is not read on: lag is the
backpressure. A sandbox's own trouble is tried again and then said as `infra_error`; it never looks like the program's.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from consumers.runtime import Runtime
from consumers.telemetry import Telemetry
from schemas.config import ExecutorSettings
from schemas.errors import StuckError
from schemas.events import Event
from schemas.executions import ExecutionFinished
from schemas.ids import derive_id
from schemas.rollouts import TurnGenerated
from streams.outbox import Outbox, Writer
from streams.running import Ran, Runner, carry_out
from streams.sharing import Sharing
from streams.slots import Slots

Ack = Callable[[], None]
NUM_REMEMBERED = 200_000
STUCK_MARGIN_S = 60.0
"""Beyond an action's own deadline, after which the sandbox must have answered."""


def execution_id(turn_id: str) -> str:
    """Return the event id of the execution that a TurnGenerated event asks for."""
    return derive_id(turn_id, "execution_finished", 0)


class Run:
    """One turn between taking it and its answer being durable."""

    def __init__(self, event: Event[TurnGenerated], ack: Ack) -> None:
        assert event.record.action is not None
        self.event, self.action = event, event.record.action
        self.acks = [ack]
        self.taken_s = time.monotonic()
        self.started_s: float | None = None
        self.finished_s = 0.0


class Executor:
    """The executor's stage."""

    name = "executor"
    inputs: tuple[str, ...] = ("rollouts",)
    outputs: tuple[str, ...] = ("executions",)

    def __init__(self, settings: ExecutorSettings, writer: Writer, runner: Runner, telemetry: Telemetry) -> None:
        self._settings, self._runner, self._telemetry = settings, runner, telemetry
        self._outbox = Outbox(writer, telemetry)
        self._running: dict[str, Run] = {}
        self._done: OrderedDict[str, None] = OrderedDict()
        self._room = asyncio.Semaphore(settings.max_in_flight)
        self._slots: Slots[Run, Ran] | None = None
        self._sharing: Sharing[Run] = Sharing()
        self._is_stopping = False
        self._is_idle = asyncio.Event()

    async def take(self, event: Event[Any], ack: Ack) -> None:
        """Queue the turn's action, once there is room."""
        self._outbox.check()
        self._telemetry.events.labels("rollouts", "in").inc()
        if not isinstance(event.record, TurnGenerated) or event.record.action is None:
            ack()
            return
        if self._settle(event, ack):
            return
        await self._room.acquire()
        if self._is_stopping or self._settle(event, ack):
            self._room.release()
            return
        run = self._running[execution_id(event.id)] = Run(event, ack)
        self._telemetry.progress(len(self._running))
        self._begin(run)

    def recall(self, outputs: list[Event[Any]]) -> None:
        """Remember what is answered already."""
        for output in outputs:
            self._remember(output.id)

    def revoke(self, partitions: set[int]) -> None:
        """Let runs of lost partitions finish: whoever runs them again writes the same ids."""

    async def tick(self, now_s: float) -> None:
        """Raise what failed away from `take`, and StuckError where a sandbox did not answer in time."""
        self._outbox.check()
        self._telemetry.pending(len(self._running))
        now = time.monotonic()
        for run in self._running.values():
            num_runs = self._settings.attempts * max(1, len(run.action.cases))
            limit_s = num_runs * (run.action.limits.wall_s + STUCK_MARGIN_S)
            if run.started_s is not None and not run.finished_s and run.started_s + limit_s < now:
                raise StuckError(
                    f"executor: {run.event.position}: the sandbox did not answer within {limit_s:.0f} s, though the "
                    f"action may take {run.action.limits.wall_s} s; the service ends and the turn comes again"
                )

    async def drain(self, timeout_s: float) -> None:
        """Take no more; let runs finish until the time is over. The rest comes again."""
        self._is_stopping = True
        self._room.release()
        try:
            async with asyncio.timeout(timeout_s):
                while self._running:
                    self._outbox.check()
                    self._is_idle.clear()
                    await self._is_idle.wait()
        except TimeoutError:
            pass
        finally:
            if self._slots is not None:
                self._slots.close()

    def _settle(self, event: Event[Any], ack: Ack) -> bool:
        """Acknowledge a turn that is answered, or have it acknowledged with its twin that is running."""
        output_id = execution_id(event.id)
        if output_id in self._done:
            ack()
        elif output_id in self._running:
            self._running[output_id].acks.append(ack)
        else:
            return False
        return True

    def _begin(self, run: Run) -> None:
        """Run it, unless a twin's run answers for it or will."""
        turn = run.event.record
        source = self._sharing.find(turn.task_id, run.action) if self._settings.share else None
        if source is None:
            self._sharing.begin(turn.task_id, run.action, turn.rollout_id)
            self._open_slots().submit(run)
        elif source.ran is None:
            source.waiting.append(run)
        else:
            self._answer(run, source.ran, copied_from=source.rollout_id)

    def _open_slots(self) -> Slots[Run, Ran]:
        if self._slots is None:
            self._slots = Slots(self._settings.num_slots, work=self._execute, on_done=self._end, on_error=self._fail)
        return self._slots

    def _execute(self, run: Run) -> Ran:
        run.started_s = time.monotonic()
        with self._telemetry.busy():
            ran = carry_out(self._runner, run.action, attempts=self._settings.attempts)
        run.finished_s = time.monotonic()
        return ran

    def _end(self, run: Run, ran: Ran) -> None:
        """Answer for a run, and for those that wait for it; where the sandbox failed each gets a run of its own."""
        turn = run.event.record
        assert run.started_s is not None
        self._telemetry.seconds.labels("execute", turn.domain).observe(run.finished_s - run.started_s)
        source = self._sharing.end(turn.task_id, run.action, ran)
        self._answer(run, ran)
        if source is None:
            return
        for twin in source.waiting:
            if source.ran is None:
                self._begin(twin)
            else:
                self._answer(twin, source.ran, copied_from=source.rollout_id)

    def _answer(self, run: Run, ran: Ran, *, copied_from: str = "") -> None:
        turn = run.event.record
        record = ExecutionFinished(
            task_id=turn.task_id,
            rollout_id=turn.rollout_id,
            turn=turn.turn,
            domain=turn.domain,
            outcome=ran.outcome,
            cases=ran.cases,
            queued_s=(time.monotonic() if run.started_s is None else run.started_s) - run.taken_s,
            copied_from=copied_from,
        )
        if copied_from:
            self._telemetry.shared.labels(turn.domain).inc()
        output_id = execution_id(run.event.id)
        event = self._outbox.writer.event(
            record,
            id=output_id,
            key=turn.task_id,
            subject=turn.rollout_id,
            cause=run.event,
            correlation_id=turn.task_id,
        )
        self._outbox.send(event, lambda: self._finish(output_id))

    def _finish(self, output_id: str) -> None:
        run = self._running.pop(output_id)
        self._remember(output_id)
        self._room.release()
        self._telemetry.progress(len(self._running))
        for ack in run.acks:
            ack()
        if not self._running:
            self._is_idle.set()

    def _fail(self, error: BaseException) -> None:
        self._outbox.fail(error)
        self._is_idle.set()

    def _remember(self, output_id: str) -> None:
        self._done[output_id] = None
        while len(self._done) > NUM_REMEMBERED:
            self._done.popitem(last=False)


def run_executor(runtime: Runtime) -> None:
    """Run the service until it is told to stop."""
    from streams.app import run_stage  # here, so that the stage itself needs no stream processor and no sandbox
    from streams.sandbox import open_sandbox

    settings = runtime.settings.executor
    sandbox = open_sandbox(
        settings.sandbox, num_slots=settings.num_slots, home=runtime.home, allow_unsafe=settings.allow_unsafe
    )
    try:
        run_stage(runtime, lambda publisher: Executor(settings, publisher, sandbox, runtime.telemetry))
    finally:
        sandbox.close()
