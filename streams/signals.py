"""What one window of training tasks shows of each domain. Pure: facts in, in any order and however often; findings out.

A window is `window` neighbouring places of the run's sequence of training tasks. It is measured once, when all its
tasks are there and all rewards that a signal needs; so what is found is a function of the log, whoever finds it when.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from consumers.history.lean import Reward, Turn
from schemas.alerts import Signal
from schemas.conditions import Condition
from schemas.config import AlertSettings
from schemas.rewards import RewardScored
from schemas.rollouts import RolloutEnded, TurnGenerated
from schemas.selections import Selection, rounded
from schemas.tasks import TaskIssued

OWN = ""
"""In place of the id of each task's own scoring: the one that trains."""
MOST_OPEN = 256
"""Windows that wait for something, since partitions of a backlog are not read side by side; beyond that the oldest is
given up, since it waits for what never comes."""
MOST_OVER = 65_536
"""Tasks that are not looked at, or no longer, that are remembered as such."""
MOST_EXAMPLES = 5
DENIED = 0.5
"""How much less a shadow gives, to deny a reward."""
WORD = re.compile(r"\w+")
GOOD_ENOUGH = 4
"""Bad answers to one good one, at most."""
COVERS, SPARES = 0.8, 0.02
"""Share of the bad answers that a word is in at least, and of the good ones at most, to stand for the bad."""
TURNS, REWARDS = (Turn, TurnGenerated), (Reward, RewardScored)
Wanted = Callable[[TaskIssued], Sequence[str]]
"""Returns the scorings that each sample of a task is to be scored by."""


class Answer(msgspec.Struct):
    """One rollout, as far as signals look at it: its last turn, its end, its rewards."""

    turn: int = -1
    text: str = ""
    has_action: bool = False
    num_turns: int | None = None
    """None before it ended."""
    values: dict[str, float | None] = {}
    """By scoring; None is invalid."""

    def is_scored(self, scoring_id: str) -> bool:
        """Return whether the reward is there, and all that is looked at where it has a value."""
        if scoring_id not in self.values:
            return False
        return self.values[scoring_id] is None or (self.num_turns is not None and self.turn >= self.num_turns - 1)


class Asked(msgspec.Struct):
    """One training task."""

    task: TaskIssued
    issued_s: float
    scorings: tuple[str, ...]
    answers: dict[int, Answer] = {}
    scored: set[str] = set()
    """Scorings by which every sample has its reward."""

    def own(self, answer: Answer) -> float | None:
        """Return what the task's own scoring, which trains, gives an answer."""
        return answer.values.get(self.task.scoring_id)

    def settle(self) -> bool:
        """Note which scorings are whole; returns whether one is newly so."""
        answers = [self.answers[sample] for sample in range(self.task.num_samples) if sample in self.answers]
        if len(answers) < self.task.num_samples:
            return False
        ids = {s: self.task.scoring_id if s == OWN else s for s in self.scorings}
        now = {s for s, name in ids.items() if all(answer.is_scored(name) for answer in answers)}
        is_new = len(now) > len(self.scored)
        self.scored = now
        return is_new


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A signal over its threshold."""

    signal: Signal
    domain: str
    about: str = ""
    first: int
    last: int
    measured: float
    threshold: float
    num_measured: int
    detail: str
    examples: tuple[str, ...] = ()
    selection: Selection


class Window:
    """One stretch of the sequence."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.tasks: dict[int, Asked] = {}
        """By index."""
        self.done: set[tuple[str, str]] = set()
        """(domain, scoring) that was measured."""

    def rollouts(self, domain: str) -> Iterator[tuple[str, Asked, Answer]]:
        """Yield id, task and answer of each rollout of a domain, by index and sample."""
        for _, asked in sorted(self.tasks.items()):
            if asked.task.domain == domain:
                for sample, answer in sorted(asked.answers.items()):
                    yield f"{asked.task.task_id}/{sample}", asked, answer


