"""Who still needs records that are to be trimmed: groups, learners, tasks that are open.

What must hold: whatever a service would read when it goes on is found here; what cannot be told is taken as needed.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import msgspec

from consumers.offsets import At, spans
from consumers.raw import RawRecord
from consumers.reader import records_between
from learner.checkpoint import folder_of, list_steps, read_state
from rollog.topics_trim import committed_offsets
from schemas.codec import DECODERS
from schemas.config import LogSettings, load_settings
from schemas.deadletters import DeadLetter
from schemas.events import Position

Spans = Mapping[At, tuple[int, int]]
ENDING = ("batches", "decisions", "deadletters")
"""Topics of the events that end a task."""


def needs(log: LogSettings, pieces: Spans, *, home: Path) -> Iterator[str]:
    """Yield what of these pieces is needed and by whom. Raises LogError, CheckpointError, ConfigError."""
    pieces = {at: (start, end) for at, (start, end) in pieces.items() if start < end}
    yield from needed_by_groups(committed_offsets(log), pieces)
    yield from needed_by_learners(log, home / "runs", pieces)
    yield from needed_by_tasks(log, pieces, blob_dir=home / "blobs")


def needed_by_groups(committed: Mapping[str, Mapping[At, int]], pieces: Spans) -> Iterator[str]:
    """Yield where groups go on before a piece's end; a group that reads a topic reads all partitions of it."""
    for group, offsets in committed.items():
        topics = {topic for topic, _ in offsets}
        for at, (start, end) in pieces.items():
            offset = offsets.get(at, start)
            if at[0] in topics and offset < end:
                yield f"{Position(*at, offset)} by group {group}, which goes on there"


def needed_by_learners(log: LogSettings, runs: Path, pieces: Spans) -> Iterator[str]:
    """Yield where learners of runs that are kept here, and are not at their last step, go on before a piece's end."""
    for saved in sorted(runs.glob("*/settings.json")):
        settings, root = load_settings([saved]), saved.parent / "checkpoints"
        kept = list_steps(root)
        if settings.log.namespace != log.namespace or not kept or 0 < settings.learner.steps <= kept[-1]:
            continue
        state = read_state(folder_of(root, kept[-1]))
        for (topic, partition), (start, end) in pieces.items():
            offset = state.offsets.get(partition, start)
            if topic == "batches" and offset < end:
                yield f"{Position(topic, partition, offset)} by the learner of run {state.run_id} at step {state.step}"


def needed_by_tasks(log: LogSettings, pieces: Spans, *, blob_dir: Path) -> Iterator[str]:
    """Yield the first record of each piece that belongs to an open task."""
    open_keys = open_tasks(log, blob_dir=blob_dir)
    if not open_keys:
        return
    for at, span in pieces.items():
        with closing(records_between(log, at, span, blob_dir=blob_dir)) as records:
            raw = next((raw for raw in records if raw.key in open_keys), None)
        if raw is not None:
            yield f"{raw.position} by task {(raw.key or b'').decode(errors='replace')}, which is open"


def open_tasks(log: LogSettings, *, blob_dir: Path) -> set[bytes]:
    """Return the keys of the tasks that were issued and not ended.

    Batches do not stay for ever: a task from before the first one that is there may have ended by one that is gone, and
    what it needs, groups hold back.
    """
    issued: dict[bytes, tuple[int, int]] = {}
    for at, span in spans(log, ["tasks"]).items():
        for raw in records_between(log, at, span, blob_dir=blob_dir):
            issued[raw.key or b""] = (raw.position.partition, raw.timestamp_ms)
    since_ms: dict[int, int] = {}
    for at, span in spans(log, ENDING).items():
        if at[0] == "batches" and span[0] > 0:
            since_ms[at[1]] = 1 << 62
        for raw in records_between(log, at, span, blob_dir=blob_dir):
            if at[0] == "batches" and at[1] in since_ms:
                since_ms[at[1]] = min(since_ms[at[1]], raw.timestamp_ms)
            if ends_its_task(raw):
                issued.pop(raw.key or b"", None)
    return {key for key, (partition, time_ms) in issued.items() if time_ms >= since_ms.get(partition, 0)}


def ends_its_task(raw: RawRecord) -> bool:
    """Return whether a record of an ending topic ends the task of its key; a dead letter does if it is the task's."""
    if raw.position.topic != "deadletters":
        return True
    try:
        letter = DECODERS["dead_letter"].decode(raw.value or b"")
    except msgspec.DecodeError:
        return False
    return isinstance(letter, DeadLetter) and letter.topic == "tasks"
