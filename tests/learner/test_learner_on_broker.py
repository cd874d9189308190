"""The learner with the log's real doors: killed, started again, and every step of it recomputed."""

import multiprocessing
import os
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Producer

from consumers.reader import Reader
from consumers.runtime import Runtime
from learner.loop import run_learner
from learner.recompute import recompute
from producers.publisher import Publisher
from rollog.topics import create_topics
from schemas.config import LogSettings
from schemas.events import Event
from schemas.steps import StepTaken
from tests.learner.policies import batch_event, make_batch, make_policy, make_runtime

KILLED = 77


def runtime_on(log: LogSettings, home: Path) -> Runtime:
    learner: dict[str, Any] = {"steps": 4, "checkpoint_every": 2, "keep_last": 1, "keep_every": 0}
    runtime = make_runtime(home, home / "base", **learner)
    return msgspec.structs.replace(runtime, settings=msgspec.structs.replace(runtime.settings, log=log))


def run_until_step(log: LogSettings, home: Path, step: int) -> None:
    """Run in a process of its own that ends as `kill -9` would, once this step is on the log."""
    send_all = Publisher.send_all

    def send_and_die(self: Publisher, events: Any) -> Any:
        sent = send_all(self, events)
        if any(isinstance(event.record, StepTaken) and event.record.step == step for event in sent):
            os._exit(KILLED)
        return sent

    Publisher.send_all = send_and_die  # type: ignore[method-assign]
    run_learner(runtime_on(log, home))


def read(log: LogSettings, home: Path, topic: str) -> list[Event[Any]]:
    reader = Reader(log, [topic], blob_dir=home / "blobs", start="beginning", bounded=True, dedupe=0)
    try:
        return list(reader)
    finally:
        reader.close()


def test_a_killed_learner_goes_on_from_the_log_and_every_step_comes_out_again(
    broker: str, namespace: str, tmp_path: Path
) -> None:
    log = LogSettings(bootstrap=broker, namespace=namespace, partitions=3)
    create_topics(log)
    make_policy(tmp_path / "base")
    publisher = Publisher(log, source="rollog/test", blob_dir=tmp_path / "blobs")
    publisher.send_all([batch_event(make_batch(index)) for index in range(6)])
    stranger = Producer({"bootstrap.servers": broker})
    stranger.produce(f"{namespace}batches", key=b"k", value=b"garbage", partition=0)
    assert stranger.flush(20) == 0
    publisher.send_all([batch_event(make_batch(index)) for index in range(4, 8)])

    for step in (1, 3):
        child = multiprocessing.get_context("spawn").Process(
            target=run_until_step, args=(log, tmp_path, step), daemon=True
        )
        child.start()
        child.join(300)
        assert child.exitcode == KILLED
    run_learner(runtime_on(log, tmp_path))
    publisher.close()

    steps = [event.record for event in read(log, tmp_path, "steps")]
    assert [step.step for step in steps] == [1, 2, 3, 4]
    trained = [ref.event_id for step in steps for ref in step.batches]
    assert len(set(trained)) == len(trained) == 8
    assert [event.record.version for event in read(log, tmp_path, "policies")] == [0, 2, 4]
    assert {event.record.stage for event in read(log, tmp_path, "deadletters")} == {"learner"}
    assert read(log, tmp_path, "decisions") == []

    runtime = runtime_on(log, tmp_path)
    for step in range(1, 5):
        open_reader = partial(Reader, runtime.log, blob_dir=runtime.blob_dir)
        report = recompute(open_reader, runtime.run_dir, run_id=runtime.settings.run, step=step)
        assert (report.differences, report.match, report.bitwise, report.started_from) == ((), True, True, 0)
