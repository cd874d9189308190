"""What is known of one domain, folded group by group. Pure; all that is measured stands in events.

Sources: the ladder is AdaRFT's (arXiv 2504.05520) in levels, the advantage DUMP's (arXiv 2504.09710).
"""

import math
from collections import deque

import msgspec

from schemas.curriculum import CurriculumSettings
from schemas.mixes import Status

GRAIN = 1024
"""Levels move in steps of one part in so many, so that the last bit of a library's tanh decides nothing."""
SOLVED, UNSOLVED = 0.98, 0.9
"""Solve rates at the last level from which a domain is frozen, and below which it thaws."""
MIN_MEASURED = 64
"""Rollouts that are needed to say that a domain is solved, or not to be believed."""


class GroupSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A group whose rewards are all there."""

    domain: str
    level: int = 0
    mix_version: int = 0
    values: tuple[float, ...]
    """Valid rewards."""
    num_samples: int
    num_abstained: int = 0
    """Rollouts that the verifier could give no value."""
    num_truncated: int = 0
    cost_s: float = 0.0


class InWindow(msgspec.Struct, frozen=True, array_like=True):
    """What the window keeps of a group."""

    num_samples: int
    num_valid: int
    advantage: float
    """Sum over its valid rollouts."""
    is_flat: bool
    num_abstained: int
    num_truncated: int


def advantages(values: tuple[float, ...]) -> float:
    """Return the sum of absolute advantages, divided by the group's standard deviation; 0 where all are alike."""
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / len(values)
    if min(values) == max(values) or variance <= 0:
        return 0.0
    return math.fsum(abs(value - mean) for value in values) / math.sqrt(variance)


