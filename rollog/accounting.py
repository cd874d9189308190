"""What became of everything, by the log alone: the one place that says whether the books balance.

A task ends by one event: its batch, the assembler's decision, or the dead letter of the task itself. The learner's
decisions are about batches, so about tasks that ended before. Repeats of an id are no events; they are only counted.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from schemas.alerts import AlertRaised
from schemas.batches import Batch
from schemas.commands import CommandGiven
from schemas.config import LogSettings
from schemas.deadletters import DeadLetter
from schemas.decisions import Decision
from schemas.evals import EvalScored
from schemas.events import Event
from schemas.recalls import Recalls
from schemas.rewards import RewardScored
from schemas.rollouts import RolloutEnded
from schemas.steps import StepTaken
from schemas.tasks import TaskIssued

TOPICS_READ = (
    "tasks", "rollouts", "executions", "rewards", "batches", "decisions", "deadletters", "steps", "evals", "commands",
    "alerts",
)  # fmt: skip


class TaskCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Every issued task by how it ended; `issued` is the sum of the others where each ended at most once."""

    issued: int
    batched: int
    decided: dict[str, int]
    """By the assembler's reason."""
    deadlettered: int
    open: int

    @property
    def add_up(self) -> bool:
        """Return whether every issued task is in exactly one place."""
        return self.issued == self.batched + sum(self.decided.values()) + self.deadlettered + self.open


