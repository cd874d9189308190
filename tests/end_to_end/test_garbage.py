"""Whatever a foreign client writes to the topics of a running system is put aside, and all services go on."""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer

from consumers.reader import Reader
from rollog.accounting import Accounts
from rollog.up import Up, first_of, running
from schemas.codec import ENCODER, RECORDS, TOPIC_OF, encode_headers, new_event, snake_case
from schemas.config import Settings, load_settings
from schemas.deadletters import DeadLetter
from schemas.limits import MAX_RECORD_BYTES
from schemas.steps import StepTaken
from schemas.topics import TOPICS
from tests.samples import records

Header = tuple[str, bytes]
DEADLINE_S = 150.0
POLICY = Path(__file__).parents[2] / "demo" / "policy"
READ = ("tasks", "rollouts", "executions", "rewards", "batches", "decisions", "steps", "policies")
"""Topics that some service reads; what stands on the others is nobody's to put aside."""


@pytest.fixture
def settings(broker: str, namespace: str) -> Settings:
    flags = [
        f"log.bootstrap={broker}",
        f"log.namespace={namespace}",
        "log.partitions=2",
        "run=garbage",
        f"policy.base={POLICY}",
        "learner.groups_per_step=4",
        "tasks.num_samples=4",
        "evaluation.num_tasks=2",
    ]
    return load_settings(flags=flags)


def envelope(topic: str, *, version: int | None = None) -> list[Header]:
    """Return headers that are as they should be, but for the version."""
    record = RECORDS[snake_case(TOPICS[topic].records[0].__name__)]
    sample = next(one for one in records().values() if type(one) is record)
    headers = encode_headers(new_event(sample, id=os.urandom(8).hex(), key="k", source="foreign"))
    if version is None:
        return headers
    name = snake_case(record.__name__)
    return [(n, f"rollog.{name}.v{version}".encode() if n == "ce_type" else v) for n, v in headers]


def garbage(topic: str) -> Iterator[tuple[bytes | None, bytes | None, list[Header]]]:
    """Yield key, value and headers of what no rollog wrote."""
    sample = next(one for one in records().values() if TOPIC_OF[type(one)] == topic)
    whole = ENCODER.encode(sample)
    yield b"noise", os.urandom(300), []
    yield b"noise", os.urandom(300), envelope(topic)
    yield b"truncated", whole[: len(whole) // 2], envelope(topic)
    yield b"version", whole, envelope(topic, version=999)
    yield b"unknown", whole, [("ce_type", b"rollog.nonsense.v1"), *envelope(topic)[1:2]]
    yield None, whole, envelope(topic)
    yield b"nothing", None, envelope(topic)
    yield b"\xff\xfe", whole, envelope(topic)
    yield b"oversized", bytes(MAX_RECORD_BYTES + 1), envelope(topic)


def write_garbage(settings: Settings) -> dict[str, int]:
    """Write garbage to every topic as a client that knows nothing of rollog; returns how many records by topic."""
    options = {"bootstrap.servers": settings.log.bootstrap, "compression.type": "zstd", "message.max.bytes": 64 << 20}
    producer, written = Producer(options), dict.fromkeys(TOPICS, 0)
    for topic in TOPICS:
        for key, value, headers in garbage(topic):
            producer.produce(settings.log.namespace + topic, value, key, headers=headers)
            written[topic] += 1
    assert producer.flush(30) == 0
    return written


class Watch:
    """What the log says while the services run."""

    def __init__(self, up: Up) -> None:
        self.accounts = Accounts(up.settings.run)
        self.letters: dict[str, set[tuple[int, int]]] = {}
        """Put-aside places, partition and offset, by topic."""
        self.last_step = 0
        self._reader = Reader(
            up.settings.log,
            ["tasks", "batches", "decisions", "deadletters", "steps"],
            blob_dir=up.home / "blobs",
            start="beginning",
            on_undecodable=lambda raw, error: None,
        )

    def close(self) -> None:
        self._reader.close()

    async def until_step(self, step: int) -> None:
        while self.last_step < step:
            await self._look()

    async def until_put_aside(self, written: dict[str, int]) -> None:
        while any(len(self.letters.get(topic, ())) < written[topic] for topic in READ):
            await self._look()

    async def _look(self) -> None:
        for event in await asyncio.to_thread(self._reader.poll, timeout_s=0.5):
            self.accounts.add(event)
            match event.record:
                case DeadLetter() as letter:
                    self.letters.setdefault(letter.topic, set()).add((letter.partition, letter.offset))
                case StepTaken() as step:
                    self.last_step = max(self.last_step, step.step)


async def test_garbage_on_every_topic_is_put_aside_and_all_services_go_on(settings: Settings, tmp_path: Path) -> None:
    said: list[str] = []
    async with running(settings, home=tmp_path, say=said.append) as up:
        watch = await asyncio.to_thread(Watch, up)

        async def rounds() -> None:
            await watch.until_step(1)
            written = await asyncio.to_thread(write_garbage, settings)
            step = watch.last_step
            await watch.until_put_aside(written)
            await watch.until_step(step + 3)

        started_s = time.monotonic()
        try:
            await asyncio.wait_for(first_of(rounds(), up.failed()), DEADLINE_S)
        except TimeoutError:
            missing = {topic: len(watch.letters.get(topic, ())) for topic in READ}
            pytest.fail(
                f"after {time.monotonic() - started_s:.0f} s: step {watch.last_step}, put aside {missing}; {said}"
            )
        finally:
            watch.close()

        assert up.supervisor.restarts == dict.fromkeys(up.supervisor.restarts, 0), said
        assert all(process.returncode is None for process in up.supervisor.processes.values())
    assert watch.accounts.ended_twice == []
    assert watch.accounts.trained_twice == []


def test_what_is_called_garbage_here_is_garbage_of_every_topic() -> None:
    for topic in TOPICS:
        kinds = list(garbage(topic))
        assert len(kinds) == 9
        assert len(kinds[-1][1] or b"") > MAX_RECORD_BYTES
    assert set(READ) < set(TOPICS)
    assert msgspec.msgpack.decode(next(v for k, v, _ in garbage("tasks") if k == b"version") or b"")
