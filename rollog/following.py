"""A fork that goes on with its source: what the source's groups become is copied as it comes, and trained on.

What must hold: each group is copied once, in the order of arrival, under the next number, whatever was killed when; the
log is the only memory.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec

from consumers.feed import BatchEvent
from consumers.reader import Reader
from producers.admission import batch_id
from producers.publisher import Publisher
from schemas.batches import Batch
from schemas.config import LogSettings
from schemas.errors import ConfigError
from schemas.events import Event
from schemas.scorings import LIVE


def check_follows(mix: Mapping[str, float]) -> None:
    """Raise ConfigError where what comes cannot be thinned out, since it is not known how much of each will."""
    if len({weight for weight in mix.values() if weight > 0}) > 1:
        raise ConfigError(
            f"--mix {dict(mix)} with --follow: wanted domains of one weight, and 0 for those to leave out"
        )


class Follower:
    """Copies a source's batches to its fork. Not thread-safe; one at a time, as the fork's learner is."""

    def __init__(
        self,
        source: LogSettings,
        into: LogSettings,
        publisher: Publisher,
        *,
        blob_dir: Path,
        source_run: str,
        run_id: str,
        scoring_id: str,
        mix: Mapping[str, float],
        behind: frozenset[str],
    ) -> None:
        """`scoring_id` is whose batches are taken, `live` those that tasks ended with. Raises LogError."""
        self._publisher, self._source_run, self._run_id = publisher, source_run, run_id
        self._scoring_id, self._mix, self._behind = scoring_id, dict(mix), behind
        open_reader = partial(Reader, blob_dir=blob_dir, start="beginning", on_undecodable=lambda _raw, _error: None)
        self._present: set[str] = set()
        """Tasks whose groups the fork has."""
        self.total = 0
        """Batches that the fork has, and so the next number."""
        for task_id, number in recorded(open_reader(into, ["batches"], bounded=True), run_id):
            self._present.add(task_id)
            self.total = max(self.total, number + 1)
        self._reader = open_reader(source, ["batches"])

    def close(self) -> None:
        """Let go."""
        self._reader.close()

    def copy(self, *, timeout_s: float) -> int:
        """Copy what is there, waiting so long for the first of it; returns how many batches came. Raises LogError."""
        events = [event for event in self._reader.poll(timeout_s=timeout_s) if self._is_wanted(event)]
        copies = []
        for event in events:
            if event.record.task_id in self._present:
                continue
            copies.append(self._copy_of(event))
            self._present.add(event.record.task_id)
            self.total += 1
        self._publisher.send_all(copies)
        return len(copies)

    def _is_wanted(self, event: BatchEvent) -> bool:
        batch = event.record
        is_taken = not batch.is_rebuilt if self._scoring_id == LIVE else batch.scoring_id == self._scoring_id
        is_in_mix = not self._mix or self._mix.get(batch.domain, 0) > 0
        return is_taken and is_in_mix and batch.run_id == self._source_run and event.id not in self._behind

    def _copy_of(self, event: BatchEvent) -> Event[Batch]:
        batch = msgspec.structs.replace(
            event.record, run_id=self._run_id, rebuilt=True, number=self.total, commands_end=0
        )
        made = self._publisher.event(
            batch,
            id=batch_id(batch.task_id, batch.scoring_id, self._run_id),
            key=batch.task_id,
            subject=batch.task_id,
            correlation_id=batch.task_id,
        )
        return msgspec.structs.replace(made, causation_id=event.causation_id)


def recorded(reader: Reader, run_id: str) -> Iterator[tuple[str, int]]:
    """Yield task and number of what was recorded for the run."""
    try:
        for event in reader:
            number = event.record.number
            if event.record.run_id == run_id and isinstance(number, int):
                yield event.record.task_id, number
    finally:
        reader.close()
