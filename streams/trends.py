"""Training reward against held-out results, from one evaluated version to the next. Pure: facts in, findings out.

What was trained on between two evaluated versions is in the steps between them, in one partition and in order; so a
stretch is complete when its last step is there and its results are.
"""

import math
from typing import Any

import msgspec

from schemas.config import AlertSettings
from schemas.evals import EvalScored
from schemas.selections import PolicyRange, Selection
from schemas.steps import StepTaken
from streams.signals import Found

NUM_KEPT = 3
"""Evaluated versions that the next stretch is compared by."""


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """What was trained on after one evaluated version, up to the next."""

    first: int
    last: int
    reward: float
    num_rows: int


class Trends:
    """One run's domains."""

    def __init__(self, run_id: str, policy: str, settings: AlertSettings) -> None:
        self._run_id, self._policy, self._settings = run_id, policy, settings
        self._evals: dict[str, dict[int, float]] = {}
        """Mean held-out reward by domain and version."""
        self._steps: dict[int, dict[str, tuple[float, int]]] = {}
        """By step and domain: mean reward, and of how many rows."""
        self._done: set[tuple[str, int]] = set()

    def take(self, record: Any) -> list[Found]:
        """Take a step or a result; returns what it completed and is over its threshold."""
        if getattr(record, "run_id", None) != self._run_id:
            return []
        if isinstance(record, EvalScored) and record.policy == self._policy:
            self._evals.setdefault(record.domain, {}).setdefault(record.version, record.reward_mean)
        elif isinstance(record, StepTaken):
            found = {name: (stats.reward_mean, stats.num_rows) for name, stats in record.by_domain.items()}
            self._steps.setdefault(record.step, found)
        else:
            return []
        found_now = [found for domain in sorted(self._evals) for found in self._look(domain)]
        self._forget()
        return found_now

    def _look(self, domain: str) -> list[Found]:
        versions = sorted(self._evals[domain])
        found = []
        for before, middle, last in zip(versions, versions[1:], versions[2:], strict=False):
            stretches = self._stretch(domain, before, middle), self._stretch(domain, middle, last)
            if (domain, last) in self._done or stretches[0] is None or stretches[1] is None:
                continue
            self._done.add((domain, last))
            one = self._compare(domain, stretches[0], stretches[1])
            if one is not None:
                found.append(one)
        return found

    def _stretch(self, domain: str, after: int, last: int) -> Stretch | None:
        """Return what was trained on from one version to another; None while steps are missing."""
        steps = range(after + 1, last + 1)
        if not all(step in self._steps for step in steps):
            return None
        parts = [self._steps[step][domain] for step in steps if domain in self._steps[step]]
        num_rows = sum(rows for _, rows in parts)
        reward = math.fsum(mean * rows for mean, rows in parts) / num_rows if num_rows else 0.0
        return Stretch(first=after + 1, last=last, reward=reward, num_rows=num_rows)

    def _compare(self, domain: str, before: Stretch, now: Stretch) -> Found | None:
        settings, evals = self._settings, self._evals[domain]
        held_out, held_out_before = evals[now.last], evals[before.last]
        gap, rise, flat = now.reward - held_out, now.reward - before.reward, held_out - held_out_before
        if min(now.num_rows, before.num_rows) < settings.min_measured:
            return None
        if gap < settings.divergence or rise < settings.rise or flat > settings.flat:
            return None
        return Found(
            signal="divergence",
            domain=domain,
            first=now.first,
            last=now.last,
            measured=gap,
            threshold=settings.divergence,
            num_measured=now.num_rows,
            detail=f"training reward {before.reward:.2f} to {now.reward:.2f}, held out {held_out_before:.2f} to "
            f"{held_out:.2f}",
            selection=Selection(
                domain=domain, policy=PolicyRange(name=self._policy, first=now.first - 1, last=now.last)
            ),
        )

    def _forget(self) -> None:
        """Drop the steps before all stretches that can still be compared."""
        kept = [sorted(versions)[-NUM_KEPT:][0] for versions in self._evals.values()]
        if kept:
            for step in [step for step in self._steps if step <= min(kept)]:
                del self._steps[step]
