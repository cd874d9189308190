"""What it costs to be an event: the path through a Faust stage beside the bare client on the very same records.

`measure()` writes groups of turns with the publisher. Raw is confluent-kafka alone, producing those records' bytes once
more and consuming them. The path is a stage that does nothing but hold each group until it is whole and write one
batch for it: log, Faust, envelope, decoding, acknowledgement, encoding, durable on the log again.
"""

import json
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from consumers.offsets import consumer_options
from consumers.open_tasks import OpenTask, OpenTasks
from consumers.reader import end_offsets
from consumers.runtime import Runtime
from consumers.telemetry import Telemetry
from producers.publisher import Publisher, producer_options
from rollog.broker import EmbeddedBroker
from rollog.topics import create_topics
from schemas.arrays import PackedArray
from schemas.batches import Batch, BatchRow
from schemas.codec import encode_headers, encode_value
from schemas.config import LogSettings, Settings
from schemas.events import Event
from schemas.ids import derive_id, task_id
from schemas.rollouts import TurnGenerated
from schemas.tasks import SamplingParams, TaskIssued, VerifierSpec
from streams.app import run_stage
from streams.outbox import Outbox

NUM_GROUPS = 4_000
NUM_SAMPLES = 8
NUM_TOKENS = 48
DEADLINE_S = 120.0
BAR = 0.10
SAMPLING = SamplingParams(max_tokens=NUM_TOKENS)


def group(publisher: Publisher, index: int) -> list[Event[Any]]:
    """Make a task and one turn of each of its samples; about 1 kB a turn."""
    task = TaskIssued(
        task_id=task_id("bench", "train", index),
        run_id="bench",
        index=index,
        domain="repair",
        prompt="call f 3 4|",
        verifier=VerifierSpec(kind="stdout_match", expected="12"),
        num_samples=NUM_SAMPLES,
        sampling=SAMPLING,
        seed=index,
        deadline_s=600.0,
    )
    issued = publisher.event(task, id=task.task_id, key=task.task_id, correlation_id=task.task_id)
    ids = PackedArray.pack(range(NUM_TOKENS), dtype="i4")
    logprobs = PackedArray.pack([-0.5] * NUM_TOKENS, dtype="f4")
    events: list[Event[Any]] = [issued]
    for sample in range(NUM_SAMPLES):
        rollout_id = f"{task.task_id}/{sample}"
        turn = TurnGenerated(
            task_id=task.task_id,
            rollout_id=rollout_id,
            sample=sample,
            turn=0,
            domain="repair",
            policy="policy",
            context_ids=ids,
            token_ids=ids,
            logprobs=logprobs,
            versions=ids,
            text="print(f(3,4))" * 4,
            finish_reason="stop",
            sampling=SAMPLING,
            seed=sample,
        )
        event_id = derive_id(rollout_id, "turn_generated", 0)
        events.append(publisher.event(turn, id=event_id, key=task.task_id, subject=rollout_id, cause=issued))
    return events


class Grouping:
    """Turns to one batch a task; every reward is 1."""

    name = "grouping"
    inputs = ("tasks", "rollouts")
    outputs = ("batches",)

    def __init__(self, publisher: Publisher, runtime: Runtime) -> None:
        self.publisher, self.stop = publisher, runtime.stop
        self.outbox = Outbox(publisher, runtime.telemetry)
        self.open = OpenTasks(is_finished=lambda task: bool(task.outputs), grace_s=600.0)
        self.started_s = self.ended_s = 0.0
        self.num_batches = 0

    async def take(self, event: Event[Any], ack: Callable[[], None]) -> None:
        """Hold the event until its group is whole."""
        self.started_s = self.started_s or time.perf_counter()
        task = self.open.take(event, ack, now_s=0.0)
        if task is not None and len(task.inputs) == 1 + NUM_SAMPLES:
            batch = self.batch(task)
            self.outbox.send(batch, partial(self.note, batch))

    def note(self, batch: Event[Batch]) -> None:
        """Finish the task: its batch is durable."""
        self.open.note_output(batch)
        self.num_batches += 1
        if self.num_batches == NUM_GROUPS:
            self.ended_s = time.perf_counter()
            self.stop.set()

    def batch(self, task: OpenTask) -> Event[Batch]:
        """Make the group's batch."""
        turns = [task.group.sample(sample).turns[0].record for sample in range(NUM_SAMPLES)]
        rows = tuple(
            BatchRow(
                rollout_id=turn.rollout_id,
                sample=turn.sample,
                token_ids=turn.token_ids,
                loss_mask=turn.token_ids,
                logprobs=turn.logprobs,
                versions=turn.versions,
                reward=1.0,
                advantage=0.0,
            )
            for turn in turns
        )
        record = Batch(
            task_id=task.task_id,
            run_id="bench",
            domain="repair",
            rows=rows,
            num_samples=NUM_SAMPLES,
            reward_mean=1.0,
            reward_std=0.0,
            oldest_version=0,
            newest_version=0,
        )
        return self.publisher.event(record, id=derive_id(task.task_id, "batch", 0, "live"), key=task.task_id)

    def recall(self, outputs: list[Event[Any]]) -> None:
        """Remember what is done."""
        self.open.recall(outputs)

    def revoke(self, partitions: set[int]) -> None:
        """Forget what is open."""
        self.open.forget(partitions)

    async def tick(self, now_s: float) -> None:
        """Fail where a send failed."""
        self.outbox.check()

    async def drain(self, timeout_s: float) -> None:
        """Wait for what is on its way."""
        await self.outbox.drained()


