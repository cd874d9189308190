"""Worker processes that join, stop and are killed at random while they hold events over two topics."""

import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from consumers.reader import Reader, end_offsets
from producers.publisher import Publisher
from schemas.config import LogSettings
from schemas.events import Event
from schemas.ids import derive_id
from tests import samples
from tests.logs import committed, new_log, read_all, task_ids, wait_for

ROOT = Path(__file__).parents[2]
NUM_KEYS = 2_000
NUM_CHUNKS = 20
AHEAD = 400
"""Keys whose outcome may be open while more are written."""
LATE = 0.1
"""Share of keys whose second event comes three chunks after the first."""


class Workers:
    """Processes of the joining stage, by instance."""

    def __init__(self, log: LogSettings, home: Path, *, session_s: float) -> None:
        self.log, self.home, self.session_s = log, home, session_s
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.codes: list[int] = []

    def start(self, instance: str) -> None:
        arguments = (self.log.bootstrap, self.log.namespace, str(self.log.partitions), instance)
        command = [sys.executable, "-m", "tests.streams.join_stage", *arguments, str(self.home), str(self.session_s)]
        self.running[instance] = subprocess.Popen(command, cwd=ROOT)

    def kill(self, instance: str) -> None:
        process = self.running.pop(instance)
        process.kill()
        process.wait(20)

    def stop(self, instance: str) -> None:
        process = self.running.pop(instance)
        process.terminate()
        self.codes.append(process.wait(40))

    def end(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait(20)


class Writing:
    """The two topics' events, key by key, some of them late; and what came of them."""

    def __init__(self, log: LogSettings, blob_dir: Path, rng: random.Random) -> None:
        self.publisher = Publisher(log, source="test", blob_dir=blob_dir)
        self.reader = Reader(log, ["decisions"], blob_dir=blob_dir, start="beginning")
        self.rng = rng
        self.late: list[list[Event[Any]]] = [[], [], []]
        self.num_written = self.num_out = 0

    def write(self, keys: list[str]) -> None:
        """Write a chunk of tasks, their ends, and the ends that are due from earlier."""
        later: list[Event[Any]] = []
        for key in keys:
            self.publisher.publish(self.publisher.event(samples.task(task_id=key), id=key, key=key))
            record = samples.ended(0, task_id=key, rollout_id=f"{key}/0")
            end = self.publisher.event(record, id=derive_id(f"{key}/0", "rollout_ended", 0), key=key)
            if self.rng.random() < LATE:
                later.append(end)
            else:
                self.publisher.publish(end)
        self.late.append(later)
        for end in self.late.pop(0):
            self.publisher.publish(end)
        self.num_written += len(keys)

    def read(self) -> bool:
        self.num_out += len(self.reader.poll())
        return self.num_out >= self.num_written - AHEAD

    def close(self) -> None:
        self.publisher.flush(20)
        self.publisher.close()
        self.reader.close()


@pytest.fixture
def log(broker: str, namespace: str) -> LogSettings:
    return new_log(broker, namespace, partitions=4)


@pytest.fixture
def workers(log: LogSettings, tmp_path: Path) -> Iterator[Workers]:
    found = Workers(log, tmp_path, session_s=6.0)
    try:
        yield found
    finally:
        found.end()


def disturb(workers: Workers, rng: random.Random) -> None:
    """Do one thing at random: kill and restart, stop and restart, add or remove a worker."""
    instance = rng.choice(sorted(workers.running))
    match rng.choice(("kill", "kill", "stop", "add or remove")):
        case "kill":
            workers.kill(instance)
            workers.start(instance)
        case "stop":
            workers.stop(instance)
            workers.start(instance)
        case _ if len(workers.running) < 3:
            workers.start(f"join-{len(workers.running)}")
        case _:
            workers.stop(max(workers.running))


def test_nothing_is_lost_skipped_or_kept_twice_whatever_happens_to_the_workers(
    log: LogSettings, workers: Workers, tmp_path: Path
) -> None:
    rng = random.Random(7)
    keys = task_ids(NUM_KEYS)
    writing = Writing(log, tmp_path / "blobs", rng)
    workers.start("join-0")
    workers.start("join-1")
    for chunk in range(NUM_CHUNKS):
        size = NUM_KEYS // NUM_CHUNKS
        writing.write(keys[chunk * size : (chunk + 1) * size])
        wait_for(writing.read, f"{writing.num_out} of {writing.num_written} outputs", 90)
        if chunk % 4 == 2:
            disturb(workers, rng)
    for _ in range(3):
        writing.write([])
    wait_for(lambda: writing.read() and writing.num_out == NUM_KEYS, "all outputs", 90)
    writing.close()
    for instance in sorted(workers.running):
        workers.stop(instance)

    outputs = read_all(log, "decisions", tmp_path / "blobs", dedupe=0)
    counts = Counter(event.key for event in outputs)
    assert set(counts) == set(keys)
    assert len({event.id for event in outputs}) == NUM_KEYS
    # A member that lost its partitions may still finish what it was sending; the recall keeps all else from that.
    assert sum(counts.values()) <= NUM_KEYS * 1.05
    # One that is stopped before it runs ends by the signal.
    assert set(workers.codes) <= {0, -signal.SIGTERM}
    ends = end_offsets(log, ["tasks", "rollouts"])
    for topic in ("tasks", "rollouts"):
        reached = committed(log, "join", topic)
        assert {(topic, p): offset for p, offset in reached.items()} == {
            at: n for at, n in ends.items() if at[0] == topic
        }


def test_a_killed_worker_that_comes_back_has_its_partitions_at_once(log: LogSettings, tmp_path: Path) -> None:
    workers = Workers(log, tmp_path, session_s=25.0)
    writing = Writing(log, tmp_path / "blobs", random.Random(7))
    first, second = task_ids(40)[:20], task_ids(40)[20:]
    workers.start("join-0")
    try:
        writing.write(first)
        for _ in range(3):
            writing.write([])
        wait_for(lambda: writing.read() and writing.num_out == 20, "outputs of the first life")
        workers.kill("join-0")
        workers.start("join-0")
        writing.write(second)
        for _ in range(3):
            writing.write([])
        # Shorter than the session: were the new life another member, it would have to wait for the old one's to end.
        wait_for(lambda: writing.read() and writing.num_out == 40, "outputs of the second life", 20)
    finally:
        workers.end()
        writing.close()
