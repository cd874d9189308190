"""Faust's transport, made safe: `rollog://`.

Faust commits past events that are in flight, reads uncommitted records, waits without end for slow handlers, and costs
two tasks for every event. So here
- what may be committed is what `Acknowledgements` says, before a revocation too;
- records go to the agent in batches, as plain values of its channel, and are booked when the agent takes them;
- the agent gets nothing of an assignment before the stage has its own outputs back, while the heart beats on;
- a batch that was fetched before a rebalance is not taken after it.
Assignment is by range, so that co-partitioned topics stay together; round-robin, Faust's choice, tears them apart.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiokafka
import faust
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.helpers import create_ssl_context
from faust.transport.drivers import TRANSPORTS
from faust.transport.drivers import aiokafka as driver
from mode.threads import WorkerThread

from consumers.acknowledgements import Ack, Acknowledgements, At
from schemas.config import LogSettings
from schemas.errors import ConfigError
from schemas.limits import GATHER_BYTES, GATHER_MS

FETCH_PARTITION_BYTES = 1 << 20
"""Asked of a partition at once; the broker sends a larger batch all the same."""
RECORDS_PER_BATCH = 500
BATCHES_AHEAD = 2
"""Batches on the agent's channel, the one it works on among them."""
FETCH_S = 1.0


class Batch:
    """Records as they were fetched, on their way to the agent."""

    __slots__ = ("epoch", "records")

    def __init__(self, epoch: int, records: list[Any]) -> None:
        self.epoch, self.records = epoch, records


class StageApp(faust.App):  # type: ignore[misc]  # Faust has no types
    """A Faust app that knows its log, and what to do when partitions come and go."""

    log_settings: LogSettings
    on_assigned: Callable[[set[int]], Awaitable[None]]
    """Recalls the stage's own outputs of these partitions."""
    on_taken_away: Callable[[set[int]], None]
    on_failure: Callable[[BaseException], None]
    input_names: tuple[str, ...]
    """As the cluster knows them."""

    def _create_directories(self) -> None:
        """Make none: without tables nothing is kept on disk."""


class DaemonThread(WorkerThread):  # type: ignore[misc]  # mode has no types
    """A thread that does not keep a process alive whose service has given up on it."""

    def __init__(self, service: Any, **kwargs: Any) -> None:
        super().__init__(service, **kwargs)
        self.daemon = True


class ConsumerThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]
    """Faust's consumer thread around a consumer with our settings."""

    Worker = DaemonThread

    def _create_worker_consumer(self, transport: Any) -> aiokafka.AIOKafkaConsumer:
        conf = self.app.conf
        return aiokafka.AIOKafkaConsumer(
            client_id=conf.broker_client_id,
            group_id=conf.id,
            group_instance_id=conf.consumer_group_instance_id,
            partition_assignment_strategy=[RangePartitionAssignor],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            max_poll_records=RECORDS_PER_BATCH,
            max_poll_interval_ms=int(conf.broker_max_poll_interval * 1000),
            max_partition_fetch_bytes=FETCH_PARTITION_BYTES,
            fetch_min_bytes=GATHER_BYTES,
            fetch_max_wait_ms=GATHER_MS,
            request_timeout_ms=int(conf.broker_request_timeout * 1000),
            session_timeout_ms=int(conf.broker_session_timeout * 1000),
            rebalance_timeout_ms=int(conf.broker_rebalance_timeout * 1000),
            heartbeat_interval_ms=int(conf.broker_heartbeat_interval * 1000),
            **aiokafka_options(self.app.log_settings),
        )

    async def seek_all(self) -> None:
        """Go to the committed offset of every partition; where there is none, to its first record.

        aiokafka's own seek_to_committed stays where it is when that is 0 or nothing.
        """
        await self.call_thread(self._seek_all)

    async def _seek_all(self) -> None:
        consumer = self._ensure_consumer()
        for tp in consumer.assignment():
            offset = await consumer.committed(tp)
            if offset is None:
                await consumer.seek_to_beginning(tp)
            else:
                consumer.seek(tp, offset)

    async def lags(self) -> dict[str, int]:
        """Return how many offsets were not fetched yet, by topic on the cluster, as the broker says now."""
        lags: dict[str, int] = await self.call_thread(self._lags)
        return lags

    async def _lags(self) -> dict[str, int]:
        consumer = self._ensure_consumer()
        ends = await consumer.end_offsets(consumer.assignment())
        lags: dict[str, int] = {}
        for tp, end in ends.items():
            lags[tp.topic] = lags.get(tp.topic, 0) + max(0, end - await consumer.position(tp))
        return lags


