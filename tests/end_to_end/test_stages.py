"""Executor, verifier and assembler as processes on a real broker: turns in, batches and decisions out, with kills."""

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from consumers.reader import Reader
from producers.publisher import Publisher
from rollog.topics import create_topics
from schemas.batches import Batch
from schemas.config import ExecutorSettings, LogSettings, Settings, resolved
from schemas.events import Event
from schemas.executions import Action
from schemas.ids import derive_id, task_id
from schemas.rewards import RewardScored
from schemas.rollouts import RolloutEnded
from schemas.tasks import TaskIssued, VerifierSpec
from tests import samples

NUM_SAMPLES = 4
PATIENCE_S = 300.0
DEADLINE_S = 3600.0


class Services:
    """The three stages, each a process."""

    def __init__(self, settings: Settings, home: Path) -> None:
        self.home, self.config = home, home / "settings.json"
        self.config.write_text(resolved(settings))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        arguments = ("-m", "rollog.cli", "run", name, "--instance", f"{name}-0")
        places = ("--config", str(self.config), "--home", str(self.home))
        self.processes[name] = subprocess.Popen([sys.executable, *arguments, *places])

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        assert self.processes[name].wait(timeout=30) == -signal.SIGKILL

    def stop(self) -> dict[str, int]:
        """Ask all to end, and return their exit codes."""
        for process in self.processes.values():
            process.terminate()
        try:
            return {name: process.wait(timeout=60) for name, process in self.processes.items()}
        finally:
            for process in self.processes.values():
                process.kill()


@contextmanager
def stages(settings: Settings, home: Path) -> Iterator[Services]:
    services = Services(settings, home)
    for name in ("executor", "verifier", "assembler"):
        services.start(name)
    try:
        yield services
    finally:
        codes = services.stop()
    assert codes == {"executor": 0, "verifier": 0, "assembler": 0}


class Tasks:
    """Tasks whose groups end in different ways, by index."""

    def __init__(self, publisher: Publisher) -> None:
        self.publisher = publisher
        self.expected: dict[str, str] = {}
        """By task id: `batch`, or a decision's reason."""

    def publish(self, indices: range) -> None:
        events = [event for index in indices for event in self.events(index)]
        self.publisher.send_all(events)

    def events(self, index: int) -> list[Event[Any]]:
        kind = ("batch", "zero_variance", "all_invalid", "held_out")[index % 4]
        name = task_id("stages", "train", index)
        self.expected[name] = kind
        task = samples.task(
            task_id=name,
            index=index,
            verifier=VerifierSpec(kind="exact_match", expected="right"),
            num_samples=1 if kind == "held_out" else NUM_SAMPLES,
            split="held_out" if kind == "held_out" else "train",
            policy_version=3,
            deadline_s=DEADLINE_S,
        )
        events = [self.event(task, name, name)]
        for sample in range(task.num_samples):
            events += self.rollout(task, sample, kind)
        return events

    def rollout(self, task: TaskIssued, sample: int, kind: str) -> list[Event[Any]]:
        is_right = sample % 2 == 0 or kind == "zero_variance"
        turn = samples.turn(
            sample,
            task_id=task.task_id,
            rollout_id=f"{task.task_id}/{sample}",
            text="right" if is_right else "wrong",
            token_ids=samples.ids(8, 100 + sample, 1),
            action=Action(code=f"print({task.index})"),
        )
        ended = samples.ended(
            sample,
            task_id=task.task_id,
            rollout_id=turn.rollout_id,
            why="infrastructure" if kind == "all_invalid" else "finished",
        )
        return [
            self.event(turn, derive_id(turn.rollout_id, "turn_generated", 0), task.task_id),
            self.event(ended, derive_id(turn.rollout_id, "rollout_ended", 0), task.task_id),
        ]

    def event(self, record: Any, event_id: str, key: str) -> Event[Any]:
        return self.publisher.event(record, id=event_id, key=key, correlation_id=key)


