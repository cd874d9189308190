"""A small tape of known content, and ways to damage it."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from consumers.raw import RawRecord
from consumers.tapes.file import TapeFile
from consumers.tapes.format import (
    ENCODER,
    END_MAGIC,
    FOOTER,
    FRAME,
    HEAD,
    MAGIC,
    MARKER,
    VERSION,
    Index,
    Item,
    body_of,
    chain,
    first_digest,
    seal,
    tape_digest,
)
from consumers.tapes.writer import TapeWriter
from producers.blobs import DATAREF, ClaimCheck, encode_claim
from schemas.codec import encode_headers, encode_value, new_event
from schemas.events import Event, Position
from schemas.ids import digest_of
from tests import samples

BLOB = encode_value(samples.turn(text="large"))


def raw(record: Any, topic: str, partition: int, offset: int, *, time_s: float = 1000.0) -> RawRecord:
    event: Event[Any] = new_event(
        record, id=f"{topic}-{partition}-{offset}", key=samples.TASK_ID, source="rollog/test", time_s=time_s
    )
    return RawRecord(
        position=Position(topic, partition, offset),
        key=event.key.encode(),
        value=encode_value(record),
        headers=list(encode_headers(event)),
        timestamp_ms=int(time_s * 1000),
    )


def claimed(topic: str, partition: int, offset: int) -> RawRecord:
    """Return a record whose value is `BLOB`'s claim check."""
    claim = ClaimCheck(sha256=digest_of(BLOB).removeprefix("sha256:"), size=len(BLOB))
    record = raw(samples.turn(), topic, partition, offset)
    headers = [*record.headers, (DATAREF, claim.reference.encode())]
    return msgspec.structs.replace(record, value=encode_claim(claim), headers=headers)


def write_small(path: Path, *, frame_bytes: int = 600) -> str:
    """Write records of three partitions, one of them empty: with gaps that the log had, a blob, and junk."""
    with TapeWriter(path, frame_bytes=frame_bytes) as writer:
        writer.begin("rewards", 0, 5)
        for offset in (5, 6, 9, 10):
            writer.add(raw(samples.reward(), "rewards", 0, offset, time_s=1000.0 + offset))
        writer.end(12)
        writer.begin("rewards", 1, 0)
        writer.end(0)
        writer.begin("rollouts", 0, 0)
        writer.add(raw(samples.turn(), "rollouts", 0, 0))
        writer.add_blob(BLOB)
        writer.add(claimed("rollouts", 0, 1))
        junk = msgspec.structs.replace(raw(samples.turn(), "rollouts", 0, 2), value=b"junk")
        writer.add(junk, problem="no turn")
        writer.end(3)
        return writer.finish()


Change = Callable[[Item, bytes], bytes | None]
"""From an item and its sealed bytes to what shall stand there; None drops it."""


def forge(source: Path, target: Path, change: Change) -> None:
    """Write a tape anew with something changed and every digest made to fit, as someone might who knows the format."""
    tape = TapeFile(source)
    digest, entries, content = first_digest(), [], HEAD.pack(MAGIC, VERSION)
    for number, entry in enumerate(tape.index.frames):
        sealed = [changed for item in tape.items(number) if (changed := change(item, seal(item))) is not None]
        body = body_of(sealed)
        stored = zstandard.compress(body)
        digest = chain(digest, stored, len(body))
        num_records = entry.num_records - len(tape.items(number)) + len(sealed)
        place = {"at": len(content), "stored_size": len(stored), "size": len(body), "digest": digest}
        entries.append(msgspec.structs.replace(entry, **place, num_records=num_records))
        content += FRAME.pack(MARKER, len(stored), len(body), digest) + stored
    index = ENCODER.encode(Index(entries, tape.index.ranges))
    index_digest = hashlib.sha256(index).digest()
    whole = tape_digest(digest, len(content), index_digest, len(index))
    target.write_bytes(content + index + FOOTER.pack(len(content), len(index), index_digest, whole, END_MAGIC))
    tape.close()
