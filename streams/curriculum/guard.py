"""What held-out results say of a domain: whether they fell, and whether training rewards are to be believed. Pure."""

import math

import msgspec

from schemas.curriculum import CurriculumSettings
from schemas.evals import EvalScored

TIMES = 2
"""Results in a row that have to lie below the best one."""
LEVEL_SLACK = 0.25
"""A level that fell by more makes rewards rise by itself."""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """What was known of a domain at one held-out result."""

    rate: float
    """Held out."""
    trained: float | None
    """Mean training reward, of late."""
    level: float


class Guard:
    """One domain's held-out results."""

    def __init__(self) -> None:
        self.best: tuple[float, int] | None = None
        """Solve rate, and of how many tasks."""
        self.version = -1
        self.is_protected = False
        self._num_falls = 0
        self._moments: list[Moment] = []

    @property
    def last(self) -> float | None:
        """Return the last solve rate."""
        return self._moments[-1].rate if self._moments else None

    def take(self, result: EvalScored, rules: CurriculumSettings, *, trained: float | None, level: float) -> str:
        """Take a result of a newer version; returns why training rewards are not to be believed, else nothing.

        The training reward has to have risen by the result before this one already, since a result is about a version
        from before it was known.
        """
        num = result.num_tasks - result.num_invalid
        if result.version <= self.version or num <= 0:
            return ""
        self.version = result.version
        self._compare(result.solve_rate, num, rules)
        self._moments = [*self._moments[-2:], Moment(rate=result.solve_rate, trained=trained, level=level)]
        if len(self._moments) < 3:
            return ""
        first, middle, last = self._moments
        if first.trained is None or middle.trained is None or middle.level < first.level - LEVEL_SLACK:
            return ""
        rose, gained = middle.trained - first.trained, max(middle.rate, last.rate) - first.rate
        if rose < rules.jump or gained > rules.flat:
            return ""
        return f"training reward rose by {rose:.2f}, held-out results by {gained:.2f}"

    def _compare(self, rate: float, num: int, rules: CurriculumSettings) -> None:
        if self.best is None or rate > self.best[0]:
            self.best, self._num_falls, self.is_protected = (rate, num), 0, False
            return
        best, num_best = self.best
        error = math.sqrt(best * (1 - best) / num_best + rate * (1 - rate) / num)
        if best - rate > max(rules.regress, 2 * error):
            self._num_falls += 1
            self.is_protected = self.is_protected or self._num_falls >= TIMES
        else:
            self._num_falls, self.is_protected = 0, False
