"""What a run over many domains came to, counted from its log alone."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from bench.judged_domains import PREFIX, is_judged
from bench.paced import STEP_S
from consumers.reader import Reader
from producers.samplers.scripted import COMPETENCES
from schemas.batches import Batch
from schemas.config import Settings
from schemas.decisions import Decision
from schemas.ids import derive_seed
from schemas.rewards import RewardScored
from schemas.rollouts import TurnGenerated
from schemas.steps import StepTaken
from schemas.tasks import TaskIssued

TOPICS = ("tasks", "rollouts", "rewards", "batches", "decisions", "steps", "deadletters")
LEVELS = ("novice", "fair", "expert")
NAMES = dict(zip(COMPETENCES["mixed"], LEVELS, strict=True))


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The time between two of the learner's steps, both over."""

    start_time_s: float
    end_time_s: float
    """Since the epoch, as events have it."""
    first_step: int
    last_step: int
    busy: Mapping[str, float]
    """By instance: the share of the time with work in hand."""

    @property
    def seconds(self) -> float:
        """Return how long it was."""
        return self.end_time_s - self.start_time_s

    def has(self, time_s: float) -> bool:
        """Return whether an event of that time is within."""
        return self.start_time_s < time_s <= self.end_time_s


class Counts:
    """What the log says."""

    def __init__(self) -> None:
        self.tasks: dict[str, TaskIssued] = {}
        self.num_tokens = self.num_trained_tokens = self.num_groups = 0
        """In the window: generated, trained; groups that ended."""
        self.score_s: list[float] = []
        """In the window: of each scoring without the slow judge."""
        self.slow_s: list[float] = []
        """Of each with it, whenever."""
        self.ends: Counter[str] = Counter()
        self.dead_letters: list[str] = []
        self.invalid: Counter[str] = Counter()
        self.details: dict[str, str] = {}
        """By domain: why one of its rewards has no value."""
        self.scored: Counter[tuple[str, str]] = Counter()
        self.solved: Counter[tuple[str, str]] = Counter()
        """By domain and competence."""
        self.unrewarded: Counter[str] = Counter()
        """By domain: rollouts that said what is right in every turn, and whose reward is not 1."""

    @property
    def mean_score_s(self) -> float:
        """Return the mean scoring without the slow judge, in the window."""
        return sum(self.score_s) / len(self.score_s)

    @property
    def num_judged(self) -> int:
        """Return how many of the tasks have a slow verifier."""
        return sum(is_judged(task.verifier) for task in self.tasks.values())

    @property
    def num_rewards(self) -> int:
        """Return how many rewards there are, with a value or without."""
        return self.scored.total() + self.invalid.total()

    def solve_rate(self, competence: str) -> float:
        """Return the share of the valid rewards of a competence that are 1."""
        scored, solved = (sum(n for (_, c), n in of.items() if c == competence) for of in (self.scored, self.solved))
        return solved / max(scored, 1)


def count(settings: Settings, home: Path, window: Window) -> Counts:
    """Return what is on the log of a run."""
    counts = Counts()
    reader = Reader(settings.log, TOPICS, blob_dir=home / "blobs", start="beginning", bounded=True)
    late: list[tuple[RewardScored, float]] = []
    try:
        for event in reader:
            record: Any = event.record
            if isinstance(record, TaskIssued):
                counts.tasks[record.task_id] = record
            elif isinstance(record, RewardScored):
                late.append((record, event.time_s))  # topics are read in no order: its task may come later
            elif isinstance(record, TurnGenerated):
                counts.num_tokens += len(record.token_ids) * window.has(event.time_s)
            elif isinstance(record, StepTaken):
                is_within = window.first_step < record.step <= window.last_step
                counts.num_trained_tokens += record.stats.num_tokens * is_within
            elif isinstance(record, Batch | Decision):
                counts.num_groups += window.has(event.time_s)
                counts.ends[record.reason if isinstance(record, Decision) else "batch"] += 1
            elif event.position is not None and event.position.topic == "deadletters":
                counts.dead_letters.append(str(record))
    finally:
        reader.close()
    for reward, time_s in late:
        take_reward(counts, reward, is_within=window.has(time_s))
    return counts


def take_reward(counts: Counts, reward: RewardScored, *, is_within: bool) -> None:
    """Count a reward."""
    task = counts.tasks[reward.task_id]
    domain, competence = reward.domain.removeprefix(PREFIX), competence_of(reward.rollout_id)
    if is_judged(task.verifier):
        counts.slow_s.append(reward.score_s)
    elif is_within:
        counts.score_s.append(reward.score_s)
    if reward.value is None:
        counts.invalid[domain] += 1
        counts.details[domain] = f"{reward.invalid_reason}: {reward.detail}"
        return
    counts.scored[domain, competence] += 1
    counts.solved[domain, competence] += reward.value >= 1
    counts.unrewarded[domain] += is_right(reward.rollout_id) and reward.value < 1


def competence_of(rollout_id: str) -> str:
    """Return how good the scripted sampler is in a rollout."""
    return NAMES[share_of(rollout_id)]


def share_of(rollout_id: str) -> float:
    """Return the share of the rollouts of the same competence that are right."""
    shares = COMPETENCES["mixed"]
    return shares[derive_seed(rollout_id, "level") % len(shares)]


def is_right(rollout_id: str) -> bool:
    """Return whether the scripted sampler says what is right in every turn."""
    return derive_seed(rollout_id, "competence") % 1000 < 1000 * share_of(rollout_id)


def slots_busy(settings: Settings, window: Window, counts: Counts) -> float:
    """Return the share of all that the sampler could draw in the window that was drawn."""
    return counts.num_tokens * STEP_S / (settings.generator.num_slots * window.seconds)


def trained_per_s(settings: Settings, window: Window) -> float:
    """Return how many groups a second the learner trained on."""
    return (window.last_step - window.first_step) * settings.learner.groups_per_step / window.seconds


def figure(name: str, value: float, unit: str, bar: float | None = None) -> dict[str, Any]:
    """Return a line of the bench."""
    return {"name": name, "value": round(value, 3), "unit": unit, "bar": bar, "holds": bar is None or value >= bar}
