"""Runs a stage as a Faust agent: the one frame around executor, verifier and assembler.

What must hold: an event is acknowledged by the stage alone, or once its dead letter is durable; whatever goes wrong
stops the service, and what was not acknowledged comes again; a stop is over by its deadline, whatever the stage does;
a service that has events before it and gets nowhere ends itself, since a restart is the cure.
"""

import asyncio
import faulthandler
import logging
import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from threading import Event as Flag
from threading import Thread
from typing import Any, Protocol

from consumers.group import COMMIT_S, HEARTBEAT_S, SESSION_S
from consumers.raw import RawRecord, to_event
from consumers.read_back import read_back
from consumers.reader import end_offsets
from consumers.runtime import Runtime
from producers.blobs import BlobStore
from producers.publisher import Publisher
from schemas.connection import in_catalogue, on_cluster
from schemas.errors import DecodeError, LogError, RollogError, StuckError
from schemas.events import Event, Position
from streams.transport import Batch, Consumer, StageApp

LOGGER = logging.getLogger("rollog.stage")
Ack = Callable[[], None]
TICK_S = 1.0
LAG_S = 2.0
STALL_S = 120.0
"""With events before it and nothing done for so long, a service is stuck."""
DRAIN_S = 10.0
STOP_S = 5.0
STUCK_STATUS = 8
"""Exit status where the event loop itself is blocked and nothing else is left to do."""


class Stage(Protocol):
    """What a service module implements; all methods run on one event loop."""

    name: str
    """Of the service; its consumer group is called so."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    async def take(self, event: Event[Any], ack: Ack) -> None:
        """Take an event; call `ack` once all it leads to is durable. Waiting here is backpressure."""
        ...

    def recall(self, outputs: list[Event[Any]]) -> None:
        """Hear, before the first event of an assignment, of the stage's own outputs that may concern what comes."""
        ...

    def revoke(self, partitions: set[int]) -> None:
        """Forget what is held of these partitions: it comes again, here or elsewhere."""
        ...

    async def tick(self, now_s: float) -> None:
        """Do what is due at this wall clock; called about once a second."""
        ...

    async def drain(self, timeout_s: float) -> None:
        """Take nothing new; finish what can be finished until the timeout."""
        ...


