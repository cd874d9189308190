"""What a scoring has on the log already, 25 bytes a reward: enough to do nothing twice.

Read anew for each partition from the time of the scoring's declaration, since none of its rewards is older.
"""

from pathlib import Path

import numpy as np

from consumers.history.ranges import SLACK_S, At
from consumers.reader import Reader
from schemas.config import LogSettings
from schemas.rewards import RewardScored
from schemas.scorings import Scoring
from streams.rescoring.comparison import Scored

NONE = 255


class Known:
    """Rewards of one scoring on one partition, by event id. `add` all, then `freeze`, then `get`."""

    def __init__(self) -> None:
        self._reasons: list[str] = []
        self._ids, self._values, self._codes = bytearray(), bytearray(), bytearray()
        self._sorted_ids = np.zeros(0, "S16")
        self._sorted_values, self._sorted_codes = np.zeros(0, "f8"), np.zeros(0, "u1")

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._sorted_ids)

    def add(self, event_id: str, value: float | None, reason: str | None) -> None:
        """Note one reward."""
        code = NONE
        if value is None:
            if reason not in self._reasons:
                self._reasons.append(reason or "?")
            code = self._reasons.index(reason or "?")
        self._ids += bytes.fromhex(event_id)
        self._values += np.float64(0.0 if value is None else value).tobytes()
        self._codes.append(code)

    def freeze(self) -> None:
        """Sort what was added; of two with one id the first counts."""
        ids, first = np.unique(np.frombuffer(bytes(self._ids), "V16").view("S16"), return_index=True)
        self._sorted_ids = ids
        self._sorted_values = np.frombuffer(bytes(self._values), "f8")[first]
        self._sorted_codes = np.frombuffer(bytes(self._codes), "u1")[first]
        self._ids, self._values, self._codes = bytearray(), bytearray(), bytearray()

    def get(self, event_id: str) -> Scored | None:
        """Return what the reward of that id says, None where it is not on the log."""
        wanted = np.frombuffer(bytes.fromhex(event_id), "S16")
        at = int(np.searchsorted(self._sorted_ids, wanted)[0])
        if at == len(self._sorted_ids) or self._sorted_ids[at] != wanted[0]:
            return None
        code = int(self._sorted_codes[at])
        if code == NONE:
            return Scored(float(self._sorted_values[at]), None)
        return Scored(None, self._reasons[code])


def read_known(log: LogSettings, scoring: Scoring, *, blob_dir: Path, start: dict[At, int], partition: int) -> Known:
    """Return the scoring's rewards on a partition. Raises LogError, ConfigError where two configurations are mixed."""
    known = Known()
    at = ("rewards", partition)
    if at not in start:
        return known
    reader = Reader(
        log,
        ["rewards"],
        blob_dir=blob_dir,
        start={at: start[at]},
        bounded=True,
        on_undecodable=lambda _raw, _error: None,
        dedupe=0,
    )
    try:
        for event in reader:
            reward: RewardScored = event.record
            if reward.scoring_id == scoring.scoring_id and is_hex(event.id):
                known.add(event.id, reward.value, reward.invalid_reason)
    finally:
        reader.close()
    known.freeze()
    return known


def is_hex(event_id: str) -> bool:
    """Return whether the id is one that `derive_id` makes."""
    return len(event_id) == 32 and all(digit in "0123456789abcdef" for digit in event_id)


def since_ms(since_s: float) -> int:
    """Return from when on a scoring's rewards are looked for."""
    return max(0, int((since_s - SLACK_S) * 1000))
