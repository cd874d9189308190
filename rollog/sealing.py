"""The verb `seal`: digests of all that was not sealed yet, written to the log."""

from collections.abc import Iterable

import msgspec

from consumers.bounds import Bounds
from consumers.feed import OpenReader
from consumers.index import OnProgress
from consumers.sealing import Sealer, seal_id
from producers.publisher import Publisher
from rollog.verify_log import PROGRESS_EVERY, read_seals
from schemas.errors import LogError
from schemas.seals import LogSealed


class SealReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was sealed, or would be."""

    applied: bool
    num_records: int
    seals: tuple[LogSealed, ...]


def make_seals(
    open_reader: OpenReader, bounds: Bounds, *, on_progress: OnProgress = lambda done, total: None
) -> list[LogSealed]:
    """Return the seals of all up to `bounds` that no seal covers. Raises LogError where sealed history is gone."""
    if not any(topic == "seals" for topic, _ in bounds):
        raise LogError("topic seals is not there: create what is missing of the log's topics (rollog topics create)")
    known = [record for record in read_seals(open_reader, bounds) if isinstance(record, LogSealed)]
    sealer = Sealer(bounds, known)
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


def report_of(seals: list[LogSealed], *, applied: bool) -> SealReport:
    """Return what sealing came to."""
    return SealReport(applied=applied, num_records=sum(seal.num_records for seal in seals), seals=tuple(seals))
