"""The evaluator on a real broker: versions in, held-out tasks and results out, across a restart."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from consumers.reader import Reader
from consumers.runtime import Runtime
from consumers.telemetry import Telemetry
from producers.publisher import Publisher
from rollog.topics import create_topics
from schemas.config import EvaluationSettings, LogSettings, Settings, TaskSettings
from schemas.decisions import Decision
from schemas.evals import EvalScored
from schemas.events import Event
from schemas.policies import PolicyPublished
from schemas.tasks import TaskIssued
from streams.evaluator import run_evaluator


def make_runtime(broker: str, namespace: str, home: Path) -> Runtime:
    settings = Settings(
        run="r",
        log=LogSettings(bootstrap=broker, namespace=namespace, partitions=2),
        tasks=TaskSettings(domains={"verbs": 1.0, "repair": 1.0}),
        evaluation=EvaluationSettings(every=5, num_tasks=3),
    )
    return Runtime(
        settings=settings,
        home=home,
        instance="evaluator-0",
        telemetry=Telemetry("evaluator"),
        stop=threading.Event(),
    )


@contextmanager
def running(runtime: Runtime) -> Iterator[None]:
    thread = threading.Thread(target=run_evaluator, args=(runtime,))
    thread.start()
    try:
        yield
    finally:
        runtime.stop.set()
        thread.join(timeout=60)
        assert not thread.is_alive()


def first(reader: Reader, num_events: int) -> list[Event[Any]]:
    """Return that many events, in the order of reading."""
    events: list[Event[Any]] = []
    for event in reader:
        events.append(event)
        if len(events) == num_events:
            break
    return events


def decided(task: TaskIssued) -> Decision:
    return Decision(
        task_id=task.task_id,
        run_id=task.run_id,
        domain=task.domain,
        stage="assembler",
        reason="held_out",
        num_samples=1,
        num_valid=1,
        reward_mean=1.0 if task.index % 3 else 0.0,
        solved=1.0 if task.index % 3 else 0.0,
    )


def publish_policy(publisher: Publisher, version: int) -> None:
    record = PolicyPublished(
        policy="policy",
        version=version,
        parent=version - 1 if version else None,
        run_id="r",
        step=version,
        address="x",
        digest="d",
        num_bytes=1,
    )
    publisher.send_all([publisher.event(record, id=f"policy-{version}", key="policy")])


def decide(publisher: Publisher, tasks: list[TaskIssued]) -> None:
    publisher.send_all(publisher.event(decided(task), id=f"d-{task.task_id}", key=task.task_id) for task in tasks)


def test_versions_are_evaluated_once_each_across_a_restart(broker: str, namespace: str, tmp_path: Path) -> None:
    runtime = make_runtime(broker, namespace, tmp_path)
    create_topics(runtime.log)
    publisher = Publisher(runtime.log, source="test", blob_dir=runtime.blob_dir)
    tasks_reader = Reader(runtime.log, ["tasks"], blob_dir=runtime.blob_dir, start="beginning", dedupe=0)
    evals_reader = Reader(runtime.log, ["evals"], blob_dir=runtime.blob_dir, start="beginning", dedupe=0)
    for version in (0, 1):
        publish_policy(publisher, version)
    with running(runtime):
        tasks = [event.record for event in first(tasks_reader, 6)]
        decide(publisher, tasks[:4])
    assert {task.policy_version for task in tasks} == {0}
    assert sorted(task.domain for task in tasks) == ["repair"] * 3 + ["verbs"] * 3
    decide(publisher, tasks[4:])
    publish_policy(publisher, 5)
    with running(make_runtime(broker, namespace, tmp_path)):
        later = [event.record for event in first(tasks_reader, 6)]
        decide(publisher, later)
        results: list[EvalScored] = [event.record for event in first(evals_reader, 4)]
    assert {task.policy_version for task in later} == {5}
    assert [(t.prompt, t.seed) for t in by_place(later)] == [(t.prompt, t.seed) for t in by_place(tasks)]
    assert sorted((r.version, r.domain) for r in results) == [(v, d) for v in (0, 5) for d in ("repair", "verbs")]
    assert all((r.solve_rate, r.num_tasks, r.num_invalid) == (2 / 3, 3, 0) for r in results)
    assert tasks_reader.poll(timeout_s=0.5) == evals_reader.poll(timeout_s=0.5) == []
    for reader in (tasks_reader, evals_reader):
        reader.close()
    publisher.close()


def by_place(tasks: list[TaskIssued]) -> list[TaskIssued]:
    return sorted(tasks, key=lambda task: task.index)
