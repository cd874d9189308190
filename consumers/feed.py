"""Batches for the learner, in order of arrival, from explicit offsets.

What must hold: an offset handed to a checkpoint covers only batches that were taken or passed over; whatever was merely
read comes again. A batch is handed out once, however often its event stands on the log.
"""

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from consumers.reader import EventReader, RawRecord
from schemas.batches import Batch, BatchRow
from schemas.decisions import Reason
from schemas.errors import DecodeError, LogError
from schemas.events import Event
from schemas.scorings import LIVE
from schemas.steps import BatchRef

TOPIC = "batches"
BatchEvent = Event[Batch]
OpenReader = Callable[..., EventReader]
"""`Reader` with log and blob folder given, or `TapeReader` with its file: takes topics, and the rest by name."""

OnUndecodable = Callable[[RawRecord, DecodeError], None]


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Why a batch is not trained on."""

    reason: Reason
    detail: str


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that was passed over; the caller writes the decision before the offset moves."""

    event: BatchEvent
    fault: Fault


class BatchFeed:
    """One run's batches from where `offsets` says. Not thread-safe."""

    is_used_up = False
    """What is live goes on."""

    def __init__(
        self,
        reader: EventReader,
        *,
        run_id: str,
        offsets: Mapping[int, int],
        seen: Iterable[str],
        window: int,
        scoring_id: str = LIVE,
    ) -> None:
        """`seen` are ids taken before, oldest first, of which the last `window` are remembered."""
        self._scoring_id = scoring_id
        self._reader, self._run_id, self._window = reader, run_id, window
        self._waiting: deque[BatchEvent] = deque()
        self._hand: list[BatchEvent] = []
        self._offsets = dict(offsets)
        self._seen = OrderedDict.fromkeys(seen)
        self.num_skipped = 0
        """Repeats, and batches of other runs and scorings: not this learner's, so they are passed without a word."""

    @classmethod
    def open(
        cls,
        open_reader: OpenReader,
        *,
        run_id: str,
        offsets: Mapping[int, int],
        seen: Iterable[str],
        window: int,
        on_undecodable: OnUndecodable,
        scoring_id: str = LIVE,
    ) -> "BatchFeed":
        """Return the feed that goes on at `offsets`; partitions without one are read from their beginning.

        Raises LogError where the log no longer has an offset.
        """
        reader = open_reader([TOPIC], start="beginning", on_undecodable=on_undecodable)
        if offsets:
            start = reader.positions | {(TOPIC, partition): offset for partition, offset in offsets.items()}
            reader.close()
            reader = open_reader([TOPIC], start=start, on_undecodable=on_undecodable)
        known = {partition: offset for (_, partition), offset in reader.positions.items()}
        return cls(reader, run_id=run_id, offsets=known, seen=seen, window=window, scoring_id=scoring_id)

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()

    @property
    def num_ready(self) -> int:
        """Return how many batches are in hand for the next step."""
        return len(self._hand)

    @property
    def seen(self) -> tuple[str, ...]:
        """Return the ids taken or passed over, oldest first."""
        in_hand = {event.id for event in self._hand}
        return tuple(event_id for event_id in self._seen if event_id not in in_hand)

    @property
    def offsets(self) -> dict[int, int]:
        """Return by partition the first offset that was neither taken nor passed over."""
        held = self._offsets.copy()
        for event in self._hand:
            partition, offset = place_of(event)
            held[partition] = min(held[partition], offset)
        return held

    def lag(self) -> int:
        """Return how many batches are on the log and not yet taken."""
        return sum(self._reader.lag().values()) + len(self._waiting) + len(self._hand)

    def gather(
        self, num_batches: int, judge: Callable[[BatchEvent], Fault | None], *, timeout_s: float = 0.1
    ) -> list[Dropped]:
        """Read at most once and put what `judge` has no fault with in hand, up to `num_batches`; returns the rest."""
        if not self._waiting:
            self._waiting.extend(self._reader.poll(timeout_s=timeout_s))
        dropped = []
        while self._waiting and len(self._hand) < num_batches:
            event = self._waiting.popleft()
            partition, offset = place_of(event)
            self._offsets[partition] = offset + 1
            if event.id in self._seen or not self._is_ours(event.record):
                self.num_skipped += 1
                continue
            self._remember(event.id)
            fault = find_fault(event.record) or judge(event)
            if fault is None:
                self._hand.append(event)
            else:
                dropped.append(Dropped(event=event, fault=fault))
        return dropped

    def review(self, judge: Callable[[BatchEvent], Fault | None]) -> list[Dropped]:
        """Judge again what is in hand, by what is known now; returns what is no longer."""
        faults = [judge(event) for event in self._hand]
        dropped = [Dropped(event=e, fault=fault) for e, fault in zip(self._hand, faults, strict=True) if fault]
        self._hand = [event for event, fault in zip(self._hand, faults, strict=True) if fault is None]
        return dropped

    def take(self) -> list[BatchEvent]:
        """Hand out what was gathered; `offsets` covers it from now on."""
        taken, self._hand = self._hand, []
        return taken

    def _is_ours(self, batch: Batch) -> bool:
        """Return whether it is this run's, and how its task ended or else of the scoring asked for.

        What was recorded for this run is its own, too: it is for the judge to say what becomes of it.
        """
        of_scoring = not batch.is_rebuilt if self._scoring_id == LIVE else batch.scoring_id == self._scoring_id
        return batch.run_id == self._run_id and (of_scoring or batch.is_recorded)

    def _remember(self, event_id: str) -> None:
        self._seen[event_id] = None
        while len(self._seen) > self._window:
            self._seen.popitem(last=False)