class Consumer(driver.Consumer):  # type: ignore[misc]
    """Faust's consumer with our books."""

    _thread: ConsumerThread

    def __init__(self, transport: Any, callback: Any, *args: Any, **kwargs: Any) -> None:
        self.books = Acknowledgements()
        self.epoch = 0
        """Grows whenever partitions come or go."""
        self.is_stopping = self._has_left = False
        self._committed: dict[At, int] = {}
        self._num_queued = 0
        self._has_room = asyncio.Event()
        self._is_recalled = asyncio.Event()
        self._recalling: asyncio.Task[None] | None = None
        super().__init__(transport, callback, *args, **kwargs)

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def take(self, batch: Batch, record: Any) -> Ack | None:
        """Book a record that the agent takes now; None where it is not this member's any more."""
        if batch.epoch != self.epoch or self.is_stopping:
            return None
        return self.books.deliver((record.topic, record.partition), record.offset)

    def finish(self, batch: Batch) -> None:
        """Note that the agent is done with a batch: there is room for another."""
        if batch.epoch == self.epoch:
            self._num_queued -= 1
            self._has_room.set()

    def stop_taking(self) -> None:
        """Hand out no more; what is in flight may still be acknowledged and committed."""
        self.is_stopping = True
        self._is_recalled.clear()

    async def lags(self) -> dict[str, int]:
        """Return how many offsets were not fetched yet, by topic on the cluster."""
        return await self._thread.lags()

    async def force_commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:
        """Commit what the books allow."""
        ready = {at: o for at, o in self.books.committable().items() if o > self._committed.get(at, -1)}
        if not ready or self._has_left:
            return False
        did_commit = bool(await self._commit({self._new_topicpartition(*at): o for at, o in ready.items()}))
        if did_commit:
            self._committed |= ready
        return did_commit

    async def on_stop(self) -> None:
        """Commit for the last time; after this the thread that could is gone."""
        await super().on_stop()
        self._has_left = True

    def verify_event_path(self, now: float, tp: Any) -> None:
        """Leave it to the stage's own watch, which knows what is in flight."""

    async def wait_empty(self) -> None:
        """Commit; what is in flight comes again, so there is nothing to wait for."""
        await self.commit()

    async def on_partitions_revoked(self, revoked: set[Any]) -> None:
        """Commit first: Faust's driver forgets its partitions before its app would commit them."""
        self._turn_epoch()
        await self.commit()
        await super().on_partitions_revoked(revoked)
        self.books.clear()
        partitions = {tp.partition for tp in revoked}
        if partitions:
            self.app.on_taken_away(partitions)

    async def on_partitions_assigned(self, assigned: set[Any], generation_id: int = 0) -> None:
        """Begin with empty books, and recall while Faust and the heart go on."""
        self._turn_epoch()
        # What a rebalance cut off would hold commits back for ever.
        self.books.clear()
        self._committed.clear()
        await super().on_partitions_assigned(assigned, generation_id)
        self._recalling = asyncio.ensure_future(self._recall(self.epoch, {tp.partition for tp in assigned}))

    def _turn_epoch(self) -> None:
        self.epoch += 1
        self.stop_flow()
        self._num_queued = 0
        self._has_room.set()
        self._is_recalled.clear()
        if self._recalling is not None:
            self._recalling.cancel()

    async def _recall(self, epoch: int, partitions: set[int]) -> None:
        try:
            if partitions:
                await self.app.on_assigned(partitions)
        except Exception as error:  # noqa: BLE001 a task's boundary: the failure stops the service
            self.app.on_failure(error)
            return
        if epoch == self.epoch and not self.is_stopping:
            self._is_recalled.set()

    async def _drain_messages(self, fetcher: Any) -> None:
        """Fetch and hand over, batch by batch, until stopped. Faust's own way is per event."""
        sought = -1
        while not (self.should_stop or fetcher.should_stop):
            if not self.flow_active:
                await self.wait(self.can_resume_flow)
                continue
            await self._is_recalled.wait()
            if not self.flow_active:
                continue
            epoch, active = self.epoch, self._get_active_partitions()
            if sought != epoch:
                await self._seek_to_committed(epoch)
                sought = epoch
                continue
            found = await self._getmany(active, FETCH_S) if active else {}
            records = [record for tp in found for record in found[tp]]
            if records:
                await self._hand_over(Batch(epoch, records))
            else:
                await asyncio.sleep(0)

    async def _seek_to_committed(self, epoch: int) -> None:
        """Begin an epoch's reading where its events come again.

        A fetch that a rebalance overtook may bring records of the new assignment and move its position; they belong to
        no epoch and are dropped, so that their place must be found again.
        """
        try:
            await self._thread.seek_all()
        except Exception:
            if epoch == self.epoch:
                raise

    async def _hand_over(self, batch: Batch) -> None:
        """Put the batch on the agent's channel once there is room: waiting here is the backpressure."""
        while batch.epoch == self.epoch and self._num_queued >= BATCHES_AHEAD:
            self._has_room.clear()
            await self._has_room.wait()
        if batch.epoch != self.epoch:
            return
        self._num_queued += 1
        for channel in self.app.topics:
            channel.queue.put_nowait(batch)