def read_until(reader: Reader, is_enough: Any, into: list[Event[Any]]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_enough():
        into += reader.poll(timeout_s=0.5)
        assert time.monotonic() < deadline_s, f"only {len(into)} events"


def kind_of(end: Any) -> str:
    return "batch" if isinstance(end, Batch) else str(end.reason)


@pytest.fixture
def settings(broker: str, namespace: str) -> Settings:
    log = LogSettings(bootstrap=broker, namespace=namespace, partitions=3)
    return Settings(run="stages", log=log, executor=ExecutorSettings(sandbox="fake"))


def test_every_group_ends_once_though_each_stage_is_killed(settings: Settings, tmp_path: Path) -> None:
    create_topics(settings.log)
    blobs = tmp_path / "blobs"
    publisher = Publisher(settings.log, source="test", blob_dir=blobs)
    ends_reader = Reader(settings.log, ["batches", "decisions"], blob_dir=blobs, start="beginning")
    made, ends = Tasks(publisher), list[Event[Any]]()
    with stages(settings, tmp_path) as services:
        made.publish(range(40))
        for number, name in enumerate(("verifier", "executor", "assembler"), start=1):
            read_until(ends_reader, lambda enough=number * 15: len(ends) >= enough, ends)
            services.kill(name)
            made.publish(range(40 * number, 40 * (number + 1)))
            services.start(name)
        read_until(ends_reader, lambda: len(ends) >= len(made.expected), ends)
        ends += ends_reader.poll(timeout_s=1.0)
    ends_reader.close()
    publisher.close()
    assert len(ends) == len(made.expected)
    assert {event.key: kind_of(event.record) for event in ends} == made.expected
    for batch in (event.record for event in ends if isinstance(event.record, Batch)):
        assert [row.advantage for row in batch.rows] == [0.5, -0.5, 0.5, -0.5]
    check_the_log(settings, blobs, made)


def check_the_log(settings: Settings, blobs: Path, made: Tasks) -> None:
    """Every turn has one execution and every rollout one reward, as any reader sees them."""
    reader = Reader(
        settings.log, ["executions", "rewards", "deadletters"], blob_dir=blobs, start="beginning", bounded=True
    )
    counts: Counter[tuple[str, str]] = Counter()
    for event in reader:
        assert event.position is not None
        counts[event.position.topic, event.record.rollout_id] += 1
        if isinstance(event.record, RewardScored):
            is_invalid = made.expected[event.key] == "all_invalid"
            assert event.record.invalid_reason == ("infrastructure" if is_invalid else None)
    reader.close()
    num_rollouts = sum(1 if kind == "held_out" else NUM_SAMPLES for kind in made.expected.values())
    assert set(counts.values()) == {1}
    assert len(counts) == 2 * num_rollouts


def test_a_group_whose_rollouts_never_end_is_closed_by_the_clock(settings: Settings, tmp_path: Path) -> None:
    create_topics(settings.log)
    hurried = msgspec.structs.replace(
        settings,
        verifier=msgspec.structs.replace(settings.verifier, grace_s=0.5),
        assembler=msgspec.structs.replace(settings.assembler, grace_s=1.0),
    )
    blobs = tmp_path / "blobs"
    publisher = Publisher(settings.log, source="test", blob_dir=blobs)
    reader = Reader(settings.log, ["rewards", "decisions"], blob_dir=blobs, start="beginning")
    made, events = Tasks(publisher), list[Event[Any]]()
    task, *rollouts = made.events(0)
    hasty = msgspec.structs.replace(task.record, deadline_s=1.0)
    only_turns = [event for event in rollouts if not isinstance(event.record, RolloutEnded)]
    with stages(hurried, tmp_path):
        publisher.send_all([made.event(hasty, task.id, task.key), *only_turns])
        read_until(reader, lambda: len(events) >= NUM_SAMPLES + 1, events)
    reader.close()
    publisher.close()
    rewards = [event.record for event in events if isinstance(event.record, RewardScored)]
    (decision,) = [event.record for event in events if not isinstance(event.record, RewardScored)]
    assert [reward.invalid_reason for reward in rewards] == ["deadline"] * NUM_SAMPLES
    assert decision.reason in ("all_invalid", "deadline")
