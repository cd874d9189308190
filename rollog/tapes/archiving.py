"""Moves what is old from the log to a tape.

What must hold: nothing is trimmed that a tape does not hold, durable, verified, and compared with the log byte for
byte; and nothing that somebody still needs.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from consumers.offsets import At, spans
from consumers.tapes.exporting import export_pieces
from consumers.tapes.file import TapeFile
from consumers.tapes.verify import verify
from rollog.tapes.comparing import compare_partition
from rollog.tapes.needs import needs
from rollog.topics_trim import trim
from schemas.config import LogSettings
from schemas.errors import TapeError

Pieces = dict[At, tuple[int, int]]


class Archive(msgspec.Struct, frozen=True, kw_only=True):
    """What was archived, or would be."""

    applied: bool
    file: str
    digest: str
    """Of the tape: to keep elsewhere."""
    num_offsets: int
    trimmed: dict[str, tuple[int, int]]
    """First offset and one past the last, by `topic[partition]`."""
    needed: tuple[str, ...]
    """What is still needed, and by whom; where there is any, nothing is done."""


def archive(
    log: LogSettings,
    path: Path,
    topics: Sequence[str],
    *,
    until_s: float | None,
    home: Path,
    apply: bool,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> Archive:
    """Say what would be trimmed and who needs it; with `apply`, and where nobody does, export, verify, trim.

    A tape that is there already, of an attempt that was cut off, is verified and used. Raises LogError, TapeError.
    """
    pieces = {at: span for at, span in spans(log, topics, until_s=until_s).items() if span[0] < span[1]}
    needed = tuple(needs(log, pieces, home=home))
    digest = ""
    applied = apply and bool(pieces) and not needed
    if applied:
        if not path.exists():
            export_pieces(log, path, pieces, blob_dir=home / "blobs", on_progress=on_progress)
        digest = check_tape(log, path, pieces, blob_dir=home / "blobs")
        trim(log, {at: end for at, (_, end) in pieces.items()})
    return Archive(
        applied=applied,
        file=str(path),
        digest=digest,
        num_offsets=sum(end - start for start, end in pieces.values()),
        trimmed={f"{topic}[{partition}]": span for (topic, partition), span in pieces.items()},
        needed=needed,
    )


def check_tape(log: LogSettings, path: Path, pieces: Pieces, *, blob_dir: Path) -> str:
    """Return the tape's digest. Raises TapeError where it is damaged, or does not hold all of the pieces."""
    report = verify(path)
    if report.faults:
        raise TapeError(f"{path}: {report.faults[0]}; nothing was trimmed: remove it and archive again")
    tape = TapeFile(path)
    try:
        for at, (start, end) in pieces.items():
            first, last = tape.ranges.get(at, (0, -1))
            found = compare_partition(log, tape, at, (start, end), blob_dir=blob_dir, taped_from=start)
            if not (first <= start and last == end and found.is_whole):
                raise TapeError(
                    f"{path} does not hold {at[0]}[{at[1]}]@{start}..{end - 1} as the log does; nothing was trimmed: "
                    f"choose another name"
                )
    finally:
        tape.close()
    return report.digest
