"""Where everything stands: a projection of the log in sqlite, so that one fact of a million is found at once.

It holds positions and what connects them, never a record. Rows and the offsets that they reach to are written in one
transaction: killed at any moment it goes on where it was, and made anew it is the same. Several processes may bring it
up to date at once; what both add is the same rows.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from consumers.bounds import Bounds, LogState
from consumers.feed import OpenReader
from consumers.index_rows import FORMAT, INDEXES, TABLES, Row, place_of, rows_of, split_place
from consumers.offsets import At
from consumers.reader import RawRecord
from schemas.errors import ConfigError, DecodeError, LogError
from schemas.events import Event, Position
from schemas.topics import TOPICS

CHUNK = 2_000
"""Events in one transaction; what a kill costs at most."""
CACHE_KIBIBYTES = 8 << 10
MANY = 50_000
"""Records from which on a first filling goes before its indexes: sorted once they cost less than row by row."""
BUSY_MS = 60_000
OnProgress = Callable[[int, int], None]
"""Told how many offsets of how many are behind."""


class CaughtUp(msgspec.Struct, frozen=True, kw_only=True):
    """What bringing the index up to date came to."""

    num_events: int
    num_undecodable: int


def path_of(home: Path, cluster_id: str, namespace: str) -> Path:
    """Return where the index of a log is or would be."""
    return home / "index" / f"{cluster_id}-{namespace or 'all'}.sqlite"


def open_index(home: Path, state: LogState, namespace: str, *, rebuild: bool = False) -> "Index":
    """Return the index of a log, empty where there is none yet, or it is to be rebuilt. Raises ConfigError."""
    path = path_of(home, state.cluster_id, namespace)
    path.parent.mkdir(parents=True, exist_ok=True)
    if rebuild:
        remove(path)
    try:
        if path.exists() and format_of(path) != FORMAT:
            remove(path)
        return Index(path)
    except sqlite3.DatabaseError as error:
        raise ConfigError(
            f"{path}: {error}; if it is no index any more, rebuild it (rollog index --rebuild)"
        ) from error


def format_of(path: Path) -> int:
    """Return the format that an index was made in; one that was killed while it was made has the present one."""
    db = sqlite3.connect(path)
    try:
        return int(db.execute("PRAGMA user_version").fetchone()[0]) or FORMAT
    finally:
        db.close()


def remove(path: Path) -> None:
    """Delete an index; one that is not there is no trouble."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


