"""Verifiers that score beside the one that trains: which they are, and how far they agree with it.

What must hold: a shadow changes nothing about what trains. It has processes of its own, so that one that hangs holds up
no live reward, and scoring ids of its own, which the assembler does not take.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from consumers.telemetry import Telemetry
from producers.publisher import Publisher
from schemas.config import LogSettings, VerifierSettings
from schemas.errors import ConfigError
from schemas.rewards import RewardScored
from schemas.scorings import ALL_DOMAINS, Scoring, VerifierChoice
from schemas.tasks import TaskIssued, VerifierSpec
from streams.rescoring.declared import check_declared, declare, read_declared
from streams.rescoring.judge import lack_of, scoring_for
from streams.rescoring.tallies import direction_of
from streams.verifiers import VERIFIERS


class Wanted(msgspec.Struct, frozen=True):
    """One reward that each sample of a task is to get."""

    scoring_id: str
    spec: VerifierSpec


class Shadows:
    """The shadows of a run, by domain."""

    def __init__(self, by_domain: Mapping[str, tuple[Scoring, ...]]) -> None:
        self._by_domain = dict(by_domain)

    @classmethod
    def of(cls, settings: VerifierSettings) -> "Shadows":
        """Return those that the settings name. Raises ConfigError."""
        return cls({d: tuple(scoring_for(named(n, settings)) for n in names) for d, names in settings.shadows.items()})

    @property
    def scorings(self) -> dict[str, Scoring]:
        """Return every shadow by its id."""
        return {scoring.scoring_id: scoring for scorings in self._by_domain.values() for scoring in scorings}

    def wanted(self, task: TaskIssued) -> tuple[Wanted, ...]:
        """Return the rewards that the task's samples are to get: first its own, then of each other scoring one."""
        scorings = dict.fromkeys(self._by_domain.get(task.domain, ()) + self._by_domain.get(ALL_DOMAINS, ()))
        shadows = (Wanted(scoring.scoring_id, scoring.spec_for(task)) for scoring in scorings)
        others = (one for one in shadows if one.scoring_id != task.scoring_id)
        return (Wanted(task.scoring_id, task.verifier), *(one for one in others if lack_of(task, one.spec) is None))


def named(name: str, settings: VerifierSettings) -> VerifierChoice:
    """Return the verifier that the settings, or the registry, know by this name. Raises ConfigError."""
    choice = settings.named.get(name) or VerifierChoice(kind=name)
    if choice.kind not in VERIFIERS:
        known = ", ".join(sorted({*VERIFIERS, *settings.named}))
        raise ConfigError(f"verifier.shadows: {name!r} is not known; known are: {known}")
    return choice


def declare_shadows(log: LogSettings, shadows: Shadows, *, source: str, blob_dir: Path) -> None:
    """Take the shadows' ids on the log. Raises ConfigError where one stands for something else, LogError."""
    if not shadows.scorings:
        return
    declared = read_declared(log, blob_dir=blob_dir)
    publisher = Publisher(log, source=source, blob_dir=blob_dir)
    try:
        for scoring_id, scoring in shadows.scorings.items():
            check_declared(scoring, declared.get(scoring_id))
            if scoring_id not in declared or not declared[scoring_id].is_live:
                declare(publisher, scoring, is_live=True)
    finally:
        publisher.close()


def note_pair(telemetry: Telemetry, own: RewardScored, shadow: RewardScored) -> None:
    """Count how a shadow's reward compares with the one that trains."""
    outcome = "agree" if own.value == shadow.value else direction_of(own.value, shadow.value)
    telemetry.shadows.labels(shadow.scoring_id, shadow.domain, outcome).inc()
