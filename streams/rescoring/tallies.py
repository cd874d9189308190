"""What two scorings of the same rollouts have in common and where they differ, as sums that can be merged.

What must hold: merging is exact and in any order, so that the result does not depend on how the work was divided.
Values are summed as integers of 2**-30; examples are those with the smallest checksums.
"""

from typing import Literal
from zlib import crc32

import msgspec

NUM_BINS = 10
UNIT = 1 << 30
NUM_EXAMPLES = 5
"""Per domain and direction."""
Reward = tuple[float | None, str | None]
"""A value, or None and why there is none."""
Direction = Literal["up", "down", "newly_valid", "newly_invalid"]


class Distribution(msgspec.Struct, kw_only=True):
    """Rewards of one domain under one scoring."""

    num_valid: int = 0
    num_invalid: int = 0
    num_solved: int = 0
    sum_units: int = 0
    bins: list[int] = msgspec.field(default_factory=lambda: [0] * NUM_BINS)
    """Valid values by tenths of [0, 1]; 1 is in the last."""
    reasons: dict[str, int] = {}
    """Of the invalid ones."""

    def add(self, value: float | None, reason: str | None, num: int = 1) -> None:
        """Take one reward, or so many like it."""
        if value is None:
            self.num_invalid += num
            self.reasons[reason or "?"] = self.reasons.get(reason or "?", 0) + num
            return
        self.num_valid += num
        self.num_solved += num * (value == 1)
        self.sum_units += num * round(value * UNIT)
        self.bins[min(NUM_BINS - 1, int(value * NUM_BINS))] += num

    def merge(self, other: "Distribution") -> None:
        """Take all of another's."""
        self.num_valid += other.num_valid
        self.num_invalid += other.num_invalid
        self.num_solved += other.num_solved
        self.sum_units += other.sum_units
        self.bins = [a + b for a, b in zip(self.bins, other.bins, strict=True)]
        for reason, count in other.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count

    @property
    def mean(self) -> float | None:
        """Return the mean of the valid values, None where there are none."""
        return self.sum_units / UNIT / self.num_valid if self.num_valid else None

    @property
    def solved(self) -> float | None:
        """Return the share of valid values that are 1, None where there are none."""
        return self.num_solved / self.num_valid if self.num_valid else None


class Example(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One rollout that was scored otherwise."""

    rank: int
    """Decides which examples are kept."""
    rollout_id: str
    before: float | None
    after: float | None
    detail: str = ""
    """What the verifier said of the new value."""


class DomainTally(msgspec.Struct, kw_only=True):
    """All that is compared of one domain's rollouts."""

    num_agree: int = 0
    """Equal values, or invalid both times."""
    flips: dict[str, int] = {}
    """By direction."""
    num_solved_lost: int = 0
    """1 before and less now."""
    num_solved_gained: int = 0
    fresh: Distribution = msgspec.field(default_factory=Distribution)
    """Scored now, and without a reward to compare with; in neither of the two below."""
    before: Distribution = msgspec.field(default_factory=Distribution)
    after: Distribution = msgspec.field(default_factory=Distribution)
    examples: dict[str, list[Example]] = {}

    @property
    def num_compared(self) -> int:
        """Return how many rollouts have both rewards."""
        return self.num_agree + sum(self.flips.values())

    @property
    def agreement(self) -> float | None:
        """Return the share of those that agree, None where there are none."""
        return self.num_agree / self.num_compared if self.num_compared else None

    def add(self, before: Reward, after: Reward, num: int = 1) -> None:
        """Count what became of a rollout's reward, or of so many that had the same and got the same."""
        self.before.add(*before, num)
        self.after.add(*after, num)
        was, is_now = before[0], after[0]
        if was == is_now:
            self.num_agree += num
            return
        direction = direction_of(was, is_now)
        self.flips[direction] = self.flips.get(direction, 0) + num
        self.num_solved_lost += num * (was == 1 and is_now is not None)
        self.num_solved_gained += num * (is_now == 1 and was is not None)

    def would_show(self, direction: Direction, rank: int) -> bool:
        """Return whether a rollout of that rank, the checksum of its id, is among the examples so far."""
        kept = self.examples.get(direction, [])
        return len(kept) < NUM_EXAMPLES or rank <= kept[-1].rank

    def show(self, rollout_id: str, before: float | None, after: float | None, detail: str = "") -> None:
        """Consider a rollout whose values differ as an example."""
        rank, direction = crc32(rollout_id.encode()), direction_of(before, after)
        if self.would_show(direction, rank):
            kept = self.examples.setdefault(direction, [])
            kept.append(Example(rank=rank, rollout_id=rollout_id, before=before, after=after, detail=detail[:200]))
            shorten(kept)

    def merge(self, other: "DomainTally") -> None:
        """Take all of another's."""
        self.num_agree += other.num_agree
        self.fresh.merge(other.fresh)
        self.num_solved_lost += other.num_solved_lost
        self.num_solved_gained += other.num_solved_gained
        self.before.merge(other.before)
        self.after.merge(other.after)
        for direction, count in other.flips.items():
            self.flips[direction] = self.flips.get(direction, 0) + count
        for direction, examples in other.examples.items():
            kept = self.examples.setdefault(direction, [])
            kept += examples
            shorten(kept)


def shorten(examples: list[Example]) -> None:
    """Keep the first few by rank."""
    examples.sort(key=lambda example: (example.rank, example.rollout_id))
    del examples[NUM_EXAMPLES:]


def direction_of(before: float | None, after: float | None) -> Direction:
    """Return which way two different values differ."""
    if before is None or after is None:
        return "newly_valid" if before is None else "newly_invalid"
    return "up" if after > before else "down"