class Index:
    """One log's index. Not thread-safe."""

    def __init__(self, path: Path, *, is_scratch: bool = False) -> None:
        """Open the file, or make it.

        One that `is_scratch` is not kept: nothing in it outlives a crash, and `make_indexes` comes before questions.
        """
        self.path, self._is_scratch = path, is_scratch
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        self.db.execute(f"PRAGMA journal_mode = {'OFF' if is_scratch else 'WAL'}")
        self.db.execute(f"PRAGMA synchronous = {'OFF' if is_scratch else 'NORMAL'}")
        self.db.execute(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")
        self._make()
        self.topics: dict[str, int] = dict(self.db.execute("SELECT name, number FROM topics"))
        self.names = {number: name for name, number in self.topics.items()}
        self._rows: dict[str, list[Row]] = defaultdict(list)
        self._next: dict[At, int] = {}
        self._num_waiting = 0

    def close(self) -> None:
        """Let go; what was not flushed comes again."""
        self.db.close()

    @property
    def offsets(self) -> dict[At, int]:
        """Return by partition the offset that comes next."""
        rows = self.db.execute("SELECT topic, partition, next FROM offsets")
        return {(topic, partition): offset for topic, partition, offset in rows}

    def add(self, event: Event[Any]) -> None:
        """Take an event; it is kept with the next `flush`, which comes by itself now and then."""
        where = event.position
        assert where is not None
        for table, row in rows_of(event, self.place(where), self.topics):
            self._rows[table].append(row)
        self._reach(where)

    def add_undecodable(self, where: Position, error: str) -> None:
        """Take note of a record that is no event."""
        self._rows["undecodable"].append((self.place(where), error))
        self._reach(where)

    def flush(self, reached: dict[At, int] | None = None) -> None:
        """Write what was added and how far it reaches, in one transaction; `reached` may lie behind trailing gaps."""
        for at, offset in (reached or {}).items():
            self._next[at] = max(offset, self._next.get(at, 0))
        known = self.offsets
        if not self._rows and all(known.get(at, -1) >= offset for at, offset in self._next.items()):
            self._next.clear()
            return  # a write, however small, is synced when the file is closed, and looking up is to be quick
        self.db.execute("BEGIN IMMEDIATE")
        try:
            for table, rows in self._rows.items():
                marks = ", ".join("?" * len(rows[0]))
                self.db.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", rows)  # noqa: S608 own names
            self.db.executemany(
                "INSERT INTO offsets VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET next = max(next, excluded.next)",
                [(topic, partition, offset) for (topic, partition), offset in self._next.items()],
            )
            self.db.execute("COMMIT")
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self._rows.clear()
        self._next.clear()
        self._num_waiting = 0

    def catch_up(
        self, open_reader: OpenReader, bounds: Bounds, *, on_progress: OnProgress = lambda done, total: None
    ) -> CaughtUp:
        """Bring it up to `bounds`. Raises LogError where the log is not the one that it was made of."""
        known = self.check_bounds(bounds)
        start = {at: known[at][0] if at in known else first for at, (first, _) in bounds.items()}
        total = sum(end - start[at] for at, (_, end) in bounds.items())
        if not known and total > MANY:
            self._drop_indexes()
        counts = {"events": 0, "undecodable": 0}

        def undecodable(raw: RawRecord, error: DecodeError) -> None:
            if self._is_new(raw.position, "", known):
                counts["undecodable"] += 1
                self.add_undecodable(raw.position, str(error))

        topics = sorted({topic for topic, _ in start})
        reader = open_reader(topics, start=start, bounded=True, dedupe=0, on_undecodable=undecodable)
        try:
            for event in reader:
                assert event.position is not None
                if self._is_new(event.position, event.id, known):
                    counts["events"] += 1
                    self.add(event)
                if not self._num_waiting:
                    on_progress(sum(counts.values()), total)
            if known:
                raise another_log(Position(*next(iter(known)), next(iter(known.values()))[0]), "nothing is there")
            self.flush(reader.positions)
        finally:
            reader.close()
        self.make_indexes()
        on_progress(total, total)
        return CaughtUp(num_events=counts["events"], num_undecodable=counts["undecodable"])

    def check_bounds(self, bounds: Bounds) -> dict[At, tuple[int, str]]:
        """Return, by partition, the last offset that is known and its event's id, as far as the log still has it.

        Raises LogError where the log ends before it.
        """
        known = {}
        for at, reached in self.offsets.items():
            first, end = bounds.get(at, (0, 0))
            if reached > end:
                raise another_log(Position(*at, reached), f"the log ends at {end}")
            last = self._last(at)
            if last is not None and last[0] >= first:
                known[at] = last
        return known

    def place(self, where: Position) -> int:
        """Return a position as a place of this index."""
        return place_of(self.topics[where.topic], where.partition, where.offset)

    def position(self, place: int) -> Position:
        """Return a place as a position."""
        topic, partition, offset = split_place(place)
        return Position(self.names[topic], partition, offset)

    def ask(self, query: str, *values: object) -> Iterator[Row]:
        """Yield the rows of a query."""
        yield from self.db.execute(query, values)

    def one(self, query: str, *values: object) -> Row | None:
        """Return the first row of a query, None where there is none."""
        row: Row | None = self.db.execute(query, values).fetchone()
        return row

    def make_indexes(self) -> None:
        """Have what questions are answered by; without it answers are as right, and slow."""
        known = {row[0] for row in self.ask("SELECT name FROM sqlite_master WHERE type = 'index'")}
        for name in INDEXES.keys() - known:
            self.db.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {INDEXES[name]}")

    def _drop_indexes(self) -> None:
        for name in INDEXES:
            self.db.execute(f"DROP INDEX IF EXISTS {name}")

    def _make(self) -> None:
        """Create what is missing, all of it or nothing."""
        if self.one("PRAGMA user_version") == (FORMAT,):
            known = {row[0] for row in self.ask("SELECT name FROM topics")}
            if known >= set(TOPICS):
                self.make_indexes()  # who filled it first may have been killed
                return
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute(f"PRAGMA user_version = {FORMAT}")
        self.db.execute("CREATE TABLE IF NOT EXISTS topics (number INTEGER PRIMARY KEY, name TEXT UNIQUE)")
        self.db.execute(
            "CREATE TABLE IF NOT EXISTS offsets "
            "(topic TEXT, partition INTEGER, next INTEGER, PRIMARY KEY (topic, partition))"
        )
        for table, columns in TABLES.items():
            self.db.execute(f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns)})")
        if not self._is_scratch:
            self.make_indexes()
        self.db.executemany("INSERT OR IGNORE INTO topics (name) VALUES (?)", [(name,) for name in TOPICS])
        self.db.execute("COMMIT")

    def _last(self, at: At) -> tuple[int, str] | None:
        """Return the last known record of a partition: its offset, and its id or, of what is no event, nothing."""
        low = place_of(self.topics[at[0]], at[1], 0)
        high = place_of(self.topics[at[0]], at[1] + 1, 0)
        query = (
            "SELECT place, id FROM events WHERE place >= ?1 AND place < ?2 "
            "UNION ALL SELECT place, '' FROM undecodable WHERE place >= ?1 AND place < ?2 ORDER BY place DESC LIMIT 1"
        )
        row = self.one(query, low, high)
        return None if row is None else (split_place(row[0])[2], row[1])

    def _is_new(self, where: Position, event_id: str, known: dict[At, tuple[int, str]]) -> bool:
        """Return whether a record is behind what is known; that very one must be the same still. Raises LogError."""
        at = (where.topic, where.partition)
        if at not in known:
            return True
        wanted = known.pop(at)
        if (where.offset, event_id) != wanted:
            there = event_id or "no event"
            raise another_log(Position(*at, wanted[0]), f"{wanted[1] or 'no event'} was there, now {where} is {there}")
        return False

    def _reach(self, where: Position) -> None:
        self._next[where.topic, where.partition] = where.offset + 1
        self._num_waiting += 1
        if self._num_waiting >= CHUNK:
            self.flush()


def another_log(where: Position, why: str) -> LogError:
    """Return what to tell where the log is not the one that the index was made of."""
    return LogError(
        f"the index belongs to another log: it knows {where}, but {why}. The topic was made anew or history edited; "
        "rollog verify-log says what is wrong now, rollog index --rebuild makes the index anew of what is there"
    )
