"""The verb `verify-log`: everything that must hold of a log, by the log alone, each fault with its place.

One pass over all records into an index of its own, which is then asked; nothing that was computed before is believed.
Of what is being written meanwhile only what was there at the start is judged, by all that is there a moment later: an
effect is never older than its cause.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from consumers.bounds import Bounds
from consumers.feed import OpenReader
from consumers.index import Index, OnProgress
from consumers.offsets import At
from consumers.raw import RawRecord, to_event
from consumers.sealing import TOPIC as SEALS
from consumers.sealing import SealCheck, read_seals
from producers.blobs import BlobStore
from rollog.expected_ids import expected_id
from rollog.verify_queries import ABSENCE, COUNTS, QUERIES, STRICT, UPSTREAM
from schemas.commands import CommandGiven
from schemas.errors import DecodeError
from schemas.events import Event, Position
from schemas.forks import FORK, Fork, fork_of
from schemas.ids import digest_of
from schemas.seals import LogSealed
from schemas.steps import StepTaken
from schemas.topics import FOREVER_MS, TOPICS

FindIndex = Callable[[str], Path | None]
MOST_DETAILS = 200
"""Findings that a report names; all are counted."""
PROGRESS_EVERY = 5_000


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that does not hold."""

    kind: str
    """`cause`, `id`, `reward`, `seal` and the like."""
    position: str
    """`topic[partition]@offset`."""
    what: str


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a log, and how much was looked at."""

    findings: int
    by_kind: dict[str, int]
    details: tuple[Finding, ...]
    """The first of each kind."""
    events: int
    counts: dict[str, int]
    """Tasks and those still open, repeats, steps and so on."""
    seals: int
    seals_gone: int
    """Of which retention removed a part, so that they cannot be compared."""
    batches_gone: int
    """Trained on, and removed by retention since."""
    beyond: int
    """What something misses that may lie before the beginning, of a log that was trimmed."""
    unsealed: int
    """Records that no seal covers."""
    upstream: dict[str, int] = {}
    """A fork's recorded batches, whose causes are facts of the log forked from, by the namespace of that."""


