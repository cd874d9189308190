"""What a verb reads from: the log, or a tape in its place."""

from functools import partial
from pathlib import Path

from consumers.feed import OpenReader
from consumers.reader import Reader
from consumers.tapes.reader import TapeReader
from rollog.options import Invocation, with_log


def open_door(called: Invocation, tape: Path | None) -> OpenReader:
    """Return how to open readers of the tape, if one is named, else of the log, which has to be there then.

    Raises ConfigError.
    """
    if tape is not None:
        return partial(TapeReader, tape)
    return partial(Reader, with_log(called).settings.log, blob_dir=called.blob_dir)
