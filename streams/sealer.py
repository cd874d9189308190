"""The sealer: at intervals, digests of what the log has gained since, written to the log itself.

    seals there are --> where they end --records since--> chains --> LogSealed

What must hold: the log is the only memory, so that an instance that was killed goes on where its seals end. What is
sealed is what was there when the pass began.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial

from consumers.bounds import Bounds, read_state
from consumers.feed import OpenReader
from consumers.reader import Reader
from consumers.runtime import Runtime
from consumers.sealing import Sealer, read_seals, seal_id
from producers.publisher import Publisher
from schemas.errors import LogError
from schemas.seals import LogSealed

PROGRESS_EVERY = 5_000
OnProgress = Callable[[int, int], None]
log = logging.getLogger(__name__)


def run_sealer(runtime: Runtime) -> None:
    """Seal every `log.seal_every_s` seconds until told to stop. Raises LogError where sealed history is gone."""
    every_s = runtime.log.seal_every_s
    if not every_s:
        log.info("log.seal_every_s is 0: nothing is sealed")
        runtime.stop.wait()
        return
    publisher = Publisher(runtime.log, source=f"rollog/{runtime.instance}", blob_dir=runtime.blob_dir)
    open_reader = partial(Reader, runtime.log, blob_dir=runtime.blob_dir)
    try:
        while not runtime.stop.wait(every_s):
            with runtime.telemetry.busy():
                seal_once(runtime, publisher, open_reader)
    finally:
        publisher.close()


def seal_once(runtime: Runtime, publisher: Publisher, open_reader: OpenReader) -> None:
    """Seal what is there now and was not."""
    telemetry = runtime.telemetry
    telemetry.progress(1)
    seals = make_seals(
        open_reader, read_state(runtime.log).bounds, on_progress=lambda done, total: telemetry.progress(total - done)
    )
    write_seals(publisher, seals)
    telemetry.events.labels("seals", "out").inc(len(seals))
    telemetry.progress(0)
    log.info("sealed %d records in %d partitions", sum(seal.num_records for seal in seals), len(seals))


def make_seals(
    open_reader: OpenReader, bounds: Bounds, *, on_progress: OnProgress = lambda done, total: None
) -> list[LogSealed]:
    """Return the seals of all up to `bounds` that no seal covers. Raises LogError where sealed history is gone."""
    if not any(topic == "seals" for topic, _ in bounds):
        raise LogError("topic seals is not there: create what is missing of the log's topics (rollog topics create)")
    sealer = Sealer(bounds, read_seals(open_reader, bounds))
    if not sealer.start:
        return []
    total = sum(bounds[at][1] - offset for at, offset in sealer.start.items())
    reader = open_reader(sorted({topic for topic, _ in sealer.start}), start=sealer.start, bounded=True, dedupe=0)
    try:
        for number, raw in enumerate(reader.records()):
            sealer.add(raw)
            if number % PROGRESS_EVERY == 0:
                on_progress(number, total)
    finally:
        reader.close()
    return sealer.seals()


def write_seals(publisher: Publisher, seals: Iterable[LogSealed]) -> None:
    """Write seals and wait until they are durable. Raises LogError."""
    publisher.send_all(
        publisher.event(seal, id=seal_id(seal), key=f"{seal.topic}[{seal.partition}]", subject=seal.topic)
        for seal in seals
    )