class Verification:
    """The checks of one log. `add` every record, each partition's in their order, then `finish`."""

    def __init__(self, index: Index, blobs: BlobStore, *, judged: Bounds, seals: Iterable[LogSealed]) -> None:
        """`judged` is what was there at the start; the index is empty and lives no longer than this."""
        self._index, self._blobs, self._judged = index, blobs, judged
        self._seals = SealCheck(seals, judged)
        self._next: dict[At, int] = {at: first for at, (first, _) in judged.items()}
        self._by_kind: Counter[str] = Counter()
        self._details: list[Finding] = []
        self._num_events = self._num_batches_gone = self._num_unsealed = self._num_beyond = 0
        self.forks: list[Fork] = []
        cut = {topic for (topic, _), (first, _) in judged.items() if first > 0}
        self._has_lost_batches = "batches" in cut
        self._is_trimmed = any(TOPICS[topic].retention_ms == FOREVER_MS for topic in cut)

    def add(self, raw: RawRecord) -> None:
        """Take a record."""
        where = raw.position
        at = (where.topic, where.partition)
        if where.offset > self._next.get(at, 0):
            gap = Position(*at, self._next.get(at, 0))
            self._find("gap", gap, f"no record up to {where}: {where.offset - gap.offset} are missing")
        self._next[at] = where.offset + 1
        self._seals.add(raw)
        if at[0] != SEALS and where.offset >= self._seals.sealed_to.get(at, 0):
            self._num_unsealed += 1
        try:
            event = to_event(raw, self._blobs)
        except DecodeError as error:
            self._index.add_undecodable(where, str(error))
            return
        self._num_events += 1
        self._index.add(event)
        if isinstance(event.record, CommandGiven) and event.record.command == FORK:
            self.forks.append(fork_of(event.record, where))
        if self._is_judged(where):
            self._check(event, where)

    def finish(self, *, strict: bool, find_index: FindIndex = lambda namespace: None) -> VerifyReport:
        """Return what was found; `find_index` gives the index of another log, up to date, where there is that log."""
        self._index.flush()
        for at, (_, end) in self._judged.items():
            if self._next[at] < end:
                self._find("gap", Position(*at, self._next[at]), f"no record up to the end of the log at {end}")
        for broken in self._seals.finish():
            self._find("seal", broken.position, broken.what)
        for kind, query in (QUERIES | STRICT if strict else QUERIES).items():
            for row in self._index.ask(query):
                self._judge(kind, *row)
        upstream = {fork.source_namespace: self._follow(fork, find_index) for fork in self.forks}
        if strict and self._num_unsealed:
            self._by_kind["unsealed"] += self._num_unsealed
        return VerifyReport(
            findings=self._by_kind.total(),
            by_kind=dict(self._by_kind),
            details=tuple(self._details),
            events=self._num_events,
            counts={name: (self._index.one(query) or (0,))[0] for name, query in COUNTS.items()},
            seals=self._seals.num_checked,
            seals_gone=self._seals.num_gone,
            batches_gone=self._num_batches_gone,
            beyond=self._num_beyond,
            unsealed=self._num_unsealed,
            upstream=upstream,
        )

    def _follow(self, fork: Fork, find_index: FindIndex) -> int:
        """Compare a fork's batches with the log forked from, where that is there; returns how many there are."""
        query = "SELECT count(DISTINCT id) FROM batches WHERE number NOTNULL AND run = ?"
        num_batches = int((self._index.one(query, fork.run_id) or (0,))[0])
        path = find_index(fork.source_namespace) if num_batches else None
        if path is None:
            return num_batches
        self._index.db.execute("ATTACH ? AS upstream", (str(path),))
        try:
            for kind, query in UPSTREAM.items():
                for row in list(self._index.ask(query, f"{fork.source_namespace!r}")):
                    self._judge(kind, *row)
        finally:
            self._index.db.execute("DETACH upstream")
        return num_batches

    def _check(self, event: Event[object], where: Position) -> None:
        """Look at what an event says of itself."""
        wanted = expected_id(event)
        if wanted is not None and wanted != event.id:
            self._find("id", where, f"a {type(event.record).__name__} of id {event.id}; by its content it is {wanted}")
        step = event.record
        if isinstance(step, StepTaken) and digest_of(step.config.encode()) != step.config_digest:
            self._find("config", where, f"step {step.step}: its settings are not those of {step.config_digest}")

    def _judge(self, kind: str, place: int, what: str, other: int | None = None) -> None:
        """Take an answer, unless it is about what came after the start or what retention may have removed."""
        where = self._index.position(place)
        if other is not None:
            batch = self._index.position(other)
            if batch.offset < self._judged.get((batch.topic, batch.partition), (0, 0))[0]:
                self._num_batches_gone += 1
                return
            what = what.format(place=batch)
        if kind == "cause" and self._has_lost_batches and self._is_about_a_batch(place):
            self._num_batches_gone += 1
            return
        if kind in ABSENCE and self._is_trimmed:
            self._num_beyond += 1
            return
        if self._is_judged(where):
            self._find(kind, where, what)

    def _is_judged(self, where: Position) -> bool:
        return where.offset < self._judged.get((where.topic, where.partition), (0, 0))[1]

    def _is_about_a_batch(self, place: int) -> bool:
        query = "SELECT 1 FROM decisions d JOIN events e ON e.place = d.place WHERE d.place = ? AND e.cause = d.batch"
        return self._index.one(query, place) is not None

    def _find(self, kind: str, where: Position, what: str) -> None:
        self._by_kind[kind] += 1
        if len(self._details) < MOST_DETAILS or self._by_kind[kind] == 1:
            self._details.append(Finding(kind=kind, position=str(where), what=what))


def verify(
    open_reader: OpenReader,
    blob_dir: Path,
    *,
    judged: Bounds,
    read_to: Bounds,
    scratch: Path,
    strict: bool = False,
    on_progress: OnProgress = lambda done, total: None,
    find_index: FindIndex = lambda namespace: None,
) -> VerifyReport:
    """Check a log; `judged` was asked of the cluster before `read_to`, `scratch` is to hold the index.

    Raises LogError.
    """
    seals = read_seals(open_reader, judged)
    total = sum(end - first for first, end in read_to.values())
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="verify-", dir=scratch) as folder:
        index = Index(Path(folder) / "log.sqlite")
        found = Verification(index, BlobStore(blob_dir), judged=judged, seals=seals)
        reader = open_reader(sorted({topic for topic, _ in read_to}), start=begin(read_to), bounded=True, dedupe=0)
        try:
            for number, raw in enumerate(reader.records()):
                found.add(raw)
                if number % PROGRESS_EVERY == 0:
                    on_progress(number, total)
            return found.finish(strict=strict, find_index=find_index)
        finally:
            reader.close()
            index.close()


def begin(bounds: Bounds) -> Mapping[At, int]:
    """Return the first offset of each partition."""
    return {at: first for at, (first, _) in bounds.items()}
