"""The generator service: tasks, executions and new policy versions in; turns and rollout ends out.

One thread, one loop: take what came, give every free slot work, draw a few tokens for all rows, write what is done.
It waits only where there is nothing to draw, and never for a sandbox: other rollouts go on meanwhile.
"""

import time
from typing import Any

from consumers.group import GroupReader
from consumers.raw import RawRecord
from consumers.reader import Reader
from consumers.runtime import Runtime
from producers.generation import Generator
from producers.publisher import Publisher
from producers.samplers import make_sampler
from schemas.errors import DecodeError
from schemas.events import Event

TOKENS_PER_ROUND = 2
"""Tokens drawn between two looks at the log; more makes larger groups of newcomers and a slower answer to news."""
IDLE_S, WRITING_S, TICK_S, FLUSH_S = 0.2, 0.01, 1.0, 30.0


class Inputs:
    """What the generator reads, and who hears of it."""

    def __init__(self, runtime: Runtime, publisher: Publisher) -> None:
        self._publisher, self._telemetry = publisher, runtime.telemetry
        self._recalled: list[Event[Any]] = []
        self._revoked: set[int] = set()
        self.policies = Reader(
            runtime.log, ("policies",), blob_dir=runtime.blob_dir, start="beginning", on_undecodable=self._put_aside
        )
        self.group = GroupReader(
            runtime.log,
            group="generator",
            instance=runtime.instance,
            topics=("tasks", "executions"),
            blob_dir=runtime.blob_dir,
            outputs=("rollouts",),
            publisher=publisher,
            on_recall=self._recall,
            on_revoked=self._revoke,
        )
        self._generator: Generator | None = None

    def serve(self, generator: Generator) -> None:
        """Hand everything to this generator from now on."""
        self._generator = generator

    def take(self, timeout_s: float) -> None:
        """Hand over what came; waits up to `timeout_s` for tasks and executions where there are none."""
        assert self._generator is not None
        for delivery in self.group.poll(max_events=500, timeout_s=timeout_s):
            assert delivery.event.position is not None
            self._telemetry.events.labels(delivery.event.position.topic, "in").inc()
            self._generator.take(delivery.event, delivery.ack)
        for event in self.policies.poll(timeout_s=0):
            self._telemetry.events.labels("policies", "in").inc()
            self._generator.policies.take(event.record)
        self._generator.load_newest()

    def note_lag(self) -> None:
        """Say how much is on the log that was not taken yet."""
        for topic, num_events in (self.group.lag() | self.policies.lag()).items():
            self._telemetry.lag.labels(topic).set(num_events)

    def close(self) -> None:
        """Leave the group and let go."""
        self.group.close()
        self.policies.close()

    def _recall(self, _partitions: set[int], outputs: list[Event[Any]]) -> None:
        assert self._generator is not None
        self._generator.recall(outputs)

    def _revoke(self, partitions: set[int]) -> None:
        """Let go, but not before all that is on its way is durable: the next owner reads back only what is."""
        self._publisher.flush(FLUSH_S)
        if self._generator is not None:
            self._generator.revoke(partitions)

    def _put_aside(self, raw: RawRecord, error: DecodeError) -> None:
        self._publisher.publish(self._publisher.dead_letter(raw, stage="generator", error=error))


def run_generator(runtime: Runtime) -> None:
    """Generate until told to stop. Raises LogError where the log cannot be read or written."""
    publisher = Publisher(runtime.log, source=f"rollog/{runtime.instance}", blob_dir=runtime.blob_dir)
    inputs = Inputs(runtime, publisher)
    try:
        sampler = make_sampler(runtime.settings.generator)
        generator = Generator(runtime.settings, sampler=sampler, publisher=publisher, telemetry=runtime.telemetry)
        inputs.serve(generator)
        loop(runtime, generator, inputs)
    finally:
        inputs.close()
        publisher.close()


def loop(runtime: Runtime, generator: Generator, inputs: Inputs) -> None:
    """Go round until told to stop."""
    next_tick_s = time.monotonic()
    while not runtime.stop.is_set():
        if generator.has_work:
            with runtime.telemetry.busy():
                inputs.take(timeout_s=0)
                generator.work(TOKENS_PER_ROUND)
        else:
            inputs.take(timeout_s=WRITING_S if generator.num_writing else IDLE_S)
            with runtime.telemetry.busy():
                generator.work(TOKENS_PER_ROUND)
        if time.monotonic() >= next_tick_s:
            generator.tick()
            inputs.note_lag()
            next_tick_s = time.monotonic() + TICK_S