def raw_produce_s(log: LogSettings, events: list[Event[Any]]) -> float:
    records = [(encode_value(e.record), e.key.encode(), encode_headers(e)) for e in events]
    producer = Producer(producer_options(log))
    start_s = time.perf_counter()
    for value, key, headers in records:
        while True:
            try:
                producer.produce(f"{log.namespace}executions", value, key, headers=headers)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(DEADLINE_S) == 0
    return time.perf_counter() - start_s


def raw_consume_s(log: LogSettings, num_events: int) -> float:
    consumer = Consumer(consumer_options(log))
    partitions = [p for _, p in end_offsets(log, ["executions"])]
    start_s = time.perf_counter()
    consumer.assign([TopicPartition(f"{log.namespace}executions", p, 0) for p in partitions])
    num_read = 0
    while num_read < num_events:
        num_read += sum(m.error() is None and bool(m.headers()) for m in consumer.consume(1000, 0.05))
        assert time.perf_counter() - start_s < DEADLINE_S
    elapsed_s = time.perf_counter() - start_s
    consumer.close()
    return elapsed_s


def path_s(log: LogSettings, home: Path) -> float:
    stages: list[Grouping] = []
    runtime = Runtime(
        settings=Settings(log=log),
        home=home,
        instance="grouping-0",
        telemetry=Telemetry("grouping"),
        stop=threading.Event(),
    )
    deadline = threading.Timer(DEADLINE_S, runtime.stop.set)
    deadline.start()

    def make(publisher: Publisher) -> Grouping:
        stages.append(Grouping(publisher, runtime))
        return stages[0]

    run_stage(runtime, make)
    deadline.cancel()
    assert stages[0].ended_s, f"{stages[0].num_batches} of {NUM_GROUPS} batches after {DEADLINE_S} s"
    return stages[0].ended_s - stages[0].started_s


def measure() -> list[dict[str, Any]]:
    """Return the figures, each with `name`, `value`, `unit`, `bar` and `holds`."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder) / "broker") as broker:
        log = LogSettings(bootstrap=broker.bootstrap, namespace="bench.")
        create_topics(log)
        publisher = Publisher(log, source="bench", blob_dir=Path(folder) / "blobs")
        events = [event for index in range(NUM_GROUPS) for event in group(publisher, index)]
        start_s = time.perf_counter()
        publisher.send_all(events)
        published_s = time.perf_counter() - start_s
        publisher.close()
        produced_s = raw_produce_s(log, events)
        consumed_s = raw_consume_s(log, len(events))
        path = len(events) / path_s(log, Path(folder))
    raw = len(events) / (produced_s + consumed_s)
    figures = [figure("event_path_of_raw_client", path / raw, "ratio", BAR)]
    figures += [
        figure(name, value, "events/s")
        for name, value in (
            ("event_path", path),
            ("raw_client", raw),
            ("raw_client_produce", len(events) / produced_s),
            ("raw_client_consume", len(events) / consumed_s),
            ("publisher", len(events) / published_s),
        )
    ]
    return figures


def figure(name: str, value: float, unit: str, bar: float | None = None) -> dict[str, Any]:
    return {"name": name, "value": round(value, 3), "unit": unit, "bar": bar, "holds": bar is None or value >= bar}


if __name__ == "__main__":
    for line in measure():
        print(json.dumps(line))