def place_of(event: Event[Any]) -> tuple[int, int]:
    """Return partition and offset of an event that was read."""
    assert event.position is not None
    return event.position.partition, event.position.offset


def fetch_batches(open_reader: OpenReader, refs: Sequence[BatchRef]) -> list[BatchEvent]:
    """Return the batches of a manifest, in its order, from where it says they stand. Raises LogError."""
    wanted = {(ref.partition, ref.offset) for ref in refs}
    start: dict[tuple[str, int], int] = {}
    for ref in refs:
        start[ref.topic, ref.partition] = min(ref.offset, start.get((ref.topic, ref.partition), ref.offset))
    found: dict[tuple[int, int], BatchEvent] = {}
    reader = open_reader([TOPIC], start=start, bounded=True, dedupe=0, on_undecodable=lambda _raw, _error: None)
    try:
        for event in reader:
            if place_of(event) in wanted:
                found[place_of(event)] = event
            if len(found) == len(wanted):
                break
    finally:
        reader.close()
    lost = [f"{ref.topic}[{ref.partition}]@{ref.offset}" for ref in refs if (ref.partition, ref.offset) not in found]
    if lost:
        raise LogError(f"{', '.join(lost)}: no readable batch there any more, but a step was taken on it")
    return [found[ref.partition, ref.offset] for ref in refs]


def find_fault(batch: Batch) -> Fault | None:
    """Return what is wrong with a batch's content; its types were checked when it was read."""
    if not batch.rows:
        return Fault(reason="quarantined", detail="no rows")
    problems = (f"row of {row.rollout_id}: {problem}" for row in batch.rows if (problem := problem_of(row)))
    detail = next(problems, None)
    return None if detail is None else Fault(reason="quarantined", detail=detail)


def problem_of(row: BatchRow) -> str | None:
    """Return why a row cannot be computed with, None where it can."""
    lengths = {len(row.token_ids), len(row.loss_mask), len(row.logprobs), len(row.versions)}
    if lengths != {len(row.token_ids)} or not row.token_ids:
        return f"arrays of {sorted(lengths)} items; wanted one length above 0"
    if not all(math.isfinite(value) for value in (row.reward, row.advantage, row.temperature)):
        return f"reward {row.reward}, advantage {row.advantage}, temperature {row.temperature}; wanted finite ones"
    if row.temperature < 0:
        return f"temperature {row.temperature}; wanted 0 or more"
    logprobs = row.logprobs.unpack()[row.loss_mask.unpack() != 0]
    if not np.isfinite(logprobs).all() or (logprobs > 1e-3).any():
        return "a behaviour log-probability is not finite or above 0"
    return None