class Windows:
    """The open windows of one run."""

    def __init__(self, run_id: str, settings: AlertSettings, wanted: Wanted) -> None:
        self._run_id, self._settings, self._wanted = run_id, settings, wanted
        self._open: dict[int, Window] = {}
        self._index_of: dict[str, int] = {}
        """Of the tasks in open windows, by id."""
        self._early: dict[str, dict[int, Answer]] = {}
        """What came before its task, as it may from another topic."""
        self._over: dict[str, None] = {}
        """Tasks of which nothing is wanted: held out, of another run, or of a window that was closed."""
        self.num_given_up = 0

    @property
    def num_open(self) -> int:
        """Return how many windows wait for something."""
        return len(self._open)

    @property
    def since_s(self) -> float | None:
        """Return when the oldest task of an open window was issued: who starts there misses nothing of them."""
        return min((asked.issued_s for w in self._open.values() for asked in w.tasks.values()), default=None)

    def take(self, record: Any, key: str, time_s: float) -> list[Found]:
        """Take a task, turn or reward; returns what it completed and is over its threshold."""
        if isinstance(record, TaskIssued):
            return self._take_task(record, time_s)
        index = self._index_of.get(key)
        if index is None:
            if key not in self._over:
                note(self._early.setdefault(key, {}), record)
                bound(self._early, MOST_OPEN * self._settings.window)
            return []
        window = self._open[index // self._settings.window]
        note(window.tasks[index].answers, record)
        return self._measure(window) if window.tasks[index].settle() else []

    def _take_task(self, task: TaskIssued, time_s: float) -> list[Found]:
        early = self._early.pop(task.task_id, {})
        if task.task_id in self._over:
            return []
        if task.run_id != self._run_id or task.split != "train":
            self._forget(task.task_id)
            return []
        number = task.index // self._settings.window
        window = self._open.setdefault(number, Window(number))
        if task.index not in window.tasks:
            scorings = (OWN, *(name for name in self._wanted(task) if name != task.scoring_id))
            window.tasks[task.index] = Asked(task=task, issued_s=time_s, scorings=scorings, answers=early)
            self._index_of[task.task_id] = task.index
            window.tasks[task.index].settle()
        while len(self._open) > MOST_OPEN:
            self.num_given_up += 1
            self._close(self._open[min(self._open)])
        return self._measure(window) if number in self._open else []

    def _close(self, window: Window) -> None:
        del self._open[window.number]
        for asked in window.tasks.values():
            self._index_of.pop(asked.task.task_id, None)
            self._forget(asked.task.task_id)

    def _forget(self, task_id: str) -> None:
        self._over[task_id] = None
        bound(self._over, MOST_OVER)

    def _measure(self, window: Window) -> list[Found]:
        """Measure what has become complete."""
        if len(window.tasks) < self._settings.window:
            return []
        needs: dict[tuple[str, str], bool] = defaultdict(lambda: True)
        for asked in window.tasks.values():
            for scoring in asked.scorings:
                place = (asked.task.domain, scoring)
                if place not in window.done:
                    needs[place] = needs[place] and scoring in asked.scored
        found: list[Found] = []
        for (domain, scoring), is_there in sorted(needs.items()):
            # A shadow is compared with the task's own: both have to be there.
            if is_there and (scoring == OWN or (domain, OWN) in window.done or needs.get((domain, OWN), False)):
                window.done.add((domain, scoring))
                found += self._look(window, domain, scoring)
        if all((a.task.domain, scoring) in window.done for a in window.tasks.values() for scoring in a.scorings):
            self._close(window)
        return found

    def _look(self, window: Window, domain: str, scoring: str) -> list[Found]:
        rollouts = list(window.rollouts(domain))
        if len(rollouts) < self._settings.min_measured:
            return []
        span = (window.number * self._settings.window, (window.number + 1) * self._settings.window - 1)
        if scoring != OWN:
            looks = [disagreement(rollouts, domain, scoring, self._settings)]
        else:
            looks = [look(rollouts, domain, self._settings) for look in (repeated, no_answer, invalid)]
        return [msgspec.structs.replace(found, first=span[0], last=span[1]) for found in looks if found is not None]


Rollouts = Sequence[tuple[str, Asked, Answer]]


def bound(kept: dict[str, Any], most: int) -> None:
    """Drop the oldest where there are too many."""
    while len(kept) > most:
        del kept[next(iter(kept))]


def note(answers: dict[int, Answer], record: Any) -> None:
    """Put a turn, an end or a reward where it belongs; of two of one kind the first counts."""
    if not isinstance(record, TURNS + REWARDS + (RolloutEnded,)):
        return
    answer = answers.setdefault(record.sample, Answer())
    if isinstance(record, REWARDS):
        answer.values.setdefault(record.scoring_id, record.value)
    elif isinstance(record, RolloutEnded):
        answer.num_turns = record.num_turns if answer.num_turns is None else answer.num_turns
    elif record.turn > answer.turn:
        answer.turn, answer.text, answer.has_action = record.turn, record.text, record.action is not None


def share(part: int, whole: int) -> float:
    """Return a part of a whole, nothing of nothing."""
    return part / whole if whole else 0.0


def disagreement(rollouts: Rollouts, domain: str, scoring: str, settings: AlertSettings) -> Found | None:
    """Return whether a shadow denies too much of what is rewarded."""
    both = [(name, asked, a, asked.own(a), a.values.get(scoring)) for name, asked, a in rollouts]
    valid = [(n, asked, a, live, other) for n, asked, a, live, other in both if live is not None and other is not None]
    denied = [(name, asked, a, live) for name, asked, a, live, other in valid if live - other >= DENIED]
    measured = share(len(denied), len(valid))
    if len(valid) < settings.min_measured or measured < settings.disagreement:
        return None
    kept = [a.text for _, _, a, live, other in valid if live - other < DENIED]
    pattern = pattern_of([a.text for _, _, a, _ in denied], kept)
    selection = Selection(
        domain=domain,
        conditions=rewarded_by([(asked, live) for _, asked, _, live in denied]) if pattern is None else (pattern,),
        since_s=rounded(min(asked.issued_s for _, asked, _, _ in denied)) if pattern is None else None,
    )
    return Found(
        signal="disagreement", domain=domain, about=scoring, first=0, last=0, measured=measured,
        threshold=settings.disagreement, num_measured=len(valid),
        detail=f"{scoring} gives {len(denied)} of {len(valid)} rollouts at least {DENIED:g} less than what trains",
        examples=tuple(name for name, *_ in denied[:MOST_EXAMPLES]), selection=selection,
    )  # fmt: skip


def rewarded_by(denied: Sequence[tuple[Asked, float]]) -> tuple[Condition, ...]:
    """Return what selects the rewarded by the scorings that rewarded these: not those by another, once it is used."""
    lowest = min(value for _, value in denied)
    reward = Condition(field="reward.value", symbol=">=", value=f"{lowest:g}")
    scorings = {asked.task.scoring_id for asked, _ in denied}
    if len(scorings) > 1:
        return (reward,)
    return (Condition(field="reward.scoring_id", symbol="=", value=scorings.pop()), reward)


def pattern_of(bad: Sequence[str], good: Sequence[str]) -> Condition | None:
    """Return what is in most of the bad answers and in hardly any good one: an answer or a word; None for neither.

    A word tells bad from good only where there are good ones to compare with.
    """
    text, count = Counter(bad).most_common(1)[0]
    if text and share(count, len(bad)) >= COVERS and share(good.count(text), len(good)) <= SPARES:
        return Condition(field="answer.text", symbol="=", value=text)
    if len(good) * GOOD_ENOUGH < len(bad):
        return None
    in_bad = Counter(word for answer in bad for word in set(WORD.findall(answer)))
    for word, count in sorted(in_bad.items(), key=lambda item: (-item[1], -len(item[0]), item[0])):
        if share(count, len(bad)) < COVERS:
            return None
        if share(sum(word in answer for answer in good), len(good)) <= SPARES:
            return Condition(field="answer.text", symbol="~", value=word)
    return None


def repeated(rollouts: Rollouts, domain: str, settings: AlertSettings) -> Found | None:
    """Return whether one answer is rewarded for too many different questions."""
    asked_by: dict[str, set[str]] = defaultdict(set)
    examples: dict[str, list[str]] = defaultdict(list)
    questions: set[str] = set()
    for name, asked, answer in rollouts:
        if answer.text and (asked.own(answer) or 0.0) > 0:
            questions.add(asked.task.prompt)
            # What was done with tools is in the turns before; the last words are much the same whatever it was.
            if uses_tools(asked.task) and answer.turn > 0:
                continue
            if asked.task.prompt not in asked_by[answer.text]:
                asked_by[answer.text].add(asked.task.prompt)
                examples[answer.text].append(name)
    if len(questions) < settings.min_questions or not asked_by:
        return None
    text = max(asked_by, key=lambda answer: (len(asked_by[answer]), answer))
    measured = share(len(asked_by[text]), len(questions))
    if measured < settings.repeated:
        return None
    return Found(
        signal="repeated", domain=domain, first=0, last=0, measured=measured, threshold=settings.repeated,
        num_measured=len(questions),
        detail=f"rewarded for {len(asked_by[text])} of {len(questions)} different prompts: {text[:200]!r}",
        examples=tuple(examples[text][:MOST_EXAMPLES]),
        selection=Selection(domain=domain, conditions=(Condition(field="answer.text", symbol="=", value=text),)),
    )  # fmt: skip


def uses_tools(task: TaskIssued) -> bool:
    """Return whether a rollout calls tools, and ends with words."""
    return task.execution is not None and task.execution.kind == "tools"


def runs_answers(task: TaskIssued) -> bool:
    """Return whether an answer is something to run."""
    return task.execution is not None and not uses_tools(task)


def no_answer(rollouts: Rollouts, domain: str, settings: AlertSettings) -> Found | None:
    """Return whether too many scored rollouts end without anything to run, or to read where nothing is run."""
    rollouts = [one for one in rollouts if one[1].own(one[2]) is not None]
    silent = [name for name, asked, a in rollouts if not (a.has_action if runs_answers(asked.task) else a.text.strip())]
    measured = share(len(silent), len(rollouts))
    if len(rollouts) < settings.min_measured or measured < settings.no_answer:
        return None
    runs = any(runs_answers(asked.task) for _, asked, _ in rollouts)
    empty = Condition(field="answer.action" if runs else "answer.text", symbol="=", value="none" if runs else "")
    return Found(
        signal="no_answer", domain=domain, first=0, last=0, measured=measured, threshold=settings.no_answer,
        num_measured=len(rollouts), detail=f"{len(silent)} of {len(rollouts)} rollouts ended without an answer",
        examples=tuple(silent[:MOST_EXAMPLES]), selection=Selection(domain=domain, conditions=(empty,)),
    )  # fmt: skip


def invalid(rollouts: Rollouts, domain: str, settings: AlertSettings) -> Found | None:
    """Return whether too many rewards have no value."""
    without = [(name, asked) for name, asked, answer in rollouts if asked.own(answer) is None]
    measured = share(len(without), len(rollouts))
    if measured < settings.invalid:
        return None
    issued = [asked.issued_s for _, asked, _ in rollouts]
    return Found(
        signal="invalid", domain=domain, first=0, last=0, measured=measured, threshold=settings.invalid,
        num_measured=len(rollouts), detail=f"{len(without)} of {len(rollouts)} rewards have no value",
        examples=tuple(name for name, _ in without[:MOST_EXAMPLES]),
        selection=Selection(domain=domain, since_s=rounded(min(issued)), until_s=rounded(max(issued) + 0.001)),
    )  # fmt: skip