class DomainState:
    """One domain's fold."""

    def __init__(self, name: str, family: str) -> None:
        self.name, self.family = name, family
        self.issued = self.ended = self.refunded = 0
        """Groups."""
        self.level = 0.0
        self.solve_rate: float | None = None
        self.cost_s: float | None = None
        self.window: deque[InWindow] = deque()
        self._num_in_window = self._num_flat = self._num_abstained = self._num_truncated = 0
        self._advantage: float | None = None
        """Of the window as it is, once it was asked for."""
        self._may_refund = False
        self.num_since_revision = 0
        """Groups."""
        self._level_before = 0.0
        """At the last revision."""
        self.need = self.room = 0.0
        """How far samples and heat, and tokens, are from the usual towards their bounds, 0 to 1."""
        self.is_frozen = False
        self.doubt = ""
        """Why its rewards are not to be believed; empty where they are."""

    @property
    def inflight(self) -> int:
        """Return how many groups are issued and have not ended."""
        return self.issued - self.ended

    def take(self, group: GroupSeen, rules: CurriculumSettings, *, version: int) -> None:
        """Take a group, when the newest revision is `version`."""
        self._keep(group, rules.window)
        self.cost_s = mixed(self.cost_s, group.cost_s, rules.smoothing)
        self._note_end(is_flat=len(group.values) > 1 and min(group.values) == max(group.values), rules=rules)
        if group.values and version - group.mix_version <= rules.max_lag:
            mean = math.fsum(group.values) / len(group.values)
            self.solve_rate = mixed(self.solve_rate, mean, rules.smoothing)
            self.climb(mean, group.level, rules)
        self._judge(rules)

    def end_unscored(self) -> None:
        """Take that a group ended and its rewards never came."""
        self.ended += 1

    def climb(self, mean: float, sampled_at: int, rules: CurriculumSettings) -> None:
        """Move the level towards where half is solved.

        Groups of a domain come many at a time and late, and together would go too far: so a revision takes a stride at
        most, and a group never moves the level to more than one away from where it was sampled.
        """
        moved = self.level + rules.eta * math.tanh(rules.alpha * (mean - 0.5))
        if moved > self.level:
            moved = max(self.level, min(moved, sampled_at + 1, self._level_before + rules.stride))
        else:
            moved = min(self.level, max(moved, sampled_at - 1, self._level_before - rules.stride))
        self.set_level(moved, rules)

    def set_level(self, level: float, rules: CurriculumSettings) -> None:
        """Put the level where it is to be, within those that there are."""
        top = rules.levels.get(self.name, 1) - 1
        self.level = min(max(round(level * GRAIN) / GRAIN, 0.0), float(top))

    def begin_revision(self) -> None:
        """Take that a revision was made: strides are from here."""
        self.num_since_revision, self._level_before = 0, self.level

    @property
    def advantage(self) -> float:
        """Return the mean absolute advantage over the window, 0 where nothing is in it."""
        if self._advantage is None:
            num_valid = sum(one.num_valid for one in self.window)
            self._advantage = math.fsum(one.advantage for one in self.window) / num_valid if num_valid else 0.0
        return self._advantage

    @property
    def zero_variance(self) -> float:
        """Return the share of the window's groups whose rewards are all alike."""
        return self._num_flat / len(self.window) if self.window else 0.0

    @property
    def abstained(self) -> float:
        """Return the share of the window's rollouts that the verifier could give no value."""
        return self._num_abstained / max(1, self._num_in_window)

    @property
    def truncated(self) -> float:
        """Return the share of the window's rollouts that were cut off."""
        return self._num_truncated / max(1, self._num_in_window)

    def score(self, num_ended: int, rules: CurriculumSettings) -> float:
        """Return mean advantage and upper confidence bound; `num_ended` are the groups of all domains.

        What was never measured is thought to teach as much as anything can.
        """
        bound = math.sqrt(2 * math.log(num_ended + 1) / (self.ended + 1))
        return (self.advantage if self.window else 1.0) + rules.explore * bound

    def status(self, *, is_paused: bool, is_protected: bool) -> Status:
        """Return its status; what stops it counts more than what holds it up."""
        if is_paused:
            return "paused"
        if self.doubt:
            return "quarantined"
        if is_protected:
            return "protected"
        return "frozen" if self.is_frozen else "active"

    def trust(self) -> None:
        """Believe its rewards again, from an empty window on."""
        self.doubt = ""
        self.window.clear()
        self._num_in_window = self._num_flat = self._num_abstained = self._num_truncated = 0
        self._advantage = None

    def _keep(self, group: GroupSeen, size: int) -> None:
        """Put a group into the window, and out of it what is older than its last `size` rollouts."""
        values = group.values
        self._count(
            InWindow(
                num_samples=group.num_samples,
                num_valid=len(values),
                advantage=advantages(values) if values else 0.0,
                is_flat=len(values) > 1 and min(values) == max(values),
                num_abstained=group.num_abstained,
                num_truncated=group.num_truncated,
            ),
            1,
        )
        while len(self.window) > 1 and self._num_in_window - self.window[0].num_samples >= size:
            self._count(self.window[0], -1)

    def _count(self, one: InWindow, sign: int) -> None:
        """Put a group into the window as its newest, or take it, the oldest, out."""
        if sign > 0:
            self.window.append(one)
        else:
            self.window.popleft()
        self._num_in_window += sign * one.num_samples
        self._num_flat += sign * one.is_flat
        self._num_abstained += sign * one.num_abstained
        self._num_truncated += sign * one.num_truncated
        self._advantage = None

    def _note_end(self, *, is_flat: bool, rules: CurriculumSettings) -> None:
        """Charge the group, or give it again; never two in a row: a dead domain costs twice its share at most."""
        self.ended += 1
        self.num_since_revision += 1
        if is_flat and rules.refund and self._may_refund:
            self.refunded += 1
            self._may_refund = False
        else:
            self._may_refund = True

    def _judge(self, rules: CurriculumSettings) -> None:
        if self._num_in_window < min(MIN_MEASURED, rules.window):
            return
        if self.abstained > rules.abstain and not self.doubt:
            self.doubt = f"{self.abstained:.0%} of its rollouts got no value from the verifier"
        rate, is_top = self.solve_rate or 0.0, self.level >= rules.levels.get(self.name, 1) - 1
        self.is_frozen = is_top and rate >= (UNSOLVED if self.is_frozen else SOLVED)


def mixed(before: float | None, new: float, part: float) -> float:
    """Return the moving mean with a part of the new value; the first value stands for itself."""
    return new if before is None else before + part * (new - before)
