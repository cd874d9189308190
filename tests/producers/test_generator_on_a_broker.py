"""The generator and the issuer as processes on a real broker, killed and stopped at awkward moments."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from consumers.reader import Reader
from producers import turns
from producers.admission import batch_id
from producers.publisher import Publisher
from producers.tasks import train_task, train_task_id
from rollog.topics import create_topics
from schemas.config import Settings
from schemas.executions import ExecutionFinished
from schemas.policies import PolicyPublished
from schemas.rollouts import RolloutEnded, TurnGenerated
from schemas.steps import BatchRef, StepTaken
from schemas.tasks import TaskIssued
from tests import samples
from tests.producers.generator_fakes import execution_id, execution_of, failed, ok
from tests.producers.generator_process import settings_of

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0


class Site:
    """One log, what the test writes to it, and the service processes on it."""

    def __init__(self, broker: str, namespace: str, home: Path) -> None:
        self.settings: Settings = settings_of(broker, namespace)
        self.home, self.processes = home, list[subprocess.Popen[bytes]]()
        create_topics(self.settings.log)
        self.blob_dir = home / "blobs"
        self.publisher = Publisher(self.settings.log, source="rollog/test-0", blob_dir=self.blob_dir)
        self.live = {name: self.reader(name, bounded=False) for name in ("tasks", "rollouts")}

    def reader(self, *topics: str, bounded: bool, dedupe: int = 65_536) -> Reader:
        return Reader(
            self.settings.log, topics, blob_dir=self.blob_dir, start="beginning", bounded=bounded, dedupe=dedupe
        )

    def start(self, service: str, num_slots: int = 4) -> subprocess.Popen[bytes]:
        arguments = (service, self.settings.log.bootstrap, self.settings.log.namespace, str(self.home), str(num_slots))
        command = [sys.executable, "-m", "tests.producers.generator_process", *arguments]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, cwd=ROOT, env=environ, start_new_session=True)
        self.processes.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)

    def stop(self, process: subprocess.Popen[bytes]) -> int:
        process.send_signal(signal.SIGTERM)
        return process.wait(PATIENCE_S)

    def write(self, record: Any, event_id: str, key: str) -> None:
        self.publisher.send_all([self.publisher.event(record, id=event_id, key=key)])

    def policy(self, version: int) -> None:
        record = PolicyPublished(
            policy="policy", version=version, parent=None, run_id="golden", step=version, address="nowhere",
            digest="sha256:", num_bytes=0,
        )  # fmt: skip
        self.write(record, f"policy-{version}", "policy")

    def issue(self, index: int) -> TaskIssued:
        task = train_task(self.settings, index)
        self.write(task, task.task_id, task.task_id)
        return task

    def records(self, record: type[Any], topic: str, dedupe: int = 65_536) -> list[Any]:
        reader = self.reader(topic, bounded=True, dedupe=dedupe)
        try:
            return [event.record for event in reader if isinstance(event.record, record)]
        finally:
            reader.close()

    def answer_new_turns(self, timeout_s: float = 0.1) -> list[Any]:
        """Play the executor: the first turn of a repair fails, everything else runs; returns the new records."""
        found = [event.record for event in self.live["rollouts"].poll(timeout_s=timeout_s)]
        for record in found:
            if isinstance(record, TurnGenerated) and record.action is not None:
                outcome = failed() if record.domain == "repair" and record.turn == 0 else ok()
                execution: ExecutionFinished = execution_of(record, outcome)
                event = self.publisher.event(execution, id=execution_id(record), key=record.task_id)
                self.publisher.publish(event)
        return found

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                self.kill(process)
        for reader in self.live.values():
            reader.close()
        self.publisher.close()


@pytest.fixture
def site(broker: str, namespace: str, tmp_path: Path) -> Iterator[Site]:
    made = Site(broker, namespace, tmp_path)
    yield made
    made.close()


def patience() -> Iterator[None]:
    """Go round until the test is content; a test that never is fails here."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        yield
    raise AssertionError(f"did not come about within {PATIENCE_S} s")


def committed_all(site: Site) -> bool:
    """Return whether the group has acknowledged everything that stands on its inputs."""
    from confluent_kafka import Consumer, TopicPartition

    log = site.settings.log
    consumer = Consumer({"bootstrap.servers": log.bootstrap, "group.id": f"{log.namespace}generator"})
    try:
        for topic in ("tasks", "executions"):
            for partition in range(log.partitions):
                at = TopicPartition(f"{log.namespace}{topic}", partition)
                _, end = consumer.get_watermark_offsets(at, timeout=10)
                if max(0, consumer.committed([at], timeout=10)[0].offset) != end:
                    return False
        return True
    finally:
        consumer.close()


