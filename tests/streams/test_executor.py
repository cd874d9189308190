import asyncio
import threading
from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from schemas.codec import encode_value
from schemas.config import ExecutorSettings
from schemas.errors import LogError, SandboxError, StuckError
from schemas.executions import Action, ExecutionLimits, Outcome
from schemas.ids import derive_id
from schemas.limits import MAX_RECORD_BYTES
from streams import executor
from streams.executor import Executor, execution_id
from streams.running import run_action
from tests import samples
from tests.streams.stage_fakes import Acks, FakeWriter, GatedRunner, ok, read, telemetry, turn


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until the condition holds."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 threads fill what is looked at, the loop only has to run
            await asyncio.sleep(0)


async def tick_for_ever(stage: Executor) -> None:
    while True:
        await stage.tick(0.0)
        await asyncio.sleep(0)


def make(
    runner: GatedRunner, *, writer: FakeWriter | None = None, **settings: int
) -> tuple[Executor, FakeWriter, Acks]:
    writer = writer or FakeWriter()
    return Executor(ExecutorSettings(**settings), writer, runner, telemetry()), writer, Acks()


async def test_a_turn_with_an_action_becomes_an_execution_and_is_then_acknowledged() -> None:
    stage, writer, acks = make(GatedRunner())
    event = read(turn("print(1)", sample=2, index=1))
    await stage.take(event, acks.of(event))
    await until(lambda: bool(acks.ids))
    (out,) = writer.events
    assert out.id == derive_id(event.id, "execution_finished", 0)
    assert (out.key, out.causation_id, out.record.turn) == (samples.TASK_ID, event.id, 1)
    assert out.record.rollout_id == f"{samples.TASK_ID}/2"
    assert out.record.outcome == ok("print(1)")


async def test_what_asks_for_no_run_is_acknowledged_at_once() -> None:
    stage, writer, acks = make(GatedRunner())
    for record in (turn(None), samples.ended()):
        event = read(record)
        await stage.take(event, acks.of(event))
    assert len(acks.ids) == 2
    assert writer.events == []


async def test_a_turn_is_not_acknowledged_before_its_execution_is_durable() -> None:
    stage, writer, acks = make(GatedRunner(), writer=FakeWriter(is_held=True))
    event = read(turn("a"))
    await stage.take(event, acks.of(event))
    await until(lambda: bool(writer.events))
    assert acks.ids == []
    writer.deliver()
    await until(lambda: bool(acks.ids))


async def test_a_slow_run_does_not_hold_up_a_fast_one_behind_it() -> None:
    runner = GatedRunner("slow")
    stage, writer, acks = make(runner, num_slots=2)
    slow, fast = read(turn("slow")), read(turn("fast", sample=1))
    await stage.take(slow, acks.of(slow))
    await stage.take(fast, acks.of(fast))
    await until(lambda: acks.ids == [fast.id])
    runner.gates["slow"].release()
    await until(lambda: acks.ids == [fast.id, slow.id])
    assert len(writer.events) == 2


async def test_taking_pauses_while_max_in_flight_turns_are_unanswered() -> None:
    runner = GatedRunner("a", "b")
    stage, _, acks = make(runner, num_slots=2, max_in_flight=2)
    for code in ("a", "b"):
        event = read(turn(code, sample=len(code), index=ord(code)))
        await stage.take(event, acks.of(event))
    third = read(turn("c", index=9))
    taking = asyncio.create_task(stage.take(third, acks.of(third)))
    await until(lambda: len(runner.codes) == 2)
    assert not taking.done()
    runner.gates["b"].release()
    await taking
    await until(lambda: third.id in acks.ids)
    runner.gates["a"].release()
    await until(lambda: len(acks.ids) == 3)


async def test_a_turn_that_comes_again_while_it_runs_attaches_and_runs_once() -> None:
    runner = GatedRunner("a")
    stage, writer, acks = make(runner)
    event = read(turn("a"))
    await stage.take(event, acks.of(event))
    await stage.take(event, acks.of(event))
    runner.gates["a"].release()
    await until(lambda: len(acks.ids) == 2)
    await stage.take(event, acks.of(event))
    assert acks.ids == [event.id] * 3
    assert runner.codes == ["a"]
    assert len(writer.events) == 1


