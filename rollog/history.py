"""What the verbs about history share: the log's index, brought up to date, and a door to the records."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from consumers.bounds import LogState, read_state
from consumers.feed import OpenReader
from consumers.index import CaughtUp, Index, open_index
from consumers.reader import scanner
from rollog.options import Invocation
from rollog.progress import progress
from rollog.topics import describe_topics

LOOKUP_FETCH_BYTES = 128 << 10


class History(msgspec.Struct, frozen=True, kw_only=True):
    """A log's past, as far as it reached when it was opened."""

    index: Index
    open_reader: OpenReader
    """For single records: it fetches little at once."""
    state: LogState
    caught_up: CaughtUp


def index_of(called: Invocation, namespace: str) -> Path | None:
    """Return the index of another log of the same cluster, brought up to date; None where that log is not there.

    Raises LogError, ConfigError.
    """
    log = msgspec.structs.replace(called.settings.log, namespace=namespace)
    if not any(state.partitions for state in describe_topics(log)):
        return None
    settings = msgspec.structs.replace(called.settings, log=log)
    with history(Invocation(settings=settings, home=called.home)) as past:
        return past.index.path


@contextmanager
def history(called: Invocation, *, rebuild: bool = False) -> Iterator[History]:
    """Yield it with the index up to date. Raises LogError, also where the index is of another log; ConfigError."""
    log = called.settings.log
    state = read_state(log)
    index = open_index(called.home, state, log.namespace, rebuild=rebuild)
    try:
        with progress("indexing the log") as on_progress:
            open_scanner = scanner(log, blob_dir=called.blob_dir)
            caught_up = index.catch_up(open_scanner, state.bounds, on_progress=on_progress)
        look_up = partial(open_scanner, fetch_bytes=LOOKUP_FETCH_BYTES)
        yield History(index=index, open_reader=look_up, state=state, caught_up=caught_up)
    finally:
        index.close()