class Producer(driver.Producer):  # type: ignore[misc]
    """Nothing: stages write through the publisher, so Faust need not connect for it."""

    async def on_start(self) -> None:
        """Connect to nobody."""


class Transport(driver.Transport):  # type: ignore[misc]
    """What `rollog://` names."""

    Consumer = Consumer
    Producer = Producer


TRANSPORTS.aliases["rollog"] = "streams.transport:Transport"


def aiokafka_options(log: LogSettings) -> dict[str, Any]:
    """Return how aiokafka reaches the cluster. Raises ConfigError where a client setting cannot be carried over."""
    client = log.client
    protocol = client.get("security.protocol", "PLAINTEXT").upper()
    options: dict[str, Any] = {
        "bootstrap_servers": [server.strip() for server in log.bootstrap.split(",")],
        "security_protocol": protocol,
    }
    if protocol.startswith("SASL"):
        mechanism = client.get("sasl.mechanism") or client.get("sasl.mechanisms") or "PLAIN"
        if mechanism.upper() not in {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}:
            raise ConfigError(f"log.client: sasl.mechanism {mechanism}: streams take PLAIN and SCRAM-SHA-256 or -512")
        options |= {
            "sasl_mechanism": mechanism.upper(),
            "sasl_plain_username": client.get("sasl.username"),
            "sasl_plain_password": client.get("sasl.password"),
        }
    if protocol.endswith("SSL"):
        options["ssl_context"] = tls_context(client)
    return options


def tls_context(client: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context that librdkafka's settings describe. Raises ConfigError where a file is not right."""
    try:
        context: ssl.SSLContext = create_ssl_context(
            cafile=client.get("ssl.ca.location"),
            certfile=client.get("ssl.certificate.location"),
            keyfile=client.get("ssl.key.location"),
            password=client.get("ssl.key.password"),
        )
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"log.client: ssl.*.location: {error}") from error
    if client.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    return context
