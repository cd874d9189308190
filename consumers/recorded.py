"""What a fork trains on, in the one order that its numbers say, whatever partition each batch stands on.

What must hold: numbers are handed out from 0 without a gap, so that the same fork is trained the same; an offset handed
to a checkpoint covers only batches that were taken or passed over.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from consumers.feed import TOPIC, BatchEvent, Dropped, Fault, OnUndecodable, OpenReader, find_fault, place_of
from consumers.reader import EventReader
from schemas.commands import CommandGiven
from schemas.errors import LogError
from schemas.forks import FORK, Fork, fork_of


def read_fork(open_reader: OpenReader, run_id: str) -> Fork | None:
    """Return what made the run on this log, None where it is no fork. Raises LogError."""
    reader = open_reader(["commands"], start="beginning", bounded=True, on_undecodable=lambda _raw, _error: None)
    try:
        for event in reader:
            command = event.record
            if isinstance(command, CommandGiven) and (command.command, command.target) == (FORK, run_id):
                return fork_of(command, event.position)
    finally:
        reader.close()
    return None


class RecordedFeed:
    """A fork's recorded batches from where `offsets` says. Not thread-safe."""

    def __init__(
        self,
        readers: Mapping[int, EventReader],
        *,
        run_id: str,
        total: int,
        offsets: Mapping[int, int],
        seen: Iterable[str],
        window: int,
    ) -> None:
        """`readers` are bounded and read a partition each; `total` is how many batches there have to be.

        `seen` are ids taken before, oldest first, of which the last `window` are remembered.
        """
        self._readers, self._run_id, self._total = dict(readers), run_id, total
        self._streams: dict[int, Iterator[BatchEvent]] = {p: self._ours(reader) for p, reader in readers.items()}
        self._offsets, self._seen, self._window = dict(offsets), OrderedDict.fromkeys(seen), window
        self._heads: list[tuple[int, int, BatchEvent]] = []
        self._hand: list[BatchEvent] = []
        for partition in self._streams:
            self._read(partition)
        self._next = self._heads[0][0] if self._heads else total
        if self._next > 0 and not self._seen:
            raise self._missing(0)

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
    ) -> "RecordedFeed":
        """Return the feed that goes on at `offsets`. Raises LogError where the run is no fork or lacks batches."""
        fork = read_fork(open_reader, run_id)
        if fork is None:
            raise LogError(
                f"run {run_id!r} is no fork on this log, so that nothing was recorded for it: set learner.offline = "
                "false, or make one (rollog fork)"
            )
        first = open_reader([TOPIC], start="beginning", bounded=True, on_undecodable=on_undecodable)
        known = {partition: offset for (_, partition), offset in first.positions.items()} | dict(offsets)
        first.close()
        read = partial(open_reader, [TOPIC], bounded=True, on_undecodable=on_undecodable)
        readers = {partition: read(start={(TOPIC, partition): offset}) for partition, offset in known.items()}
        return cls(readers, run_id=run_id, total=fork.num_batches, offsets=known, seen=seen, window=window)

    def close(self) -> None:
        """Close the readers."""
        for reader in self._readers.values():
            reader.close()

    @property
    def is_used_up(self) -> bool:
        """Return whether all that is left is in hand."""
        return self._next >= self._total

    @property
    def num_ready(self) -> int:
        """Return how many batches are in hand for the next step."""
        return len(self._hand)

    @property
    def seen(self) -> tuple[str, ...]:
        """Return the ids taken or passed over, oldest first."""
        return tuple(self._seen)

    @property
    def offsets(self) -> dict[int, int]:
        """Return by partition the first offset that was neither taken nor passed over."""
        held = self._offsets.copy()
        for event in self._hand:
            partition, offset = place_of(event)
            held[partition] = min(held[partition], offset)
        return held

    def lag(self) -> int:
        """Return how many batches are left."""
        return self._total - self._next + len(self._hand)

    def gather(
        self, num_batches: int, judge: Callable[[BatchEvent], Fault | None], *, timeout_s: float = 0.1
    ) -> list[Dropped]:
        """Put what comes next and `judge` has no fault with in hand, up to `num_batches`; returns the rest.

        Nothing is waited for: all is there. Raises LogError where a number is missing.
        """
        dropped = []
        while not self.is_used_up and len(self._hand) < num_batches:
            if not self._heads or self._heads[0][0] > self._next:
                raise self._missing(self._next)
            number, partition, event = heapq.heappop(self._heads)
            self._read(partition)
            self._offsets[partition] = place_of(event)[1] + 1
            if number < self._next or event.id in self._seen:
                continue  # a repeat
            self._next += 1
            fault = find_fault(event.record) or judge(event)
            if fault is None:
                self._hand.append(event)
            else:
                self._remember(event)
                dropped.append(Dropped(event=event, fault=fault))
        return dropped

    def review(self, judge: Callable[[BatchEvent], Fault | None]) -> list[Dropped]:
        """Judge again what is in hand, by what is known now; returns what is no longer."""
        judged = [(event, judge(event)) for event in self._hand]
        self._hand = [event for event, fault in judged if fault is None]
        dropped = [Dropped(event=event, fault=fault) for event, fault in judged if fault is not None]
        for one in dropped:
            self._remember(one.event)
        return dropped

    def take(self) -> list[BatchEvent]:
        """Hand out what was gathered; `offsets` covers it from now on."""
        taken, self._hand = self._hand, []
        for event in taken:
            self._remember(event)
        return taken

    def _remember(self, event: BatchEvent) -> None:
        self._seen[event.id] = None
        while len(self._seen) > self._window:
            self._seen.popitem(last=False)

    def _ours(self, reader: EventReader) -> Iterator[BatchEvent]:
        for event in reader:
            if event.record.run_id == self._run_id and event.record.is_recorded:
                yield event

    def _read(self, partition: int) -> None:
        event: Any = next(self._streams[partition], None)
        if event is not None:
            heapq.heappush(self._heads, (event.record.number, partition, event))

    def _missing(self, number: int) -> LogError:
        return LogError(
            f"run {self._run_id!r}: number {number} of the {self._total} recorded batches is not where it has to be: "
            "call `rollog fork --apply` again, as it was called, which writes what is missing"
        )