def test_killed_again_and_again_it_does_every_rollout_once(site: Site) -> None:
    rng, num_tasks, num_kills = random.Random(0), 40, 5
    site.policy(0)
    generator = site.start("generator")
    tasks = [site.issue(index) for index in range(num_tasks)]
    ended: set[str] = set()
    wanted = {f"{task.task_id}/{sample}" for task in tasks for sample in range(task.num_samples)}
    kill_at = sorted(rng.sample(range(5, len(wanted)), num_kills))
    for _ in patience():
        ended |= {r.rollout_id for r in site.answer_new_turns() if isinstance(r, RolloutEnded)}
        if kill_at and len(ended) >= kill_at[0]:
            kill_at.pop(0)
            site.kill(generator)
            generator = site.start("generator")
        if ended == wanted:
            break
    assert not kill_at
    assert site.stop(generator) == 0
    ends = site.records(RolloutEnded, "rollouts", dedupe=0)
    said = site.records(TurnGenerated, "rollouts", dedupe=0)
    assert Counter(end.rollout_id for end in ends) == dict.fromkeys(wanted, 1)
    assert {end.why for end in ends} == {"finished"}
    places = Counter((turn.rollout_id, turn.turn) for turn in said)
    assert set(places.values()) == {1}
    assert len(places) == sum(end.num_turns for end in ends)
    assert {turn.seed for turn in said if turn.turn == 0} == {
        turns.turn_seed(task, sample, 0) for task in tasks for sample in range(task.num_samples)
    }


def test_once_all_has_ended_all_is_acknowledged(site: Site) -> None:
    generator = site.start("generator")
    tasks = [site.issue(index) for index in range(4)]
    assert not committed_all(site)
    site.policy(0)
    ended: set[str] = set()
    for _ in patience():
        ended |= {r.rollout_id for r in site.answer_new_turns() if isinstance(r, RolloutEnded)}
        if len(ended) == sum(task.num_samples for task in tasks) and committed_all(site):
            break
    assert site.stop(generator) == 0


def test_stopped_in_the_middle_it_goes_on_later(site: Site) -> None:
    site.policy(0)
    first = site.start("generator", num_slots=2)
    tasks = [site.issue(index) for index in range(6)]
    ended: set[str] = set()
    for _ in patience():
        ended |= {r.rollout_id for r in site.answer_new_turns() if isinstance(r, RolloutEnded)}
        if len(ended) >= 3:
            break
    assert site.stop(first) == 0
    site.policy(1)
    second = site.start("generator")
    for _ in patience():
        ended |= {r.rollout_id for r in site.answer_new_turns() if isinstance(r, RolloutEnded)}
        if len(ended) == sum(task.num_samples for task in tasks):
            break
    assert site.stop(second) == 0
    versions = {int(v) for turn in site.records(TurnGenerated, "rollouts") for v in turn.versions.unpack()}
    assert versions == {0, 1}


def step_of(number: int, task_ids: list[str]) -> StepTaken:
    fields = {name: getattr(samples.step(), name) for name in StepTaken.__struct_fields__}
    refs = tuple(
        BatchRef(topic="batches", partition=0, offset=i, event_id=batch_id(task), digest="sha256:")
        for i, task in enumerate(task_ids)
    )
    return StepTaken(**(fields | {"step": number, "batches": refs}))


def test_the_issuer_keeps_to_its_bound_and_goes_on_after_kills_without_gap_or_repeat(site: Site) -> None:
    rng = random.Random(1)
    last_step, groups = site.settings.learner.steps, site.settings.learner.groups_per_step
    max_open = 2 * groups
    issuer = site.start("issuer")
    issued: list[str] = []
    for step in range(1, last_step + 1):
        for _ in patience():
            issued.extend(event.record.task_id for event in site.live["tasks"].poll(timeout_s=0.1))
            if len(issued) == (step - 1) * groups + max_open:
                break
        site.write(step_of(step, issued[(step - 1) * groups : step * groups]), f"step-{step}", "golden")
        if step < last_step and rng.random() < 0.6:
            site.kill(issuer)
            issuer = site.start("issuer")
    assert site.stop(issuer) == 0
    again = [task.task_id for task in site.records(TaskIssued, "tasks", dedupe=0)]
    num_tasks = (last_step - 1) * groups + max_open
    assert Counter(again) == dict.fromkeys([train_task_id(site.settings, i) for i in range(num_tasks)], 1)
