"""Which part of the log is asked about, in terms of when its tasks were issued."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

import msgspec

from consumers.offsets import EARLIEST, LATEST, At, offsets_at, open_consumer, partitions_of
from consumers.read_back import times_at
from schemas.config import LogSettings
from schemas.errors import ConfigError

__all__ = ["SLACK_S", "At", "Range", "Span", "find_range"]
SLACK_S = 60.0
"""How far clocks of writers may differ, with room: what belongs to a task is looked for from so long before it."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks by their place on the log and the time of their issue."""

    since_s: float | None = None
    """Seconds since the epoch; None is the log's beginning."""
    until_s: float | None = None
    """Tasks issued from then on are left out; None is the log's end as it is now."""
    from_offset: dict[int, int] = {}
    """First offset of the topic `tasks`, by partition; those it does not name are read from `since_s` on."""


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be read: half-open, by partition of each topic."""

    starts: dict[At, int]
    ends: dict[At, int]
    until_s: float | None = None

    @property
    def partitions(self) -> list[int]:
        """Return the partitions, in order."""
        return sorted({partition for _, partition in self.starts})

    def num_records(self, partitions: Sequence[int]) -> int:
        """Return how many offsets these partitions have in the range."""
        return sum(max(0, end - self.starts[at]) for at, end in self.ends.items() if at[1] in partitions)


def find_range(log: LogSettings, topics: Sequence[str], span: Span) -> Range:
    """Return the range as the log has it now, ends first. Raises LogError, ConfigError."""
    with closing(open_consumer(log)) as consumer:
        partitions = partitions_of(consumer, log, topics)
        ends = offsets_at(consumer, log, dict.fromkeys(partitions, LATEST))
        starts = offsets_at(consumer, log, dict.fromkeys(partitions, EARLIEST))
        times_ms: dict[At, int] = {}
        if span.since_s is not None:
            times_ms = dict.fromkeys(partitions, max(0, int((span.since_s - SLACK_S) * 1000)))
            times_ms |= {at: int(span.since_s * 1000) for at in partitions if at[0] == "tasks"}
        if span.from_offset:
            tasks = dict(offsets_of(span.from_offset, starts, ends))
            read = {at: offset for at, offset in tasks.items() if offset < ends[at]}
            for partition, at_ms in times_at(consumer, log, read).items():
                times_ms |= {at: max(0, at_ms - int(SLACK_S * 1000)) for at in partitions if at[1] == partition}
            times_ms = {at: at_ms for at, at_ms in times_ms.items() if at not in tasks}
            starts |= tasks
        found = offsets_at(consumer, log, times_ms)
        starts |= {at: offset if offset >= 0 else ends[at] for at, offset in found.items()}
    return Range(starts=starts, ends=ends, until_s=span.until_s)


def offsets_of(asked: Mapping[int, int], starts: Mapping[At, int], ends: Mapping[At, int]) -> Iterator[tuple[At, int]]:
    """Yield where to start in `tasks`. Raises ConfigError for what the log does not have."""
    for partition, offset in asked.items():
        at = ("tasks", partition)
        if at not in starts or not starts[at] <= offset <= ends[at]:
            has = f"it has {starts[at]} to {ends[at]}" if at in starts else "there is no such partition"
            raise ConfigError(f"--from-offset {partition}:{offset}: tasks[{partition}] does not reach there; {has}")
        yield at, offset