async def test_turns_whose_execution_was_recalled_are_acknowledged_without_running() -> None:
    runner = GatedRunner()
    stage, writer, acks = make(runner)
    event = read(turn("a"))
    answered = writer.event(samples.execution(), id=execution_id(event.id), key=event.key)
    stage.recall([answered])
    await stage.take(event, acks.of(event))
    assert acks.ids == [event.id]
    assert runner.codes == []


def test_infrastructure_trouble_is_tried_again_and_then_said() -> None:
    trouble = Outcome(status="infra_error", error="no cgroup")
    runner = GatedRunner()
    runner.outcomes["a"] = [trouble, ok("1")]
    runner.outcomes["b"] = [trouble]
    recovered, given_up = (run_action(runner, Action(code=code), attempts=3) for code in "ab")
    assert (recovered.status, recovered.attempt) == ("ok", 2)
    assert (given_up.status, given_up.attempt, given_up.error) == ("infra_error", 3, "no cgroup")
    assert runner.codes == ["a", "a", "b", "b", "b"]


def test_a_sandbox_that_raises_its_own_error_is_infrastructure_trouble() -> None:
    class Broken:
        def run(self, action: Action) -> Outcome:
            raise SandboxError("bwrap is gone")

    outcome = run_action(Broken(), Action(code="a"), attempts=2)
    assert (outcome.status, outcome.error) == ("infra_error", "bwrap is gone")


async def test_streams_that_no_record_could_hold_are_cut_and_say_so() -> None:
    runner = GatedRunner()
    runner.outcomes["a"] = [ok(b"x" * MAX_RECORD_BYTES)]
    stage, writer, acks = make(runner)
    event = read(turn("a"))
    await stage.take(event, acks.of(event))
    await until(lambda: bool(acks.ids))
    assert len(encode_value(writer.records[0])) < MAX_RECORD_BYTES
    assert writer.records[0].outcome.stdout_truncated


async def test_a_bug_in_the_sandbox_stops_the_service_without_an_acknowledgement() -> None:
    class Buggy(GatedRunner):
        def run(self, action: Action) -> Outcome:
            raise ZeroDivisionError

    stage, writer, acks = make(Buggy())
    event = read(turn("a"))
    await stage.take(event, acks.of(event))
    async with asyncio.timeout(30):
        with pytest.raises(ZeroDivisionError):
            await tick_for_ever(stage)
    assert acks.ids == writer.events == []


async def test_a_failing_send_stops_the_service_without_an_acknowledgement() -> None:
    writer = FakeWriter()
    writer.fails = True
    stage, _, acks = make(GatedRunner(), writer=writer)
    event = read(turn("a"))
    await stage.take(event, acks.of(event))
    await until(lambda: bool(writer.events))
    await asyncio.sleep(0)
    with pytest.raises(LogError):
        await stage.take(event, acks.of(event))
    assert acks.ids == []


async def test_a_sandbox_that_never_answers_is_an_error_that_names_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = GatedRunner("a")
    stage, _, acks = make(runner)
    event = read(turn("a"))
    await stage.take(event, acks.of(event))
    await until(lambda: runner.codes == ["a"])
    monkeypatch.setattr(executor, "STUCK_MARGIN_S", -1e6)
    with pytest.raises(StuckError, match=r"rollouts\[0\]@"):
        await stage.tick(0.0)
    runner.gates["a"].release()
    await until(lambda: bool(acks.ids))


async def test_draining_lets_runs_finish_and_takes_no_more() -> None:
    runner = GatedRunner("a")
    stage, _, acks = make(runner, num_slots=1, max_in_flight=1)
    first, second = read(turn("a")), read(turn("b", sample=1))
    await stage.take(first, acks.of(first))
    waiting = asyncio.create_task(stage.take(second, acks.of(second)))
    draining = asyncio.create_task(stage.drain(30))
    await asyncio.sleep(0)
    runner.gates["a"].release()
    await draining
    await waiting
    assert acks.ids == [first.id]
    assert runner.codes == ["a"]


