"""Whether a log holds what a tape holds, record by record and byte for byte."""

from collections.abc import Mapping
from contextlib import closing
from itertools import zip_longest
from pathlib import Path

import msgspec

from consumers.offsets import At
from consumers.raw import RawRecord
from consumers.reader import records_between
from consumers.tapes.file import TapeFile
from schemas.config import LogSettings


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """How far a piece of a partition is the tape's, from the first record of both."""

    num_same: int
    """Records that are equal, before the first that is not or where the log ends."""
    num_on_tape: int
    difference: str = ""
    """Where the log has something else; empty where it has the tape's records, or the first of them and no more."""

    @property
    def is_whole(self) -> bool:
        """Return whether the log has just what the tape has."""
        return not self.difference and self.num_same == self.num_on_tape


def compare(
    log: LogSettings, tape: TapeFile, spans: Mapping[At, tuple[int, int]], *, blob_dir: Path
) -> dict[At, Comparison]:
    """Compare pieces of partitions with all that the tape has of them. Raises LogError, TapeError."""
    return {at: compare_partition(log, tape, at, span, blob_dir=blob_dir) for at, span in spans.items()}


def compare_partition(
    log: LogSettings, tape: TapeFile, at: At, span: tuple[int, int], *, blob_dir: Path, taped_from: int = 0
) -> Comparison:
    """Compare a piece of one partition with what the tape has of it, from an offset on."""
    num_same = num_on_tape = 0
    difference = ""
    taped = (record.raw() for record in (tape.records(at, taped_from) if at in tape.ranges else ()))
    with closing(records_between(log, at, span, blob_dir=blob_dir)) as found:
        for here, wanted in zip_longest(found, taped):
            num_on_tape += wanted is not None
            if here is None or difference:
                continue
            if wanted is None:
                difference = f"{here.position} is not on the tape"
            elif content_of(here) != content_of(wanted):
                difference = f"{here.position} is not what the tape has as {wanted.position}"
            else:
                num_same += 1
    return Comparison(num_same=num_same, num_on_tape=num_on_tape, difference=difference)


def content_of(raw: RawRecord) -> tuple[object, ...]:
    """Return all of a record but its place."""
    return raw.key, raw.value, raw.headers, raw.timestamp_ms
