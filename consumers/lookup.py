"""Single records from where they are known to stand, without reading what lies between.

What must hold: it reads forward only over short gaps; a position that the log no longer has is left out, not an error,
since retention may have removed it.
"""

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from consumers.bounds import Bounds
from consumers.feed import OpenReader
from consumers.offsets import At
from schemas.events import Event, Position

GAP = 400
"""Offsets that are read over rather than asked for anew, which takes as long: some 25 ms."""


def fetch_events(
    open_reader: OpenReader, positions: Collection[Position], bounds: Bounds
) -> dict[Position, Event[Any]]:
    """Return the events at these positions, as far as they are there and can be decoded. Raises LogError."""
    waiting: dict[At, list[int]] = defaultdict(list)
    for where in sorted(set(positions)):
        at = (where.topic, where.partition)
        if at in bounds and bounds[at][0] <= where.offset < bounds[at][1]:
            waiting[at].append(where.offset)
    found: dict[Position, Event[Any]] = {}
    while waiting:
        stretches = {at: first_stretch(offsets) for at, offsets in waiting.items()}
        found |= read_stretches(open_reader, stretches)
        waiting = {at: rest for at, offsets in waiting.items() if (rest := offsets[len(stretches[at]) :])}
    return found


def first_stretch(offsets: list[int]) -> list[int]:
    """Return the first of the ascending offsets, up to a gap that is too wide to read over."""
    for number in range(1, len(offsets)):
        if offsets[number] - offsets[number - 1] > GAP:
            return offsets[:number]
    return offsets


def read_stretches(open_reader: OpenReader, stretches: dict[At, list[int]]) -> dict[Position, Event[Any]]:
    """Read each partition from its first offset until all of its offsets were passed."""
    wanted = {Position(*at, offset) for at, offsets in stretches.items() for offset in offsets}
    open_ends = {at: offsets[-1] for at, offsets in stretches.items()}
    start = {at: offsets[0] for at, offsets in stretches.items()}
    found: dict[Position, Event[Any]] = {}
    reader = open_reader(
        sorted({topic for topic, _ in start}),
        start=start,
        bounded=True,
        dedupe=0,
        on_undecodable=lambda _raw, _error: None,
    )
    try:
        for raw in reader.records():
            event = reader.decode(raw) if raw.position in wanted else None
            if event is not None:
                found[raw.position] = event
            passed = [at for at, last in open_ends.items() if reader.positions[at] > last]
            for at in passed:
                del open_ends[at]
            if not open_ends:
                break
    finally:
        reader.close()
    return found