def run_stage(
    runtime: Runtime,
    make_stage: Callable[[Publisher], Stage],
    *,
    stall_s: float = STALL_S,
    drain_s: float = DRAIN_S,
    stop_s: float = STOP_S,
) -> None:
    """Run the stage until `runtime.stop` is set. Raises what went wrong: the process is to end, and start anew."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(StageRun(runtime, make_stage, stall_s, drain_s, stop_s).run())
    finally:
        # Not asyncio.run: it would wait for tasks that ignore their cancellation.
        if left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left, timeout=1.0))
        loop.close()
        asyncio.set_event_loop(None)


class StageRun:
    """One run of one stage, from joining the group to leaving the log."""

    def __init__(
        self,
        runtime: Runtime,
        make_stage: Callable[[Publisher], Stage],
        stall_s: float,
        drain_s: float,
        stop_s: float,
    ) -> None:
        self._runtime, self._stall_s, self._drain_s, self._stop_s = runtime, stall_s, drain_s, stop_s
        self._blobs = BlobStore(runtime.blob_dir)
        self._publisher = Publisher(runtime.log, source=f"rollog/{runtime.instance}", blob_dir=runtime.blob_dir)
        self._stage = make_stage(self._publisher)
        self._app = make_app(runtime, self._stage)
        self._app.on_assigned, self._app.on_taken_away = self._recall, self._stage.revoke
        self._app.on_failure = self._fail
        self._app.agent(self._app.topic(*self._app.input_names), name=self._stage.name, concurrency=1)(self._work)
        self._failure: BaseException | None = None
        self._over = asyncio.Event()
        self._is_taking = False
        self._num_lagging = 0
        self._progress, self._progress_s = (0, 0), time.monotonic()
        self._beat_s = time.monotonic()
        self._is_done = Flag()

    @property
    def _consumer(self) -> Consumer:
        consumer: Consumer = self._app.consumer
        return consumer

    async def run(self) -> None:
        """Run until told to stop or something fails; raises that."""
        loop = asyncio.get_running_loop()
        Thread(target=self._listen, args=(loop,), name="stop", daemon=True).start()
        Thread(target=self._watch_loop, name="watchdog", daemon=True).start()
        started = asyncio.ensure_future(self._start())
        started.add_done_callback(self._note_end)
        ticking = asyncio.ensure_future(self._tick_for_ever())
        try:
            await self._over.wait()
            ticking.cancel()
            await self._shut_down(started)
        finally:
            self._is_done.set()
            self._publisher.close(self._stop_s)
        if self._failure is not None:
            raise self._failure

    async def _start(self) -> None:
        # Faust waits for ever for topics that are not there.
        await asyncio.to_thread(end_offsets, self._runtime.log, self._stage.inputs + self._stage.outputs)
        await self._app.start()

    async def _shut_down(self, started: "asyncio.Future[None]") -> None:
        self._consumer.stop_taking()
        if self._failure is None:
            await self._bounded(self._stage.drain(self._drain_s), self._drain_s + 1.0, "drain")
        started.cancel()
        # First and by itself: a member whose agent hangs must not go on beating its heart.
        await self._bounded(self._consumer.stop(), self._stop_s, "leaving the group")
        await self._bounded(self._app.stop(), self._stop_s, "stop of the stream processor")

    async def _bounded(self, work: Awaitable[None], timeout_s: float, what: str) -> None:
        """Wait for work at most so long; its failure counts, unless there was one before."""
        task = asyncio.ensure_future(work)
        await asyncio.wait({task}, timeout=timeout_s)
        if not task.done():
            LOGGER.warning("%s: %s took over %.0f s and was left; events come again", self._stage.name, what, timeout_s)
            task.cancel()
        elif not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    async def _work(self, stream: Any) -> None:
        """Be the agent: records to events, events to the stage."""
        try:
            async for batch in stream:
                await self._take_batch(batch)
        except Exception as error:  # noqa: BLE001 the agent's boundary: no event is skipped, the service stops
            self._fail(error)

    async def _take_batch(self, batch: Batch) -> None:
        consumer, stage, log = self._consumer, self._stage, self._runtime.log
        self._is_taking = True
        for record in batch.records:
            ack = consumer.take(batch, record)
            if ack is None:
                break
            raw = RawRecord(
                position=Position(in_catalogue(log, record.topic), record.partition, record.offset),
                key=record.key,
                value=record.value,
                headers=record.headers,
                timestamp_ms=record.timestamp,
            )
            try:
                event = to_event(raw, self._blobs)
            except DecodeError as error:
                self._put_aside(raw, error, ack)
            else:
                await stage.take(event, ack)
        self._is_taking = False
        consumer.finish(batch)

    def _put_aside(self, raw: RawRecord, error: DecodeError, ack: Ack) -> None:
        LOGGER.warning("%s put aside: %s", self._stage.name, error)
        letter = self._publisher.dead_letter(raw, stage=self._stage.name, error=error)
        self._publisher.publish(letter, partial(self._ack_or_fail, ack, asyncio.get_running_loop()))

    def _ack_or_fail(self, ack: Ack, loop: asyncio.AbstractEventLoop, error: RollogError | None) -> None:
        if error is None:
            ack()
        else:
            loop.call_soon_threadsafe(self._fail, error)

    async def _recall(self, partitions: set[int]) -> None:
        read = partial(
            read_back,
            self._runtime.log,
            group=self._app.conf.id,
            inputs=self._stage.inputs,
            outputs=self._stage.outputs,
            partitions=partitions,
            blob_dir=self._runtime.blob_dir,
        )
        start_s = time.monotonic()
        outputs = await asyncio.to_thread(read)
        LOGGER.info("%s: %d outputs read back in %.2f s", self._stage.name, len(outputs), time.monotonic() - start_s)
        self._stage.recall(outputs)

    async def _tick_for_ever(self) -> None:
        next_lag_s = 0.0
        over = asyncio.ensure_future(self._over.wait())
        try:
            while not over.done():
                await asyncio.wait({over}, timeout=TICK_S)
                self._beat_s = time.monotonic()
                await self._stage.tick(time.time())
                if time.monotonic() >= next_lag_s:
                    next_lag_s = time.monotonic() + LAG_S
                    await self._measure_lag()
                self._check_progress()
        except Exception as error:  # noqa: BLE001 a task's boundary: the failure stops the service
            self._fail(error)

    async def _measure_lag(self) -> None:
        try:
            async with asyncio.timeout(LAG_S):
                lags = await self._consumer.lags()
        except Exception as error:  # noqa: BLE001 whatever it is: not knowing counts as lagging, and the watch goes on
            LOGGER.debug("%s: lag unknown: %r", self._stage.name, error)
            self._num_lagging = max(1, self._num_lagging)
            return
        self._num_lagging = sum(lags.values())
        for topic in self._stage.inputs:
            self._runtime.telemetry.lag.labels(topic).set(lags.get(on_cluster(self._runtime.log, topic), 0))

    def _check_progress(self) -> None:
        """Raise StuckError where events are there and nothing was taken or acknowledged for too long."""
        books, now_s = self._consumer.books, time.monotonic()
        progress = (books.num_delivered, books.num_in_flight)
        if progress != self._progress or not (self._num_lagging or self._is_taking):
            self._progress, self._progress_s = progress, now_s
        elif now_s - self._progress_s > self._stall_s:
            raise StuckError(
                f"{self._stage.name}: {self._num_lagging} events are waiting, {progress[1]} in flight, and nothing "
                f"moved for {self._stall_s:.0f} s; the service ends, and what is not acknowledged comes again"
            )

    def _note_end(self, started: "asyncio.Future[None]") -> None:
        """Hear that Faust is up, or that it could not come up; then watch for its crash."""
        if started.cancelled():
            return
        error = started.exception()
        if error is not None:
            self._fail(error)
            return
        watch = asyncio.ensure_future(self._app.wait_until_stopped())
        watch.add_done_callback(self._note_crash)

    def _note_crash(self, watch: "asyncio.Future[None]") -> None:
        if self._over.is_set() or watch.cancelled():
            return
        reason = self._app.crash_reason or watch.exception()
        self._fail(LogError(f"{self._stage.name}: the stream processor stopped by itself: {reason!r}"))

    def _fail(self, error: BaseException) -> None:
        if self._failure is None and not self._is_done.is_set():
            LOGGER.error("%s stops: %s", self._stage.name, error, exc_info=error)
            self._failure = error
        self._over.set()

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Carry the word to stop to the loop; a thread of its own."""
        while not self._runtime.stop.wait(TICK_S):
            if self._is_done.is_set():
                return
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._over.set)

    def _watch_loop(self) -> None:
        """End the process where the event loop does not turn; a thread of its own, since nothing else would run."""
        limit_s = self._stall_s + self._drain_s + 3 * self._stop_s
        while not self._is_done.wait(TICK_S):
            if time.monotonic() - self._beat_s > limit_s:
                LOGGER.critical("%s: the event loop is blocked; the process ends", self._stage.name)
                faulthandler.dump_traceback()
                os._exit(STUCK_STATUS)


def make_app(runtime: Runtime, stage: Stage) -> StageApp:
    """Return the Faust app of a stage, without its agent. Raises ConfigError."""
    log = runtime.log
    app = StageApp(
        on_cluster(log, stage.name),
        broker=f"rollog://{log.bootstrap.split(',')[0]}",
        autodiscover=False,
        web_enabled=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        store="memory://",
        table_standby_replicas=0,
        stream_recovery_delay=0.0,
        broker_client_id=f"rollog/{runtime.instance}",
        broker_commit_interval=COMMIT_S,
        broker_heartbeat_interval=HEARTBEAT_S,
        broker_session_timeout=SESSION_S,
        broker_request_timeout=30.0,
        broker_rebalance_timeout=30.0,
        broker_max_poll_interval=86_400.0,
        consumer_group_instance_id=on_cluster(log, runtime.instance),
    )
    app.log_settings = log
    app.input_names = tuple(on_cluster(log, topic) for topic in stage.inputs)
    return app