class Accounts:
    """The books. `add` events in any order and however often, then ask."""

    def __init__(self, run_id: str) -> None:
        """Keep the books of one run; several may share a log."""
        self.run_id = run_id
        self.issued: set[str] = set()
        self.open: set[str] = set()
        """Issued and not ended."""
        self.ends: dict[str, dict[str, str]] = {}
        """Task id to the ids of the events that end it, each with how."""
        self.passed_over: dict[str, str] = {}
        """Batch id to the learner's reason."""
        self.trained: dict[str, set[int]] = {}
        """Batch id to the steps that trained on it."""
        self.steps: dict[int, set[str]] = {}
        """Step to the weight digests that were published for it: one, or history forked."""
        self.recalls = Recalls()
        self.restored: dict[int, int] = {}
        """Step that went back to the version that it went back to."""
        self.alerts: Counter[str] = Counter()
        """By signal."""
        self.invalid: Counter[str] = Counter()
        self.solve_rates: dict[int, dict[str, float]] = {}
        """Policy version to solve rate by domain."""
        self.counts: Counter[str] = Counter()
        self.event_bytes: Counter[str] = Counter()
        """By topic: keys, values and headers, before the batches' compression."""
        self.num_tokens = 0
        self.trained_tokens: Counter[str] = Counter()
        """By domain: sampled tokens that steps were taken on."""
        self._held_out: set[str] = set()
        self._generated: dict[str, Counter[str]] = {}
        """By domain and task: sampled tokens."""
        self.num_deadletters = 0
        self.num_repeats = 0
        self._seen: set[str] = set()

    def add(self, event: Event[Any]) -> None:
        """Take one event of any topic."""
        if event.position is not None:
            self.event_bytes[event.position.topic] += event.num_bytes
        if event.id in self._seen and not isinstance(event.record, StepTaken):
            self.num_repeats += 1
            return
        self._seen.add(event.id)
        if getattr(event.record, "run_id", self.run_id) != self.run_id:
            return
        self.counts[type(event.record).__name__] += 1
        self._add_task_event(event)
        match event.record:
            case StepTaken() as step:
                self._add_step(step)
            case AlertRaised() as alert:
                self.alerts[alert.signal] += 1
            case CommandGiven() if event.position is not None:
                self.recalls.take(event)
            case RolloutEnded() as ended:
                self.num_tokens += ended.num_tokens
                self._generated.setdefault(ended.domain, Counter())[ended.task_id] += ended.num_tokens
            case RewardScored(invalid_reason=str(reason)) if event.record.is_own:
                self.invalid[reason] += 1
            case EvalScored() as result:
                self.solve_rates.setdefault(result.version, {})[result.domain] = result.solve_rate

    def _add_task_event(self, event: Event[Any]) -> None:
        match event.record:
            case TaskIssued() as task:
                self.issued.add(task.task_id)
                if task.split == "held_out":
                    self._held_out.add(task.task_id)
                if task.task_id not in self.ends:
                    self.open.add(task.task_id)
            case Batch(is_rebuilt=False) as batch:  # one that was made again of history ends no task
                self._end(batch.task_id, event.id, "batched")
            case Decision(stage="assembler") as decision:
                self._end(decision.task_id, event.id, decision.reason)
            case Decision(stage="learner", batch_id=str(batch_id)) as decision:
                self.passed_over[batch_id] = decision.reason
            case DeadLetter() as letter:
                self._add_dead_letter(letter, event.id)

    def _end(self, task_id: str, event_id: str, how: str) -> None:
        self.ends.setdefault(task_id, {})[event_id] = how
        self.open.discard(task_id)

    def _add_dead_letter(self, letter: DeadLetter, event_id: str) -> None:
        self.num_deadletters += 1
        if letter.topic == "tasks" and letter.key is not None:
            self._end(letter.key.decode(errors="replace"), event_id, "deadlettered")

    def _add_step(self, step: StepTaken) -> None:
        if step.step not in self.steps:
            self.trained_tokens.update({domain: stats.num_tokens for domain, stats in step.by_domain.items()})
        self.steps.setdefault(step.step, set()).add(step.weights_digest_out)
        if step.restored_from is not None:
            self.restored[step.step] = step.restored_from
        for batch in step.batches:
            self.trained.setdefault(batch.event_id, set()).add(step.step)

    @property
    def tasks(self) -> TaskCounts:
        """Return every issued task by how it first ended."""
        ways = Counter(next(iter(self.ends[task].values())) if task in self.ends else "open" for task in self.issued)
        batched, deadlettered, still_open = (ways.pop(way, 0) for way in ("batched", "deadlettered", "open"))
        return TaskCounts(
            issued=len(self.issued), batched=batched, decided=dict(ways), deadlettered=deadlettered, open=still_open
        )

    @property
    def effective_share(self) -> dict[str, float]:
        """Return by domain, and for `*` all of them, tokens trained on over tokens drawn for training."""
        drawn = {
            domain: sum(num for task, num in by_task.items() if task in self.issued and task not in self._held_out)
            for domain, by_task in self._generated.items()
        }
        shares = {domain: self.trained_tokens[domain] / num for domain, num in sorted(drawn.items()) if num}
        total = sum(drawn.values())
        return {"*": sum(self.trained_tokens[domain] for domain in drawn) / total, **shares} if total else {}

    @property
    def ended_twice(self) -> list[str]:
        """Return the tasks that more than one event ends."""
        return sorted(task for task in self.issued if len(self.ends.get(task, ())) > 1)

    @property
    def ended_unissued(self) -> list[str]:
        """Return the tasks that ended and were never issued."""
        return sorted(
            task for task, ends in self.ends.items() if task not in self.issued and "batched" in ends.values()
        )

    @property
    def trained_twice(self) -> list[str]:
        """Return the batches that more than one step trained on."""
        return sorted(batch for batch, steps in self.trained.items() if len(steps) > 1)

    @property
    def forked_steps(self) -> list[int]:
        """Return the steps that were published with more than one result."""
        return sorted(step for step, digests in self.steps.items() if len(digests) > 1)

    @property
    def batches(self) -> dict[str, int]:
        """Return every batch by what the learner did with it."""
        ways = Counter(self.passed_over.values())
        waiting = {batch for ends in self.ends.values() for batch, how in ends.items() if how == "batched"}
        waiting -= self.trained.keys() | self.passed_over.keys()
        return {"trained": len(self.trained), **ways, "waiting": len(waiting)}

    def balance(self) -> list[str]:
        """Return all that is wrong, in words; nothing where the books balance."""
        tasks = self.tasks
        findings = {
            "tasks do not add up": [] if tasks.add_up else [str(tasks)],
            "tasks are open": sorted(self.open),
            "tasks ended more than once": self.ended_twice,
            "tasks ended that were never issued": self.ended_unissued,
            "batches were trained on more than once": self.trained_twice,
            "steps have more than one result": [str(step) for step in self.forked_steps],
        }
        return [f"{len(found)} {text}: {', '.join(found[:3])}" for text, found in findings.items() if found]


def read_accounts(log: LogSettings, run_id: str, *, blob_dir: Path, topics: Iterable[str] = TOPICS_READ) -> Accounts:
    """Read the topics from their beginning to their present end; a log of before has not all. Raises LogError.

    What cannot be decoded is the services' to put aside; here it is passed over.
    """
    from consumers.bounds import read_state
    from consumers.reader import Reader

    accounts = Accounts(run_id)
    there = {topic for topic, _ in read_state(log).bounds}
    reader = Reader(
        log,
        [topic for topic in topics if topic in there],
        blob_dir=blob_dir,
        start="beginning",
        bounded=True,
        on_undecodable=lambda raw, error: None,
        dedupe=0,
    )
    try:
        for event in reader:
            accounts.add(event)
    finally:
        reader.close()
    return accounts