async def test_draining_gives_up_on_a_stuck_run_at_its_deadline() -> None:
    runner = GatedRunner("a")
    stage, writer, acks = make(runner)
    event = read(turn("a"))
    await stage.take(event, acks.of(event))
    await stage.drain(0.01)
    assert acks.ids == writer.events == []
    runner.gates["a"].release()


async def test_thousands_of_turns_each_end_once() -> None:
    stage, writer, acks = make(GatedRunner(), num_slots=4, max_in_flight=64)
    events = [read(turn(f"{n}", sample=n)) for n in range(2000)]
    for event in events:
        await stage.take(event, acks.of(event))
    await until(lambda: len(acks.ids) == len(events))
    assert sorted(acks.ids) == sorted(event.id for event in events)
    assert len({event.id for event in writer.events}) == len(events)


def test_handed_over_calls_are_made_in_order_on_the_loop() -> None:
    from streams.handoff import Handoff

    async def collect() -> list[int]:
        handoff, got = Handoff(), []
        threads = {threading.get_ident()}

        def post() -> None:
            for n in range(1000):
                handoff.post(partial(got.append, n))
            handoff.post(lambda: threads.add(threading.get_ident()))

        poster = threading.Thread(target=post)
        poster.start()
        await until(lambda: len(got) == 1000)
        poster.join()
        assert threads == {threading.get_ident()}
        return got

    assert asyncio.run(collect()) == list(range(1000))


async def test_samples_that_write_the_same_program_share_one_run() -> None:
    runner = GatedRunner("a")
    stage, writer, acks = make(runner, num_slots=4)
    events = [read(turn("a", sample=sample)) for sample in range(3)]
    for event in events:
        await stage.take(event, acks.of(event))
    runner.gates["a"].release()
    await until(lambda: len(acks.ids) == 3)
    late = read(turn("a", sample=3))
    await stage.take(late, acks.of(late))
    await until(lambda: len(acks.ids) == 4)

    assert runner.codes == ["a"]
    assert [record.copied_from for record in writer.records] == ["", *[f"{samples.TASK_ID}/0"] * 3]
    assert {record.rollout_id for record in writer.records} == {f"{samples.TASK_ID}/{sample}" for sample in range(4)}
    assert all(record.outcome == ok("a") for record in writer.records)


async def test_another_task_or_other_limits_get_a_run_of_their_own() -> None:
    runner = GatedRunner()
    stage, writer, acks = make(runner)
    other = "0" * 32
    short = msgspec.structs.replace(turn("a", sample=1), action=Action(code="a", limits=ExecutionLimits(wall_s=1.0)))
    events = [read(turn("a")), read(short), read(turn("a", task_id=other))]
    for event in events:
        await stage.take(event, acks.of(event))
    await until(lambda: len(acks.ids) == 3)
    assert len(runner.codes) == 3
    assert [record.copied_from for record in writer.records] == ["", "", ""]


async def test_trouble_of_the_sandbox_is_nobody_elses() -> None:
    runner = GatedRunner("a")
    runner.outcomes["a"] = [Outcome(status="infra_error", error="gone"), ok("a")]
    stage, writer, acks = make(runner, attempts=1)
    events = [read(turn("a", sample=sample)) for sample in range(3)]
    for event in events:
        await stage.take(event, acks.of(event))
    for _ in range(2):
        runner.gates["a"].release()
    await until(lambda: len(acks.ids) == 3)
    assert sorted(record.outcome.status for record in writer.records) == ["infra_error", "ok", "ok"]
    assert len(runner.codes) == 2


async def test_sharing_can_be_off() -> None:
    runner = GatedRunner()
    stage, _, acks = make(runner, share=False)
    events = [read(turn("a", sample=sample)) for sample in range(3)]
    for event in events:
        await stage.take(event, acks.of(event))
    await until(lambda: len(acks.ids) == 3)
    assert len(runner.codes) == 3
