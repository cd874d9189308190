"""Whether the rows of batches are what the turns say: token ids, log-probabilities, versions, turn after turn.

A row is cut where the policy stops drawing, which is where a turn ends; each piece and each turn is kept as a digest,
in the index's file and not in memory. What must hold: memory does not depend on the log. A rollout with a turn that
draws nothing, or that follows on another without any context, cannot be cut so, and is left out.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from consumers.index import Index
from schemas.batches import Batch, BatchRow
from schemas.events import Event
from schemas.rollouts import TurnGenerated

AT_ONCE = 2_000
TURNS = "INSERT INTO turn_pieces VALUES (?, ?, ?, ?, ?, ?)"
ROWS = "INSERT INTO row_pieces VALUES (?, ?, ?, ?, ?, ?)"
FIRST_END = "SELECT e.num_turns FROM rollouts e WHERE e.task = r.task AND e.sample = r.sample ORDER BY e.place LIMIT 1"
CAN_BE_CUT = """
    NOT EXISTS (SELECT 1 FROM turn_pieces s WHERE s.task = r.task AND s.sample = r.sample AND s.is_seamless)
"""
FIRST_TURN = """
    row_pieces r LEFT JOIN turn_pieces t ON t.place = (
        SELECT min(f.place) FROM turn_pieces f WHERE f.task = r.task AND f.sample = r.sample AND f.turn = r.piece
    )
"""
QUERIES: dict[str, str] = {
    "row": f"""
        SELECT r.place, 'rollout ' || r.task || '/' || r.sample || ': turn ' || r.piece || ' at {{place}} has other '
        || 'token ids, log-probabilities or versions than its row', t.place
        FROM {FIRST_TURN} WHERE t.digest != r.digest AND {CAN_BE_CUT}
        UNION ALL SELECT r.place, 'rollout ' || r.task || '/' || r.sample || ' ended after ' || ({FIRST_END})
        || ' turns, but its row has ' || r.num_pieces, NULL
        FROM row_pieces r WHERE r.piece = 0 AND r.num_pieces != ({FIRST_END}) AND {CAN_BE_CUT}
    """,  # noqa: S608 own words
    "turn of a row": f"""
        SELECT r.place, 'rollout ' || r.task || '/' || r.sample || ': its row has a turn ' || r.piece
        || ', which is not on the log', NULL FROM {FIRST_TURN} WHERE t.place IS NULL AND {CAN_BE_CUT}
    """,  # noqa: S608 own words
}
"""By kind of finding: place, words, and the place of what differs, for `{place}`."""


class RowCheck:
    """The rows of one log. `add` every event, then `differences`."""

    def __init__(self, index: Index) -> None:
        """Keep digests beside the index, which lives no longer than this."""
        self._index = index
        columns = "place INTEGER, task TEXT, sample INTEGER"
        index.db.execute(f"CREATE TABLE turn_pieces ({columns}, turn INTEGER, digest BLOB, is_seamless INTEGER)")
        index.db.execute(f"CREATE TABLE row_pieces ({columns}, piece INTEGER, digest BLOB, num_pieces INTEGER)")
        self._turns: list[tuple[object, ...]] = []
        self._rows: list[tuple[object, ...]] = []

    def add(self, event: Event[object]) -> None:
        """Take an event."""
        record = event.record
        assert event.position is not None
        if isinstance(record, TurnGenerated):
            is_seamless = not len(record.token_ids) or (record.turn > 0 and not len(record.context_ids))
            place = self._index.place(event.position)
            self._turns.append((place, event.key, record.sample, record.turn, digest_of_turn(record), is_seamless))
        elif isinstance(record, Batch) and not record.is_recorded:  # a fork's turns are on the log forked from
            place = self._index.place(event.position)
            for row in record.rows:
                pieces = pieces_of(row)
                self._rows += [
                    (place, event.key, row.sample, number, digest, len(pieces)) for number, digest in enumerate(pieces)
                ]
        if len(self._turns) + len(self._rows) >= AT_ONCE:
            self._flush()

    def differences(self) -> Iterator[tuple[str, tuple[int, str, int | None]]]:
        """Yield kind and answer of all that differs."""
        self._flush()
        self._index.db.execute("CREATE INDEX turn_pieces_turn ON turn_pieces(task, sample, turn)")
        self._index.db.execute("CREATE INDEX turn_pieces_place ON turn_pieces(place)")
        for kind, query in QUERIES.items():
            for place, what, other in self._index.ask(query):
                yield kind, (place, what, other)

    def _flush(self) -> None:
        self._index.db.execute("BEGIN")
        self._index.db.executemany(TURNS, self._turns)
        self._index.db.executemany(ROWS, self._rows)
        self._index.db.execute("COMMIT")
        self._turns.clear()
        self._rows.clear()


def digest_of_turn(turn: TurnGenerated) -> bytes:
    """Return the digest of what a turn gives its row."""
    num = len(turn.context_ids)
    ids = np.concatenate([turn.context_ids.unpack(), turn.token_ids.unpack()])
    logprobs = np.concatenate([np.zeros(num, np.float32), turn.logprobs.unpack()]).astype(np.float32)
    versions = np.concatenate([np.full(num, -1, np.int32), turn.versions.unpack()])
    return digest(ids, logprobs, versions)


def pieces_of(row: BatchRow) -> list[bytes]:
    """Return the digest of each turn's piece of a row."""
    mask = row.loss_mask.unpack().astype(np.int8)
    starts = np.flatnonzero(np.diff(mask) == -1) + 1
    arrays = (row.token_ids.unpack(), row.logprobs.unpack().astype(np.float32), row.versions.unpack())
    return [digest(*parts) for parts in zip(*(np.split(array, starts) for array in arrays), strict=True)]


def digest(*parts: npt.NDArray[Any]) -> bytes:
    """Return the digest of a stretch of tokens, given as arrays of one length."""
    made = hashlib.sha256()
    for part in parts:
        made.update(part.tobytes())
    return made.digest()[:16]
